import json

import numpy as np
import pytest
from scipy.special import softmax

from alignkit.compare.image_table import read_image_table
from alignkit.compare.predictions import Predictions
from alignkit.errors import RecordError
from alignkit.record.document import read_record
from alignkit.report import render, viewer_data
from alignkit.report.shown_view import leading_entry
from alignkit.report.viewer_data import (
    ImageOrder,
    certainty,
    has_list,
    ranks,
    said_answers,
    viewer_script,
)
from alignkit.text.numbers import grouped
from tests.packed import unpack
from tests.report.run_folder import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's folder and the data that its page loads."""
    folder = tmp_path_factory.mktemp("run")
    write_run(folder)
    render(folder)
    text = (folder / "data" / "run.js").read_text()
    return folder, json.loads(text.removeprefix("self.alignkitRun=").rstrip(";\n"))


def in_words(data, packed):
    """The words of an array of answers; None for an image that was not asked about."""
    words = dict(enumerate(unpack(data["words"]).tobytes().decode().split("\n")))
    return [words.get(code) for code in unpack(packed).tolist()]


def test_predictions_are_those_of_the_files(run):
    folder, data = run
    record = read_record(folder)
    cells = [cell for cell in record.cells[::17] if cell.predictions]
    assert cells
    for cell in cells:
        stored = Predictions.from_parquet(folder / cell.predictions.path)
        assert data["ids"] == list(stored.ids)
        said = [stored.outputs[place] for place in stored.predicted]
        assert in_words(data, data["predictions"][cell.key]) == said
        assert in_words(data, data["labels"]) == [stored.classes[place] for place in stored.labels]


def test_margins_are_those_of_the_files_and_nan_where_a_logit_is_not_finite(run):
    folder, data = run
    cells = {cell.key: cell for cell in read_record(folder).cells}
    assert data["margins"]
    for key, packed in list(data["margins"].items())[::5]:
        stored = Predictions.from_parquet(folder / cells[key].predictions.path)
        assert cells[key].aligned
        expected = stored.margins().astype(np.float32)
        assert np.array_equal(unpack(packed), expected, equal_nan=True)


def test_flips_of_a_comparison_are_the_record_s(run):
    folder, data = run
    record = read_record(folder)
    labels = unpack(data["labels"])  # one list of words numbers both
    assert data["comparisons"]
    for comparison in data["comparisons"][::5]:
        lost = gained = 0
        for before, after in comparison["seeds"]:
            was, now = (unpack(data["predictions"][key]) for key in (before, after))
            lost += int(((was == labels) & (now != labels)).sum())
            gained += int(((was != labels) & (now == labels)).sum())
        drift = record.matrix[comparison["entry"]].drift
        assert (lost, gained) == (drift.right_to_wrong, drift.wrong_to_right)
        kinds = np.concatenate([unpack(each) for each in comparison["turned"]])
        assert [(kinds == data["kinds"].index(kind)).sum() for kind in ("lost", "gained")] == [
            lost,
            gained,
        ]


@pytest.mark.parametrize("classes", [3, 254, 300])
def test_an_answer_that_is_no_class_is_not_an_image_that_is_missing(classes):
    logits = np.zeros((2, classes), np.float32)
    logits[0, classes - 1], logits[1, 0] = 1, np.nan
    names = tuple(map(str, range(classes)))
    found = Predictions(("a", "b"), np.zeros(2, np.int64), logits, names)
    data = said_answers(ImageOrder.ordered("abc"), {"cell": found})
    assert in_words(data, data["predictions"]["cell"]) == [names[-1], "no prediction", None]


def test_models_with_other_outputs_share_the_words_of_the_page():
    read = {}
    for outside in (("emu", "fox"), ("fox", "emu"), ("fox",)):
        logits = np.eye(2 + len(outside), dtype=np.float32)[-1:]
        read[outside] = Predictions(("a",), np.zeros(1, np.int64), logits, ("cat", "dog"), outside)
    data = said_answers(ImageOrder.ordered("a"), read)
    for outside, packed in data["predictions"].items():
        assert in_words(data, packed) == [outside[-1]]


