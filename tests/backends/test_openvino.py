"""OpenVINO: exactly the precision that was asked for, or refused with the one it chose."""

import numpy as np
import pytest

from alignkit.backends import BACKENDS, QUANTISED_GRAPH, openvino
from alignkit.backends.onnxruntime import ONNXRuntimeBackend
from alignkit.backends.openvino import OpenVINOBackend
from alignkit.backends.torch import TorchBackend
from alignkit.errors import AlignkitError, BackendError
from alignkit.models.checkpoint import CALIBRATION
from tests.backends.model import trained_model

pytest.importorskip("openvino", reason="openvino is not installed")


def facts_of(session):
    session.close()
    return session.effective()


def capabilities():
    import openvino

    return openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def test_fp32_agrees_with_torch_to_rounding_and_repeats_to_the_bit():
    model = trained_model()
    reference = model.predict(TorchBackend(), "fp32")
    session = OpenVINOBackend().open(model.checkpoint, model.onnx, "fp32")
    logits = session.predict(model.batch)[0]
    assert logits.dtype == np.float32
    assert np.abs(logits - reference).max() < 1e-4
    assert np.array_equal(logits.argmax(1), reference.argmax(1))
    assert np.array_equal(session.predict(model.batch)[0], logits)
    singly = np.concatenate([session.predict(each[None])[0] for each in model.batch[:16]])
    assert np.abs(singly - logits[:16]).max() < 1e-4
    effective = session.effective()
    assert effective["inference precision"] == "f32, verified"
    assert effective["f32 layers"] == "4 Convolution, 1 FullyConnected"
    session.close()


@pytest.mark.parametrize(("precision", "capability"), [("bf16", "BF16"), ("fp16", "FP16")])
def test_a_hint_the_processor_does_not_take_is_refused_and_never_replaced(
    precision, capability, monkeypatch
):
    model = trained_model()
    if capability not in capabilities():
        assert "processors with" in OpenVINOBackend().impossible(precision)
        monkeypatch.setattr(openvino, "processor_flags", frozenset)  # as where Linux does not say
        with pytest.raises(BackendError, match=f"openvino {precision}: .* chose"):
            OpenVINOBackend().open(model.checkpoint, model.onnx, precision)
        return
    assert not OpenVINOBackend().impossible(precision)
    reference = model.predict(TorchBackend(), "fp32")
    logits = model.predict(OpenVINOBackend(), precision)
    assert 0 < np.abs(logits - reference).max() < 0.05 * np.abs(reference).max()


def test_tf32_is_none_of_its_precisions():
    assert "fp32" in OpenVINOBackend().impossible("tf32")
    with pytest.raises(AlignkitError, match="tf32"):
        OpenVINOBackend().open(trained_model().checkpoint, trained_model().onnx, "tf32")


def test_a_file_that_is_no_graph_is_told(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(BackendError, match="OpenVINO cannot compile"):
        OpenVINOBackend().open(trained_model().checkpoint, tmp_path / "model.onnx", "fp32")


def test_the_graph_is_named_for_the_quantiser_whose_graph_others_execute(tmp_path, monkeypatch):
    import openvino as library

    model = trained_model()
    own = OpenVINOBackend(quantiser="onnxruntime")
    folder = model.file(own, "int8")
    graph = facts_of(model.open(own, "int8"))[QUANTISED_GRAPH]
    assert graph == facts_of(model.open(ONNXRuntimeBackend(), "int8"))[QUANTISED_GRAPH]
    # NNCF is not needed to open what it made
    monkeypatch.setattr(openvino, "NNCF", BACKENDS["openvino"])
    library.save_model(library.Core().read_model(folder / "model.onnx"), tmp_path / "model.xml")
    (tmp_path / CALIBRATION).write_text("some images")
    facts = facts_of(OpenVINOBackend().open(model.checkpoint, tmp_path, "int8"))
    assert QUANTISED_GRAPH not in facts
    assert facts["calibration"] == "some images"
