"""The viewer's numbers and pictures against NumPy."""

import json
import re

import numpy as np
import pytest

from alignkit.record.document import read_record
from tests.browser.conftest import SHOWN
from tests.packed import unpack_pair

pytestmark = [pytest.mark.browser, pytest.mark.slow]

IMAGE = "#/image/opencv%3Epillow/eval%2F0011.jpg"
ZOOM = 12
JFIF = {
    "y": (0.299, 0.587, 0.114, 0),
    "cb": (-0.168736, -0.331264, 0.5, 128),
    "cr": (0.5, -0.418688, -0.081312, 128),
}


@pytest.fixture(scope="module")
def pair(run_folder):
    """Reference and candidate of the image, (48, 48, 3) float64."""
    record = read_record(run_folder)
    shown = next(w for w in record.shown if w.candidate == "pillow" and w.id == "eval/0011.jpg")
    text = (run_folder / shown.pixels.path).read_text()
    content = json.loads(text[text.index("]=") + 2 : -2])
    return tuple(side.astype(np.float64) for side in unpack_pair(content))


def channel(values, name):
    if name == "rgb":
        return values
    if name in "rgb":
        return values[..., "rgb".index(name), None]
    *weights, offset = JFIF[name]
    return (values @ np.array(weights) + offset)[..., None]


def to_bytes(values):
    rounded = np.rint(np.clip(values, 0, 255)).astype(np.uint8)
    return np.broadcast_to(rounded, (*rounded.shape[:2], 3))


def shown(browser, link):
    """The image's pixels as the canvas shows them: the middle of each enlarged pixel."""
    browser.turn(f"{IMAGE}?z={ZOOM}&{link}")
    return np.array(browser.run(MIDDLES, ZOOM), np.uint8).reshape(48, 48, 3)


MIDDLES = """
const [zoom] = arguments, side = 48 * zoom, c = document.querySelector('.viewer canvas');
const [left, top] = [c.width, c.height].map(each => Math.round(each / 2 - side / 2));
const d = c.getContext('2d').getImageData(left, top, side, side).data, found = [];
for (let y = zoom >> 1; y < side; y += zoom)
  for (let x = zoom >> 1; x < side; x += zoom) found.push(...d.slice(4 * (y * side + x), 4 * (y * side + x) + 3));
return found;
"""
"""The whole canvas is megabytes of text; of these only the middles are compared."""


@pytest.mark.parametrize("name", ["rgb", "r", "g", "b", "y", "cb", "cr"])
@pytest.mark.parametrize("side", ["a", "b"])
def test_sides_are_shown_exactly(browser, pair, name, side):
    found = shown(browser, f"m={side}&ch={name}")
    assert np.array_equal(found, to_bytes(channel(pair["ab".index(side)], name)))


