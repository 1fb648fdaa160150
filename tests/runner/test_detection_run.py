"""A whole run of a detector, small: its numbers from the stored boxes, its gate and its page."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from faster_coco_eval import COCO, COCOeval_faster

import alignkit
from alignkit.experiment import load_experiment
from alignkit.gate import run_or_check
from alignkit.progress import NoProgress
from alignkit.report.write_report import ReportOptions, write_report
from alignkit.workspace import Context, Workspace
from tests.squares_case import write_detector, write_images

EXPERIMENT = """
name: squares
task: detection
data: {name: yolo, root: squares, classes: [dark, bright], eval_share: 1}
preprocess:
  opencv: {preset: ultralytics-letterbox, size: 96}
  pillow: {preset: ultralytics-letterbox, size: 96, decode: pillow}
  centred:
    preset: ultralytics-letterbox
    size: 96
    normalise: {mean: [0.4, 0.4, 0.4], std: [1, 1, 1]}
models: [{name: patches, onnx: patches.onnx, preprocess: opencv}]
evaluate: {backends: [{name: onnxruntime, precision: [fp32, fp16]}], batch_size: 3, resamples: 200}
gate: {rules: [{metric: boxes.lost, fail: 0.05}]}
report: {worst: 2}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("squares")
    write_images(folder / "squares")
    write_detector(folder / "patches.onnx")
    return measured(folder, EXPERIMENT)


def measured(folder, text):
    (folder / "squares.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        context = Context(Workspace(folder / "reports"), NoProgress())
        return run_or_check(load_experiment(folder / "squares.yaml"), context)


def stored(run, path, precision="fp32"):
    """The boxes of one cell's file, a row for each image."""
    record, root = run
    (cell,) = [e for e in record.cells if (e.evaluated_with, e.precision) == (path, precision)]
    return cell, pq.read_table(root / cell.predictions.path).to_pylist()


def boxes_of(row, prefix="", least=0.0):
    """(k, 4) corners and (k,) classes of a row."""
    sides = [row[f"{prefix}{side}"] for side in ("left", "top", "right", "bottom")]
    kept = [index for index in range(len(sides[0])) if prefix or row["score"][index] >= least]
    corners = np.array(sides, float).T.reshape(-1, 4)[kept]
    return corners, np.array(row[f"{prefix}class"])[kept]


def coco_map50(rows) -> float:
    """mAP50 of rows, by faster-coco-eval."""
    images = [{"id": index + 1} for index in range(len(rows))]
    truth, found = [], []
    for index, row in enumerate(rows):
        for prefix, into in (("true_", truth), ("", found)):
            corners, classes = boxes_of(row, prefix)
            for place, (box, of_class) in enumerate(zip(corners, classes, strict=True)):
                sides = [*box[:2], *(box[2:] - box[:2])]
                each = {"image_id": index + 1, "category_id": int(of_class), "bbox": sides}
                more = {"area": sides[2] * sides[3], "iscrowd": 0, "id": len(into) + 1}
                into.append(each | more | ({} if prefix else {"score": row["score"][place]}))
    known = COCO({"images": images, "annotations": truth, "categories": [{"id": 0}, {"id": 1}]})
    rated = COCOeval_faster(known, known.loadRes(found), "bbox", print_function=lambda *_: None)
    rated.params.maxDets = [1, 10, 300]
    rated.evaluate()
    rated.accumulate()
    precisions = rated.eval["precision"][0, :, :, 0, -1]
    return float(precisions[precisions > -1].mean())


def overlap(one, two) -> float:
    shared = np.prod((np.minimum(one[2:], two[2:]) - np.maximum(one[:2], two[:2])).clip(0))
    areas = [np.prod(each[2:] - each[:2]) for each in (one, two)]
    return float(shared / (sum(areas) - shared))


def lost_share(first, second, least=0.25) -> float:
    """The share of the first rows' boxes that the second rows lack, pair by pair."""
    lost = total = 0
    for a, b in zip(first, second, strict=True):
        (ours, own), (theirs, other) = boxes_of(a, least=least), boxes_of(b, least=least)
        ranked = sorted(
            (own[i] != other[j], -overlap(ours[i], theirs[j]), i, j)
            for i in range(len(ours))
            for j in range(len(theirs))
            if overlap(ours[i], theirs[j]) >= 0.5
        )
        taken: tuple[set[int], set[int]] = set(), set()
        for _, _, i, j in ranked:
            if i not in taken[0] and j not in taken[1]:
                taken[0].add(i)
                taken[1].add(j)
        lost, total = lost + len(ours) - len(taken[0]), total + len(ours)
    return lost / total


@pytest.mark.parametrize("path", ["opencv", "pillow", "centred"])
def test_map50_of_a_cell_is_that_of_coco_on_its_stored_boxes(finished, path):
    cell, rows = stored(finished, path)
    assert cell.metrics["map50"] == pytest.approx(coco_map50(rows), abs=1e-12)
    assert cell.metrics["map50"] > 0


@pytest.mark.parametrize("path", ["pillow", "centred"])
def test_lost_boxes_are_counted_as_pairs_of_stored_boxes_say(finished, path):
    (entry,) = [e for e in finished[0].matrix
                if (e.evaluated_with, e.precision) == (path, "fp32")]  # fmt: skip
    lost = lost_share(stored(finished, "opencv")[1], stored(finished, path)[1])
    assert entry.drift.measures["boxes.lost"].value == pytest.approx(lost, abs=1e-12)


def test_the_gate_fails_where_boxes_are_lost_and_the_stage_is_named(finished):
    record, _ = finished
    states = {(r.evaluated_with, r.precision): r.state for r in record.verdict.rules}
    assert {path for (path, _), state in states.items() if state == "fail"} == {"centred"}
    (blamed,) = [
        each
        for each in record.attributions
        if (each.candidate, each.metric) == ("centred", "boxes.lost")
    ]
    assert [share.factor for share in blamed.shares] == ["normalise"]


def test_its_page_shows_the_boxes(finished):
    _, folder = finished
    write_report(folder, ReportOptions())
    page = (folder / "index.html").read_text()
    assert "mAP50" in page
    assert "Lost boxes" in page


def test_its_tables_have_the_columns_of_its_task(finished):
    record, folder = finished
    run = alignkit.load_run(folder)
    assert list(run.cells) == list(pd.read_parquet(folder / "cells.parquet"))
    assert run.cells.map50.tolist() == [each.metrics["map50"] for each in record.cells]
    lost = [e.drift.measures["boxes.lost"].value if e.drift else None for e in record.matrix]
    assert [None if pd.isna(each) else each for each in run.matrix.boxes_lost] == lost
    assert run.matrix.map50_p.count() == len(record.matrix) - 1
    classes = run.classes[run.classes["class"] == "bright"]
    assert classes.class_ap50.tolist() == [each.class_values["ap50"][1] for each in record.cells]
    assert "top1" not in run.cells


def test_classes_are_matched_by_the_names_in_the_file(finished, tmp_path):
    """The data counts its classes from the other end, and every number stays."""
    write_images(tmp_path / "squares", first=1)
    write_detector(tmp_path / "patches.onnx", names="{0: 'dark', 1: 'bright'}")
    text = EXPERIMENT.replace("[dark, bright]", "[bright, dark]") + "attribute: {images: none}\n"
    record, _ = measured(tmp_path, text)
    assert record.data.classes == ("bright", "dark")
    for own, other in zip(record.cells, finished[0].cells, strict=True):
        assert own.metrics == other.metrics
        assert own.class_values["ap50"] == other.class_values["ap50"][::-1]
