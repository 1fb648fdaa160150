"""The page of `alignkit tolerance`: whole, the same each time, and every number in a table."""

import re
from itertools import pairwise

import html5lib
import pytest

from alignkit.progress import NoProgress
from alignkit.record.tolerance_facts import ToleranceDocument
from alignkit.report.tolerance_page import share_plot, tolerance_page, write_tolerance
from alignkit.studies.tolerance import tolerance
from tests.report.drawn_chart import found as found_in
from tests.report.drawn_chart import values
from tests.report.gold import compare_gold
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


def test_the_page_is_the_stored_one(found):
    page = tolerance_page(found)
    _, style, rest = re.split(r"<style>(.*?)</style>", page, maxsplit=1, flags=re.DOTALL)
    assert len(style) > 10_000
    compare_gold("tolerance.html", re.sub(r"alignkit \d[\w.+-]*", "alignkit VERSION", rest))


def test_the_page_is_whole_and_loads_nothing(found):
    page = tolerance_page(found)
    html5lib.HTMLParser(strict=True).parse(page)
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!#|data:,)', page)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_every_point_of_a_curve_stands_in_a_table_too(found):
    page = tolerance_page(found)
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
