"""The page of `alignkit tolerance`: whole, the same each time, and every number in a table."""

import re
from itertools import pairwise

import html5lib
import pytest

from alignkit.progress import NoProgress
from alignkit.record.tolerance_facts import (
    CurvePoint,
    Limit,
    PixelTolerance,
    SeedCurve,
    ToleranceDocument,
)
from alignkit.report.page import page_html
from alignkit.report.tolerance_page import (
    curve_table,
    share_plot,
    tolerance_page,
    write_tolerance,
)
from alignkit.studies.tolerance import tolerance
from alignkit.text.names import Names
from tests.report.drawn_chart import found as found_in
from tests.report.drawn_chart import values
from tests.report.gold import compare_gold, structure
from tests.run_pair import write_small_run


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> ToleranceDocument:
    """A document of stored answers."""
    folder = write_small_run(tmp_path_factory.mktemp("run") / "run", flipped=range(7))
    made = tolerance(
        folder,
        budget=0.05,
        check=False,
        command="alignkit tolerance reports/small/1",
        progress=NoProgress(),
    )
    return made.model_copy(update={"cpu": "a processor"})


def test_the_page_has_the_stored_structure(found):
    page = structure(page_html(tolerance_page(found)))
    compare_gold("tolerance.txt", re.sub(r"alignkit \| \d[\w.+-]*", "alignkit | VERSION", page))


def test_the_page_is_whole_and_loads_nothing(found):
    page = page_html(tolerance_page(found), style=True)
    html5lib.HTMLParser(strict=True).parse(page)
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!#|data:,)', page)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_every_point_of_a_curve_stands_in_a_table_too(found):
    page = page_html(tolerance_page(found), style=True)
    for seed in found.pixels[0].seeds:
        for each in seed.points:
            cells = f'<td class="n">{each.factor:g}×</td><td class="n">{each.images}</td>'
            assert f'{cells}<td class="n">{each.changed}</td>' in page


def test_a_band_holds_its_curve_and_the_budget_lies_at_its_height(found):
    (pair,) = found.pixels
    plot = share_plot(pair.seeds[:1], "a to b", 0.05, limit=0.5)
    (line,), (band,) = found_in(plot, "line"), found_in(plot, "band")
    for each in pair.seeds[0].points:
        at = each.factor, 100 * each.changed / each.images
        assert lies_on(values(plot, line.get("d")), at)
        for end in (each.low, each.high):
            assert lies_on(values(plot, band.get("d")), (each.factor, 100 * end))
    budget, limit = (values(plot, each.get("d")) for each in found_in(plot, "rule"))
    assert [y for _, y in budget] == pytest.approx([5.0, 5.0], abs=0.1)
    assert [x for x, _ in limit] == pytest.approx([0.5, 0.5], abs=0.01)


def lies_on(corners, at):
    """Tell whether a point lies on a line of some corners."""
    return any(
        min(a[0], b[0]) - 0.01 <= at[0] <= max(a[0], b[0]) + 0.01
        and abs(a[1] + (at[0] - a[0]) / (b[0] - a[0] or 1) * (b[1] - a[1]) - at[1]) < 0.1
        for a, b in pairwise(corners)
    )


def test_it_is_written_as_one_file_or_beside_its_document(found, tmp_path):
    one = write_tolerance(found, tmp_path / "page.html")
    folder = write_tolerance(found, tmp_path / "page")
    assert (one.name, folder.name) == ("page.html", "index.html")
    assert one.read_text() == folder.read_text()
    document = (tmp_path / "page" / "tolerance.json").read_text()
    assert ToleranceDocument.model_validate_json(document) == found


PLACE = {"trained_with": "a", "backend": "torch", "precision": "fp32", "reference": "a"}


def curves(value, *, more):
    points = tuple(
        CurvePoint(each, 100, 1, 0.0, 0.1, worse=None, better=None, metrics={})
        for each in (0.25, 0.5, 1.0, 2.0)
    )
    limit = Limit(value, 2, 0.04, more=more)
    return (SeedCurve(seed=0, images=100, source="line, checked", limit=limit, points=points),)


@pytest.mark.parametrize(("more", "least"), [(True, "≥ "), (False, "")])
def test_a_bound_is_called_one_in_levels_too(more, least):
    known = {**PLACE, "factor": 3.0, "seeds": curves(3.0, more=more)}
    pair = PixelTolerance(**known, candidate="b", mean_abs=0.5, levels=1.5)
    cells = curve_table([pair], Names(())).rows[0].cells
    assert tuple(each.text for each in cells[1:3]) == (
        f"{least}3.000×",
        f"{least}1.500 of mean |Δ|",
    )
