"""`alignkit compare-runs`."""

import json
import shutil

import cv2
import html5lib
import numpy as np
import pytest
import scipy.stats

from alignkit.record import ShownImage
from alignkit.record.picture_facts import pixel_script
from alignkit.record.study_documents import RunComparison
from alignkit.report.comparison.compare_page import labels
from tests.run_pair import IDS, artifact, quickstart, write_small_run


@pytest.fixture
def before(tmp_path):
    return write_small_run(tmp_path / "a", flipped=range(10))


def made(folder):
    return RunComparison.model_validate(json.loads((folder / "comparison.json").read_text()))


def served(comparison):
    return next(each for each in comparison.entries if not each.aligned)


def main_table(page):
    """The rows of the table with all changes."""
    return page.partition('id="matrix"')[2].partition("<table")[2].partition("</table>")[0]


@pytest.fixture
def compared(alignkit, tmp_path, before):
    """Compare with a run of these flips; gives the comparison."""

    def compare(**run):
        after = write_small_run(tmp_path / "b", **run)
        told = alignkit(
            "compare-runs", before, after, "--out", f"html={tmp_path / 'out'}", "--no-open",
            "--out", f"json={tmp_path / 'compared.json'}", "--json",
        )  # fmt: skip
        assert told.code == 0, told.err
        assert told.out == (tmp_path / "compared.json").read_text()
        assert json.loads(told.out) == json.loads(
            (tmp_path / "out" / "comparison.json").read_text()
        )
        return made(tmp_path / "out")

    return compare


def test_equal_runs_are_unchanged(compared):
    found = compared(flipped=range(10))
    assert {each.change for each in found.entries} == {"unchanged"}
    assert served(found).before == served(found).after == 20
    assert found.differences == ()
    assert {each.change for each in found.stages} <= {"unchanged", "not compared"}
    assert (found.pixels[0].unchanged, found.pixels[0].greatest) == (len(IDS), ())


def test_an_answer_that_is_no_class_is_called_so(compared):
    found = served(compared(flipped=range(10), silent=[7, 40]))
    told = {image.id: (image.change, image.before, image.after) for image in found.images}
    assert told["eval/0040.jpg"] == ("new", "0", "0 → no prediction")
    assert told["eval/0007.jpg"] == ("other class", "7 → 8", "7 → no prediction")


def test_more_flips_are_worse_and_each_image_is_named(compared):
    found = served(compared(flipped=range(5, 40)))
    assert (found.change, found.n, found.before, found.after) == ("worse", 200, 20, 70)
    assert (found.appeared, found.gone) == (60, 10)
    # 30 more of 100 images flip and 5 fewer: Student's t of the images' differences
    differences = np.repeat([1.0, -1.0, 0.0], [30, 5, 65])
    p = scipy.stats.ttest_1samp(differences, 0).pvalue
    assert found.metrics["churn"].p == pytest.approx(p, rel=0.5)
    assert found.metrics["churn"].change.value == pytest.approx(0.25)
    assert (found.seeds, found.metrics["recall.macro"].change.value) == (2, pytest.approx(-0.25))
    kinds = [image.change for image in found.images]
    assert (kinds.count("new"), kinds.count("fixed")) == (30, 5)
    assert found.images[0].model_dump() == {
        "id": "eval/0010.jpg", "label": "0", "change": "new", "seeds": 2,
        "before": "0", "after": "0 → 1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flips", "change"), [([0], "better"), (range(12), "no change shown"), ([], "fixed")]
)
def test_fewer_or_hardly_more_flips_are_called_so(compared, flips, change):
    assert served(compared(flipped=flips)).change == change


@pytest.mark.parametrize(("flips", "change"), [(1, "no change shown"), (20, "new")])
def test_a_first_flip_passes_the_same_test_as_the_others(alignkit, tmp_path, flips, change):
    a = write_small_run(tmp_path / "a", flipped=[])
    b = write_small_run(tmp_path / "b", flipped=range(flips))
    told = alignkit("compare-runs", a, b, "--no-open")
    assert told.code == 0
    assert served(made(tmp_path / "a-to-b")).change == change
    page = (tmp_path / "a-to-b" / "index.html").read_text()
    assert ("no change shown" in page, "▼" in main_table(page)) == (flips == 1, flips > 1)
    largest = next(each for each in told.out.splitlines() if each.startswith("Largest change"))
    assert ("no change shown" in largest) == (flips == 1)


@pytest.mark.parametrize(
    ("changes", "unchanged", "verdict"),
    [
        ({}, True, "Fail in both runs"),
        ({"flipped": [0]}, False, "Fail in both runs"),
        ({"means": [2.0] + [1.0] * 99}, False, "Fail in both runs"),
        ({"state": "pass"}, False, "Fail → Pass"),
        ({"silent": [3]}, False, "Fail in both runs"),
    ],
)
def test_two_equal_runs_are_no_failure(alignkit, tmp_path, changes, unchanged, verdict):
    later = {"flipped": [], **changes}
    if state := later.pop("state", ""):
        later["verdict"] = quickstart().verdict.model_copy(update={"state": state})
    runs = write_small_run(tmp_path / "a", flipped=[]), write_small_run(tmp_path / "b", **later)
    told = alignkit("compare-runs", *runs, "--no-open")
    page = (tmp_path / "a-to-b" / "index.html").read_text()
    # one stage of these records has no value in either run
    what = "No change in what both runs measured"
    assert told.out.startswith(what) is unchanged
    assert verdict in told.out
    assert (f'<h1 id="findings"><span>{what}</span></h1>' in page) is unchanged
    assert ('<section class="verdict fail"' in page) is (not unchanged and not state)
    assert "0 → 0" not in told.out


