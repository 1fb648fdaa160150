"""Maps and spectra as inline SVG."""

import numpy as np
import pytest

from alignkit.record import SpatialFacts
from alignkit.record.blame_facts import LevelMap
from alignkit.report.marks import SHADES
from alignkit.report.where_view import where_views
from alignkit.text.names import Names
from tests.report.drawn_chart import found, keys, values

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
    (cells,) = heat.marks
    assert np.array_equal(cells.shades, steps.astype(int) * SHADES // 256)
    assert keys(heat) == ["0  8"]


def test_the_stage_that_differs_most_is_unfolded():
    small, large = facts("decode", greatest=1.0), facts("resize", greatest=9.0)
    assert [(each.stage, each.open) for each in views(small, large)] == [
        ("decode", False),
        ("resize", True),
    ]


def test_a_spectrum_has_the_difference_beside_the_image():
    power = tuple(float(10**each) for each in range(4))
    (view,) = views(facts(power=power, image_power=(100.0,) * 4))
    assert keys(view.spectrum) == ["reference image", "Δ"]
    _, gap = found(view.spectrum, "line")
    spots = values(view.spectrum, gap.get("d"))
    assert [x for x, _ in spots] == pytest.approx([0.0625, 0.1875, 0.3125, 0.4375], abs=0.001)
    assert [y for _, y in spots] == pytest.approx([0, 10, 20, 30], abs=0.1)


def test_no_power_has_no_spectrum():
    (view,) = views(facts())
    assert view.spectrum is None
    assert view.sentences == ("The pixels show no known mechanism, over 9\u00a0images.",)


def test_other_pairs_are_left_out():
    assert where_views([facts()], "a", "c", Names(())) == ()