def test_distances_of_images_are_those_of_the_table(run):
    folder, data = run
    record = read_record(folder)
    assert record.images
    for each in record.images:
        table = read_image_table(folder / each.table.path)
        packed = data["pixels"][f"{each.reference}>{each.candidate}"]
        assert packed["last"] == "colour"
        assert [stage["stage"] for stage in packed["stages"]] == list(table.max_abs)
        for stage in packed["stages"]:
            assert np.array_equal(unpack(stage["mean"]), table.mean_abs[stage["stage"]])


def test_the_shift_ranks_the_images_that_changed_and_no_others(run):
    folder, data = run
    record = read_record(folder)
    cells = {cell.key: cell.predictions for cell in record.cells if cell.predictions}
    comparison = data["comparisons"][5]
    changed, shift = False, np.zeros(1000)
    for both in comparison["seeds"]:
        was, now = (Predictions.from_parquet(folder / cells[key].path) for key in both)
        flips = was.predicted != now.predicted
        moved = np.abs(now.logits.astype(float) - was.logits).mean(axis=1)
        changed, shift = changed | flips, np.maximum(shift, np.where(flips, moved, 0))
    ranks = unpack(comparison["shift"])
    assert np.array_equal(ranks > 0, changed)
    order = np.argsort(shift[changed])
    assert np.all(np.diff(ranks[changed][order].astype(int)) >= 0)
    assert ranks.max() == 255


def test_the_shift_is_computed_in_float64():
    before = np.array([[3e38, 0], [2e38, 0], [1, 0]], np.float32)
    both = [
        Predictions(("a", "b", "c"), np.zeros(3, np.int64), each, ("cat", "dog"))
        for each in (before, -before)
    ]
    _, moved = ImageOrder.ordered("abc").changes([both])
    assert ranks(moved).tolist() == pytest.approx([1, 2 / 3, 1 / 3])


def test_a_comparison_says_whether_both_cells_were_served_the_same_path(run):
    folder, data = run
    record = read_record(folder)
    served = {each["entry"]: each["same"] for each in data["comparisons"]}
    assert served == {
        index: record.matrix[index].trained_with == record.matrix[index].evaluated_with
        for index in served
    }
    assert len({*served.values()}) == 2


def test_the_list_begins_with_the_cell_of_the_headline(run):
    folder, data = run
    record = read_record(folder)
    assert data["leading"] == record.headline


def test_page_and_list_begin_with_the_cell_of_the_verdict_though_another_changes_more(run):
    folder, _ = run
    record = read_record(folder)
    cells = [each for each in record.matrix if each.drift and each.trained_with == "opencv"]
    least = min((each for each in cells if each.churn), key=lambda each: each.churn)
    rules = [
        each.model_copy(update={"state": "fail" if each.place == least.place else "pass"})
        for each in record.verdict.rules
    ]
    first = next(at for at, each in enumerate(rules) if each.place == least.place)
    verdict = record.verdict.model_copy(update={"rules": tuple(rules), "headline": first})
    record = record.model_copy(update={"verdict": verdict})
    index = record.matrix.index(least)
    headline = record.headline
    assert leading_entry(record.matrix, headline) == headline == index
    pair = frozenset((least.row.preprocesses[0], least.evaluated_with))
    assert leading_entry(record.matrix, headline, pair) == index


def test_stored_pixels_are_named_with_their_script(run):
    folder, data = run
    assert len(data["stored"]) == 12
    for each in data["stored"]:
        text = (folder / each["script"]).read_text()
        assert text.startswith(f'(self.alignkitPixels??={{}})["{each["script"]}"]=')


