"""The list of all images: queries, order, size."""

import time

import numpy as np
import pytest

from alignkit.compare.image_table import read_image_table
from alignkit.predictions import Predictions
from alignkit.record import read_record
from alignkit.report import render
from tests.browser.conftest import Browser

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ENTRY = 8
"""opencv → pillow, torch fp32."""


@pytest.fixture(scope="module")
def truth(run_folder):
    """Per image: label, flips by kind over seeds, mean difference."""
    record = read_record(run_folder)
    entry = record.matrix[ENTRY]
    assert (entry.trained_with, entry.evaluated_with) == ("opencv", "pillow")
    lost = gained = moved = 0
    for seed in record.matrix[ENTRY].seeds:
        was, now = (
            Predictions.from_parquet(run_folder / cell.predictions.path)
            for path in ("opencv", "pillow")
            for cell in record.cells
            if (cell.trained_with, cell.seed, cell.evaluated_with, cell.backend, cell.precision)
            == ("opencv", seed, path, "torch", "fp32")
        )
        labels = was.labels
        lost = lost + ((was.predicted == labels) & (now.predicted != labels))
        gained = gained + ((was.predicted != labels) & (now.predicted == labels))
        differ = (was.predicted != labels) & (now.predicted != labels)
        moved = moved + (differ & (was.predicted != now.predicted))
    table = read_image_table(run_folder / record.images[1].table.path)
    return {
        "labels": labels,
        "flips": lost + gained + moved,
        "mean": table.mean_abs["colour"],
        "max": table.max_abs["colour"],
    }


def shown(browser, query):
    """How many images a query leaves."""
    browser.open(
        f"#/images?cell={ENTRY}&q={query}", "return !!document.querySelector('.list output')"
    )
    browser.until(
        "return / of 1000 images/.test(document.querySelector('.list output').textContent)"
    )
    return int(browser.text(".list output").split()[0])


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("", lambda t: np.ones(1000, bool)),
        ("flip%3Ayes", lambda t: t["flips"] > 0),
        ("!flip%3Ayes", lambda t: t["flips"] == 0),
        ("class%3A7", lambda t: t["labels"] == 7),
        ("mean%3E12", lambda t: t["mean"] > 12),
        ("max%3C%3D100", lambda t: t["max"] <= 100),
        ("class%3A3+flip%3Ayes+mean%3C20", lambda t: (t["labels"] == 3) & (t["flips"] > 0) & (t["mean"] < 20)),
        ("seeds%3E%3D2", lambda t: t["flips"] >= 2),
        ("0123", lambda t: np.arange(1000) == 123),
    ],
)  # fmt: skip
def test_a_query_keeps_what_numpy_keeps(browser, truth, query, kept):
    assert shown(browser, query) == kept(truth).sum()


def test_a_wrong_query_says_what_is_known(browser):
    browser.open(f"#/images?cell={ENTRY}&q=colour%3A7", "return !!document.querySelector('.list')")
    browser.until(
        "return document.querySelector('.list output').textContent.startsWith('no colour')"
    )


def test_order_follows_the_header(browser, truth):
    browser.open(f"#/images?cell={ENTRY}&sort=-mean")
    names = "return [...document.querySelectorAll('.rows tbody tr th')].map(t => t.textContent)"
    worst = np.argsort(-truth["mean"], kind="stable")[:10]
    assert browser.run(names)[:10] == [f"eval/{index:04}.jpg" for index in worst]
    browser.run(
        "[...document.querySelectorAll('.rows thead button')].find(b => /Mean/.test(b.textContent)).click()"
    )
    browser.until("return location.hash.includes('sort=mean')")
    least = np.argsort(truth["mean"], kind="stable")[:10]
    assert browser.run(names)[:10] == [f"eval/{index:04}.jpg" for index in least]
    assert (
        browser.run("return document.querySelector('[aria-sort=ascending]').textContent")
        == "Mean |Δ| ▲"
    )


def test_names_of_files_stay_text(tmp_path, driver):
    from tests.report import run_folder as made

    kept = made.IDS
    made.IDS = ("<img src=x onerror=alert(1)>", *kept[1:])
    try:
        made.write_run(tmp_path)
    finally:
        made.IDS = kept
    render(tmp_path)
    browser = Browser(driver, tmp_path)
    browser.open("#/images?sort=id&q=onerror")
    browser.until(
        "return document.querySelector('.rows tbody th')?.textContent.includes('onerror')"
    )
    assert browser.run("return document.querySelectorAll('.rows img').length") == 0


def test_ten_thousand_images_are_listed_at_once_and_scroll(tmp_path, driver):
    """First paint under a second, and no frame of a scroll longer than a tenth."""
    from tests.report.run_folder import write_long_run

    write_long_run(tmp_path, images=10_000)
    render(tmp_path)
    browser = Browser(driver, tmp_path)
    started = time.monotonic()
    browser.open()
    browser.until("return document.querySelector('.list output').textContent.startsWith('10000')")
    listed = time.monotonic() - started
    paint = browser.run(
        "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
    )
    assert paint < 1000
    assert listed < 3
    assert browser.run("return document.querySelectorAll('.rows tbody tr').length") < 100
    longest = browser.driver.execute_async_script(
        "const done = arguments[0], box = document.querySelector('.rows'); let last = performance.now(),"
        " worst = 0, n = 0; const step = (now) => { worst = Math.max(worst, now - last); last = now;"
        " box.scrollTop += 2500; if (++n < 60) requestAnimationFrame(step); else done(worst); };"
        " requestAnimationFrame(step);"
    )
    assert longest < 200
    browser.run("document.querySelector('.rows').scrollTop = 1e7")
    browser.until("return document.querySelector('.rows tbody').textContent.length > 0")
    assert browser.problems() == []
