import subprocess
import sys

import numpy as np
import pytest
import torch

from alignkit import machine as processor
from alignkit.backends import torch as torch_backend
from alignkit.backends.torch import TorchBackend
from alignkit.backends.torch_session import TorchSession
from alignkit.errors import BackendError
from alignkit.models.architectures import build_model
from alignkit.models.checkpoint import Checkpoint
from alignkit.torch_settings import (
    float32_precision,
    named_arithmetic,
    observed_float32,
    reproducible,
)
from tests.backends.model import trained_model


@pytest.fixture(scope="module")
def model():
    return trained_model()


def effective(model, precision, **options):
    session = TorchBackend(**options).open(model.checkpoint, None, precision)
    session.close()
    return session.effective()


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", "float32"), ("fp16", "float16"), ("bf16", "bfloat16")]
)
def test_every_layer_returns_the_type_of_the_precision(model, precision, dtype):
    assert effective(model, precision)["layers return"] == f"{dtype}, verified"


def test_fp32_is_proven_to_be_ieee(model):
    assert effective(model, "fp32")["float32 products"] == "ieee, verified"


def test_the_memory_format_is_told(model):
    assert effective(model, "fp32")["layout"] == "channels_last"
    assert effective(model, "fp32", channels_last=False)["layout"] == "contiguous_format"


def test_arithmetic_that_is_not_ieee_is_refused(model, monkeypatch):
    monkeypatch.setattr("alignkit.torch_settings.observed_float32", lambda device: "tf32")
    with pytest.raises(BackendError, match="fp32: products are computed in tf32"):
        TorchBackend().open(model.checkpoint, None, "fp32")


def test_a_layer_that_widens_is_refused(model, monkeypatch):
    forward = torch.nn.Flatten.forward
    monkeypatch.setattr(torch.nn.Flatten, "forward", lambda self, each: forward(self, each).float())
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda self, each: each @ self.weight.float().T)
    with pytest.raises(BackendError, match="fp16: layers return float16, float32"):
        TorchBackend().open(model.checkpoint, None, "fp16")


def test_a_module_without_weights_cannot_be_verified():
    pool = torch.nn.AvgPool2d(2)
    with pytest.warns(DeprecationWarning, match=r"torch.jit"):
        scripted = torch.jit.script(pool)
    session = TorchSession(scripted, torch.device("cpu"), torch.contiguous_format, "fp32", 1)
    with pytest.raises(BackendError, match="fp32: no layer with weights ran, so that its prec"):
        session.verify(8, 8)


def test_fp16_differs_from_float32_with_rounded_weights(model):
    """Inputs and activations are narrow too, not the weights alone."""
    narrow = model.predict(TorchBackend(), "fp16")
    rounded = torch_backend.TorchBackend().open(model.checkpoint, None, "fp32")
    rounded.model.half().float()
    assert not np.array_equal(rounded.predict(model.batch)[0], narrow)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_compiled_module_agrees_with_the_eager_one_and_proves_that_it_was_compiled(
    model, precision, monkeypatch
):
    monkeypatch.delenv("CXX", raising=False)
    backend = TorchBackend(compile=True)
    if reason := backend.impossible(precision):
        pytest.skip(reason)
    eager = model.predict(TorchBackend(), precision)
    session = model.open(backend, precision)
    logits = session.predict(model.batch)[0]
    told = session.effective()
    session.close()
    tolerance = {"fp32": 1e-5, "bf16": 2e-2}[precision]
    assert np.abs(logits - eager).max() <= tolerance * np.abs(eager).max()
    assert told["compiled graphs"] == "2, one a batch size"  # of one image, and of all
    assert told["compiled by"].startswith("inductor, whole graph, g++")
    assert int(told["compiled operations"]) >= len(list(session_layers(model)))


def session_layers(model):
    module = build_model(model.checkpoint.model, 10, 32, 32)
    return (each for each in module.modules() if next(each.children(), None) is None)


def test_a_graph_that_breaks_is_refused_and_not_run_eagerly(monkeypatch, model):
    """Before any kernel is generated, so that no compiler is needed."""
    monkeypatch.setattr("alignkit.backends.torch.missing_compiler", lambda device: "")

    def forward(self, each):
        torch._dynamo.graph_break()
        return torch.flatten(each, 1)

    monkeypatch.setattr(torch.nn.Flatten, "forward", forward)
    with pytest.raises(BackendError, match=r"torch\.compile: Unsupported"):
        TorchBackend(compile=True).open(model.checkpoint, None, "fp32")