def test_probabilities_and_margins_are_the_softmax_of_the_stored_logits(run):
    folder, data = run
    record = read_record(folder)
    shown = list(dict.fromkeys(image.id for image in record.shown))
    for cell in [cell for cell in record.cells if cell.predictions][::17]:
        stored = Predictions.from_parquet(folder / cell.predictions.path)
        rows = stored.logits[[stored.ids.index(name) for name in shown]].astype(np.float64)
        chances, margins = np.array(data["certainty"][cell.key]).T
        largest = softmax(rows, axis=1).max(axis=1)
        assert chances == pytest.approx(largest, abs=0.0005001)
        second, first = np.sort(rows, axis=1)[:, -2:].T
        assert margins == pytest.approx(first - second, abs=0.005001)


def test_a_logit_that_is_no_number_has_no_probability_and_no_margin(run):
    record = read_record(run[0])
    image = record.shown[0]
    logits = np.array([[np.nan, 1.0], [np.inf, 0.0]], np.float32)
    read = {"cell": Predictions((image.id, "other"), np.zeros(2, np.int64), logits, ("a", "b"))}
    assert certainty(record, read)["cell"][0] == [None, None]


def test_page_loads_the_data_and_has_a_place_for_the_list(run):
    page = (run[0] / "index.html").read_text()
    assert '<script src="data/run.js" defer></script>' in page
    assert 'id="image-list"' in page
    assert "<noscript>" in page


def test_a_record_without_files_needs_no_viewer(record, tmp_path):
    assert viewer_script(record, tmp_path) == ""


def test_predictions_that_are_compared_with_nothing_need_no_list(run):
    record = read_record(run[0])
    aligned = tuple(each for each in record.cells if each.aligned and each.predictions)
    assert aligned
    assert record.images
    alone = record.model_copy(update={"cells": aligned, "shown": ()})
    assert viewer_script(alone, run[0]) == ""
    assert (has_list(record), has_list(alone)) == (True, False)


def test_a_missing_file_is_named(run, tmp_path):
    record = read_record(run[0])
    with pytest.raises(RecordError, match="copy the whole folder"):
        viewer_script(record, tmp_path)


def test_of_many_images_those_that_changed_or_differ_most_are_listed(run, monkeypatch):
    folder, whole = run
    record = read_record(folder)
    monkeypatch.setattr(viewer_data, "LISTED", 400)
    text = viewer_script(record, folder)
    few = json.loads(text.removeprefix("self.alignkitRun=").rstrip(";\n"))
    assert len(few["ids"]) == 400
    assert set(few["ids"]) < set(whole["ids"])
    assert {image.id for image in record.shown} <= set(few["ids"])

    # every value is that of the page that lists all
    at = [whole["ids"].index(name) for name in few["ids"]]
    for key, values in {"labels": few["labels"], **few["predictions"]}.items():
        said = in_words(whole, whole["predictions"].get(key, whole["labels"]))
        assert in_words(few, values) == [said[place] for place in at]
    for pair, measures in few["pixels"].items():
        ssim = unpack(whole["pixels"][pair]["ssim"])[at]
        assert np.array_equal(unpack(measures["ssim"]), ssim, equal_nan=True)

    shifts = [unpack(each["shift"]) for each in whole["comparisons"]]
    changed = np.flatnonzero(np.max(shifts, axis=0) > 0)
    listed = len(set(changed) & set(at))
    assert few["choice"].startswith(f"400 of {grouped(len(whole['ids']))}")
    assert f"{listed} of the {len(changed)} that changed" in few["choice"]
    # the most moved image of each comparison is listed
    assert {int(shift.argmax()) for shift in shifts if shift.any()} <= set(at)
    # and the image that differs most on each pair of paths
    for measures in whole["pixels"].values():
        last = next(each for each in measures["stages"] if each["stage"] == measures["last"])
        assert int(np.nanargmax(unpack(last["mean"]))) in at


def test_a_page_that_lists_all_names_no_choice(run):
    assert run[1]["choice"] == ""
