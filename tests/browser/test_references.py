"""The matrix against a chosen cell: what the page shows is what Python computes of the two."""

import re
from itertools import chain

import pytest

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.predictions import Predictions
from alignkit.record.document import read_record
from alignkit.text.numbers import interval, percent, points

pytestmark = [pytest.mark.browser, pytest.mark.slow]

REFERENCE = ("torchpipe-gpu", "onnxruntime", "fp32")
LINK = "#/matrix?metric={}&ref=torchpipe-gpu%2Fonnxruntime%2Ffp32"
SHOWN = (
    "return [...document.querySelectorAll('.panel-{} .matrix tbody tr')]"
    ".map(r => [...r.cells].slice(1).map(c => c.textContent))"
)
CHOSEN = "return document.querySelector('#matrix select').value"


def drift_of(record, folder, entry):
    """Of the entry against the reference, by the function that compares two and no more."""

    def side(place):
        return [
            Predictions.from_parquet(folder / cell.predictions.path)
            for cell in record.cells
            if cell.trained_with == entry.trained_with
            and (cell.evaluated_with, cell.backend, cell.precision) == place
        ]

    own = (entry.evaluated_with, entry.backend, entry.precision)
    return drift(reference=side(REFERENCE), candidate=side(own), draws=SharedDraws(200))


@pytest.mark.parametrize(
    ("metric", "names"), [("recall", ("recall.macro", "precision.macro")), ("churn", ("churn",))]
)
def test_cells_against_a_chosen_one_are_the_drift_of_the_two(browser, run_folder, metric, names):
    browser.open(LINK.format(metric))
    assert browser.run(CHOSEN) == "/".join(REFERENCE)
    rows = browser.run(SHOWN.format(metric))
    record = read_record(run_folder)
    compared = 0
    for entry, text in zip(record.matrix, chain(*rows), strict=True):
        if (entry.evaluated_with, entry.backend, entry.precision) == REFERENCE:
            assert "reference" in text
        elif entry.state == "measured" and not entry.aligned:
            found = drift_of(record, run_folder, entry)
            churn = metric == "churn"
            for estimate in map(found.of, names):
                assert (percent if churn else points)(estimate.value, 2) in text
                assert interval(estimate, share=churn) in text
            if churn:
                flips = re.search(r"(\d+) lost, (\d+) gained", text)
                assert [int(each) for each in flips.groups()] == [
                    found.right_to_wrong,
                    found.wrong_to_right,
                ]
            compared += 1
    assert compared >= 25


def test_reference_is_chosen_by_keyboard_kept_in_the_address_and_taken_back(browser):
    from selenium.webdriver import Keys

    browser.open()
    before = browser.run(SHOWN.format("recall"))
    browser.run("document.querySelector('#matrix select').focus()")
    browser.press(Keys.DOWN)
    browser.until("return location.hash === '#/matrix?ref=opencv%2Ftorch%2Ffp32'")
    assert browser.run(SHOWN.format("recall")) != before
    caption = browser.text(".panel-recall .matrix caption")
    assert "against opencv, torch fp32 of the row" in caption
    browser.run("document.querySelector('#show-churn').click()")
    browser.until("return location.hash === '#/matrix?metric=churn&ref=opencv%2Ftorch%2Ffp32'")
    assert browser.run("return document.querySelectorAll('.panel .copy').length") == 3
    browser.run("document.querySelector('#matrix select').focus()")
    browser.press(Keys.UP)
    browser.until("return location.hash === '#/matrix?metric=churn'")
    browser.run("document.querySelector('#show-recall').click()")
    assert browser.run(SHOWN.format("recall")) == before


def test_a_row_without_the_reference_says_why(browser):
    browser.open("#/matrix?ref=opencv%2Ftorch%2Fbf16")
    texts = browser.run(SHOWN.format("recall"))[2]
    assert {text.strip()[0] for text in texts} == {"–", "s"}  # no value, or skipped itself
    notes = browser.text(".panel-recall .notes")
    assert "no reference in this row: skipped: bfloat16 convolutions" in notes


def test_a_reference_that_the_run_does_not_have_is_the_baseline(browser):
    browser.open("#/matrix?metric=nonsense&ref=nobody%2Ftorch%2Ffp32")
    assert browser.run(CHOSEN) == ""
    assert "baseline" in browser.text(".panel-recall .matrix caption")
    assert browser.problems() == []


def test_a_cell_leads_to_the_images_that_flipped_from_the_chosen_one(fresh_browser, run_folder):
    browser = fresh_browser
    browser.open(LINK.format("recall"))
    record = read_record(run_folder)
    link = "document.querySelector('.panel-recall .matrix tr:nth-child(1) td:nth-of-type(10) a')"
    entry = record.matrix[9]
    assert (entry.trained_with, entry.evaluated_with, entry.precision) == (
        "opencv",
        "pillow",
        "bf16",
    )
    found = drift_of(record, run_folder, entry)
    browser.run(f"{link}.click()")
    browser.until("return document.querySelector('#query')?.value === 'flip:yes'")
    browser.until("return /^\\d+ of 1000/.test(document.querySelector('.list output').textContent)")
    chosen = browser.run("return document.querySelector('.list select').selectedOptions[0].text")
    assert chosen == ("opencv: torchpipe-gpu (surrogate), onnxruntime fp32 → pillow, torch bf16")
    every = found.right_to_wrong + found.wrong_to_right + found.wrong_to_wrong
    shown = int(browser.text(".list output").split()[0])
    assert every / len(entry.seeds) <= shown <= every
    assert browser.run(CHOSEN) == "/".join(REFERENCE)