def test_images_are_counted_by_how_their_pixels_changed(compared):
    means = [0.0, 2.0, 0.5, *[1.0] * 97]
    pixels = compared(flipped=range(10), means=means).pixels[0]
    assert (pixels.fixed, pixels.worse, pixels.better, pixels.unchanged) == (1, 1, 1, 97)
    assert {image.id for image in pixels.greatest} == set(IDS[:3])


def test_another_library_is_named_as_a_possible_cause(compared):
    machine = quickstart().environment
    newer = machine.model_copy(update={"versions": machine.versions | {"pillow": "99.0"}})
    found = compared(flipped=range(10), environment=newer).differences
    assert [(each.what, each.after) for each in found] == [("pillow", "99.0")]


@pytest.mark.parametrize(
    ("part", "update", "words"),
    [
        ("environment", {"gpu": "NVIDIA Other"}, "another GPU"),
        ("environment", {"platform": "Darwin-25-arm64"}, "another system"),
        ("environment", {"flags": {"cudnn TF32": "odd"}}, "cudnn TF32"),
        ("data", {"fingerprint": "0" * 64}, "images are not the same"),
    ],
)
def test_runs_that_may_not_be_compared_are_refused_unless_forced(
    alignkit, tmp_path, before, part, update, words
):
    changed = getattr(quickstart(), part).model_copy(update=update)
    after = write_small_run(tmp_path / "b", flipped=range(10), **{part: changed})
    told = alignkit("compare-runs", before, after, "--out", f"html={tmp_path / 'out'}")
    assert (told.code, told.out) == (6, "")
    assert words in told.err
    assert "--force" in told.err
    assert not (tmp_path / "out").exists()
    told = alignkit(
        "compare-runs", before, after, "--out", f"html={tmp_path / 'out'}", "--force", "--no-open"
    )
    assert told.code == 0
    assert any(words in reason for reason in made(tmp_path / "out").forced)
    assert words in (tmp_path / "out" / "index.html").read_text()


def test_other_images_are_left_out_when_forced(alignkit, tmp_path, before):
    data = quickstart().data.model_copy(update={"fingerprint": "1" * 64})
    after = write_small_run(tmp_path / "b", flipped=[0], ids=IDS[:50], data=data)
    assert (
        alignkit("compare-runs", before, after, "--out", f"html={tmp_path / 'o'}", "--force").code
        == 0
    )
    assert served(made(tmp_path / "o")).n == 100
    assert made(tmp_path / "o").pixels[0].not_compared == 50


def test_other_classes_are_refused_even_when_forced(alignkit, tmp_path, before):
    data = quickstart().data.model_copy(update={"classes": ("cat", "dog")})
    after = write_small_run(tmp_path / "b", flipped=[0], data=data)
    told = alignkit("compare-runs", before, after, "--force")
    assert told.code == 6
    assert "classes" in told.err


def test_runs_without_anything_in_common_end_with_5(alignkit, tmp_path, before):
    empty = {"matrix": (), "cells": (), "pixels": (), "images": ()}
    after = write_small_run(tmp_path / "b", flipped=[], **empty)
    assert alignkit("compare-runs", before, after).code == 5


