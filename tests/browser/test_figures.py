"""Figures, tables and neighbours of a task in a browser: in place, legible, and without a script."""

import pytest

from alignkit.record.document import write_record
from alignkit.report.write_report import ReportOptions, write_report
from tests.report.embedding_records import embedding

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ALL_OPEN = "document.querySelectorAll('#answers details').forEach(each => each.open = true)"
TOO_WIDE = """
const right = document.documentElement.clientWidth;
return [...document.querySelectorAll('#answers *')].filter(each => {
  const box = each.getBoundingClientRect();
  return box.right > right + 1 && !each.closest('.scroll, .plot > div');
}).map(each => each.outerHTML.slice(0, 80));
"""
SMALL = """
return [...document.querySelectorAll('#answers text')].map(each => {
  const drawn = each.ownerSVGElement, scale = drawn.getBoundingClientRect().width / drawn.viewBox.baseVal.width;
  return parseFloat(getComputedStyle(each).fontSize) * scale;
}).concat([...document.querySelectorAll('#answers :is(p, li, td, th, figcaption, b, span, sup)')]
  .filter(each => each.childElementCount === 0 && each.textContent.trim() && each.tagName !== 'SUP')
  .map(each => parseFloat(getComputedStyle(each).fontSize))).filter(size => size < 10.99);
"""
OUTSIDE = """
return [...document.querySelectorAll('#answers svg.chart')].flatMap(drawn => {
  const frame = drawn.getBoundingClientRect();
  return [...drawn.querySelectorAll('text, path')].filter(each => {
    const box = each.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
  }).map(each => each.outerHTML);
});
"""
OVERLAPS = """
return [...document.querySelectorAll('#answers svg.chart')].flatMap(drawn => {
  const boxes = [...drawn.querySelectorAll('text')].map(each => [each.textContent, each.getBBox()]);
  return boxes.flatMap(([text, a], at) => boxes.slice(at + 1).filter(([_, b]) =>
    a.x < b.x + b.width && b.x < a.x + a.width && a.y + 3 < b.y + b.height && b.y + 3 < a.y + a.height,
  ).map(([other]) => [text, other]));
});
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embeddings")
    write_record(embedding(folder), folder)
    write_report(folder, ReportOptions())
    return folder


def test_nothing_leaves_the_page_and_all_text_is_legible(browser, folder):
    browser.driver.get((folder / "index.html").as_uri())
    browser.run(ALL_OPEN)
    for width in (1440, 768, 390):
        browser.size(width, 900)
        assert browser.run("return document.documentElement.scrollWidth") <= width
        for script in (TOO_WIDE, SMALL, OUTSIDE, OVERLAPS):
            assert browser.run(script) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_of_the_two_sides_have_the_colours_of_the_page(browser, folder, scheme):
    browser.scheme(scheme)
    browser.driver.get((folder / "index.html").as_uri())
    found = browser.run(
        "const root = getComputedStyle(document.body);"
        "return ['.t0', '.t1'].map(tone => getComputedStyle(document.querySelector('#answers path' + tone)).stroke)"
    )
    assert found == {"light": ["rgb(29, 79, 184)", "rgb(179, 89, 0)"],
                     "dark": ["rgb(138, 180, 248)", "rgb(240, 160, 75)"]}[scheme]  # fmt: skip
    dashes = browser.run(
        "return ['.t0', '.t1'].map(tone => getComputedStyle(document.querySelector('#answers path' + tone)).strokeDasharray)"
    )
    assert dashes[0] == "none" != dashes[1]  # without colour, too


def test_without_a_script_figures_unfold_and_pictures_load(browser, folder):
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.driver.get((folder / "index.html").as_uri())
        fold = browser.driver.find_element("css selector", "#answers .beside summary")
        browser.run("arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", fold)
        fold.click()
        assert (
            browser.run("return document.querySelector('#answers .beside table').offsetHeight") > 0
        )
        browser.run(
            "document.querySelector('#answers .near').scrollIntoView({behavior: 'instant'})"
        )
        browser.until("return document.querySelector('#answers .near li img').naturalWidth === 80")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_printed_page_has_the_first_comparison_and_no_folded_one(browser, folder):
    browser.driver.get((folder / "index.html").as_uri())
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        seen = browser.run(
            "return [...document.querySelectorAll('#answers .plot svg.chart')].map(each => each.getClientRects().length)"
        )
        assert seen == [1, 1] + [0] * (len(seen) - 2)
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
