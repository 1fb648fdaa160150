"""The kserve backend against a real server of the protocol.

The server lives in an environment of its own, as ``nox -s endpoint`` makes one, and
ALIGNKIT_MLSERVER names its ``mlserver``:

    python -m venv /tmp/mlserver && /tmp/mlserver/bin/pip install -r tests/endpoint/requirements.txt
    ALIGNKIT_MLSERVER=/tmp/mlserver/bin/mlserver python -m pytest -m endpoint
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from alignkit.backends import EncodedFiles
from alignkit.backends.kserve import KServeBackend
from alignkit.backends.onnxruntime import ONNXRuntimeBackend
from alignkit.decoders.pillow import PillowDecoder
from alignkit.errors import BackendError
from alignkit.preprocess import Preprocess, Resize
from alignkit.preprocess.normalise import Normalise
from alignkit.resizers.pillow import PillowResizer
from tests.backends.model import trained_model
from tests.endpoint.mlserver import serving
from tests.photos import encoded, photo

MLSERVER = os.environ.get("ALIGNKIT_MLSERVER", "")
pytestmark = [
    pytest.mark.endpoint,
    pytest.mark.skipif(
        not MLSERVER, reason="ALIGNKIT_MLSERVER names no mlserver: see nox -s endpoint"
    ),
]
pytest.importorskip("tritonclient", reason="tritonclient is not installed: alignkit[kserve]")
SENT = [(protocol, sends) for protocol in ("http", "grpc") for sends in ("files", "tensors")]


@pytest.fixture(scope="module")
def model():
    return trained_model()


@pytest.fixture(scope="module")
def served(model, tmp_path_factory):
    with serving(
        MLSERVER, tmp_path_factory.mktemp("served"), model.onnx, size=32, classes=10
    ) as it:
        yield it


def backend(served, protocol="http", sends="files", **options) -> KServeBackend:
    model = getattr(served, sends)
    return KServeBackend(getattr(served, protocol), model, sends=sends, **options)


FILES = [encoded(photo("china", 40 + index, 30 + index)) for index in range(12)]
PATH = Preprocess("server", PillowDecoder(), Resize(PillowResizer(), (32, 32)))


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("images", [1, 5])
def test_tensors_give_the_logits_of_the_runtime_behind(served, model, protocol, images):
    expected = model.predict(ONNXRuntimeBackend(), "fp32")
    session = backend(served, protocol, "tensors", images_per_request=images).open(
        model.checkpoint, None, "served"
    )
    found = session.predict(model.batch)[0]
    facts = session.effective()
    session.close()
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < 1e-4
    assert facts["requests so far"] == f"{2 + -(-90 // images)}, 0 of them sent again"
    assert facts["server"] == "mlserver 1.7.1"
    assert facts["sent"] == f"tensors, image, {'bytes' if protocol == 'grpc' else 'JSON'}"


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("images", [1, 5])
def test_files_are_answered_by_the_servers_own_preprocessing(served, model, protocol, images):
    batch = np.stack([PATH.normalise(PATH.taps(each).last[None])[0] for each in FILES])
    expected = model.predict(ONNXRuntimeBackend(), "fp32", batch)
    opened = backend(served, protocol, images_per_request=images)
    session = opened.open(model.checkpoint, None, "served")
    found = session.predict(EncodedFiles(FILES, Normalise()))[0]
    session.close()
    # the same Pillow arithmetic in another version of it
    assert np.abs(found - expected).max() < 1e-3
    assert opened.own_path == "the server's own"


@pytest.mark.parametrize(("protocol", "sends"), SENT)
def test_what_does_not_fit_is_told_when_it_is_opened(served, model, protocol, sends):
    fits = backend(served, protocol, sends)
    with pytest.raises(BackendError, match=r"gives FP32 .x10 as 'logits': it has 10 outputs for 9"):
        fits.open(replace(model.checkpoint, classes=9), None, "served")
    with pytest.raises(
        BackendError, match=r"refused a request: (404|NOT_FOUND), Model absent .*not found"
    ):
        replace(fits, model="absent").open(model.checkpoint, None, "served")
    other = "tensors" if sends == "files" else "files"
    with pytest.raises(BackendError, match=f"set 'sends: {sends}'"):
        replace(fits, sends=other).open(model.checkpoint, None, "served")
    with pytest.raises(BackendError, match="the inputs image; name one as 'input'"):
        replace(fits, input="picture").open(model.checkpoint, None, "served")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_another_size_is_told(served, model, protocol):
    with pytest.raises(
        BackendError, match=r"takes FP32 .x3x32x32, and the path gives FP32 .x3x48x48"
    ):
        backend(served, protocol, "tensors").open(
            replace(model.checkpoint, height=48, width=48), None, "served"
        )


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_file_the_server_cannot_decode_is_told_in_its_words(served, model, protocol):
    session = backend(served, protocol, retries=0).open(model.checkpoint, None, "served")
    with pytest.raises(BackendError, match="no image: cannot identify image file"):
        session.predict(EncodedFiles([FILES[0], b"\xff\xd8 no JPEG"], Normalise()))
    assert session.predict(EncodedFiles(FILES[:2], Normalise()))[0].shape == (
        2,
        10,
    )  # it still serves
    session.close()