@pytest.mark.parametrize("how", ["itself", "its record", "a link", "a copy"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_one_run_twice_compares_nothing(alignkit, tmp_path, before, how, force):
    if how == "a link":
        (tmp_path / "b").symlink_to(before)
    elif how == "a copy":
        shutil.copytree(before, tmp_path / "b")
    again = {"itself": before, "its record": before / "record.json"}.get(how, tmp_path / "b")
    told = alignkit("compare-runs", before, again, *force)
    assert told.code == 5
    assert "hold the same run" in told.err
    assert not told.out


def test_a_cell_that_only_one_run_has_is_said_to_be_not_compared(compared):
    assert served(compared(flipped=[], matrix=())).reason == "the later run has no such cell"


def test_a_folder_without_its_arrays_is_told_so(alignkit, tmp_path, before):
    after = write_small_run(tmp_path / "b", flipped=[])
    (after / "predictions" / "0.parquet").unlink()
    told = alignkit("compare-runs", before, after)
    assert told.code == 2
    assert "copy the whole folder" in told.err


def test_page_is_valid_and_whole_without_a_script(compared, tmp_path):
    compared(flipped=range(30), means=[2.0] * 100)
    text = (tmp_path / "out" / "index.html").read_text()
    html5lib.HTMLParser(strict=True).parse(text)
    assert "eval/0010.jpg" in text
    assert "▼ +20.00" in main_table(text)
    assert "http" not in text.replace("http%3A//www.w3.org/2000/svg", "")
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert "Of 1 cell: 1 worse." in summary


def test_hostile_names_stay_text(alignkit, tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    ids = (evil, *IDS[1:])
    a = write_small_run(tmp_path / "a", flipped=[], ids=ids)
    b = write_small_run(tmp_path / "b", flipped=[0], ids=ids)
    assert alignkit("compare-runs", a, b, "--out", f"html={tmp_path / 'o'}", "--no-open").code == 0
    text = (tmp_path / "o" / "index.html").read_text()
    assert "<img" not in text
    assert "&lt;img src=x" in text


def test_a_surrogate_is_called_so_and_one_that_only_one_run_has_is_named(compared, tmp_path):
    compared(flipped=range(40))
    out = tmp_path / "out"
    page, summary = ((out / name).read_text() for name in ("index.html", "summary.md"))
    for shown in (page, summary):
        assert "torchpipe-gpu is a surrogate of torchpipe" in shown
    assert "| opencv | torchpipe-gpu (surrogate) | torch fp32 | 200 |" in summary
    real = [
        path.model_copy(update={"surrogate_of": ""}) if path.surrogate_of else path
        for path in quickstart().paths
    ]
    compared(flipped=range(40), paths=tuple(real))
    summary = (out / "summary.md").read_text()
    assert "torchpipe-gpu is a surrogate of torchpipe" in summary
    assert "in the earlier run alone." in summary
    assert "torchpipe-gpu (surrogate)" not in summary


def test_a_simulation_of_one_run_alone_is_called_so(compared):
    found = compared(flipped=range(4))
    fp16, int8 = {"simulated fp16": "simulated so"}, {"simulated int8": "simulated otherwise"}
    before = found.before.model_copy(update={"simulations": fp16 | int8})
    after = found.after.model_copy(update={"simulations": fp16})
    told = labels(found.model_copy(update={"before": before, "after": after}))
    assert told[-2:] == [
        "simulated fp16 is simulated so.",
        "simulated int8 is simulated otherwise, in the earlier run alone.",
    ]


def kept_image(folder, **changes):
    """An image of which the run in a folder kept the pictures and pixels."""
    png = cv2.imencode(".png", np.full((4, 4, 3), 7, np.uint8))[1].tobytes()
    picture = artifact(folder, "img/0f.png", lambda path: path.write_bytes(png))
    script, text = pixel_script(*np.zeros((2, 4, 4, 3), np.uint8))
    pixels = artifact(folder, script, lambda path: path.write_bytes(text))
    return ShownImage(
        why="changed", reference="opencv", candidate="torchpipe-gpu", id="eval/0010.jpg",
        label="0", stage="normalise", max_abs=1.0, mean_abs=1.0, amplification=4.0, a=picture,
        b=picture, difference=picture, pixels=pixels, **changes,
    )  # fmt: skip


def test_pictures_that_a_run_kept_are_copied_beside_the_page(compared, tmp_path):
    compared(flipped=range(40), shown=(kept_image(tmp_path / "b"),))
    assert (tmp_path / "out" / "img" / "0f.png").is_file()
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count('<img src="img/0f.png"') == 3
    assert ">flips now</span> earlier 0, later 0 → 1<" in page
    assert 'id="see-all" checked' in page  # a card shows its pictures side by side
    assert "pixels of the earlier run" not in page


def test_pixels_that_only_the_earlier_run_kept_are_called_so_and_have_its_command(
    alignkit, tmp_path
):
    commands = [f"alignkit run {name}.yaml" for name in ("before", "after")]
    kept = (kept_image(tmp_path / "a"),)
    a = write_small_run(tmp_path / "a", flipped=range(10), shown=kept, command=commands[0])
    b = write_small_run(tmp_path / "b", flipped=range(40), command=commands[1])
    out = tmp_path / "out"
    assert alignkit("compare-runs", a, b, "--out", f"html={out}", "--no-open").code == 0
    assert "pixels of the earlier run" in (out / "index.html").read_text()
    script = (out / "data" / "run.js").read_text()
    assert "--config before.yaml" in script
    assert "after.yaml" not in script


@pytest.mark.parametrize("states", [("pass", "fail"), ("fail", "pass")])
def test_a_change_of_the_verdict_is_the_headline(alignkit, tmp_path, states):
    verdict = quickstart().verdict
    for name, state in zip("ab", states, strict=True):
        changed = verdict.model_copy(update={"state": state, "informational": False})
        write_small_run(tmp_path / name, flipped=[], verdict=changed)
    told = alignkit("compare-runs", tmp_path / "a", tmp_path / "b", "--no-open")
    assert told.out.startswith(f"{states[0].title()} → {states[1].title()}\n")
    page = (tmp_path / "a-to-b" / "index.html").read_text()
    heading = page.partition("<h1")[2].partition("</h1>")[0]
    words = [each.capitalize() for each in states]
    assert [heading.find(word) > 0 for word in words] == [True, True]
    assert heading.find(words[0]) < heading.find(words[1])
