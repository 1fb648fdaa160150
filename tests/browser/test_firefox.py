"""The page in Firefox, as strict on ``file://`` as a user's: the same tests, and what may differ."""

import numpy as np
import pytest

from tests.browser.firefox import Firefox, Marionette
from tests.browser.test_list import test_order_follows_the_header as test_order
from tests.browser.test_list import truth
from tests.browser.test_page import VIEW
from tests.browser.test_stages import BLOCKS, diff_folder, taps
from tests.browser.test_stages import (
    test_readout_of_the_decoded_stage_is_the_decoders_own_value as test_decoded_readout,
)
from tests.browser.test_stages import (
    test_the_worst_block_is_enlarged_and_the_view_stays_within_the_image as test_enlarged_block,
)
from tests.browser.test_stages import (
    test_values_are_written_into_the_pixels_from_a_zoom_of_32 as test_values_in_pixels,
)
from tests.browser.test_viewer import channel, pair, shown, to_bytes
from tests.browser.test_viewer import (
    test_keyboard_alone_leads_from_the_verdict_to_the_worst_block as test_keyboard,
)
from tests.browser.test_viewer import test_position_is_kept_across_modes as test_position
from tests.browser.test_viewer import (
    test_readout_names_the_values_of_the_pixel_at_the_centre as test_readout,
)
from tests.browser.test_viewer import test_worst_block_is_numpy_s as test_worst_block

__all__ = ["diff_folder", "pair", "taps", "test_decoded_readout", "test_enlarged_block",
           "test_keyboard", "test_order", "test_position", "test_readout", "test_values_in_pixels",
           "test_worst_block", "truth"]  # fmt: skip

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    driver = Marionette(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture
def browser(driver, run_folder):
    return Firefox(driver, run_folder)


@pytest.fixture
def page(driver, diff_folder):
    return Firefox(driver, diff_folder)


def test_one_finger_moves_the_divider(page):
    page.view(f"{BLOCKS}?m=swipe")
    left, top, width = page.run(
        "const r = document.querySelector('.viewer canvas').getBoundingClientRect();"
        " return [r.x, r.y, r.width]"
    )
    moves = [
        {
            "type": "pointerMove",
            "duration": 0,
            "x": round(left + width * share),
            "y": round(top + 50),
        }
        for share in (0.6, 0.4, 0.25)
    ]
    strokes = [moves[0], {"type": "pointerDown", "button": 0}, *moves[1:],
               {"type": "pointerUp", "button": 0}]  # fmt: skip
    finger = {"type": "pointer", "id": "finger", "parameters": {"pointerType": "touch"}}
    page.driver.ask("WebDriver:PerformActions", actions=[finger | {"actions": strokes}])
    page.until("return location.hash.includes('s=25')")
    assert "c=" not in page.driver.current_url


@pytest.mark.parametrize("name", ["rgb", "cb"])
def test_every_mode_shows_numpy_s_values(browser, pair, name):
    a, b = (channel(values, name) for values in pair)
    apart = b - a
    assert np.array_equal(shown(browser, f"m=a&ch={name}"), to_bytes(a))
    assert np.array_equal(shown(browser, f"m=b&ch={name}"), to_bytes(b))
    for gain in (1, 32):
        absolute, signed = (shown(browser, f"m={m}&x={gain}&ch={name}") for m in ("abs", "signed"))
        assert np.array_equal(absolute, to_bytes(np.abs(apart) * gain))
        assert np.array_equal(signed, to_bytes(128 + apart * gain))
    masked = (shown(browser, f"m=mask&t=3&ch={name}") == (255, 64, 200)).all(axis=2)
    assert np.array_equal(masked, np.abs(apart).max(axis=2) > 3)


def test_it_is_as_strict_as_a_user_s(browser):
    """Else the page would pass here and fail on a desk."""
    browser.open()
    read = browser.driver.execute_async_script(
        "const done = arguments[0], i = document.images[0]; i.loading = 'eager';"
        " i.decode().then(() => { const x = document.createElement('canvas').getContext('2d');"
        " x.drawImage(i, 0, 0); try { x.getImageData(0, 0, 1, 1); done('read') }"
        " catch (e) { done(e.name) } })"
    )
    assert read == "SecurityError"


def test_nothing_is_asked_of_a_network_and_nothing_fails(browser):
    browser.open()
    browser.view(VIEW)
    asked = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert all(address.startswith(("file://", "data:")) for address in asked)
    assert browser.problems() == []


def test_page_never_scrolls_sideways(browser):
    browser.open()
    for width in (1440, 768):
        browser.size(width, 900)
        inside = "return [innerWidth, document.documentElement.scrollWidth <= innerWidth]"
        assert browser.run(inside) == [width, True]


def test_page_passes_an_accessibility_audit(browser):
    browser.open()
    assert browser.violations() == []
