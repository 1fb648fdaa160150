"""Tables of a run: `load_run`, `cells.parquet`, and the record they are made of."""

import json

import pandas as pd
import pytest

import alignkit
from alignkit import extras
from alignkit.errors import MissingDependency, RecordError
from alignkit.record.document import read_record, write_record
from alignkit.record.verdict_facts import stated
from alignkit.report.results import results_from_record, results_text
from alignkit.runner import with_cell_table
from alignkit.task_facts import CLASSIFICATION
from alignkit.tasks.detection import Detection
from alignkit.text.run_columns import class_table
from tests.report.records import quickstart
from tests.run_pair import write_small_run

METRICS = {"top1": "top1", "recall.macro": "recall_macro", "precision.macro": "precision_macro"}
PLACE = ("trained_with", "evaluated_with", "backend", "precision")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of two cells and two seeds; one more cell was skipped."""
    run = write_small_run(tmp_path_factory.mktemp("reports") / "mine" / "1", flipped=range(7))
    record = read_record(run)
    absent = {"state": "skipped", "reason": "needs an NVIDIA GPU", "n": 0, "metrics": {},
              "counts": (), "drift": None, "predictions": None, "precision": "fp16"}  # fmt: skip
    cells = (*record.cells, record.cells[-1].model_copy(update=absent))
    write_record(with_cell_table(record.model_copy(update={"cells": cells}), run), run)
    return run


def same(number, stored):
    """Whether a cell of a frame is a value of a JSON document; an empty one is null."""
    return pd.isna(number) if stored is None else number == stored


def check_drift(row, drift):
    """Compare a row with the ``drift`` of a JSON document, value by value."""
    counts = ("right_to_wrong", "wrong_to_right", "wrong_to_wrong")
    if drift is None:
        columns = [each for each in row.index if each.startswith(("churn", "logit", *counts))]
        assert row[columns].isna().all()
        assert pd.isna(row["compared"])
        return
    assert row["compared"] == drift["n"]
    assert all(row[each] == drift[each] for each in counts)
    estimates = {"churn": drift["churn"]}
    estimates |= {f"{name}_change": drift["metrics"][key] for key, name in METRICS.items()}
    for name, estimate in estimates.items():
        for suffix, part in (("", "value"), ("_low", "low"), ("_high", "high")):
            assert same(row[name + suffix], estimate[part])
    for part in ("mean_abs", "max_abs", "cosine"):
        assert same(row[f"logit_{part}"], drift["logits"][part])


def test_cells_are_those_of_the_record_value_by_value(folder):
    cells = alignkit.load_run(folder).cells
    stored = json.loads((folder / "record.json").read_text())["cells"]
    assert len(cells) == len(stored) == 5
    for (_, row), cell in zip(cells.iterrows(), stored, strict=True):
        for name in (*PLACE, "seed", "fraction", "aligned", "state", "reason", "simulation"):
            assert row[name] == cell[name]
        ran = cell["state"] == "measured"
        assert same(row["images"], cell["n"] if ran else None)
        right = sum(each["true_positive"] for each in cell["counts"]) if ran else None
        assert same(row["correct"], right)
        for key, name in METRICS.items():
            assert same(row[name], cell["metrics"].get(key))
        check_drift(row, cell["drift"])


def test_the_matrix_is_that_of_results_json_value_by_value(folder):
    run = alignkit.load_run(folder)
    stored = json.loads(results_text(results_from_record(run.record)))["matrix"]
    assert len(run.matrix) == len(stored) == 2
    for (_, row), entry in zip(run.matrix.iterrows(), stored, strict=True):
        assert [row[name] for name in PLACE] == [entry[name] for name in PLACE]
        assert row["seeds"] == len(entry["seeds"])
        for key, name in METRICS.items():
            assert same(row[name], entry["metrics"].get(key))
            assert same(row[f"{name}_p"], (entry["drift"] or {"holm": {}})["holm"].get(key))
        check_drift(row, entry["drift"])


def test_the_parquet_file_is_the_same_table(folder):
    read = pd.read_parquet(folder / "cells.parquet")
    pd.testing.assert_frame_equal(read, alignkit.load_run(folder).cells)
    # ratios follow from the counts
    ran = read[read.state == "measured"]
    assert (ran.correct / ran.images == ran.top1).all()


def test_classes_have_confusion_counts_and_ratios(folder):
    classes = alignkit.load_run(folder).classes
    first = classes[(classes.seed == 0) & (classes.evaluated_with == "opencv")]
    assert (first.true_positive / (first.true_positive + first.false_negative)).tolist() == (
        first.class_recall.tolist()
    )


def test_images_and_pixels_name_their_pair(folder):
    run = alignkit.load_run(folder)
    assert len(run.images) == 100
    assert set(run.images.candidate) == {"torchpipe-gpu"}
    assert set(run.images.candidate_outcome) == {"ok"}
    assert run.images.mean_colour.max() == 1.0
    stored = json.loads((folder / "record.json").read_text())["pixels"]
    assert [same(a, b["mean_abs"]) for a, b in zip(run.pixels.mean_abs, stored, strict=True)]
    assert run.pixels.stage.tolist() == [each["stage"] for each in stored]


def test_a_table_of_nothing_has_its_columns(folder, tmp_path):
    record = read_record(folder).model_copy(update={"cells": (), "matrix": (), "images": ()})
    write_record(with_cell_table(record, tmp_path), tmp_path)
    run = alignkit.load_run(tmp_path / "record.json")
    assert run.folder == tmp_path
    assert len(run.cells) == len(run.images) == len(run.classes) == 0
    assert "churn" in run.cells
    assert list(run.cells) == list(pd.read_parquet(tmp_path / "cells.parquet"))


def test_a_folder_without_a_run_is_refused_with_the_newest_run_in_it(folder, tmp_path):
    with pytest.raises(RecordError, match="give the folder of a finished run"):
        alignkit.load_run(tmp_path / "nothing")
    with pytest.raises(RecordError, match=f"its newest run is {folder}"):
        alignkit.load_run(folder.parent)


def test_text_of_a_foreign_record_is_escaped(folder, tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    record = read_record(folder)
    verdict = record.verdict.model_copy(update={"sentence": (stated("message", text=evil),)})
    update = {"question": evil, "name": evil, "verdict": verdict}
    write_record(record.model_copy(update=update), tmp_path)
    shown = alignkit.load_run(tmp_path)._repr_html_()
    assert "<img" not in shown
    assert shown.count("&lt;img") == 3


def test_without_pandas_the_fix_is_said(folder, monkeypatch):
    monkeypatch.setattr(extras, "_importable", lambda name: name != "pandas")
    run = alignkit.load_run(folder)
    for table in ("cells", "matrix", "images", "pixels"):
        with pytest.raises(MissingDependency, match=r"pip install 'alignkit\[train\]'"):
            getattr(run, table)


def test_metrics_by_class_of_another_task_are_columns_of_the_classes():
    cell = next(each for each in quickstart().cells if each.ran)
    values = tuple(index / 10 for index in range(len(cell.counts)))
    given = cell.model_copy(update={"class_values": {"ap50": values}})
    table = class_table([given], Detection().facts())
    assert table["class_ap50"].to_pylist() == list(values)
    assert table["class_ap"].to_pylist() == [None] * len(values)
    assert class_table([cell], CLASSIFICATION).column_names == table.column_names[:-2]
