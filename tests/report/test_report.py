import re
import shlex
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import html5lib
import pytest

from alignkit.errors import RecordError
from alignkit.report import render
from alignkit.report.verdict_view import ICONS
from alignkit.text.numbers import DASH
from tests.report.gold import compare_gold, structure

XHTML = "{http://www.w3.org/1999/xhtml}"
EVIL = "<img src=x onerror=alert(1)>|`*"
VOLATILE = re.compile(r"alignkit 0\.1\.0|2026-11-20[ T]10:15:00(\+00:00)?|3.min.04.s")


@lru_cache(maxsize=2)  # many tests look at one page
def parse(page):
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=True).parse(page)


def elements(tree, name):
    return list(tree.iter(f"{XHTML}{name}"))


def text_of(element):
    return " ".join("".join(element.itertext()).split())


def check_whole(tree):
    """Check that ids and named regions are unique, links lead somewhere, and no network is used."""
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    links = {a.get("href") for a in elements(tree, "a")}
    assert {each[1:] for each in links if each.startswith("#")} <= set(ids)
    regions = [e.get("aria-label") for e in tree.iter() if e.get("role") == "region"]
    assert len(regions) == len(set(regions))
    loads = [e.get(name) for e in tree.iter() for name in ("src", "href", "srcset") if e.get(name)]
    assert not [load for load in loads if re.match(r"\s*(\w+:)?//|\s*https?:|\s*javascript:", load)]


def test_the_page_has_the_stored_structure(page):
    compare_gold("index.txt", VOLATILE.sub("VOLATILE", structure(page)))


def test_summary_is_the_gold_file(record, rendered):
    summary = (rendered(record) / "summary.md").read_text()
    compare_gold("summary.md", VOLATILE.sub("VOLATILE", summary))


def test_page_is_valid_html(page):
    tree = parse(page)
    assert tree.get("lang") == "en"
    assert len(elements(tree, "h1")) == len(elements(tree, "main")) == 1


def test_page_is_whole_and_loads_nothing_from_a_network(page, record, rendered):
    tree = parse(page)
    check_whole(tree)
    assert [script.get("src") for script in elements(tree, "script")] == ["assets/report.js"]
    assert not [
        e for e in tree.iter() if e.get("style") or any(k.startswith("on") for k in e.attrib)
    ]
    style = (rendered(record) / "assets" / "report.css").read_text()
    assert "url(" not in style
    assert "@import" not in style


def test_every_table_has_a_caption_headers_and_whole_rows(page):
    tables = elements(parse(page), "table")
    assert len(tables) > 20
    for table in tables:
        assert text_of(table.find(f"{XHTML}caption"))
        assert all(header.get("scope") for header in table.iter(f"{XHTML}th"))
        body = table.find(f"{XHTML}tbody")
        widths = {sum(int(cell.get("colspan", 1)) for cell in row) for row in body}
        headers = table.find(f"{XHTML}thead")
        last = sum(int(cell.get("colspan", 1)) for cell in headers[-1])
        assert len(widths) == 1
        assert widths.pop() - last in (0, 1)  # a matrix's corner spans three header rows
        assert all(row[0].get("scope") == "row" for row in body)


def test_every_picture_has_a_text_and_is_loaded_late(page):
    images = elements(parse(page), "img")
    assert len(images) == 36
    assert all(image.get("alt") and image.get("loading") == "lazy" for image in images)


def test_sizes_stay_small(page, record, rendered):
    folder = rendered(record)
    assert len(page.encode()) < 300_000
    # with the answers of detection and segmentation, figures and neighbours
    assert (folder / "assets" / "report.css").stat().st_size < 21_000
    assert (folder / "summary.md").stat().st_size < 60_000


def test_no_placeholder_of_a_missing_number_is_shown(page):
    assert not re.search(r"\b(nan|NaN|None|inf|null)\b", " ".join(parse(page).itertext()))


