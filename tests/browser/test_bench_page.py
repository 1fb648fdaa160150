"""The page of a bench in a browser: in place, legible, in both schemes, on paper, audited."""

import pytest

from alignkit.record.document import document_text
from alignkit.report.bench_page import render_bench
from tests.browser.conftest import Browser
from tests.browser.test_figures import OUTSIDE, OVERLAPS, SMALL, TOO_WIDE
from tests.report.bench_records import rich_bench
from tests.report.loader_records import rich_loaders

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def bench_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    (folder / "bench.json").write_text(document_text(rich_bench()))
    render_bench(folder)
    return folder


@pytest.fixture
def page(driver, bench_folder):
    return opened(driver, bench_folder)


@pytest.fixture(params=["bench", "loaders"])
def any_page(request, driver, bench_folder, tmp_path):
    if request.param == "bench":
        return opened(driver, bench_folder)
    (tmp_path / "loaders.json").write_text(document_text(rich_loaders()))
    render_bench(tmp_path)
    return opened(driver, tmp_path)


def opened(driver, folder):
    driver.get_log("browser")
    browser = Browser(driver, folder)
    browser.open("", "return !!document.querySelector('#machine table')")
    return browser


def test_nothing_leaves_the_page_and_all_text_is_legible(any_page):
    page = any_page
    for width in (1440, 1024, 768, 390):
        page.size(width, 900)
        assert page.run("return document.documentElement.scrollWidth") <= width
        # a command scrolls by itself
        for script in (TOO_WIDE.replace(".scroll,", "pre, .scroll,"), SMALL, OUTSIDE, OVERLAPS):
            assert page.run(script.replace("#answers", "main")) == []
    assert page.problems() == []


def test_it_passes_an_accessibility_audit(any_page):
    assert any_page.violations() == []


@pytest.mark.parametrize(("scheme", "colour"), [
    ("light", "rgb(29, 79, 184)"), ("dark", "rgb(138, 180, 248)"),
])  # fmt: skip
def test_dots_of_the_frontier_have_the_colour_of_the_scheme(page, scheme, colour):
    page.scheme(scheme)
    fill = page.run(
        "return getComputedStyle(document.querySelector('#frontier .chart .t0 .dot')).fill"
    )
    assert fill == colour


def test_the_printed_page_has_every_chart_and_table(page):
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        drawn = page.run(
            "return [...document.querySelectorAll('#frontier svg.chart,"
            " #frontier table, #service table, #published table')].map(e => e.getClientRects().length)"
        )
        assert drawn == [1] * (1 + 3 + 4 + 1)
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
