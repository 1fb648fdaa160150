"""Stages of an image in the viewer of a diff's page, against the decoders' own arrays."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from alignkit.experiment.yaml_argument import named_paths
from alignkit.progress import NoProgress
from alignkit.record.document import read_record
from alignkit.samples import Samples
from alignkit.studies.diff import DiffRequest, diff
from alignkit.studies.diff.diff_arguments import write_outputs
from alignkit.text.numbers import grouped
from tests.browser.conftest import Browser
from tests.photos import encoded, photo

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PATHS = (
    "opencv-train",
    "{name: nearest, preset: opencv-train, decode: {name: simplejpeg, chroma: nearest}}",
    "{name: larger, preset: opencv-train, resize: {name: opencv, size: 56}, crop: 48}",
)
FILES = {
    "blocks.jpg": encoded(photo("flower", 150, 260), quality=85, subsampling="4:2:0"),
    "plain.jpg": encoded(photo("flower", 90, 75), quality=85, subsampling="4:4:4"),
}
BLOCKS = "#/image/opencv-train%3Enearest/blocks.jpg"
UNEVEN = "#/image/opencv-train%3Elarger/plain.jpg"


@pytest.fixture(scope="session")
def diff_folder(tmp_path_factory):
    """The page of a diff of two files along three paths."""
    folder = tmp_path_factory.mktemp("diff")
    samples = Samples(tuple(FILES), (), (), list(FILES.values()).__getitem__, "files")
    request = DiffRequest(named_paths(PATHS, size=48), samples, "files", threads=1)
    write_outputs([("html", folder)], diff(request, NoProgress()), request)
    return folder


@pytest.fixture
def page(driver, diff_folder):
    driver.get_log("browser")
    return Browser(driver, diff_folder)


@pytest.fixture(scope="session")
def taps():
    """Path → stage → array, of blocks.jpg."""
    paths = [each.preprocess for each in named_paths(PATHS, size=48)]
    return {path.name: path.taps(FILES["blocks.jpg"]).pixels for path in paths}


def numbers(text):
    return [float(each) for each in re.findall(r"[+-]?\d+(?:\.\d+)?", text.replace("−", "-"))]


def test_readout_of_the_decoded_stage_is_the_decoders_own_value(page, taps):
    a, b = (taps[name]["decode"].astype(int) for name in ("opencv-train", "nearest"))
    y, x = np.argwhere((a != b).any(axis=2))[40]
    page.view(f"{BLOCKS}?p=decode&z=20&c={x + 0.5},{y + 0.5}")
    found = numbers(page.text(".readout"))
    assert found == [x, y, *a[y, x], *b[y, x], *(b - a)[y, x]]


def test_the_decoded_stage_is_shown_exactly(page, taps):
    page.view(f"{BLOCKS}?p=decode&m=abs&x=8&z=4")
    a, b = (taps[name]["decode"].astype(int) for name in ("opencv-train", "nearest"))
    canvas = page.canvas()
    top, left = (
        round(size / 2 - 4 * half) for size, half in zip(canvas.shape, (75, 130), strict=False)
    )
    found = canvas[top + 2 : top + 600 : 4, max(left, 0) + 2 - min(left, 0) % 4 : left + 1040 : 4]
    assert np.array_equal(found, np.minimum(8 * abs(b - a), 255)[:, : found.shape[1]])


def test_stages_are_chosen_by_button_and_by_key(page):
    page.open("", "return !!document.querySelector('.card .open')")
    page.press("w")
    page.until("return !!document.querySelector('.viewer .readout')")
    names = "return [...document.querySelectorAll('[aria-label=Stage] button')].map(b => [b.textContent, b.ariaPressed])"
    assert [each[0] for each in page.run(names)] == ["Decoded", "Resized", "Final"]
    page.press("s")
    page.until("return location.hash.includes('p=decode')")
    assert page.run(names)[0] == ["Decoded", "true"]
    assert "decoded, 260×150" in page.text(".viewer header p")
    page.press("S")
    page.until("return !location.hash.includes('p=')")
    assert page.problems() == []


def test_identical_pixels_are_said_to_be_identical(page):
    page.open(f"{UNEVEN}?p=decode", "return !!document.querySelector('.viewer .fault')")
    assert "75×90: both paths gave identical pixels" in page.text(".fault")
    assert page.text("[aria-label=Stage] button[aria-pressed=true]") == "Decoded: identical"


def test_stages_of_two_sizes_stand_side_by_side_without_a_difference(page):
    page.view(f"{UNEVEN}?p=resize&c=52.5,52.5")
    assert "A 48×48, B 56×56: sizes differ" in page.text(".viewer header p")
    assert page.text(".modes button[aria-pressed=true][title='key 6']") == "Side by side"
    assert "A – · B " in page.text(".readout")
    assert page.run("return document.querySelector('.viewer aside dl')") is None


def test_the_grid_is_the_file_s_and_only_on_the_decoded_image(page):
    page.view(f"{BLOCKS}?p=decode")
    select = "return [...document.querySelectorAll('.viewer select')].map(s => s.textContent).filter(t => t.includes('MCU'))"
    assert page.run(select) == ["none8×8MCU 16×16"]
    page.view(BLOCKS)
    assert page.run(select) == []


def worst(page):
    """Zoom and centre after the worst block was asked for, and the size of the canvas."""
    page.run("document.querySelector('.viewer canvas').focus()")
    page.press("J")
    page.until("return location.hash.includes('z=')")
    zoom, x, y = map(
        float, re.search(r"z=(\d+)&c=([\d.]+)%2C([\d.]+)", page.driver.current_url).groups()
    )
    size = page.run(
        "const c = document.querySelector('.viewer canvas'); return [c.clientWidth, c.clientHeight]"
    )
    return zoom, (x, y), size


@pytest.mark.parametrize("size", [(1440, 900), (768, 900)])
def test_the_worst_block_is_enlarged_and_the_view_stays_within_the_image(page, size):
    page.size(*size)
    page.view(f"{BLOCKS}?p=decode")
    zoom, centre, room = worst(page)
    assert zoom >= 24
    for at, length, pixels in zip(centre, room, (260, 150), strict=True):
        assert length / (2 * zoom) - 0.01 <= at <= pixels - length / (2 * zoom) + 0.01


def test_values_are_written_into_the_pixels_from_a_zoom_of_32(page, taps):
    watch = (
        "const own = CanvasRenderingContext2D.prototype.fillText; self.texts = [];"
        "CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {"
        " self.texts.push(text); own.call(this, text, ...at); };"
    )
    page.view(f"{BLOCKS}?p=decode&m=b&z=31&c=100.5,70.5")
    page.run(
        watch
        + "dispatchEvent(new Event('resize')); document.querySelector('.viewer canvas').focus()"
    )
    page.press("g")
    assert page.run("return self.texts") == []
    page.press("+")
    texts = page.run("return self.texts.map(Number)")
    row = taps["nearest"]["decode"][70]
    found = "".join(f",{value}" for value in texts)
    assert "".join(f",{value}" for value in row[95:105].ravel()) in found
    page.press("c")
    page.run("self.texts = []")
    page.press("1")
    texts = page.run("return self.texts.map(Number)")
    values = taps["opencv-train"]["decode"][70, 97:103, 0]
    assert ",".join(map(str, values)) in ",".join(f"{each:g}" for each in texts)


def test_the_level_begins_at_the_image_s_ninetieth_percentile(page, taps):
    a, b = (taps[name]["decode"].astype(int) for name in ("opencv-train", "nearest"))
    distance = abs(b - a).max(axis=2)
    level = np.percentile(distance, 90, method="inverted_cdf")
    page.view(f"{BLOCKS}?p=decode&m=mask")
    assert page.text(".count").startswith(
        f"{grouped(int((distance > level).sum()))} of {grouped(distance.size)} ("
    )
    assert f"|Δ| above {level} levels" in page.text(".legend")


@pytest.mark.parametrize(("mode", "ends"), [("abs", "0≥ 31.88"), ("signed", "≤ −16≥ +15.88")])
def test_the_legend_gives_the_ends_of_the_scale_in_levels(page, mode, ends):
    page.view(f"{BLOCKS}?m={mode}&x=8")
    assert f"{ends} levels" in page.text(".legend")


def touch(page, *moves):
    """Put fingers on the canvas: lists of points of one moment each, from its middle."""
    box = page.run(
        "const r = document.querySelector('.viewer canvas').getBoundingClientRect();"
        " return [r.x + r.width / 2, r.y + r.height / 2]"
    )
    for kind, points in zip(["touchStart", *["touchMove"] * (len(moves) - 1)], moves, strict=True):
        where = [
            {"x": box[0] + x, "y": box[1] + y, "id": number} for number, (x, y) in enumerate(points)
        ]
        page.driver.execute_cdp_cmd(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": where}
        )
    page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_one_finger_moves_the_divider(page):
    page.view(f"{BLOCKS}?m=swipe")
    width = page.run("return document.querySelector('.viewer canvas').clientWidth")
    touch(page, [(40, 20)], [(60, 20)], [(-width / 4, 20)])
    page.until("return location.hash.includes('s=25')")
    assert "c=" not in page.driver.current_url


def test_two_fingers_zoom(page):
    page.view(f"{BLOCKS}?p=decode&z=4&c=130.5,75.5&m=a")
    steps = [[(-40, 0), (40 + 4 * step, 0)] for step in range(21)]
    touch(page, *steps)
    page.until("return location.hash.includes('z=8')")


def test_the_view_is_saved_as_it_is_shown(page):
    page.view(f"{BLOCKS}?p=decode&m=signed&x=8&z=4")
    page.run(
        "const own = URL.createObjectURL; URL.createObjectURL = (blob) => { const r = new FileReader();"
        " r.onload = () => (self.saved = r.result); r.readAsDataURL(blob); return own(blob); };"
        "HTMLAnchorElement.prototype.click = function () { self.named = this.download; };"
    )
    page.press("d")
    page.until("return !!self.saved")
    data = base64.b64decode(page.run("return self.saved").split(",")[1])
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data)))[..., :3], page.canvas())
    assert page.run("return self.named") == "blocks.jpg-decode-signed.png"


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("link", [f"{BLOCKS}?p=decode&m=mask", f"{UNEVEN}?p=resize"])
def test_the_viewer_passes_an_accessibility_audit(page, width, link):
    page.size(width, 844)
    page.view(link)
    assert page.violations("document.querySelector('.viewer')") == []


def test_the_page_of_a_diff_steps_through_its_images(page):
    page.view(BLOCKS)
    page.press("j")
    page.until("return location.hash.includes('larger/')")
    page.press("k")
    page.until("return location.hash.includes('nearest/blocks')")


IMAGE = "#/image/opencv%3Epillow/eval%2F0011.jpg"


def test_predictions_stand_with_their_probability_and_margin_by_seed(browser, run_folder):
    from alignkit.compare.predictions import Predictions

    record = read_record(run_folder)
    browser.view(f"{IMAGE}?e=8")
    browser.until("return !!document.querySelector('.chances')")
    rows = browser.run(
        "return [...document.querySelectorAll('.chances tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    assert [row[0] for row in rows] == ["0", "1", "2"]
    entry = record.matrix[8]
    for seed, *answers in rows:
        cells = [
            cell
            for cell in record.cells
            if cell.row == entry.row and str(cell.seed) == seed and cell.predictions
        ]
        sides = [
            next(cell for cell in cells if cell.aligned),
            next(cell for cell in cells if cell.column == entry.column),
        ]
        for cell, found in zip(sides, answers, strict=True):
            stored = Predictions.from_parquet(run_folder / cell.predictions.path)
            logits = stored.logits[stored.ids.index("eval/0011.jpg")].astype(float)
            chance = np.exp(logits).max() / np.exp(logits).sum()
            gap = np.diff(np.sort(logits)[-2:])[0]
            share = ">99.9" if chance > 0.9995 else f"{100 * chance:.1f}"
            words = f"{stored.outputs[logits.argmax()]} {share}\xa0%margin {gap:.2f}"
            assert found == words


def test_a_phone_reaches_predictions_stages_and_blocks(browser):
    browser.size(390, 844)
    browser.view(f"{IMAGE}?e=8")
    browser.until("return !!document.querySelector('.chances')")
    for part in (".chances", ".ladder", ".blocks li:last-child button"):
        found = browser.run(
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'});"
            " const r = e.getBoundingClientRect();"
            " return [r.left, r.right, document.elementFromPoint(r.left + 9, r.top + 9) !== null"
            " && e.contains(document.elementFromPoint(r.left + 9, r.top + 9))]",
            part,
        )
        assert found[0] >= 0
        assert found[1] <= 390
        assert found[2]


def test_the_page_lists_its_keys_and_goes_to_the_matrix_by_one(browser):
    browser.open()
    browser.press("?")
    assert "go to the drift matrix" in browser.text(".help")
    browser.press("\ue00c")
    browser.until("return !document.querySelector('.help')")
    browser.press("m")
    assert browser.run("return document.activeElement.matches('#matrix td a')")
    assert (
        browser.run("return document.querySelector('header.bar nav button').textContent") == "Keys"
    )
