"""Models whose answers could show no change: nothing was compared, and no number is given."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.errors import ExitCode
from alignkit.experiment.yaml_argument import named_paths
from alignkit.predict.given_model import given_model, given_task
from alignkit.progress import NoProgress
from alignkit.studies.diff import DiffRequest, diff, exit_code
from alignkit.studies.diff.diff_summary import diff_summary
from tests.predict.test_given_answers import (
    BEFORE,
    FLOAT,
    LEVELS,
    SCORES,
    WHOLE,
    answers,
    box_rows,
    node,
    opened,
    written,
)
from tests.studies.diff.test_diff import samples_of

NOUGHT = {"nought": np.float32(0)}
FIVE = {"y": (FLOAT, [5])}
IDS = [*SCORES, node("Mul", "z nought", "y"), node("ArgMax", "y", "i", axis=1, keepdims=0)]
NOTHING = {
    # name: graph, task, the reason
    "constant scores": (([*SCORES, node("Mul", "z nought", "y")], FIVE, {"weights": NOUGHT}), "", "all 24 images are output 0"),
    "one class": (
        ([*SCORES, node("Add", "z far", "y")], FIVE, {"weights": {"far": np.float32([1e4, 0, 0, 0, 0])}}),
        "", "all 24 images are output 0",
    ),
    "one class of two": (
        ([*SCORES, node("Add", "z far", "y")], {"y": (FLOAT, [1])},
         {"weights": {"W": np.ones((192, 1), np.float32), "far": np.float32([1e4])}}),
        "", "all 24 images are output 1",
    ),
    "one id": ((IDS, {"i": (WHOLE, [])}, {"weights": NOUGHT}), "", "all 24 images are output 0"),
    "no number": (
        ([*SCORES, node("Mul", "z nought", "y")], FIVE, {"weights": {"nought": np.float32("nan")}}),
        "", "no image has finite outputs",
    ),
    "no box": (box_rows(0.1, 0.2), "detection", "no image has a box with a score of 0.25"),
    "the same box": (box_rows(0.1, 0.9), "detection", "all 24 images have the same boxes"),
    "no label": (
        ([*SCORES, node("Add", "z far", "y")], FIVE, {"weights": {"far": np.float32(-1e4)}}),
        "multi-label", "no image has a label above its threshold",
    ),
    "every label": (
        ([*SCORES, node("Add", "z far", "y")], FIVE, {"weights": {"far": np.float32(1e4)}}),
        "multi-label", "all 24 images have the same labels",
    ),
    "an empty mask": (
        ([node("ReduceMean", "x", "m", axes=[1], keepdims=1), node("Sub", "m far", "y")],
         {"y": (FLOAT, [1, 8, 8])}, {"weights": {"far": np.float32(1e4)}}),
        "segmentation", "every pixel of every image is output 0",
    ),
    "a mask of one of many classes": (
        ([node("Mul", "x nought", "y")], {"y": (FLOAT, [3, 8, 8])}, {"weights": NOUGHT}),
        "segmentation", "every pixel of every image is output 0",
    ),
    "one vector": (
        ([*SCORES, node("Mul", "z nought", "o"), node("Add", "o one", "y")], FIVE,
         {"weights": {**NOUGHT, "one": np.float32(1)}}),
        "embedding", "all 24 images have the same vector",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOTHING)
def test_no_number_is_given_where_no_change_could_show(case, tmp_path):
    (nodes, outputs, options), task, reason = NOTHING[case]
    file = written(tmp_path / "a.onnx", nodes, outputs, **options)
    with opened(file, task) as model:
        before, after = (answers(model, each.astype(np.float32)) for each in LEVELS)
    found = drift([before], [after], draws=SharedDraws(20))
    estimates = [found.churn, *found.metrics.values(), *found.measures.values()]
    assert {each.value for each in estimates} == {None}
    assert found.churn.reason.startswith("nothing was compared: ")
    assert reason in found.churn.reason


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([0] * 24, [0] * 23 + [1]),
        ([0] * 24, [1] * 24),
        ([0, 1] * 12, [0, 1] * 12),
        ([0] * 7, [0] * 7),
    ],
)
def test_a_change_or_two_classes_or_few_images_are_compared(first, second):
    from alignkit.compare.predictions import Predictions

    def predictions(classes):
        ids = tuple(map(str, range(len(classes))))
        logits = np.eye(2, dtype=np.float32)[classes]
        logits += np.arange(len(classes), dtype=np.float32)[:, None] / 100
        return Predictions(ids, np.zeros(0, np.int64), logits, (), ("a", "b"))

    found = drift([predictions(first)], [predictions(second)], draws=SharedDraws(20))
    assert found.churn.value == np.mean(np.array(first) != second)


def encoded(pixels):
    file = io.BytesIO()
    Image.fromarray(np.kron(pixels.transpose(1, 2, 0), np.ones((4, 4, 1))).astype(np.uint8)).save(
        file, "PNG"
    )
    return file.getvalue()


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("no box", 5),
        ("one class", 5),
        ("no number", 5),
        ("one id", 5),
        ("no label", 5),
        ("changes", 0),
        ("one-hot", 0),
    ],
)
def test_diff_says_so_and_ends_with_5(case, code, tmp_path):
    changes = ((SCORES, {"z": (FLOAT, [5])}, {}), "", "of 24")
    # the greatest values of all images are alike, and their classes are not
    one_hot = (([*SCORES, node("Hardmax", "z", "y", axis=1)], FIVE, {}), "", "of 24")
    cases = {**NOTHING, "changes": changes, "one-hot": one_hot}
    (nodes, outputs, options), task, _ = cases[case]
    file = written(tmp_path / "a.onnx", nodes, outputs, **options)
    files = {f"{index}.png": encoded(each) for index, each in enumerate(BEFORE)}
    area = "{name: nearest, preset: opencv-train, resize: {interpolation: nearest}}"
    request = DiffRequest(
        named_paths(("pillow-train", area), size=8),
        samples_of(files),
        "files",
        model=given_model(str(file), given_task(task) if task else None),
    )
    record = diff(request, NoProgress())
    assert exit_code(record) == ExitCode(code)
    (said,) = record.pairs[0].matter
    assert ("nothing was compared" in said) == bool(code)
    assert ("0 of" in said) == (not code and not record.pairs[0].predictions.flips)
    assert "nothing was compared" in diff_summary(record) or not code
