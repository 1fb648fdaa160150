"""torchpipe's engine, as far as it goes without a GPU: nothing here pretends to be a pipe."""

from pathlib import Path

import numpy as np
import pytest

from alignkit.backends import BACKENDS, EncodedFiles
from alignkit.backends.torchpipe import PipeSession, TorchpipeBackend, pipe_options
from alignkit.errors import BackendError, MissingDependency
from alignkit.plugins import gpu_present
from alignkit.preprocess.normalise import Normalise
from tests.backends.model import trained_model
from tests.photos import encoded, photo


def test_without_a_gpu_it_is_impossible_and_does_not_open():
    if gpu_present():
        pytest.skip("of a machine without an NVIDIA GPU")
    model = trained_model()
    assert "NVIDIA GPU" in TorchpipeBackend().impossible("served")
    with pytest.raises(MissingDependency, match=r"torchpipe served: .*NVIDIA GPU"):
        TorchpipeBackend().open(model.checkpoint, model.onnx, "served")


def test_no_precision_is_claimed_that_nothing_verifies():
    assert "cannot be verified" in TorchpipeBackend().impossible("fp16")
    told = PipeSession(Path("m.onnx"), (48, 48), "fp16").effective()
    assert told["precision"] == "served"
    assert told["engine asked for"] == "fp16"


def test_the_pipe_normalises_on_a_scale_of_255_and_is_named_anew():
    first, second = (pipe_options(Path("m.onnx"), (48, 32), "fp32", Normalise()) for _ in range(2))
    preprocess, engine = first.values()
    assert (preprocess["resize_h"], preprocess["resize_w"]) == ("48", "32")
    assert preprocess["next"] in first
    assert engine["mean"] == "123.675000,116.280000,103.530000"
    assert engine["std"] == "58.395000,57.120000,57.375000"
    assert "model::cache" not in engine
    assert not first.keys() & second.keys()


def test_a_mean_that_torchpipe_would_not_merge_is_refused():
    with pytest.raises(BackendError, match="above 1 of 255"):
        pipe_options(Path("m.onnx"), (48, 48), "fp16", Normalise((0.0, 0.0, 0.0)))


@pytest.mark.gpu
def test_a_pipe_answers_for_files():
    if reason := BACKENDS["torchpipe"].missing():
        pytest.skip(reason)
    model = trained_model()
    session = TorchpipeBackend().open(model.checkpoint, model.onnx, "served")
    logits = session.predict(EncodedFiles([encoded(photo())] * 3, Normalise()))[0]
    assert logits.shape == (3, 10)
    assert np.isfinite(logits).all()
    session.close()
