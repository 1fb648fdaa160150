"""Every backend × precision that this machine can run, over one trained model."""

from dataclasses import replace
from importlib.util import find_spec
from typing import get_args

import numpy as np
import pytest
import torch

from alignkit import machine as processor
from alignkit.backends import BACKENDS, Precision
from alignkit.backends.onnxruntime import ONNXRuntimeBackend
from alignkit.backends.openvino import OpenVINOBackend
from alignkit.backends.simulated import SimulatedBackend
from alignkit.backends.tensorrt import TensorRTBackend, TensorRTRTXBackend
from alignkit.backends.torch import TorchBackend
from alignkit.errors import AlignkitError
from alignkit.testing import BackendContract
from alignkit.testing.backend_contract import TOLERANCE, check_agreement, check_session
from tests.backends.model import trained_model
from tests.contracts import broken

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
VARIANTS = [
    TorchBackend(),
    TorchBackend(channels_last=False),
    ONNXRuntimeBackend(),
    ONNXRuntimeBackend(optimisation="basic"),
    ONNXRuntimeBackend(optimisation="disabled"),
    TorchBackend(device="cuda"),
    ONNXRuntimeBackend(provider="cuda"),
    ONNXRuntimeBackend(provider="tensorrt"),
    SimulatedBackend(),
    *(
        [OpenVINOBackend(), OpenVINOBackend(quantiser="onnxruntime")]
        if find_spec("openvino")
        else []
    ),
    *([] if BACKENDS["tensorrt"].missing() else [TensorRTBackend()]),
    *([] if BACKENDS["tensorrt-rtx"].missing() else [TensorRTRTXBackend()]),
]
ALL = [(backend, precision) for backend in VARIANTS for precision in PRECISIONS]
POSSIBLE = [each for each in ALL if not each[0].impossible(each[1])]
IMPOSSIBLE = [each for each in ALL if each[0].impossible(each[1])]


def named(each):
    backend, precision = each
    options = ",".join(str(getattr(backend, name)) for name in backend.__slots__)
    return f"{type(backend).__name__}({options})-{precision}"


@pytest.fixture(scope="module")
def model():
    return trained_model()


@pytest.fixture(scope="module")
def reference(model):
    return model.predict(TorchBackend(), "fp32")


def test_every_plugin_of_the_table_is_covered():
    usable = {plugin.load() for plugin in BACKENDS.values() if not plugin.missing()}
    elsewhere = {each for each in usable if each.live or each.own_path}  # sent files, or requests
    assert usable - elsewhere == {type(each) for each in VARIANTS}


def test_the_reference_has_learnt_enough_to_be_compared_with(model, reference):
    assert np.mean(reference.argmax(1) == model.labels) > 0.7


@pytest.mark.parametrize(("backend", "precision"), POSSIBLE, ids=map(named, POSSIBLE))
def test_logits_agree_with_torch_fp32(backend, precision, model, reference):
    check_agreement(model, backend, precision)
    if precision == "fp32":
        logits = model.predict(backend, precision)
        assert np.abs(logits - reference).max() <= 1e-4
        assert np.array_equal(logits.argmax(1), reference.argmax(1))


@pytest.mark.parametrize(("backend", "precision"), POSSIBLE, ids=map(named, POSSIBLE))
def test_sessions_keep_the_contract(backend, precision, model):
    check_session(model, backend, precision)


def test_torch_keeps_the_contract_as_another_package_would_test_it():
    assert broken(BackendContract, TorchBackend(), skips=True) == {}


@pytest.mark.parametrize("flags", ["", "avx2 fma", "avx2 avx512bw", "asimd"])
@pytest.mark.parametrize("backend", VARIANTS, ids=lambda each: named((each, ""))[:-1])
def test_emulation_is_of_precisions_that_run_and_its_cost_is_a_measured_one(
    backend, flags, tmp_path, monkeypatch
):
    (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    for precision in PRECISIONS:
        said = backend.emulated(precision)
        if said:
            assert flags  # of a processor that hides its flags nothing is known
            assert backend.on_cpu
            assert precision != "fp32"
            assert not backend.impossible(precision)
            assert precision in said
            assert "Xeon" in said  # the processor that it was measured on
            assert "not measured here" in said


@pytest.mark.parametrize(("backend", "precision"), POSSIBLE, ids=map(named, POSSIBLE))
def test_batch_size_changes_logits_by_rounding_only(backend, precision, model):
    session = model.open(backend, precision)
    together = session.predict(model.batch)[0]
    singly = np.concatenate([session.predict(each[None])[0] for each in model.batch[:24]])
    session.close()
    assert np.abs(together[:24] - singly).max() <= TOLERANCE[precision] / 2 * np.abs(together).max()


@pytest.mark.parametrize(("backend", "precision"), POSSIBLE, ids=map(named, POSSIBLE))
def test_torchs_global_settings_are_neither_used_nor_changed(backend, precision, model):
    expected = model.predict(backend, precision)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert np.array_equal(model.predict(backend, precision), expected)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(("backend", "precision"), IMPOSSIBLE, ids=map(named, IMPOSSIBLE))
def test_an_impossible_precision_says_why_and_never_opens(backend, precision, model):
    assert len(backend.impossible(precision)) > 20
    with pytest.raises(AlignkitError, match=precision + "|cuda"):
        backend.open(model.checkpoint, model.onnx, precision)


@pytest.mark.parametrize("backend", VARIANTS[:3], ids=lambda each: type(each).__name__)
def test_versions_name_the_runtime(backend):
    plugin = next(plugin for plugin in BACKENDS.values() if plugin.load() is type(backend))
    number = plugin.version().split()[1]
    assert number in backend.version()


def test_a_model_that_is_not_there_is_told(model, tmp_path):
    (tmp_path / "weights.pt").write_bytes(b"nothing")
    broken = replace(model.checkpoint, weights=tmp_path / "weights.pt")
    with pytest.raises(AlignkitError, match="holds no weights of small-cnn"):
        TorchBackend().open(broken, None, "fp32")
