"""The charts of all images: their coordinates and tables against numbers counted by hand."""

import re

import html5lib
import numpy as np
import pytest

from alignkit.compare.predictions import Predictions
from alignkit.errors import RecordError
from alignkit.record.document import read_record
from alignkit.report import render
from alignkit.report.distribution_view import MOST, distribution_sections, scatter, steps
from alignkit.text.names import Names
from tests.run_pair import IDS, artifact, write_small_run


@pytest.fixture
def section(tmp_path):
    means = np.linspace(0, 9.9, len(IDS))
    write_small_run(tmp_path, flipped=[1, 2, 3], means=means)
    record = read_record(tmp_path)
    (found,) = distribution_sections(record, Names(record.paths), tmp_path)
    return found


def text(table):
    return [[shown.text for shown in row.cells] for row in table.rows]


def test_the_quantiles_are_numpys(section):
    assert ["50 %", "4.95"] in [
        [cell.replace("\u00a0", " ") for cell in row] for row in text(section.quantiles)
    ]
    assert text(section.quantiles)[-1] == ["equal in every value", "1"]


def test_every_flip_is_drawn_and_counted(section):
    assert len(section.scatter.flipped) == 3
    assert all(each.href.startswith("#/image/") for each in section.scatter.flipped)
    assert section.scatter.stayed.count("M") == 97
    flips = [int(row[3].split()[0]) for row in text(section.margins)]
    assert sum(flips) == 3
    assert [int(row[2]) for row in text(section.margins)] == [25] * 4


def test_a_quarter_without_flips_says_so(section):
    notes = {note.text for note in section.margins.notes}
    assert notes == {"no image of it flipped"}


def test_the_distribution_rises_from_nothing_to_all():
    made = steps(np.array([0, 1, 4], np.float32), id="a", title="b", most=4.0)
    points = [tuple(map(float, each.split(","))) for each in made.lines[0].points.split()]
    assert points[0] == (made.frame.left, made.frame.bottom)
    assert points[-1][1] == made.frame.top
    assert points == sorted(points)


def test_many_images_are_thinned_and_the_chart_says_so():
    n = 10 * MOST
    flipped = np.arange(n) % 2 == 0
    made = scatter(
        np.ones(n, np.float32), np.ones(n, np.float32), flipped, id="a", title="b",
        images=[(f"p/{place}", "x") for place in range(n)], most=1.0,
    )  # fmt: skip
    assert made.stayed.count("M") == len(made.flipped) == MOST
    assert all(int(each.href.split("/")[-1]) % 2 == 0 for each in made.flipped)
    for words, did in ((made.stayed_words, "kept their class"), (made.flipped_words, "flipped")):
        assert words == f"10\u00a0000 {did}, 2\u00a0000 of them drawn"


def test_images_without_a_number_are_not_drawn():
    values = np.array([1, np.nan, 2], np.float32)
    made = scatter(values, values, np.array([False, False, True]), id="a", title="b",
                   images=[(f"p%3Eq/{n}", f"{n}.png") for n in range(3)], most=2.0)  # fmt: skip
    (flipped,) = made.flipped
    assert made.stayed.count("M") == 1
    assert "nan" not in made.stayed
    assert (flipped.href, flipped.title) == (
        "#/image/p%3Eq/2", "2.png: mean |Δpixel| 2.00, margin 2.00",
    )  # fmt: skip


def test_the_page_has_the_charts_with_their_tables(tmp_path):
    write_small_run(tmp_path, flipped=[1])
    page = render(tmp_path).read_text()
    html5lib.HTMLParser(strict=True).parse(page)
    part = page[page.index('id="distributions"') : page.index('id="images"')]
    assert part.count("<svg") == 2
    assert len(re.findall("<table", part)) == 2


def test_a_missing_table_of_images_is_told_so(tmp_path):
    write_small_run(tmp_path, flipped=[1])
    (tmp_path / "data" / "images.parquet").unlink()
    with pytest.raises(RecordError, match="copy the whole folder"):
        render(tmp_path)


def test_a_model_of_one_output_has_no_margins_to_draw(tmp_path):
    write_small_run(tmp_path)
    record = read_record(tmp_path)

    def single(path):
        logits = np.ones((len(IDS), 1), np.float32)
        Predictions(IDS, np.zeros(len(IDS), np.int64), logits, ("cat",)).to_parquet(path)

    stored = artifact(tmp_path, "single.parquet", single)
    cells = tuple(each.model_copy(update={"predictions": stored}) for each in record.cells)
    record = record.model_copy(update={"cells": cells})
    (found,) = distribution_sections(record, Names(record.paths), tmp_path)
    assert (found.scatter, found.margins) == (None, None)