def test_without_a_compiler_compiling_is_impossible(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    reason = TorchBackend(compile=True).impossible("fp32")
    assert "no C++ compiler 'no-such-compiler'" in reason
    assert not TorchBackend().impossible("fp32")


@pytest.mark.parametrize(("bits", "name"), [(23, "ieee"), (10, "tf32"), (7, "bf16")])
def test_the_probe_names_arithmetic_by_its_mantissa(bits, name):
    assert named_arithmetic(lambda value: round(value * 2**bits) / 2**bits == value) == name


def test_float32_precision_is_set_and_put_back():
    conv = torch.backends.cudnn.conv
    before = conv.fp32_precision
    with float32_precision("tf32"):
        assert conv.fp32_precision == "tf32"
        assert torch.backends.mkldnn.conv.fp32_precision == "ieee"
    with pytest.raises(ZeroDivisionError), float32_precision("ieee"):
        raise ZeroDivisionError
    assert conv.fp32_precision == before


def test_reproducible_keeps_outer_generators_still():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    with reproducible(torch.device("cpu"), 1):
        torch.rand(5)
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.equal(torch.rand(1), expected)
    assert observed_float32(torch.device("cpu")) == "ieee"


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_the_users_choice_of_deterministic_kernels_is_put_back(mode):
    before = torch.get_deterministic_debug_mode()
    try:
        torch.set_deterministic_debug_mode(mode)
        with reproducible(torch.device("cpu"), 1):
            assert torch.get_deterministic_debug_mode() == 2
        assert torch.get_deterministic_debug_mode() == mode
    finally:
        torch.set_deterministic_debug_mode(before)


@pytest.mark.slow  # its process imports torch again
def test_predicting_does_not_import_the_compiler(tmp_path):
    """It takes seconds, and only torch.optim and torch.compile need it."""
    torch.save(pooled(32).state_dict(), tmp_path / "weights.pt")
    program = f"""
import sys
from pathlib import Path
import numpy as np
from alignkit.backends.torch import TorchBackend
from alignkit.backends.torch_session import TorchSession
from alignkit.models.checkpoint import Checkpoint
weights = Path({str(tmp_path / "weights.pt")!r})
session = TorchBackend().open(Checkpoint("small-cnn", 10, 32, 32, weights, "key"), None, "fp32")
session.predict(np.zeros((2, 3, 32, 32), np.float32))
print([each for each in ("torch._dynamo", "torch._inductor", "sympy") if each in sys.modules])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert ended.stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # inductor's own import
def test_a_compiled_module_chooses_no_kernel_by_timing_it(model):
    from torch._inductor import config

    if reason := TorchBackend(compile=True).impossible("fp32"):
        pytest.skip(reason)
    chosen = []
    with config.patch(post_grad_custom_post_pass=lambda _: chosen.append(config.deterministic)):
        model.open(TorchBackend(compile=True), "fp32").close()
    assert chosen == [True]
    assert not config.deterministic


def flagged(tmp_path, monkeypatch, flags):
    (tmp_path / "cpuinfo").write_text(f"model name : Laptop\nflags : {flags}\n")
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")


@pytest.mark.parametrize(
    ("flags", "emulated"),
    [
        ("avx2 fma", {"bf16": "AVX2", "fp16": "AVX2"}),
        ("avx2 avx512bw", {"bf16": "AVX-512", "fp16": "AVX2"}),
        ("avx2 avx512bw avx512_bf16", {"fp16": "AVX2"}),
        ("avx2 avx512bw avx512_bf16 amx_bf16 avx512_fp16", {}),
        ("", {}),
    ],
)
def test_a_precision_without_instructions_is_emulated(tmp_path, monkeypatch, flags, emulated):
    flagged(tmp_path, monkeypatch, flags)
    told = {each: TorchBackend().emulated(each) for each in TorchBackend.precisions}
    assert {name: said for name, said in told.items() if said}.keys() == emulated.keys()
    for name, held in emulated.items():
        assert f"held to {held} " in told[name]
    assert not any(TorchBackend(device="cuda").emulated(each) for each in told)


def test_a_precision_that_is_not_emulated_here_has_kernels_in_torch():
    if not processor.processor_flags():
        pytest.skip("the system does not show the processor's flags")
    supported = {
        "bf16": torch.ops.mkldnn._is_mkldnn_bf16_supported(),
        "fp16": torch.ops.mkldnn._is_mkldnn_fp16_supported(),
    }
    native = {each for each in supported if not TorchBackend().emulated(each)}
    assert all(supported[each] for each in native)


def pooled(height: int) -> torch.nn.Module:
    torch.manual_seed(0)
    return build_model("small-cnn", 10, height, height).eval()


@pytest.mark.parametrize(("side", "larger"), [(36, 2), (32, 0)])
def test_ceil_mode_is_the_model_with_every_max_pool_rounded_up(tmp_path, side, larger):
    model = pooled(side)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    checkpoint = Checkpoint("small-cnn", 10, side, side, tmp_path / "weights.pt", "key")
    batch = np.random.default_rng(0).standard_normal((3, 3, side, side)).astype(np.float32)
    floor = TorchBackend().open(checkpoint, None, "fp32").predict(batch)[0]
    session = TorchBackend(ceil_mode=True).open(checkpoint, None, "fp32")
    ceil = session.predict(batch)[0]
    told = f"ceil mode; {larger} of 4 layers give another size by it"
    assert session.effective()["max-pooling"] == told
    values = torch.from_numpy(batch)
    for layer in model:
        if isinstance(layer, torch.nn.MaxPool2d):
            values = torch.nn.functional.max_pool2d(values, 2, ceil_mode=True)
        else:
            values = layer(values)
    assert np.allclose(ceil, values.detach().numpy(), atol=1e-5)
    assert np.array_equal(ceil, floor) is (larger == 0)


def test_ceil_mode_of_a_model_without_max_pooling_is_refused(tmp_path):
    model = build_model("mobilenet_v2", 4, 32, 32)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    checkpoint = Checkpoint("mobilenet_v2", 4, 32, 32, tmp_path / "weights.pt", "key")
    with pytest.raises(BackendError, match="mobilenet_v2 has no max-pooling layer"):
        TorchBackend(ceil_mode=True).open(checkpoint, None, "fp32")
