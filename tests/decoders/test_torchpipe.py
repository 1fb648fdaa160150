"""`TorchpipeDecoder` against OpenCV, which it holds, and against torchpipe's own pipeline."""

import multiprocessing

import cv2
import numpy as np
import pytest

from alignkit.decoders.torchpipe import TorchpipeDecoder, backend
from tests.photos import encoded, make_jpegs, photo


@pytest.mark.parametrize("kind", make_jpegs())
def test_equals_imread_with_its_turning_by_exif(jpegs, kind):
    direct = cv2.imdecode(np.frombuffer(jpegs[kind], np.uint8), cv2.IMREAD_COLOR)
    assert np.array_equal(TorchpipeDecoder().decode(jpegs[kind]).image, direct[..., ::-1])


def test_webp_ends_as_failed():
    assert TorchpipeDecoder().decode(encoded(photo(), "WEBP")).outcome == "failed"


def test_refuses_a_truncated_file(jpegs):
    assert TorchpipeDecoder().decode(jpegs["420"][:-200]).outcome == "failed"


def test_builds_each_backend_once():
    assert backend("ResizeMat", resize_h="3", resize_w="4") is backend(
        "ResizeMat", resize_h="3", resize_w="4"
    )


def test_works_in_a_forked_child(jpegs):
    alone = TorchpipeDecoder().decode(jpegs["420"]).image
    with multiprocessing.get_context("fork").Pool(1) as pool:
        forked = pool.apply_async(TorchpipeDecoder().decode, (jpegs["420"],)).get(timeout=300)
    assert np.array_equal(forked.image, alone)
