"""Maps and spectra as inline SVG."""

import re

import numpy as np
import pytest

from alignkit.record import PixelStage, SpatialFacts
from alignkit.record.blame_facts import LevelMap
from alignkit.report.page import Graphic, Page, PageVerdict, Section, page_html
from alignkit.report.plot import Plot
from alignkit.report.stage_view import stage_sections
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


def folds(*stages):
    """Where each of some stages differs: its fold, its paragraphs, maps and charts."""
    pixels = (PixelStage(reference="a", candidate="b", stage="resize", mode="isolated", images=9,
                         identical=0),)  # fmt: skip
    (section,) = stage_sections(pixels, Names(()), stages)
    for fold in section.places:
        ((said, *drawn),) = [each.columns for each in fold.parts]
        maps = [part for (part,) in drawn if isinstance(part, Graphic)]
        plots = [part for (part,) in drawn if isinstance(part, Plot)]
        yield fold, [each.words for each in said], maps, plots


def test_every_cell_of_a_map_is_drawn_once_in_its_shade():
    steps = np.repeat(DRAW.integers(0, 256, (6, 4), np.uint8), 2, axis=1)
    ((_, _, (heat,), _),) = folds(facts(steps=steps))
    found = np.full(steps.shape, -1)
    for shade, path in enumerate(heat.view["shades"]):
        for column, row, width in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", path):
            cells = found[int(row), int(column) : int(column) + int(width)]
            assert (cells == -1).all()
            cells[:] = shade
    assert np.array_equal(found, steps.astype(int) * 10 // 256)
    depths = heat.view["depths"]
    assert depths == sorted({*depths})  # a darker shade for each, from the palest
    page = page_html(Page("t", "k", "1", PageVerdict(("h",)), [Section("s", "S", [heat])], "f"))
    assert re.search(r"<p class=\"series\"><span>0 <svg.*</svg> 8</span>", page)
    assert page.count('<path class="cell"') == len(depths) + sum(map(bool, heat.view["shades"]))


def test_the_stage_that_differs_most_is_unfolded():
    small, large = facts("decode", greatest=1.0), facts("resize", greatest=9.0)
    assert [(fold.summary, fold.open) for fold, *_ in folds(small, large)] == [
        ("Where decode differs", False),
        ("Where resize differs", True),
    ]


def test_a_spectrum_has_the_difference_beside_the_image():
    power = tuple(float(10**each) for each in range(4))
    ((_, _, _, (plot,)),) = folds(facts(power=power, image_power=(100.0,) * 4))
    assert keys(plot) == ["reference image", "Δ"]
    _, gap = found(plot, "line")
    spots = values(plot, gap.get("d"))
    assert [x for x, _ in spots] == pytest.approx([0.0625, 0.1875, 0.3125, 0.4375], abs=0.001)
    assert [y for _, y in spots] == pytest.approx([0, 10, 20, 30], abs=0.1)


def test_no_power_has_no_spectrum():
    ((_, said, _, plots),) = folds(facts())
    assert plots == []
    assert said == ["The pixels show no known mechanism, over 9\u00a0images."]


def test_other_pairs_are_left_out():
    assert [*folds(facts().model_copy(update={"candidate": "c"}))] == []
