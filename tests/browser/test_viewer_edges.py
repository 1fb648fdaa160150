"""Views at the edge of what a page shows: held keys, an end of the divider, links by hand, no data."""

import re
import shutil

import pytest

from tests.browser.conftest import Browser
from tests.browser.test_stages import (  # noqa: F401 - fixtures
    BLOCKS,
    UNEVEN,
    diff_folder,
    page,
    taps,
)
from tests.browser.test_viewer import IMAGE

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LISTED = "return !!document.querySelector('.rows tbody tr')"
WATCH = (
    "const own = CanvasRenderingContext2D.prototype.fillText; self.texts = [];"
    "CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {"
    " self.texts.push(text); own.call(this, text, ...at); };"
    "document.querySelector('.viewer canvas').focus()"
)


def test_numbers_are_those_of_the_side_that_is_drawn_when_the_divider_is_at_its_end(page, taps):  # noqa: F811
    page.view(f"{BLOCKS}?p=decode&m=swipe&s=5&z=48&c=100.5,70.5")
    page.run(WATCH)
    page.press(",")
    assert "s=0" in page.driver.current_url
    found = page.run("return self.texts.join()")
    shown, other = (
        ",".join(map(str, taps[name]["decode"][70, 97:103].ravel()))
        for name in ("nearest", "opencv-train")
    )
    assert shown != other
    assert shown in found[found.rindex(found[:20]) :]
    assert other not in found


def test_a_held_key_keeps_both_halves_in_place(page):  # noqa: F811
    from selenium.webdriver import ActionChains

    page.view(f"{BLOCKS}?p=decode&m=a")
    alone = page.canvas()
    page.view(f"{BLOCKS}?p=decode&m=side")
    before = page.canvas()
    page.run("document.querySelector('.viewer canvas').focus()")
    ActionChains(page.driver).key_down("b").perform()
    held = page.canvas()
    ActionChains(page.driver).key_up("b").perform()
    half = before.shape[1] // 2
    assert (held[:, : half - 4] == before[:, : half - 4]).all()  # A, where it was
    assert (held[:, half + 4 :] != before[:, half + 4 :]).any()
    assert held.shape == alone.shape
    assert (held != alone).any()


def test_a_stage_of_two_sizes_has_no_worst_block_to_go_to(page):  # noqa: F811
    page.view(f"{UNEVEN}?p=resize")
    page.run("document.querySelector('.viewer canvas').focus()")
    page.press("J", "K")
    assert "z=" not in page.driver.current_url
    assert page.problems() == []


def test_an_image_without_pixels_is_not_zoomed(page):  # noqa: F811
    page.open(f"{UNEVEN}?p=decode", "return !!document.querySelector('.viewer .fault')")
    page.run("document.querySelectorAll('.viewer .tools button[title=\"key +\"]')[0].click()")
    assert page.problems() == []


def test_a_link_is_given_to_read_where_there_is_no_clipboard(page):  # noqa: F811
    page.view(BLOCKS)
    page.run(
        "Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true});"
        "document.querySelector('.viewer canvas').focus()"
    )
    page.press("y")
    page.until("return document.querySelector('.viewer output').textContent.includes('#/image/')")
    assert page.problems() == []


@pytest.mark.parametrize("link", ["#/image/a/100%", "#/image/%E0%A4%A/x"])
def test_a_link_that_is_no_address_opens_the_list(browser, link):
    browser.open(link, LISTED)
    assert browser.problems() == []


def test_an_unknown_value_in_a_link_is_the_usual_one(browser):
    browser.turn(IMAGE)
    usual = browser.canvas()
    for link in ("ch=zz", "m=zz", "x=3", "z=-4", "z=1e9", "g=zz", "m=toString"):
        browser.turn(f"{IMAGE}?{link}")
        assert (browser.canvas() == usual).all(), link
    # Chromium advises how to read a canvas as often as this
    assert [each for each in browser.problems() if "willReadFrequently" not in each] == []


def test_a_page_without_its_data_says_which_file_is_missing(driver, run_folder, tmp_path):
    shutil.copytree(run_folder, tmp_path / "run")
    (tmp_path / "run/data/run.js").unlink()
    browser = Browser(driver, tmp_path / "run")
    browser.open("", "return !!document.querySelector('[role=alert]')")
    assert "data/run.js is missing next to this page" in browser.text("[role=alert]")
    driver.get_log("browser")  # the browser's own word about the file


def test_a_page_with_damaged_data_says_that_its_script_failed(driver, run_folder, tmp_path):
    shutil.copytree(run_folder, tmp_path / "run")
    file = tmp_path / "run/data/run.js"
    file.write_text(
        re.sub(r'"labels":\{.*?\}', '"labels":{"dtype":"uint8","data":"?"}', file.read_text())
    )
    browser = Browser(driver, tmp_path / "run")
    browser.open("", "return !!document.querySelector('[role=alert]')")
    assert "The script of this page failed: " in browser.text("[role=alert]")
    driver.get_log("browser")