@pytest.mark.parametrize("gain", [1, 2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("name", ["rgb", "g", "y", "cr"])
def test_absolute_difference_is_exact(browser, pair, name, gain):
    a, b = (channel(values, name) for values in pair)
    assert np.array_equal(
        shown(browser, f"m=abs&x={gain}&ch={name}"), to_bytes(np.abs(b - a) * gain)
    )


@pytest.mark.parametrize("gain", [1, 16])
@pytest.mark.parametrize("name", ["rgb", "cb"])
def test_signed_difference_is_exact(browser, pair, name, gain):
    a, b = (channel(values, name) for values in pair)
    found = shown(browser, f"m=signed&x={gain}&ch={name}")
    assert np.array_equal(found, to_bytes(128 + (b - a) * gain))


@pytest.mark.parametrize("level", [0, 1, 3, 6, 64])
@pytest.mark.parametrize("name", ["rgb", "y"])
def test_mask_counts_the_pixels_above_the_level(browser, pair, name, level):
    a, b = (channel(values, name) for values in pair)
    above = np.abs(b - a).max(axis=2) > level
    found = shown(browser, f"m=mask&t={level}&ch={name}")
    assert np.array_equal((found == (255, 64, 200)).all(axis=2), above)
    told = browser.text(".count").replace("\N{NO-BREAK SPACE}", "")
    assert told.startswith(f"{above.sum()} of 2304 (")


@pytest.mark.parametrize("name", ["rgb", "b", "cr"])
def test_statistics_are_numpy_s(browser, pair, name):
    a, b = (channel(values, name) for values in pair)
    browser.turn(f"{IMAGE}?ch={name}")
    largest, mean, differing, _ = browser.run(
        "return [...document.querySelectorAll('.viewer aside dd')].map(d => d.textContent)"
    )
    assert float(largest) == pytest.approx(np.abs(b - a).max(), abs=0.005)
    assert float(mean) == pytest.approx(np.abs(b - a).mean(), abs=0.0005)
    share = 100 * ((b - a) != 0).any(axis=2).mean()
    assert float(differing.split()[0].lstrip(">")) == pytest.approx(share, abs=0.1)


def test_readout_names_the_values_of_the_pixel_at_the_centre(browser, pair):
    browser.turn(f"{IMAGE}?c=30.5,7.5&z=20")
    found = browser.text(".readout").replace("−", "-")
    assert found.startswith("x 30, y 7")
    numbers = [float(n) for n in re.findall(r"[+-]?\d+(?:\.\d+)?", found.split("RGB")[1])]
    expected = [*pair[0][7, 30], *pair[1][7, 30], *(pair[1] - pair[0])[7, 30]]
    assert numbers == pytest.approx(expected, abs=0.005)


def test_worst_block_is_numpy_s(browser, pair):
    blocks = np.abs(pair[1] - pair[0]).reshape(6, 8, 6, 8, 3).mean(axis=(1, 3, 4))
    order = np.argsort(-blocks, axis=None, kind="stable")
    browser.view(IMAGE)
    browser.run("document.querySelector('.viewer canvas').focus()")
    for flat in order[:3]:
        browser.press("J")
        y, x = np.unravel_index(flat, blocks.shape)
        pressed = browser.text(".blocks button[aria-pressed=true]")
        assert pressed == f"x {8 * x}, y {8 * y}: mean {blocks[y, x]:.2f}"


def test_swipe_and_side_by_side_show_both_sides(browser, pair):
    a, b = (to_bytes(values) for values in pair)
    found = shown(browser, "m=swipe&s=50")
    assert np.array_equal(found[:, :23], a[:, :23])
    assert np.array_equal(found[:, 25:], b[:, 25:])
    browser.view(f"{IMAGE}?m=side&z=8&c=24,24")
    canvas = browser.canvas()
    half = canvas.shape[1] // 2
    middle = canvas.shape[0] // 2 + 4
    assert np.array_equal(canvas[middle, round(half / 2) + 4], a[24, 24])
    assert np.array_equal(canvas[middle, round(half + half / 2) + 4], b[24, 24])


@pytest.mark.parametrize("opacity", [0, 30, 100])
@pytest.mark.parametrize("name", ["rgb", "cb"])
def test_onion_is_b_over_a(browser, pair, name, opacity):
    a, b = (channel(values, name) for values in pair)
    found = shown(browser, f"m=onion&s={opacity}&ch={name}")
    assert np.array_equal(found, to_bytes(a + (b - a) * (opacity / 100)))


def test_blink_shows_each_side_in_turn_and_says_which(browser, pair):
    y, x = np.argwhere((to_bytes(pair[0]) != to_bytes(pair[1])).any(axis=2))[0]
    pixel = (
        "const c = document.querySelector('.viewer canvas'), at = (n, k) =>"
        f" Math.round(n / 2 - 24 * {ZOOM}) + {ZOOM} * k + {ZOOM // 2};"
        " return [document.querySelector('.of-mode').textContent,"
        f" ...c.getContext('2d').getImageData(at(c.width, {x}), at(c.height, {y}), 1, 1).data]"
    )
    browser.view(f"{IMAGE}?z={ZOOM}&m=blink")
    for side in "AB":
        browser.until(f"return document.querySelector('.of-mode').textContent === 'shows {side}'")
        said, *found = browser.run(pixel)
        assert found[:3] == to_bytes(pair["AB".index(said[-1])])[y, x].tolist()


@pytest.mark.parametrize("width", [1440, 1240, 768])
def test_the_picture_stays_where_it_is_in_every_mode(browser, width):
    browser.size(width, 900)
    browser.view(IMAGE)
    browser.run("document.querySelector('.viewer canvas').focus()")
    place = (
        "const r = document.querySelector('.viewer canvas').getBoundingClientRect();"
        " return [r.x, r.y, r.width, r.height]"
    )
    places = []
    for key in "123456789":
        browser.press(key)
        places.append(browser.run(place))
    assert places == [places[0]] * 9


def test_a_drag_moves_the_picture_and_the_wheel_zooms_about_the_pointer(browser):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    browser.view(f"{IMAGE}?z=20&c=24.5,24.5&m=a")
    canvas = browser.driver.find_element("css selector", ".viewer canvas")
    ActionChains(browser.driver).move_to_element_with_offset(
        canvas, 0, 0
    ).click_and_hold().move_by_offset(-100, 40).release().perform()
    browser.until("return location.hash.includes('c=29.5%2C22.5')")
    ActionChains(browser.driver).move_to_element_with_offset(canvas, 95, 75).perform()
    under = browser.text(".readout")
    assert under.startswith("x 34, y 26 ")
    origin = ScrollOrigin.from_element(canvas, 95, 75)
    ActionChains(browser.driver).scroll_from_origin(origin, 0, -100).perform()
    browser.until("return location.hash.includes('z=25')")
    assert browser.text(".readout") == under


def test_the_address_keeps_up_with_a_long_drag(browser):
    """Browsers refuse to write it hundreds of times in half a minute."""
    browser.view(f"{IMAGE}?z=20&c=0.5,24.5&m=a")
    browser.problems()
    browser.driver.execute_async_script(
        "const done = arguments[0], canvas = document.querySelector('.viewer canvas'); let frames = 0;"
        " const step = () => { const key = frames < 190 ? 'ArrowLeft' : 'ArrowRight';"
        " canvas.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));"
        " if (++frames < 250) requestAnimationFrame(step); else done(); }; step();"
    )
    browser.until("return location.hash.includes('c=47.5%2C')")
    assert browser.problems() == []


def test_a_position_outside_of_the_image_is_its_nearest_pixel(browser):
    browser.view(f"{IMAGE}?c=999,-5&z=20")
    assert browser.text(".readout").startswith("x 47, y 0 ")
    assert "NaN" not in browser.text(".viewer")


def test_a_surrogate_is_called_so(browser):
    browser.view("#/image/opencv%3Etorchpipe-gpu/eval%2F0011.jpg")
    assert "B torchpipe-gpu (surrogate)" in browser.text(".viewer header")


def test_position_is_kept_across_modes(browser):
    browser.view(f"{IMAGE}?z=20&c=10.5,12.5&m=a")
    browser.run("document.querySelector('.viewer canvas').focus()")
    for key in "123456789":
        browser.press(key)
        assert "z=20" in browser.driver.current_url
        assert "c=10.5%2C12.5" in browser.driver.current_url


def test_holding_a_key_shows_the_other_side(browser, pair):
    from selenium.webdriver import ActionChains

    assert np.array_equal(shown(browser, "m=a"), to_bytes(pair[0]))
    browser.run("document.querySelector('.viewer canvas').focus()")
    ActionChains(browser.driver).key_down("b").perform()
    held = browser.canvas()
    ActionChains(browser.driver).key_up("b").perform()
    assert not np.array_equal(held, browser.canvas())
    assert np.array_equal(browser.canvas()[450], browser.canvas()[450])


def test_a_link_restores_the_view_in_a_fresh_browser(browser, fresh_browser):
    link = f"{IMAGE}?cell=8&q=flip%3Ayes&m=signed&x=16&ch=cb&z=24&c=20.5,18.5&g=8"
    browser.view(link)
    fresh_browser.view(link)
    assert np.array_equal(browser.canvas(), fresh_browser.canvas())
    assert browser.text(".viewer") == fresh_browser.text(".viewer")
    assert fresh_browser.run("return document.querySelector('#query').value") == "flip:yes"


def test_keyboard_alone_leads_from_the_verdict_to_the_worst_block(browser):
    browser.open()
    browser.press("w")
    browser.until("return !!document.querySelector('.viewer .readout')")
    browser.press("J")
    assert browser.text(".blocks button[aria-pressed=true]")
    browser.press("?")
    assert "next, previous worst block" in browser.text(".help")
    browser.press("\ue00c")
    browser.until("return !document.querySelector('.help')")
    assert browser.run("return !!document.querySelector('.viewer')")
    browser.press("\ue00c")
    browser.until("return !document.querySelector('.viewer')")


def test_a_dialog_is_modal_as_soon_as_it_is_there(browser):
    """Else Esc, pressed in the same frame, closes the dialog below it."""
    browser.view(IMAGE)
    opened = browser.driver.execute_async_script(
        "const done = arguments[0], viewer = document.querySelector('.viewer');"
        "new MutationObserver(() => { const help = document.querySelector('.help');"
        " if (help) done(help.matches(':modal')) }).observe(viewer, { childList: true });"
        "viewer.dispatchEvent(new KeyboardEvent('keydown', { key: '?', bubbles: true }))"
    )
    assert opened


def test_an_image_whose_pixels_were_not_kept_says_so(browser):
    browser.open(
        "#/image/opencv%3Epillow/eval%2F0500.jpg", "return !!document.querySelector('.chances')"
    )
    assert "pixels of this image are not in the report" in browser.text(".unkept .why")
    assert "--only eval/0500.jpg" in browser.text(".unkept .command")
    assert "resize" in browser.text(".unkept .ladder")
    browser.press("j")
    assert browser.run("return !!document.querySelector('dialog[open]')")


@pytest.mark.parametrize(
    ("trained", "served", "words"),
    [("opencv", "opencv", "only the runtime differs"),
     ("opencv", "pillow", "a report may show fewer"),
     ("torchpipe-gpu", "pillow", "This runtime preprocesses the images itself")],
)  # fmt: skip
def test_why_an_image_has_no_pixels_follows_from_its_comparison(
    browser, run_folder, trained, served, words
):
    record = read_record(run_folder)
    cell, entry = next(
        (index, each)
        for index, each in enumerate(record.matrix)
        if (each.trained_with, each.evaluated_with) == (trained, served) and not each.aligned
    )
    pair = "" if words.startswith(("only", "This")) else f"{trained}%3E{served}"
    browser.open(
        f"#/image/{pair}/eval%2F0500.jpg?cell={cell}",
        "return !!document.querySelector('.unkept .chances')",
    )
    assert entry.drift
    assert words in browser.text(".unkept .why")


def test_values_are_right_under_another_colour_profile(run_folder, pair):
    from tests.browser import conftest

    kept = conftest.ARGUMENTS
    conftest.ARGUMENTS = tuple(
        each.replace("=srgb", "=display-p3-d65") if "color-profile" in each else each
        for each in kept
    )
    try:
        driver = conftest.new_driver()
    finally:
        conftest.ARGUMENTS = kept
    try:
        found = shown(conftest.Browser(driver, run_folder), "m=abs&x=32")
    finally:
        driver.quit()
    assert np.array_equal(found, to_bytes(np.abs(pair[1] - pair[0]) * 32))


def test_a_viewer_that_an_address_closes_draws_no_more(browser):
    browser.view(IMAGE)
    browser.run("location.hash = '#/images'")
    browser.until("return !document.querySelector('.viewer')")
    browser.driver.execute_async_script(SHOWN)
    assert browser.problems() == []


@pytest.mark.parametrize("width", [1440, 390])
def test_a_long_name_leaves_the_controls_in_sight(browser, width):
    name = f"eval/{'x' * 180}/{'y' * 180}.jpg"
    browser.size(width, 900)
    browser.open(
        f"#/image/opencv%3Epillow/{name.replace('/', '%2F')}",
        "return !!document.querySelector('.viewer h2')",
    )
    title, shown, right, bottom, reach = browser.run(
        "const h = document.querySelector('.viewer h2');"
        "const b = [...document.querySelectorAll('.viewer header button')].at(-1).getBoundingClientRect();"
        "return [h.title, h.textContent, b.right, b.bottom, document.querySelector('.viewer').scrollWidth]"
    )
    assert title == name
    assert len(shown) == 60
    assert (shown[:6], shown[-5:]) == ("eval/x", "y.jpg")
    assert max(right, reach) <= width
    assert bottom < 250
