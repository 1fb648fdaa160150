"""int8 in ONNX Runtime: the processor's saturation is avoided, and never passed over in silence."""

import numpy as np
import onnx
import pytest

from alignkit.backends.onnxruntime import (
    ONNXRuntimeBackend,
    onnxruntime_int8,
    onnxruntime_session,
)
from alignkit.backends.onnxruntime.onnxruntime_int8 import quantise
from alignkit.backends.onnxruntime.onnxruntime_session import Start, kernels_saturate
from alignkit.models.checkpoint import CALIBRATION
from tests.backends.model import trained_model


@pytest.fixture(scope="module")
def model():
    return trained_model()


def engine(model, folder, monkeypatch, *, saturates):
    for module in (onnxruntime_session, onnxruntime_int8):
        monkeypatch.setattr(module, "kernels_saturate", lambda: saturates)
    folder.mkdir()
    quantise(model.onnx, model.seen, folder)
    (folder / CALIBRATION).write_text("some images")
    return folder


def effective(model, folder):
    session = ONNXRuntimeBackend().open(model.checkpoint, folder, "int8")
    session.close()
    return session.effective()


def greatest_weight(folder):
    graph = onnx.load(folder / "model.onnx").graph
    arrays = [onnx.numpy_helper.to_array(each) for each in graph.initializer]
    return max(int(abs(w.astype(int)).max()) for w in arrays if w.dtype == np.int8 and w.ndim > 1)


class Saturating:
    """``vpmaddubsw``: the sum of two neighbouring products, cut to 16 bits."""

    def run(self, names, fed):
        products = fed["bytes"].astype(int)[:, :, None] * np.full((64, 16), 127)
        pairs = products[:, 0::2] + products[:, 1::2]
        return [pairs.clip(-(2**15), 2**15 - 1).sum(axis=1)]


def test_kernels_that_saturate_are_seen(monkeypatch):
    monkeypatch.setattr(Start, "session", lambda self, graph: Saturating())
    assert kernels_saturate()


@pytest.mark.parametrize(
    ("saturates", "most", "bits"), [(True, 64, "7 bits"), (False, 127, "8 bit")]
)
def test_weights_have_seven_bits_where_kernels_saturate(
    model, tmp_path, monkeypatch, saturates, most, bits
):
    folder = engine(model, tmp_path / "engine", monkeypatch, saturates=saturates)
    assert greatest_weight(folder) == most
    assert effective(model, folder)["weights"].startswith(bits)


def test_an_engine_for_this_processor_carries_no_warning(model):
    facts = effective(model, model.file(ONNXRuntimeBackend(), "int8"))
    assert "warning" not in facts
    assert facts["fused from unfused"].endswith("8 images")


def test_a_session_that_parts_from_its_graph_carries_a_warning(model, tmp_path, monkeypatch):
    folder = engine(model, tmp_path / "engine", monkeypatch, saturates=True)
    opened = Start.session

    class Off:
        """The fused kernels, a fifth of the greatest logit off."""

        def __init__(self, inner):
            self.inner, self.get_inputs = inner, inner.get_inputs
            self.get_outputs = inner.get_outputs

        def run(self, names, fed, options=None):
            logits = self.inner.run(names, fed, options)[0]
            return [logits + 0.2 * np.abs(logits).max()]

        def end_profiling(self):
            return self.inner.end_profiling()

    def session(start, graph, profile=None):
        inner = opened(start, graph, profile)
        return Off(inner) if profile else inner

    monkeypatch.setattr(Start, "session", session)
    facts = effective(model, folder)
    assert facts["warning"].startswith(
        "int8 saturates on this processor: the fused kernels are off"
    )
    monkeypatch.setattr(onnxruntime_int8, "kernels_saturate", lambda: False)
    assert "departs from its graph" in effective(model, folder)["warning"]
