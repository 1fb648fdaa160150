"""The list of images whose answers are no classes: its words, its changes, its filters."""

from urllib.parse import quote

import numpy as np
import pytest

from alignkit.report import render
from alignkit.tasks.multi_label.multi_label_answers import MultiLabelAnswers
from tests.browser.conftest import Browser
from tests.browser.test_page import AXE
from tests.report.said_run import write_said_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ENTRY = 8
"""opencv → pillow, torch fp32."""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("said")
    record = write_said_run(folder)
    render(folder)
    return folder, record


@pytest.fixture
def page(driver, said):
    return Browser(driver, said[0])


@pytest.fixture(scope="module")
def truth(said):
    """By seed: whether each image's answer changed, and how its Jaccard index did."""
    folder, record = said
    cells = {
        (each.seed, each.evaluated_with): MultiLabelAnswers.from_parquet(
            folder / each.predictions.path
        )
        for each in record.cells
        if (each.trained_with, each.backend, each.precision) == ("opencv", "torch", "fp32")
    }
    gains, changes, pairs = [], [], []
    for seed in record.matrix[ENTRY].seeds:
        was, now = cells[seed, "opencv"], cells[seed, "pillow"]
        indices = [
            (each.given & each.truth).sum(axis=1) / (each.given | each.truth).sum(axis=1)
            for each in (was, now)
        ]
        gains.append(np.sign(indices[1] - indices[0]))
        changes.append((was.given != now.given).any(axis=1))
        pairs.append((was, now))
    return np.array(gains), np.array(changes), pairs


def shown(page, query):
    """How many images a query leaves."""
    page.open(
        f"#/images?cell={ENTRY}&q={quote(query)}",
        "return / of 1.000 images/.test(document.querySelector('.list output')?.textContent)",
    )
    return int(page.text(".list output").split()[0])


def test_a_query_keeps_the_images_that_the_task_says_changed(page, truth):
    gains, changes, pairs = truth
    assert shown(page, "flip:yes") == changes.any(axis=0).sum()
    # the most frequent kind over seeds; of equally frequent ones, the first
    kinds = [((gains == sign) & changes).sum(axis=0) for sign in (-1, 1, 0)]
    most = np.where(changes.any(axis=0), np.argmax(kinds, axis=0), -1)
    for place, word in enumerate(("worse", "better", "neither")):
        assert shown(page, f"flip:{word}") == (most == place).sum()
    named = [{name for i in row for name in [pairs[0][0].classes[i]]}
             for row in map(np.flatnonzero, pairs[0][0].truth)]  # fmt: skip
    assert shown(page, "class:7") == sum("7" in each for each in named)
    assert shown(page, "class:7 flip:worse") > 0


def test_the_columns_have_the_words_of_the_task(page):
    page.open(f"#/images?cell={ENTRY}")
    heads = page.run(
        "return [...document.querySelectorAll('.rows thead th')].map(e => e.innerText)"
    )
    assert [each.rstrip(" ▲▼") for each in heads] == [
        "Image", "Truth", "Set of labels", "Change", "Max |Δ|", "Mean |Δ|", "SSIM",
    ]  # fmt: skip
    assert page.run("return document.querySelector('.rows .flip').textContent") in (
        "worse", "better", "neither",
    )  # fmt: skip
    assert "lost" not in page.text("#query-help")


def test_a_word_of_another_task_is_refused(page):
    shown(page, "flip:lost")
    assert "takes yes, no, worse, better, neither, changed" in page.text("#query-faults")


def test_the_viewer_has_the_answers_of_each_seed_without_a_margin(page, truth):
    pairs = truth[2]
    page.open(f"#/images?cell={ENTRY}&q=flip%3Ayes")
    page.run("document.querySelector('.rows tbody tr a').click()")
    page.until("return !!document.querySelector('.viewer .chances tbody tr')")
    name = page.text(".viewer h2")
    place = pairs[0][0].ids.index(name)
    rows = page.run(
        "return [...document.querySelectorAll('.chances tbody tr')].map(row => "
        "[...row.cells].map(cell => cell.innerText.trim()))"
    )
    assert [row[1:] for row in rows] == [[a.said(place), b.said(place)] for a, b in pairs]
    assert "margin" not in page.text(".viewer aside")


def test_a_cell_of_the_matrix_leads_to_the_images_that_changed_in_it(page, truth):
    page.open("#matrix", "return !!document.querySelector('#matrix a[href*=\"images?\"]')")
    link = page.run(f"return document.querySelector('#matrix a[href*=\"cell={ENTRY}&\"]').hash")
    page.open(
        link, "return / of 1.000 images/.test(document.querySelector('.list output')?.textContent)"
    )
    assert int(page.text(".list output").split()[0]) == truth[1].any(axis=0).sum()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_passes_an_accessibility_audit(page, scheme):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci in alignkit/report/assets/src")
    page.scheme(scheme)
    page.open(f"#/images?cell={ENTRY}")
    page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.run(AXE.read_text())
    found = page.driver.execute_async_script(
        "const done = arguments[0]; axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa',"
        " 'wcag22aa', 'best-practice']}).then(r => done(r.violations.map(v => [v.id, v.nodes[0].html])))"
    )
    assert found == []


@pytest.mark.parametrize("width", [1440, 768, 360])
def test_the_page_never_scrolls_sideways(page, width):
    page.size(width, 900)
    page.open(f"#/images?cell={ENTRY}")
    assert page.run("return document.documentElement.scrollWidth") <= width
