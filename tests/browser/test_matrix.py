"""The matrix in a real browser: a copy, the overview, what is out of sight, and keys."""

from csv import reader

import pytest

from alignkit.record.document import write_record
from alignkit.report import render
from tests.browser.conftest import Browser
from tests.browser.test_page import COPIED
from tests.report.wide_matrix import wide

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOADED = "return !!document.querySelector('.edge .more')"
FOCUSED = "return document.activeElement.closest('td')?.id"
RECORDS = {
    "apart": {"paths": 5, "spread": 0.004},
    "agreeing": {"paths": 5},
    "twelve": {"paths": 12, "runtimes": (("torch", "fp32"),), "rows": 3},
}


@pytest.fixture(scope="module")
def pages(driver, tmp_path_factory):
    """Opens the page of one of the records."""
    made = {}

    def opened(name, ready=LOADED):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            write_record(wide(**RECORDS[name]), made[name])
            render(made[name])
        browser = Browser(driver, made[name])
        browser.open("", ready)
        return browser

    return opened


def test_a_matrix_is_copied_with_the_runtimes_that_share_a_column(pages):
    browser = pages("agreeing")
    browser.run(COPIED)
    browser.run("document.querySelector('.panel-recall .copy button').click()")
    rows = list(reader(browser.run("return copied")[0].splitlines()))
    assert {len(row) for row in rows} == {6}
    assert len(rows) == 6
    assert "torch bf16, onnxruntime fp32" in rows[0][1]


@pytest.mark.parametrize(("name", "width"), [("apart", 1440), ("twelve", 768)])
def test_the_overview_fits_the_page(pages, name, width):
    browser = pages(name)
    browser.size(width, 900)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    fits = "const s = document.querySelector('.squares'); return s.scrollWidth <= s.clientWidth"
    assert browser.run(fits)


def test_a_square_leads_to_its_cell(pages):
    browser = pages("apart")
    browser.run("document.querySelector('.overview a[href=\"#recall-99\"]').click()")
    place = "const r = document.querySelector('#recall-99').getBoundingClientRect();"
    browser.until(f"{place} return r.width > 0 && r.left >= 0 && r.right <= innerWidth")


def test_columns_out_of_sight_are_counted_and_brought_into_sight(pages):
    browser = pages("apart")
    more = "document.querySelector('.panel-recall .more')"
    browser.until(f"return /^1\\d more →$/.test({more}.textContent)")
    before = int(browser.text(".panel-recall .more").split()[0])
    browser.run(f"{more}.click()")
    browser.until(f"return parseInt({more}.textContent) < {before}")
    browser.run("document.querySelector('.panel-recall .scroll').scrollLeft = 1e6")
    browser.until(f"return {more}.hidden")


def test_one_key_leads_to_the_matrix_and_arrows_from_cell_to_cell(pages):
    from selenium.webdriver import Keys

    browser = pages("agreeing")
    browser.press("m")
    assert browser.run(FOCUSED) == "recall-4"  # the first cell is the baseline of its row
    browser.press(Keys.RIGHT)
    assert browser.run(FOCUSED) == "recall-8"  # three runtimes share the column before it
    browser.press(Keys.DOWN)
    assert browser.run(FOCUSED) == "recall-28"
    browser.press(Keys.LEFT, Keys.LEFT)
    assert browser.run(FOCUSED) == "recall-20"
    browser.press(Keys.LEFT)
    assert browser.run(FOCUSED) == "recall-20"


@pytest.mark.parametrize("width", [1440, 390])
def test_text_of_a_cell_has_twelve_pixels_at_least(pages, width):
    browser = pages("apart")
    browser.size(width, 900)
    sizes = browser.run(
        "return [...document.querySelectorAll('.matrix td *')].filter(e => e.tagName !== 'SUP')"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 12
