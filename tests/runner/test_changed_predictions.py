"""The images that changed their prediction between two paths: their order, and the words of each."""

import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from alignkit.compare.predictions import Predictions
from alignkit.outcome import Measured, Skipped
from alignkit.place import Column, Place, Row
from alignkit.predict.predict_cells import Predicted
from alignkit.runner.changed_predictions import (
    Served,
    ServedImages,
    ranked_changes,
    served_between,
)
from alignkit.task_facts import CLASSIFICATION

CLASSES = ("cat", "dog", "truck")
TORCH, ONNX = "torch fp32", "onnxruntime fp32"
PAIR = ("opencv", "pillow")


def cell(row, path, said, *, seed=0, runtime=TORCH, home=TORCH, model="", labels=None):
    """Predictions of images a, b, c …: a class each, its logit 1, or (class, logit); None is NaN.

    All images are cats by default; ``home`` is the runtime of the row's aligned cell.
    """
    logits = np.zeros((len(said), 3), np.float32)
    for place, each in enumerate(said):
        name, size = each if isinstance(each, tuple) else (each, 1.0)
        logits[place, CLASSES.index(name) if name else slice(None)] = size if name else np.nan
    ids = tuple("abcdefgh"[: len(said)])
    labels = np.zeros(len(said), np.int64) if labels is None else np.array(labels, np.int64)
    found = Predictions(ids, labels, logits, CLASSES)
    where = Row((row,), model=model)
    evaluation = SimpleNamespace(
        training=SimpleNamespace(key=f"{where} {seed}", row=where, seed=seed),
        aligned=path == row and runtime == home,
        place=Place(where, Column(path, *runtime.split())),
        runtime=runtime,
    )
    return Predicted(evaluation, Measured(SimpleNamespace(predictions=found)))


def order(cells):
    return [each.id for each in ranked_changes(served_between(cells, PAIR))]


def test_the_image_that_changed_in_most_models_comes_first_in_both_directions():
    cells = [
        cell("opencv", "opencv", ["cat", "cat", "cat"]),
        cell("opencv", "pillow", ["dog", "cat", "dog"]),
        cell("pillow", "pillow", ["cat", "cat", "cat"]),
        cell("pillow", "opencv", ["cat", "cat", "dog"]),
    ]
    assert order(cells) == ["c", "a"]
    assert order(cells[::-1]) == ["c", "a"]
    (c, a) = ranked_changes(served_between(cells, PAIR))
    assert (c.models, c.lost, a.models) == (2, 2, 1)


def test_runtimes_of_one_model_count_once():
    cells = [
        cell("opencv", "opencv", ["cat", "cat"]),
        cell("opencv", "pillow", ["dog", "dog"]),
        cell("opencv", "pillow", ["cat", "dog"], runtime=ONNX),
        cell("opencv", "opencv", ["cat", "cat"], seed=1),
        cell("opencv", "pillow", ["dog", "cat"], seed=1),
    ]
    assert [(each.id, each.models) for each in ranked_changes(served_between(cells, PAIR))] == [
        ("a", 2),
        ("b", 1),
    ]


def test_of_equal_numbers_lost_comes_first_then_the_shift_of_the_logits():
    was = ["cat", "dog", "cat", "cat"]
    now = ["dog", "cat", ("dog", 5.0), "cat"]
    cells = [cell("opencv", "opencv", was), cell("opencv", "pillow", now)]
    assert order(cells) == ["c", "a", "b"]


def test_a_shift_counts_only_where_the_class_changed():
    cells = [
        cell("opencv", "opencv", ["cat", "cat"]),
        cell("opencv", "pillow", ["dog", ("dog", 2.0)]),
        cell("opencv", "pillow", [("cat", 99.0), "cat"], runtime=ONNX),
    ]
    assert order(cells) == ["b", "a"]


def test_other_paths_cells_that_did_not_run_and_other_images_do_not_count():
    aligned, other = cell("opencv", "opencv", ["cat"]), cell("opencv", "dali", ["dog"])
    skipped = Predicted(cell("opencv", "pillow", ["dog"]).evaluation, Skipped("no device"))
    assert order([aligned, other, skipped]) == []
    assert order([aligned, cell("opencv", "pillow", ["cat", "dog"])]) == []
    assert order([]) == []


def test_no_prediction_is_a_change_with_the_greatest_shift():
    cells = [
        cell("opencv", "opencv", ["cat", "cat"]),
        cell("opencv", "pillow", [("dog", 50.0), None]),
    ]
    assert order(cells) == ["b", "a"]
    ((said,), _) = ServedImages(served_between(cells, PAIR), CLASSIFICATION).of("b", Path())
    assert (said.before, said.after) == (("cat",), ("no prediction",))


@pytest.mark.parametrize("turn", [1, -1])
def test_every_row_is_told_by_seed(turn):
    cells = [
        cell("opencv", "opencv", ["cat"], model="one"),
        cell("opencv", "pillow", ["dog"], model="one"),
        cell("opencv", "opencv", ["cat"], model="two"),
        cell("opencv", "pillow", ["cat"], model="two"),
        cell("pillow", "pillow", ["dog"]),
        cell("pillow", "opencv", ["cat"]),
    ]
    said, _ = ServedImages(served_between(cells[::turn], PAIR), CLASSIFICATION).of("a", Path())
    assert {(each.trained_with, each.evaluated_with, each.before, each.after) for each in said} == {
        ("opencv (model one)", "pillow", ("cat",), ("dog",)),
        ("opencv (model two)", "pillow", ("cat",), ("cat",)),
        ("pillow", "opencv", ("dog",), ("cat",)),
    }


def test_the_row_s_own_runtime_is_told_and_another_is_named_where_only_it_changes():
    cells = [
        cell("opencv", "opencv", ["cat", "cat"]),
        cell("opencv", "pillow", ["dog", "truck"], runtime=ONNX),
        cell("opencv", "pillow", ["cat", "dog"]),
    ]
    images = ServedImages(served_between(cells, PAIR), CLASSIFICATION)
    ((a,), _), ((b,), _) = images.of("a", Path()), images.of("b", Path())
    assert (a.after, a.runtimes) == (("dog",), (ONNX,))
    assert (b.after, b.runtimes) == (("dog",), ("",))
    assert images.ids == ("a", "b")


def test_only_the_logits_of_images_that_changed_are_copied():
    names = tuple(map(str, range(500)))
    ids, labels = tuple(map(str, range(2000))), np.zeros(2000, np.int64)
    logits = np.zeros((2, 2000, 500), np.float32)
    logits[0, :, 0], logits[1, :, 0], logits[1, 7, 1] = 1, 1, 2
    before, after = (Predictions(ids, labels, each, names) for each in logits)
    assert (before.predicted != after.predicted).sum() == 1  # computed once
    served = Served("model", "opencv", "pillow", 0, TORCH, True, before, after)
    tracemalloc.start()
    try:
        assert [each.id for each in ranked_changes([served])] == ["7"]
        assert tracemalloc.get_traced_memory()[1] < logits[0].nbytes
    finally:
        tracemalloc.stop()