@pytest.mark.parametrize("state", ICONS)
def test_verdict_is_told_by_word_icon_and_favicon(state, record, rendered):
    verdict = record.verdict.model_copy(update={"state": state, "informational": False})
    page = (rendered(record.model_copy(update={"verdict": verdict})) / "index.html").read_text()
    tree = parse(page)
    assert text_of(elements(tree, "h1")[0]) == ICONS[state].word
    assert text_of(elements(tree, "title")[0]).startswith(f"{ICONS[state].word}: quickstart")
    assert f'class="icon {state}"' in page
    assert 'rel="icon" href="data:image/svg+xml,' in page


def test_states_have_icons_of_different_shape():
    for first, second in combinations(ICONS.values(), 2):
        assert first.outline != second.outline
        assert first.sign != second.sign


def test_names_of_users_stay_text(record, rendered):
    # the command is checked apart: a record that holds more than one is refused
    text = record.model_copy(update={"command": "alignkit run x.yaml"}).model_dump_json()
    for name in ("torchpipe-gpu", "eval/0011.jpg", "onnxruntime", "quickstart", "digits-on-photos"):
        text = text.replace(name, EVIL)
    classes = tuple(EVIL for _ in record.data.classes)
    hostile = type(record).model_validate_json(text)
    hostile = hostile.model_copy(
        update={
            "data": hostile.data.model_copy(update={"classes": classes}),
            "yaml": "</code></pre><script>alert(1)</script>",
            "command": shlex.join(["alignkit", "run", "```\n<script>"]),
        }
    )
    folder = rendered(hostile)
    tree = parse((folder / "index.html").read_text())
    assert len(elements(tree, "img")) == 36
    assert [script.get("src") for script in elements(tree, "script")] == ["assets/report.js"]
    assert EVIL in "".join(tree.itertext())
    summary = (folder / "summary.md").read_text()
    # inside a fence all is text
    shown = re.sub(r"^(`{3,}).*?^\1$", "", summary, flags=re.MULTILINE | re.DOTALL)
    assert "<img" not in shown.replace("\\<img", "")
    assert "````sh" in summary


def test_a_surrogate_is_called_so_wherever_its_path_is_named(page):
    tree = parse(page)
    note = "surrogate of torchpipe's GPU path (nvJPEG, ResizeTensor), not yet calibrated"
    sections = {section.get("id"): text_of(section) for section in elements(tree, "section")}
    for name in ("matrix", "changed", "stages", "largest", "classes", "training"):
        assert "torchpipe-gpu surrogate" in " ".join(sections[name].split())
        assert note not in sections[name]
    (footnote,) = [each for each in tree.iter() if each.get("id") == "surrogates"]
    assert note in text_of(footnote)
    badges = [each for each in tree.iter(f"{XHTML}a") if each.get("class") == "badge"]
    assert {each.get("href") for each in badges} == {"#surrogates"}
    assert note in {each.get("title") for each in badges}
    for row in tree.iter(f"{XHTML}th"):
        if text_of(row).startswith("torchpipe-gpu"):
            assert "surrogate" in text_of(row)


def test_skipped_and_failed_cells_show_their_reason(page):
    matrix = next(s for s in elements(parse(page), "section") if s.get("id") == "matrix")
    assert text_of(matrix).count("bfloat16 convolutions are not implemented") >= 4
    assert (
        "Failed: torchpipe-gpu (surrogate) → pillow, onnxruntime fp16, seed 0, 1 and 2"
        in text_of(matrix)
    )
    assert "Traceback (most recent call last)" in text_of(matrix)


def test_a_run_that_measured_nothing_still_has_a_page(record, rendered):
    lists = ("paths", "coverage", "trainings", "cells", "matrix", "noise_floor", "controls",
             "pixels", "shown")  # fmt: skip
    nothing = record.model_copy(
        update=dict.fromkeys(lists, ())
        | {
            "partial": True,
            "verdict": record.verdict.model_copy(
                update={
                    "rules": (),
                    "state": "error",
                    "sentence": (),
                    "cause": (),
                    "headline": None,
                }
            ),
        }
    )
    folder = rendered(nothing)
    text = text_of(parse((folder / "index.html").read_text()))
    assert "Interrupted." in text
    assert "no pixels were compared" in text
    assert "This run has no controls" in text
    assert "This run has no controls" in (folder / "summary.md").read_text()


