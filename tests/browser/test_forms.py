"""The other pages in a real browser: one file to send, two runs compared, the plots, on paper."""

import base64
import subprocess

import pytest

from alignkit.report.comparison.compare_page import render_comparison
from alignkit.report.write_report import ReportOptions, write_report
from alignkit.studies.compare_runs import compare_runs
from tests.browser.conftest import Browser
from tests.browser.test_page import COPIED, requests
from tests.run_pair import write_small_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOADED = "return document.readyState === 'complete' && !!document.querySelector('.copy button')"
WIDE = "return document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def single(run_folder, tmp_path_factory):
    """Where the page of one file lies, alone."""
    out = tmp_path_factory.mktemp("mail") / "index.html"
    return write_report(run_folder, ReportOptions(single_file=True), out).page.parent


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """The report of two runs, the later of which flips more images."""
    folder = tmp_path_factory.mktemp("runs")
    before = write_small_run(folder / "a", flipped=range(10))
    after = write_small_run(folder / "b", flipped=range(5, 40))
    made = compare_runs(before, after, force=False, command="alignkit compare-runs a b")
    return render_comparison(made, (before, after), folder / "out").parent


@pytest.fixture(params=["single", "comparison"])
def page(request, driver):
    browser = Browser(driver, request.getfixturevalue(request.param))
    driver.get_log("browser")
    driver.get_log("performance")
    browser.open("", LOADED)
    return browser


def test_it_is_whole_offline(page):
    asked = requests(page.driver)
    assert all(address.startswith(("file://", "data:", "about:")) for address in asked)
    assert page.run("return [...document.images].every(i => i.complete || i.loading === 'lazy')")
    assert page.run("return getComputedStyle(document.querySelector('main')).maxWidth") != "none"
    assert page.problems() == []


def test_it_never_scrolls_sideways(page):
    for width in (1440, 768, 360):
        page.size(width, 900)
        assert page.run(WIDE) <= width


def test_it_passes_an_accessibility_audit(page):
    assert page.violations() == []


def test_its_tables_and_command_are_copied(page):
    page.run(COPIED)
    page.run("document.querySelectorAll('.copy button').forEach(b => b.click())")
    copied = page.run("return copied")
    assert any(text.startswith("alignkit ") for text in copied)
    assert any(text.startswith("| ") for text in copied)


def test_pictures_of_the_one_file_are_drawn(single, driver):
    browser = Browser(driver, single)
    browser.open("", LOADED)
    browser.run("document.images[0].scrollIntoView()")
    browser.until("return document.images[0].naturalWidth > 0")
    assert browser.run("return document.querySelectorAll('.list').length") == 0


def test_changes_are_told_apart_by_words(comparison, driver):
    browser = Browser(driver, comparison)
    browser.open("", LOADED)
    assert ", worse" in browser.text("#matrix table")
    assert "flips no more: 5" in browser.text("#images")


def test_links_within_the_comparison_lead_somewhere(comparison, driver):
    browser = Browser(driver, comparison)
    browser.open("", LOADED)
    links = browser.run(
        'return [...document.querySelectorAll(\'a[href^="#"]:not([href^="#/"])\')]'
        ".map(a => a.getAttribute('href').slice(1))"
    )
    assert "matrix" in links
    missing = "return arguments[0].filter(id => !document.getElementById(id))"
    assert browser.run(missing, links) == []


OUTSIDE = """
return [...document.querySelectorAll('svg.chart')].flatMap(chart => {
  const box = chart.getBoundingClientRect();
  return [...chart.querySelectorAll('text, circle, path, polyline')].filter(mark => {
    const at = mark.getBoundingClientRect();
    return at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1 || at.bottom > box.bottom + 1;
  }).map(mark => [chart.querySelector('title').textContent, mark.outerHTML.slice(0, 90)]);
})"""


@pytest.mark.parametrize("width", [1440, 768])
def test_plots_draw_nothing_beyond_their_edges(browser, width):
    browser.size(width, 900)
    browser.open()
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("return document.querySelectorAll('svg.chart').length") > 5
    assert browser.run(OUTSIDE) == []


def test_every_plot_is_named_and_has_its_table(browser):
    browser.open()
    charts = browser.run(
        "return [...document.querySelectorAll('svg.chart')].map(c =>"
        " [c.getAttribute('aria-labelledby'), !!c.closest('section').querySelector('table')])"
    )
    assert all(name and table for name, table in charts)
    assert len({name for name, _ in charts}) == len(charts)


def test_pages_on_paper_hold_verdict_matrices_and_plots(browser, tmp_path):
    browser.open()
    printed = browser.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    pdf = tmp_path / "page.pdf"
    pdf.write_bytes(base64.b64decode(printed["data"]))
    try:
        text = subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("pdftotext is not installed: apt-get install poppler-utils")
    words = text.stdout.decode()
    for title in (
        "Fail",
        "Macro precision",
        "Churn",
        "Which stage",
        "Images that changed prediction",
        "Largest pixel differences",
        "Provenance",
    ):
        assert title in words
    assert "Copy CSV" not in words
    assert words.count("\f") < 30
