"""`alignkit compare-runs`."""

import json

import html5lib
import pytest

from alignkit.record.study_documents import RunComparison
from alignkit.report.compare_page import labels
from tests.run_pair import IDS, quickstart, write_small_run


@pytest.fixture
def before(tmp_path):
    return write_small_run(tmp_path / "a", flipped=range(10))


def made(folder):
    return RunComparison.model_validate(json.loads((folder / "comparison.json").read_text()))


def served(comparison):
    return next(each for each in comparison.entries if not each.aligned)


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
    # 30 images flip anew and 5 no more, whatever the seeds; of the two entries, Holm doubles p
    assert found.p == pytest.approx(2 * 2.2e-5, rel=0.05)
    kinds = [image.change for image in found.images]
    assert (kinds.count("new"), kinds.count("fixed")) == (30, 5)
    assert found.images[0].model_dump() == {
        "id": "eval/0010.jpg", "label": "0", "change": "new", "seeds": 2,
        "before": "0", "after": "0 → 1",
    }  # fmt: skip


def test_fewer_flips_are_better(compared):
    assert served(compared(flipped=[0])).change == "better"


def test_few_images_more_show_no_change(compared):
    assert served(compared(flipped=range(12))).change == "unchanged"


def test_no_flip_any_more_is_fixed(compared):
    assert served(compared(flipped=[])).change == "fixed"


def test_a_first_flip_is_new(alignkit, tmp_path):
    a = write_small_run(tmp_path / "a", flipped=[])
    b = write_small_run(tmp_path / "b", flipped=[3])
    assert alignkit("compare-runs", a, b, "--no-open").code == 0
    assert served(made(tmp_path / "a-to-b")).change == "new"


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
    assert "▼ worse" in text
    assert "http" not in text.replace("http-equiv", "")
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert "1 worse" in summary


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
    assert "| opencv | torchpipe-gpu (surrogate) | torch fp32 | ▼ worse |" in summary
    real = [
        path.model_copy(update={"surrogate_of": ""}) if path.surrogate_of else path
        for path in quickstart().paths
    ]
    compared(flipped=range(40), paths=tuple(real))
    summary = (out / "summary.md").read_text()
    assert "torchpipe-gpu is a surrogate of torchpipe" in summary
    assert "in the earlier run alone." in summary
    assert "torchpipe-gpu (surrogate)" not in summary


def test_a_surrogate_that_changed_is_named_as_it_was_and_as_it_is(compared, tmp_path):
    other = [
        path.model_copy(update={"replaced": ("resize",)}) if path.surrogate_of else path
        for path in quickstart().paths
    ]
    compared(flipped=range(40), paths=tuple(other))
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert ", in the earlier run, and is a surrogate of torchpipe" in summary
    assert " with another resize, " in summary.partition("in the earlier run")[2]


def test_a_simulation_of_one_run_alone_is_called_so(compared):
    found = compared(flipped=range(4))
    fp16, int8 = {"simulated fp16": "simulated so"}, {"simulated int8": "simulated otherwise"}
    before = found.before.model_copy(update={"simulations": fp16 | int8})
    after = found.after.model_copy(update={"simulations": fp16})
    told = labels(found.model_copy(update={"before": before, "after": after}))
    assert told[-2:] == (
        "simulated fp16 is simulated so.",
        "simulated int8 is simulated otherwise, in the earlier run alone.",
    )


def test_the_short_version_says_why_something_was_not_compared(compared, tmp_path):
    found = compared(flipped=range(3))
    reasons = {each.reason for each in (*found.entries, *found.stages) if each.reason}
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert reasons
    assert all(reason in summary for reason in reasons)
