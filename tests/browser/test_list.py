"""The list of all images: queries, order, size."""

import json
import shutil

import numpy as np
import pytest

from alignkit.compare.image_table import read_image_table
from alignkit.compare.predictions import Predictions
from alignkit.record.document import read_record
from alignkit.report import render
from alignkit.stored_file import file_sha256
from tests.browser.conftest import TURNED, Browser
from tests.report.run_folder import write_long_run
from tests.sealed import rewrite

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
        "lost": lost,
        "mean": table.mean_abs["colour"],
        "max": table.max_abs["colour"],
    }


def ask(browser, cell, query):
    """Follow a link to a query, within the page where the cell's rows are shown already."""
    link = f"#/images?cell={cell}&q={query}"
    if browser.driver.current_url.startswith(f"{browser.page}#/images?cell={cell}&"):
        browser.driver.execute_async_script(TURNED, link)
    else:
        browser.open(link, "return !!document.querySelector('.list output')")


def shown(browser, query):
    """How many images a query leaves."""
    ask(browser, ENTRY, query)
    browser.until(
        "return / of 1.000 images/.test(document.querySelector('.list output').textContent)"
    )
    return int(browser.text(".list output").partition(" ")[0].replace("\N{NO-BREAK SPACE}", ""))


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


def test_an_answer_that_is_no_class_is_a_flip_and_called_so(driver, run_folder, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    record = read_record(folder)
    entry = record.matrix[ENTRY]
    hashes = {}
    for cell in record.cells:
        places = [(each.trained_with, each.evaluated_with, each.backend, each.precision)
                  for each in (cell, entry)]  # fmt: skip
        if places[0] == places[1]:
            found = Predictions.from_parquet(folder / cell.predictions.path)
            found.logits[5] = np.nan
            found.to_parquet(folder / cell.predictions.path)
            hashes[cell.predictions.path] = file_sha256(folder / cell.predictions.path)

    def change(stored):
        for cell in stored["cells"]:
            if kept := cell["predictions"]:
                kept["sha256"] = hashes.get(kept["path"], kept["sha256"])

    rewrite(folder / "record.json", change)
    render(folder)
    browser = Browser(driver, folder)
    assert shown(browser, "0005+flip%3Ayes") == 1
    assert "→ no prediction" in browser.text(".rows tbody tr")


FAULTS = "return [...document.querySelectorAll('#query-faults p')].map(p => p.textContent)"


def test_every_wrong_term_is_named_and_the_others_still_hold(browser, truth):
    wrong = "flip%3Alos+colour%3A7+max%3Eabc+class%3A77+predcited%3A1"
    assert shown(browser, f"{wrong}+class%3A7") == (truth["labels"] == 7).sum()
    faults = browser.run(FAULTS)
    assert len(faults) == 5
    assert faults[0].endswith("did you mean flip:lost?")
    assert faults[1].startswith("colour:7: no such term")
    assert faults[2] == "max>abc: takes a number"
    assert faults[3].startswith("class:77: no class 77")
    assert faults[4].endswith("did you mean predicted?")
    assert shown(browser, "class%3A7") > 0
    assert browser.run(FAULTS) == []


def test_a_word_that_is_a_kind_of_flip_is_asked_about_where_no_file_has_it(browser):
    assert shown(browser, "lost") == 0
    assert browser.run(FAULTS) == ["lost is looked for in file names; did you mean flip:lost?"]


def test_order_follows_the_header(browser, truth):
    browser.open(f"#/images?cell={ENTRY}&sort=-mean")
    names = "return [...document.querySelectorAll('.rows tbody th a')].map(t => t.textContent)"
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


def counted(browser, query):
    """How many rows of all comparisons a query leaves, and what is said of them."""
    ask(browser, "all", query)
    browser.until("return / rows in /.test(document.querySelector('.list output').textContent)")
    images, rows = browser.text(".list output").split(", ")
    assert images.endswith(" of 1\N{NO-BREAK SPACE}000 images")
    number, rest = rows.replace("\N{NO-BREAK SPACE}", "").split(" of ", 1)
    return int(number), rest


def test_all_comparisons_are_one_list_that_path_backend_and_precision_filter(browser, run_folder):
    data = (run_folder / "data" / "run.js").read_text()
    comparisons = json.loads(data.removeprefix("self.alignkitRun=").rstrip(";\n"))["comparisons"]
    whole = f"{1000 * len(comparisons)} rows in {len(comparisons)} comparisons"
    assert counted(browser, "")[1] == whole
    for query, kept in {
        "path%3Apillow": lambda each: "pillow" in each["paths"],
        "!path%3Apillow": lambda each: "pillow" not in each["paths"],
        "path%3Apillow+path%3Aopencv": lambda each: {"pillow", "opencv"} <= set(each["paths"]),
        "backend%3Atorch+!precision%3Afp32": lambda each: (
            each["backend"] == "torch" and each["precision"] != "fp32"
        ),
    }.items():
        assert counted(browser, query)[0] == 1000 * sum(map(kept, comparisons)), query


def test_flips_of_all_comparisons_are_those_of_each(browser, truth):
    found, _ = counted(
        browser, "flip%3Ayes+backend%3Atorch+precision%3Afp32+path%3Aopencv+path%3Apillow"
    )
    browser.open(f"#/images?cell={ENTRY + 16}&q=flip%3Ayes")  # pillow → opencv
    browser.until(
        "return / of 1.000 images/.test(document.querySelector('.list output').textContent)"
    )
    back = int(browser.text(".list output").split()[0])
    assert found == (truth["flips"] > 0).sum() + back


def test_a_row_of_all_comparisons_opens_its_own(browser, run_folder):
    """The pixels are shared by several comparisons, the predictions are not."""
    titles = "return [...document.querySelectorAll('.rows tbody tr:has(a)')].map(r => r.children[1].textContent)"
    browser.open("#/images?cell=all&q=pixels%3Ayes&sort=id")
    browser.until("return document.querySelectorAll('.rows tbody a').length > 1")
    for place, title in enumerate(browser.run(titles)[:2]):
        browser.open("#/images?cell=all&q=pixels%3Ayes&sort=id")
        browser.until("return document.querySelectorAll('.rows tbody a').length > 1")
        browser.run(f"document.querySelectorAll('.rows tbody a')[{place}].click()")
        browser.until("return !!document.querySelector('.viewer aside h3 + p')")
        assert browser.text(".viewer aside h3 + p") == title


ROWS = "return [...document.querySelectorAll('.rows tbody tr[aria-rowindex]')]"


def test_the_list_begins_with_the_headline_s_cell_and_the_image_most_seeds_lose(browser, truth):
    browser.open()
    assert browser.text(".list option:checked").startswith("opencv →")
    browser.open(f"#/images?cell={ENTRY}")
    order = browser.run(f"{ROWS}.slice(0, 8).map(r => r.querySelector('a').textContent)")
    places = [int(name[5:9]) for name in order]
    ranks = [(truth["flips"][at], truth["lost"][at]) for at in places]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0][0] == truth["flips"].max()


