"""Answers over the pictures: without a script on the cards, and in the viewer."""

import numpy as np
import pytest

from alignkit.record import PictureMap, ShownStage
from alignkit.record.document import write_record
from alignkit.record.picture_facts import pixel_script, write_file, write_shown
from alignkit.report.write_report import ReportOptions, write_report
from tests.report import task_records

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module", params=["detection", "segmentation"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    write_record(getattr(task_records, request.param)(folder), folder)
    write_report(folder, ReportOptions())
    return folder


def seen(browser, figure, mark):
    """Whether a card's picture, from 1, shows a mark."""
    return browser.driver.execute_script(
        "return [...document.querySelectorAll(`#changed .card figure:nth-child(${arguments[0]}) "
        ".drawn .of-${arguments[1]}`)].some(each => each.getClientRects().length > 0)",
        figure,
        mark,
    )


def choose(browser, control):
    browser.driver.execute_script("document.getElementById(arguments[0]).click()", control)


def test_each_picture_shows_its_own_answer_and_switches_show_more_or_none(browser, folder):
    browser.driver.get((folder / "index.html").as_uri())
    assert [seen(browser, 1, each) for each in ("a", "b", "truth")] == [True, False, False]
    assert [seen(browser, 2, each) for each in ("a", "b", "truth")] == [False, True, False]
    choose(browser, "draw-truth")
    assert seen(browser, 1, "truth")
    assert seen(browser, 2, "truth")
    choose(browser, "draw-none")
    marks = ("a", "b", "differing")
    assert not any(seen(browser, figure, each) for figure in (1, 2, 3) for each in marks)


def test_the_first_metric_of_the_task_is_chosen_whatever_its_name(browser, folder):
    browser.driver.get((folder / "index.html").as_uri())
    chosen = browser.driver.execute_script(
        "return [...document.querySelectorAll('input[name=metric]')].findIndex(e => e.checked)"
    )
    panels = browser.driver.execute_script(
        "return [...document.querySelectorAll('#matrix .panel')]"
        ".map(each => each.getClientRects().length > 0)"
    )
    assert chosen == 0
    assert panels.index(True) == 0
    assert panels.count(True) == 1


def colours(browser):
    """How many colours the viewer's canvas has."""
    return browser.driver.execute_async_script(
        "const done = arguments[0]; setTimeout(() => {"
        "const canvas = document.querySelector('.viewer canvas');"
        "const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        "let sum = 0; for (let i = 0; i < data.length; i += 4) sum = (sum * 31 + data[i] + 7 * "
        "data[i + 1] + 13 * data[i + 2]) % 1000000007; done(sum)}, 400)"
    )


def test_the_viewer_draws_answers_and_can_leave_them_out(browser, folder):
    found = {}
    for mode in ("own", "both", "truth", "none"):
        browser.driver.get("about:blank")
        address = f"#/image/opencv%3Etorchpipe-gpu/eval%2F0011.jpg?m=side&o={mode}"
        browser.driver.get((folder / "index.html").as_uri() + address)
        found[mode] = colours(browser)
    # every choice draws something else
    assert len(set(found.values())) == len(found)


WHOLE = PictureMap(width=160, height=120, xx=1, xy=0, x0=0, yx=0, yy=1, y0=0)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """A page of a detector whose first image has two inputs of 64x64 and 64x48, and one decode."""
    folder = tmp_path_factory.mktemp("uneven")
    record = task_records.detection(folder)
    (at,) = [n for n, each in enumerate(record.shown) if each.maps][:1]
    image = record.shown[at]
    grey = np.full((64, 64, 3), 90, np.uint8)
    names = {"reference": image.reference, "candidate": image.candidate, "id": image.id}
    shown = write_shown(
        folder, grey, grey[:48], why=image.why, label=image.label, stage="colour",
        predictions=image.predictions, **names,
    )  # fmt: skip
    decoded = np.full((120, 160, 3), 60, np.uint8)
    stage = ShownStage(
        stage="decode", state="identical", a=(160, 120), b=(160, 120), maps=(WHOLE, WHOLE),
        pixels=write_file(folder, *pixel_script(decoded, decoded)),
    )  # fmt: skip
    more = {"truth": image.truth, "maps": image.maps, "stages": (stage,)}
    pictures = [*record.shown[:at], shown.model_copy(update=more), *record.shown[at + 1 :]]
    write_record(record.model_copy(update={"shown": tuple(pictures)}), folder)
    write_report(folder, ReportOptions())
    return folder


ADDRESS = "#/image/opencv%3Etorchpipe-gpu/eval%2F0011.jpg?"


def opened(browser, folder, query):
    browser.driver.get("about:blank")
    browser.driver.get((folder / "index.html").as_uri() + ADDRESS + query)
    return colours(browser)


def text_of(browser, selector):
    script = "return document.querySelector(arguments[0]).textContent"
    return browser.driver.execute_script(script, selector)


def test_an_image_of_two_sizes_has_both_pictures_its_answers_and_the_reason(browser, uneven):
    browser.driver.get((uneven / "index.html").as_uri())
    card = "#changed .card[data-id='eval/0011.jpg'][data-pair='opencv>torchpipe-gpu']"
    sizes = browser.driver.execute_script(
        "return [...document.querySelectorAll(arguments[0] + ' img')]"
        ".map(each => { each.loading = 'eager';"
        "const { width, height } = each.getBoundingClientRect(); return [width, height]; })",
        card,
    )
    assert sizes == [[64, 64], [64, 48]]
    assert "no difference is shown" in text_of(browser, card)
    choose(browser, "see-difference")
    assert [seen(browser, 1, "a"), seen(browser, 2, "b")] == [True, True]
    assert opened(browser, uneven, "o=own") != opened(browser, uneven, "o=none")
    assert "sizes differ" in text_of(browser, ".viewer header")


def test_answers_are_drawn_on_the_decoded_image_where_both_paths_decode_alike(browser, uneven):
    found = {mode: opened(browser, uneven, f"p=decode&o={mode}") for mode in ("own", "none")}
    assert found["own"] != found["none"]
    pressed = browser.driver.execute_script(
        "return [...document.querySelectorAll('.viewer .tools [aria-pressed=true]')]"
        ".map(each => each.textContent)"
    )
    assert pressed == ["Decoded: identical", "Side by side"]
    assert text_of(browser, ".viewer aside").count("Drawn: trained with opencv") == 1
