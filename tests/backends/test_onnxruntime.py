import contextlib
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto

from alignkit.backends.onnx_graph import half_precision
from alignkit.backends.onnxruntime import ONNXRuntimeBackend, onnxruntime_session, provider_options
from alignkit.backends.onnxruntime.onnxruntime_session import (
    Kernels,
    Start,
    kernels_in,
    require_no_crash,
)
from alignkit.errors import BackendError, MissingDependency
from alignkit.models.architectures import build_model
from alignkit.plugins import gpu_present
from tests.backends.model import trained_model

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
QUIET = ("ORT_DISABLE_TELEMETRY", "CI", "GITHUB_ACTIONS", "TF_BUILD")
"""Variables that keep ONNX Runtime's telemetry off."""


@pytest.fixture(scope="module")
def model():
    return trained_model()


def effective(model, **options):
    precision = options.pop("precision", "fp32")
    session = ONNXRuntimeBackend(**options).open(model.checkpoint, model.onnx, precision)
    session.close()
    return session.effective()


def files_written(home, **environment) -> list[str]:
    """Run a session in a process of its own; list the files it left in its home."""
    home.mkdir()
    script = (
        "from alignkit.backends.onnx_graph import products\n"
        "from alignkit.backends.onnxruntime.onnxruntime_session import Start\n"
        "Start('CPUExecutionProvider', {}, 'ORT_ENABLE_ALL', 1).arithmetic()\n"
    )
    outside_ci = {name: each for name, each in os.environ.items() if name not in QUIET}
    places = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(home))
    subprocess.run(
        [sys.executable, "-c", script], env=outside_ci | places | environment, check=True
    )
    return [str(each.relative_to(home)) for each in home.rglob("*") if each.is_file()]


def test_a_session_writes_no_telemetry_unless_the_user_turns_it_on(tmp_path):
    assert files_written(tmp_path / "default") == []
    written = files_written(tmp_path / "on", ORT_DISABLE_TELEMETRY="0")
    if not written:
        pytest.skip("this build of ONNX Runtime keeps no telemetry")
    assert any("onnxruntime" in each for each in written)


@pytest.mark.parametrize(
    "last",
    [
        [("Gather", ["table", "index"], ["found"])],
        [("Unsqueeze", ["index", "zero"], ["k"]), ("TopK", ["table", "k"], ["found", "at"])],
        [("Unsqueeze", ["index", "zero"], ["k"]), ("Reshape", ["table", "k"], ["found"])],
    ],
)
def test_a_graph_that_runs_on_one_image_and_fails_on_the_next_is_one_line(tmp_path, model, last):
    helper, shape = onnx.helper, ["n", 3, 32, 32]
    nodes = [
        # one number of the brightest value, which is 0 of a black image
        helper.make_node("ReduceMax", ["images"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["index"], to=TensorProto.INT64),
        *(helper.make_node(*each) for each in last),
        helper.make_node("ReduceSum", ["found"], ["sum"], keepdims=0),
        helper.make_node("ReduceMean", ["images"], ["flat"], axes=[2, 3], keepdims=0),
        helper.make_node("Add", ["flat", "sum"], ["scores"]),
    ]
    given = helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 3])
    table = onnx.numpy_helper.from_array(np.ones(5, np.float32), "table")
    zero = onnx.numpy_helper.from_array(np.array([0]), "zero")
    graph = helper.make_graph(nodes, "g", [given], [scores], [table, zero])
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "g.onnx")
    checkpoint = replace(model.checkpoint, classes=3, height=32, width=32)
    session = ONNXRuntimeBackend().open(checkpoint, tmp_path / "g.onnx", "fp32")
    dark = np.zeros((2, *shape[1:]), np.float32)
    assert len(session.predict(dark)[0]) == 2
    with pytest.raises(BackendError, match="the graph fails on a batch of 2: ") as caught:
        session.predict(dark + 77)
    assert "\n" not in str(caught.value)
    session.close()


def test_the_graph_is_needed(model):
    with pytest.raises(BackendError, match="needs the exported ONNX file"):
        ONNXRuntimeBackend().open(model.checkpoint, None, "fp32")


