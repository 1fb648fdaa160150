"""Maps and spectra as inline SVG."""

import re

import numpy as np
import pytest

from alignkit.record import SpatialFacts
from alignkit.record.spatial_facts import LevelMap
from alignkit.report.where_view import SHADES, where_views
from alignkit.text.names import Names

DRAW = np.random.default_rng(0)


def facts(stage="resize", greatest=8.0, steps=None, **values):
    steps = DRAW.integers(0, 256, (5, 7), np.uint8) if steps is None else steps
    rows, columns = steps.shape
    cells = steps.tobytes().hex()
    return SpatialFacts(
        reference="a",
        candidate="b",
        stage=stage,
        images=9,
        drawn=9,
        map=LevelMap(rows=rows, columns=columns, greatest=greatest, cells=cells),
        **values,
    )


def views(*stages):
    return where_views(stages, "a", "b", Names(()))


def test_every_cell_of_a_map_is_drawn_once_in_its_shade():
    steps = np.repeat(DRAW.integers(0, 256, (6, 4), np.uint8), 2, axis=1)
    ((heat,),) = [each.maps for each in views(facts(steps=steps))]
    drawn = np.full(steps.shape, -1)
    for shade, path in heat.paths:
        for x, y, width in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", path):
            cells = drawn[int(y), int(x) : int(x) + int(width)]
            assert (cells == -1).all()
            cells[:] = shade
    assert np.array_equal(drawn, steps.astype(int) * SHADES // 256)
    assert heat.greatest == "8"


def test_the_stage_that_differs_most_is_unfolded():
    small, large = facts("decode", greatest=1.0), facts("resize", greatest=9.0)
    assert [(each.stage, each.open) for each in views(small, large)] == [
        ("decode", False),
        ("resize", True),
    ]


def test_a_spectrum_has_the_difference_beside_the_image():
    power = tuple(float(10**each) for each in range(4))
    (view,) = views(facts(power=power, image_power=(100.0,) * 4))
    image, gap = view.spectrum.lines
    assert (image.label, gap.label) == ("reference image", "Δ")
    heights = [float(point.split(",")[1]) for point in gap.points.split()]
    assert np.diff(heights) == pytest.approx([heights[1] - heights[0]] * 3, abs=0.2)
    assert heights[0] > heights[-1]  # louder is higher


def test_no_power_has_no_spectrum():
    (view,) = views(facts())
    assert view.spectrum is None
    assert view.sentences == ("The pixels show no known mechanism, over 9\u00a0images.",)


def test_other_pairs_are_left_out():
    assert where_views([facts()], "a", "c", Names(())) == ()
