"""`DALIResizer` against a DALI pipeline."""

import numpy as np
import pytest

pytest.importorskip("nvidia.dali", reason="needs the extra dali")

import cv2
from nvidia.dali import fn, pipeline_def, types

from alignkit.resizers.dali import DALIResizer
from tests.photos import photo


@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def resizing(size, interpolation, antialias):
    image = fn.external_source(source=[[photo()]], cycle=True, layout="HWC")
    return fn.resize(image, size=size, interp_type=interpolation, antialias=antialias)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("interpolation", ["nn", "linear", "cubic", "lanczos3", "gaussian"])
def test_equals_a_pipeline_with_the_same_options(interpolation, antialias):
    flag = getattr(types, f"INTERP_{interpolation.upper()}")
    (batch,) = resizing([24, 32], flag, antialias).run()
    resized = DALIResizer(interpolation, antialias).resize(photo(), 24, 32)
    assert np.array_equal(resized, np.array(batch.at(0)))


def test_linear_without_antialias_is_within_a_level_of_opencv():
    resized = DALIResizer(antialias=False).resize(photo(), 24, 32).astype(int)
    assert np.abs(resized - cv2.resize(photo(), (32, 24))).max() <= 1


def test_keep_scale_is_resize_shorter():
    resized = DALIResizer(keep_scale=True).resize(photo(), 31, 49)  # 97 · 31 / 61 = 49.3
    assert not np.array_equal(resized, DALIResizer().resize(photo(), 31, 49))
    assert resized.shape == (31, 49, 3)


def test_keep_scale_refuses_a_size_of_another_shape():
    with pytest.raises(ValueError, match="gives 31x49, not 31x31"):
        DALIResizer(keep_scale=True).resize(photo(), 31, 31)