@pytest.mark.parametrize(("provider", "name"), [("cuda", CUDA), ("tensorrt", TENSORRT)])
def test_without_a_gpu_a_provider_is_impossible_and_does_not_open(model, provider, name):
    backend = ONNXRuntimeBackend(provider=provider)
    if gpu_present():
        pytest.skip("of a machine without an NVIDIA GPU")
    assert backend.impossible("fp32") == f"{name} needs an NVIDIA GPU, and this machine has none"
    with pytest.raises(MissingDependency, match=f"{name} needs an NVIDIA GPU"):
        backend.open(model.checkpoint, model.onnx, "fp32")


@pytest.mark.filterwarnings("ignore:Specified provider:UserWarning")  # of a build for the CPU alone
def test_where_the_library_falls_back_the_backend_refuses(model, monkeypatch):
    """As on a machine with a driver and without CUDA's libraries."""
    import onnxruntime

    if gpu_present():
        pytest.skip("of a machine without an NVIDIA GPU")
    alone = onnxruntime.InferenceSession(model.onnx.read_bytes(), providers=[CUDA])
    assert alone.get_providers() == [CPU]
    monkeypatch.setattr("alignkit.backends.onnxruntime.gpu_present", lambda: True)
    with pytest.raises(MissingDependency, match=f"{CUDA} did not start.*would compute on the CPU"):
        ONNXRuntimeBackend(provider="cuda").open(model.checkpoint, model.onnx, "fp32")


def test_fp16_that_nothing_could_verify_is_refused():
    assert "cannot be verified" in ONNXRuntimeBackend(provider="tensorrt").impossible("fp16")


def test_half_precision_keeps_float32_at_both_ends_and_rounds_every_weight(model):
    graph = onnx.load_from_string(half_precision(model.onnx)).graph
    for edge in (*graph.input, *graph.output):
        assert edge.type.tensor_type.elem_type == TensorProto.FLOAT
    assert {each.data_type for each in graph.initializer} == {TensorProto.FLOAT16}


def test_fp16_on_the_cpu_says_that_its_kernels_are_float32(model):
    facts = effective(model, precision="fp16")
    assert "float32 kernels" in facts
    assert "float16 kernels" not in facts
    assert facts["float16"].startswith("storage only")
    assert "to float32" in facts["casts"]


def test_fp32_has_no_casts_and_proves_its_arithmetic(model):
    facts = effective(model)
    assert facts["casts"] == "none"
    assert facts["float32 products"] == "ieee, verified"
    assert facts["provider"] == CPU


def test_fewer_optimisations_leave_more_nodes(model):
    def nodes(level):
        return int(effective(model, optimisation=level)["float32 kernels"].partition(":")[0])

    assert nodes("all") < nodes("basic")
    assert nodes("extended") < nodes("basic")


def test_cuda_is_told_to_leave_tf32_off_but_for_the_tf32_arm():
    def told(precision):
        return provider_options("cuda", precision)["use_tf32"]

    assert told("fp32") == told("fp16") == "0"
    assert told("tf32") == "1"


def node(operator, provider, reads, writes, shape=(1, 8)):
    return {
        "cat": "Node",
        "name": f"{operator}_1_kernel_time",
        "args": {
            "op_name": operator,
            "provider": provider,
            "input_type_shape": [{reads: list(shape)}],
            "output_type_shape": [{writes: list(shape)}],
        },
    }


def test_a_node_on_another_provider_is_refused():
    kernels = kernels_in(
        [node("Conv", CUDA, "float", "float"), node("Gemm", CPU, "float", "float")]
    )
    with pytest.raises(BackendError, match="left Gemm to another provider"):
        kernels.require(CUDA, "fp32")


def test_the_arithmetic_of_shapes_may_lie_on_the_cpu():
    events = [
        node("Conv", CUDA, "float", "float"),
        node("Shape", CPU, "float", "int64"),
        node("Sqrt", CPU, "float", "float", shape=()),
        {"cat": "Session", "name": "model_run"},
    ]
    kernels = kernels_in(events)
    kernels.require(CUDA, "fp32")
    assert kernels.facts("fp32")["nodes"] == f"2 on {CPU}, 1 on {CUDA}"


