"""`OpenCVResizer` against cv2 called directly."""

import cv2
import numpy as np
import pytest

from alignkit.resizers.opencv import OpenCVResizer
from tests.photos import photo

FLAGS = {
    "linear": cv2.INTER_LINEAR,
    "nearest": cv2.INTER_NEAREST,
    "cubic": cv2.INTER_CUBIC,
    "area": cv2.INTER_AREA,
    "lanczos4": cv2.INTER_LANCZOS4,
    "linear-exact": cv2.INTER_LINEAR_EXACT,
}


@pytest.mark.parametrize("interpolation", FLAGS)
@pytest.mark.parametrize("size", [(24, 32), (130, 200)])
def test_equals_cv2_resize(interpolation, size):
    direct = cv2.resize(photo(), size[::-1], interpolation=FLAGS[interpolation])
    assert np.array_equal(OpenCVResizer(interpolation).resize(photo(), *size), direct)


def test_the_default_is_cv2s_own():
    assert np.array_equal(OpenCVResizer().resize(photo(), 24, 32), cv2.resize(photo(), (32, 24)))