def test_an_image_unfolds_into_its_other_cells_and_folds_again(browser, run_folder):
    data = json.loads((run_folder / "data" / "run.js").read_text()[len("self.alignkitRun=") : -2])
    browser.open(f"#/images?cell={ENTRY}")
    names = f"{ROWS}.slice(0, 3).map(r => r.querySelector('a').textContent)"
    closed = browser.run(names)
    browser.run("document.querySelector('.rows .fold').click()")
    browser.until("return document.querySelectorAll('.rows tr.cell').length > 5")
    titles = browser.run(
        "return [...document.querySelectorAll('.rows tr.cell a')].map(a => a.textContent)"
    )
    others = [each["title"] for each in data["comparisons"] if each["entry"] != ENTRY]
    assert titles == others[: len(titles)]
    assert browser.run("return document.querySelector('.rows table').ariaRowCount") == str(
        1001 + len(others)
    )
    browser.run("document.querySelectorAll('.rows tr.cell a')[2].click()")
    browser.until("return !!document.querySelector('dialog[open]')")
    entry = [each["entry"] for each in data["comparisons"] if each["entry"] != ENTRY][2]
    assert f"e={entry}" in browser.run("return location.hash")
    browser.run("document.querySelector('dialog[open]').close()")
    browser.run("document.querySelector('.rows .fold').click()")
    browser.until("return !document.querySelector('.rows tr.cell')")
    assert browser.run(names) == closed