def test_a_narrow_node_in_fp32_is_refused():
    with pytest.raises(BackendError, match=r"Conv \(float16\) did not compute in float32"):
        kernels_in([node("Conv", CPU, "float16", "float16")]).require(CPU, "fp32")


def test_true_fp16_kernels_are_told_from_storage():
    facts = kernels_in([node("Conv", CUDA, "float16", "float16")] * 2).facts("fp16")
    assert facts == {"float16 kernels": "2: Conv", "casts": "none", "nodes": f"2 on {CUDA}"}
    mixed = [node("Conv", CPU, "float", "float"), node("Cast", CPU, "float", "float16")]
    assert "some activations" in kernels_in(mixed).facts("fp16")["float16"]
    assert isinstance(kernels_in([]), Kernels)


class Rounding:
    """A runtime that computes in fewer bits of mantissa."""

    def __init__(self, bits):
        self.bits = bits

    def get_inputs(self):
        return [SimpleNamespace(name="image"), SimpleNamespace(name="matrix")]

    def run(self, names, fed):
        return [np.round(each * 2.0**self.bits) / 2.0**self.bits for each in fed.values()]


@pytest.mark.parametrize(("bits", "name"), [(10, "tf32"), (7, "bf16")])
def test_the_probe_sees_rounded_products(bits, name, monkeypatch):
    start = Start(CPU, {}, "ORT_DISABLE_ALL", 1)
    assert start.arithmetic() == "ieee"
    monkeypatch.setattr(Start, "session", lambda self, graph: Rounding(bits))
    assert start.arithmetic() == name


def test_a_damaged_graph_is_told_without_a_fallback():
    with pytest.raises(BackendError, match="cannot load the graph"):
        Start(CPU, {}, "ORT_ENABLE_ALL", 1).session(b"not a graph")


def test_a_graph_that_crashes_the_runtime_fails_its_cell_only(monkeypatch, model):
    require_no_crash(model.onnx.read_bytes(), "ORT_ENABLE_ALL")
    # a graph that really crashes is specific to a version: the death is made here
    monkeypatch.setattr(onnxruntime_session, "trial", lambda *_: "crashed: SIGSEGV")
    with pytest.raises(BackendError, match=r"crashed: SIGSEGV.*optimisation: basic"):
        require_no_crash(model.onnx.read_bytes(), "ORT_ENABLE_ALL")


@pytest.mark.slow
def test_a_vision_transformer_in_fp16_runs_or_is_refused_and_never_kills_the_run(tmp_path):
    """ONNX Runtime 1.31.1 crashes on it at full optimisation; ``basic`` runs."""
    from alignkit.engines.export import export_onnx
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.workspace import Workspace

    torch.save(build_model("vit_b_32", 4, 32, 32).state_dict(), tmp_path / "weights.pt")
    checkpoint = Checkpoint("vit_b_32", 4, 32, 32, tmp_path / "weights.pt", "untrained")
    # untrained heads are zero, which no relative check can pass
    state = torch.load(checkpoint.weights, weights_only=True)
    state["heads.head.weight"].normal_()
    torch.save(state, checkpoint.weights)
    batch = np.random.default_rng(0).normal(size=(3, 3, 32, 32)).astype(np.float32)
    onnx_file = export_onnx(checkpoint, Workspace(tmp_path), batch)
    basic = ONNXRuntimeBackend(optimisation="basic").open(checkpoint, onnx_file, "fp16")
    assert basic.predict(batch)[0].shape == (3, 4)
    # a version that is cured would open it
    with contextlib.suppress(BackendError):
        ONNXRuntimeBackend().open(checkpoint, onnx_file, "fp16").close()


def test_opening_a_session_says_nothing(model):
    script = (
        "import sys; from pathlib import Path;"
        "from alignkit.backends.onnxruntime.onnxruntime_session import Start;"
        "Start('CPUExecutionProvider', {}, 'ORT_ENABLE_ALL', 1)"
        ".profiled_session(Path(sys.argv[1]).read_bytes(), (32, 32))"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(model.onnx)],
        check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.stdout == ran.stderr == ""