def test_a_missing_record_is_refused_with_the_next_step(tmp_path):
    with pytest.raises(RecordError, match="finished run"):
        render(tmp_path)


def test_kinds_of_flipped_images_are_told_in_words_only_where_significant(page, record, rendered):
    (section,) = [e for e in elements(parse(page), "section") if e.get("id") == "kinds"]
    said = [text_of(item) for item in section.iter(f"{XHTML}li")]
    (words,) = said
    assert words.replace("\u00a0", " ").startswith(
        "Subsampling 4:2:0 flips more often: 6.0 % against 1.0 %"
    )
    assert "no prediction changed" in text_of(section)
    quiet = [replace(kind, p_adjusted=1.0) for kind in record.flipped[0].subgroups]
    silent = record.flipped[0].model_copy(update={"subgroups": tuple(quiet)})
    folder = rendered(record.model_copy(update={"flipped": (silent,)}))
    for name in ("index.html", "summary.md"):
        assert "No kind of image changes more or less often" in (folder / name).read_text()


def test_many_kinds_are_cut_to_those_that_matter(record, rendered):
    first = record.flipped[0]
    dull = first.subgroups[1]
    many = [replace(dull, kind=f"kind {n}") for n in range(100)]
    cut = first.model_copy(update={"subgroups": (first.subgroups[0], *many)})
    page = (rendered(record.model_copy(update={"flipped": (cut,)})) / "index.html").read_text()
    assert "76\u00a0more kinds, not significant, in record.json." in page
    assert "kind 23" in page
    assert "kind 24" not in page


def test_advice_shows_its_promise_and_what_became_of_it(page, record, rendered):
    (section,) = [e for e in elements(parse(page), "section") if e.get("id") == "advice"]
    words = text_of(section)
    assert "6.0 % remains" in words
    assert "Of 6 configurations, the nearest by pixels on 160 training images: 1.050" in words
    assert "No advice for torchpipe-gpu: no image has pixels." in words
    (table,) = section.iter(f"{XHTML}table")
    rows = [[text_of(cell) for cell in row] for row in table.find(f"{XHTML}tbody")]
    assert rows[0] == [
        "Churn",
        "22.00 % [21.00, 23.00]",
        "12.00 % [11.00, 13.00]",
        "6.00 % [5.00, 7.00]",
    ]
    assert rows[3][2] == f"{DASH}a"
    assert "a class is never predicted" in words
    summary = (rendered(record) / "summary.md").read_text()
    assert "6.0 % remains" in summary


def test_a_run_without_a_model_shows_pixels_and_nothing_of_a_model(record, rendered):
    pixels = record.model_copy(
        update={"matrix": (), "cells": (), "trainings": (), "noise_floor": (), "shown": ()}
    )
    folder = rendered(pixels)
    tree = parse((folder / "index.html").read_text())
    shown = {each.get("id") for each in elements(tree, "section")}
    assert {"stages", "gate", "controls", "provenance"} <= shown
    assert not shown & {"matrix", "training"}
    linked = {each.get("href") for each in elements(tree, "a")}
    known = {f"#{each.get('id')}" for each in tree.iter() if each.get("id")}
    assert {link for link in linked if link.startswith("#")} <= known
    names = ["".join(each.itertext()) for each in elements(tree, "dt")]
    names = [name for name in names if name not in ("Cause", "Do this", "Or")]
    assert names == [
        "Images compared", "Where drift starts", "Largest mean difference of pixels",
    ]  # fmt: skip
    assert "Drift matrix" not in (folder / "summary.md").read_text()
    assert "seed" not in (folder / "summary.md").read_text().split("##")[0]