def test_rows_have_pictures_where_the_run_kept_them(browser):
    browser.open(f"#/images?cell={ENTRY}&q=pixels%3Ayes")
    counts = browser.run(f"{ROWS}.map(r => r.querySelectorAll('img').length)")
    assert counts
    assert set(counts) == {3}
    browser.open(f"#/images?cell={ENTRY}&q=pixels%3Ano")
    assert set(browser.run(f"{ROWS}.map(r => r.querySelectorAll('img').length)")) == {0}


def test_three_clicks_lead_from_the_worst_cell_to_a_pixel_of_a_flipped_image(browser):
    """A cell of the matrix, an image of the list, its worst block."""
    browser.open()
    worst = (
        "const cells = [...document.querySelectorAll('.panel-churn td a, .panel-recall td a')]"
        ".filter(a => a.offsetParent && /^#\\/images/.test(a.hash));"
        f"const cell = cells.find(a => /cell={ENTRY}(&|$)/.test(a.hash)); cell.click();"
        "return cells.length"
    )
    assert browser.run(worst) > 0
    browser.until(f"{ROWS}.length > 0 && /cell={ENTRY}/.test(location.hash)")
    browser.until("return !!document.querySelector('.rows .flip')")
    browser.run("document.querySelector('.rows tbody tr:has(img) a').click()")
    browser.until("return !!document.querySelector('.viewer .readout')")
    assert browser.run("return document.querySelector('.chances tr.changed') !== null")
    browser.run("document.querySelector('.viewer .blocks button').click()")
    browser.until("return /z=/.test(location.hash)")
    readout = browser.text(".viewer .readout")
    assert readout.startswith("x ")
    assert "Δ" in readout


def test_every_flipped_image_opens(browser):
    browser.open(f"#/images?cell={ENTRY}&q=flip%3Ayes+class%3A3")
    known = "return +document.querySelector('.list output').textContent.split(' ')[0]"
    number = browser.run(known)
    assert number > 5
    opened = []
    browser.run("document.querySelector('.rows tbody tr a').click()")
    for _ in range(number):
        browser.until(
            "return !!document.querySelector('.viewer[open] .readout, .unkept[open] .command')"
        )
        opened.append(browser.text(".viewer h2"))
        browser.run(
            "[...document.querySelectorAll('.viewer header button')]"
            ".find(b => b.textContent === 'Next').click()"
        )
        if len(opened) < number:
            browser.until(
                f"return document.querySelector('.viewer h2').textContent !== {json.dumps(opened[-1])}"
            )
    assert len(set(opened)) == number


END = "const box = document.querySelector('.rows'); box.scrollTop = box.scrollHeight;"
LAST = "return document.querySelector('.rows tbody tr:last-child')?.getAttribute('aria-rowindex')"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """10,000 images in eleven comparisons."""
    folder = tmp_path_factory.mktemp("many")
    write_long_run(folder, images=10_000)
    render(folder)
    return folder


@pytest.mark.parametrize(
    ("link", "rows"),
    [
        ("#/images?cell=all", "10000 of 10000 images, 110000 of 110000 rows"),
        ("#/images?cell=4", "10000 of 10000 images"),
        ("#/images?cell=all&q=path%3Apillow", "10000 of 10000 images, 40000 of 110000 rows"),
    ],
)
def test_of_ten_thousand_images_those_in_sight_are_drawn(driver, many, link, rows):
    """benchmarks/report.py says how long it takes."""
    browser = Browser(driver, many)
    browser.open(link)
    browser.until(
        f"return document.querySelector('.list output').textContent.replace(/\\s(?=000)/g, '').startsWith('{rows}')"
    )
    drawn = "return document.querySelectorAll('.rows tbody tr[aria-rowindex]').length"
    assert 0 < browser.run(drawn) < 100
    browser.run(END)
    browser.until(f"{LAST} === '10001'")
    assert browser.run(drawn) < 100
    seen = browser.run(
        "const row = document.querySelector('.rows tbody tr:last-child').getBoundingClientRect(),"
        " box = document.querySelector('.rows').getBoundingClientRect();"
        " return [row.height, row.top >= box.top, row.bottom <= box.bottom + 1]"
    )
    assert seen == [40, True, True]
    assert browser.problems() == []
