"""`PillowResizer` against Pillow called directly."""

import numpy as np
import pytest
from PIL import Image

from alignkit.errors import ConfigError
from alignkit.resizers.pillow import PillowResizer
from tests.photos import photo


@pytest.mark.parametrize("resampling", Image.Resampling)
@pytest.mark.parametrize("gap", [None, 2.0])
def test_equals_image_resize(resampling, gap):
    direct = Image.fromarray(photo()).resize((16, 12), resampling, reducing_gap=gap)
    resizer = PillowResizer(resampling.name.lower(), gap)
    assert np.array_equal(resizer.resize(photo(), 12, 16), np.asarray(direct))


def test_refuses_a_reducing_gap_below_one():
    with pytest.raises(ConfigError, match=r"1\.0 or more"):
        PillowResizer(reducing_gap=0.5)
