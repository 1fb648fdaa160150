"""The charts of all images: their coordinates and tables against numbers counted by hand."""

import re

import html5lib
import numpy as np
import pytest

from alignkit.compare.predictions import Predictions
from alignkit.errors import RecordError
from alignkit.record.document import read_record
from alignkit.report import render
from alignkit.report.distribution_view import MOST, distribution_parts, ecdf, scatter
from alignkit.report.page import Beside, Details
from alignkit.text.names import Names
from tests.report.drawn_chart import figure, found, keys, values
from tests.run_pair import IDS, artifact, write_small_run


@pytest.fixture
def section(tmp_path):
    means = np.linspace(0, 9.9, len(IDS))
    write_small_run(tmp_path, flipped=[1, 2, 3], means=means)
    record = read_record(tmp_path)
    return shown(record, tmp_path)


def shown(record, folder):
    """The charts and the tables of a run's only pair of paths."""
    (fold,) = distribution_parts(record, Names(record.paths), folder, has_viewer=True)
    (charts,) = [each.columns for each in fold.parts if isinstance(each, Beside)]
    (tables,) = [each.parts for each in fold.parts if isinstance(each, Details)]
    return [chart for (chart,) in charts], tables


def text(table):
    return [[shown.text for shown in row.cells] for row in table.rows]


def test_the_quantiles_are_numpys(section):
    _, (quantiles, _) = section
    assert ["50 %", "4.95"] in [
        [cell.replace("\u00a0", " ") for cell in row] for row in text(quantiles)
    ]
    assert text(quantiles)[-1] == ["equal in every value", "1"]


def test_every_flip_is_drawn_and_counted(section):
    (_, points), (_, margins) = section
    links = [each.get("href") for each in figure(points).iter("a")]
    assert len(links) == 3
    assert all(each.startswith("#/image/opencv%3Etorchpipe-gpu/") for each in links)
    assert stayed(points) == 97
    flips = [int(row[3].split()[0]) for row in text(margins)]
    assert sum(flips) == 3
    assert [int(row[2]) for row in text(margins)] == [25] * 4


def test_a_quarter_without_flips_says_so(section):
    notes = {note.text for note in section[1][1].notes}
    assert notes == {"no image of it flipped"}


def stayed(plot):
    return found(plot, "cloud")[0].get("d").count("M")


def test_the_distribution_rises_from_nothing_to_all():
    made = ecdf(np.array([0, 1, 4], np.float32), "b", 4.0)
    points = values(made, found(made, "line")[0].get("d"))
    for at, spot in ((0, (0.0, 0.0)), (1, (2 / 3, 1 / 3)), (-1, (4.0, 1.0))):
        assert points[at] == pytest.approx(spot, abs=0.01)


def test_many_images_are_thinned_and_the_chart_says_so():
    n = 10 * MOST
    flipped = np.arange(n) % 2 == 0
    ones = np.ones(n, np.float32)
    names = [str(place) for place in range(n)]
    made = scatter(ones, ones, flipped, title="b", names=names, most=1.0, opens="p")
    links = [each.get("href") for each in figure(made).iter("a")]
    assert stayed(made) == len(links) == MOST
    assert all(int(each.split("/")[-1]) % 2 == 0 for each in links)
    drawn = "2\u00a0000 of them drawn"
    assert keys(made) == [
        f"10\u00a0000 kept their class, {drawn}",
        f"10\u00a0000 flipped, {drawn}: a cross opens its image",
    ]


@pytest.mark.parametrize("opens", ["", "p>q"])
def test_images_without_a_number_are_not_drawn(opens):
    drift = np.array([1, np.nan, 2], np.float32)
    lost = np.array([False, False, True])
    names = [f"{n}.png" for n in range(3)]
    made = scatter(drift, drift, lost, title="b", names=names, most=2.0, opens=opens)
    (cross,) = found(made, "t1")
    assert stayed(made) == 1
    assert "nan" not in made.__html__()
    assert cross.get("href") == ("#/image/p%3Eq/2.png" if opens else None)
    assert cross[0].text == "2.png: mean |Δpixel| 2.00, margin 2.00"


def test_the_page_has_the_charts_with_their_tables(tmp_path):
    write_small_run(tmp_path, flipped=[1])
    page = render(tmp_path).read_text()
    html5lib.HTMLParser(strict=True).parse(page)
    part = page[page.index('id="distributions"') : page.index('id="images"')]
    assert part.count('<svg class="chart ') == 2
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
    charts, tables = shown(record, tmp_path)
    assert (len(charts), len(tables)) == (1, 1)
