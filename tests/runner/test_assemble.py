"""What the cards of the worst images say of predictions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from alignkit.compare.predictions import Predictions
from alignkit.outcome import Measured
from alignkit.place import Column, Place, Row
from alignkit.predict.predict_cells import Predicted
from alignkit.runner.assemble import _flips

CLASSES = ("cat", "dog", "truck")
TORCH, ONNX = "torch fp32", "onnxruntime fp32"


def cell(
    key: str,
    path: str,
    said: str | None,
    *,
    model: str = "",
    runtime: str = TORCH,
    home: str = TORCH,
) -> Predicted:
    """Of one image, by a model trained with opencv; ``home`` is the runtime of its aligned cell."""
    outputs = [np.nan] * 3 if said is None else [float(said == each) for each in CLASSES]
    found = Predictions(("a",), np.zeros(1, np.int64), np.array([outputs], np.float32), CLASSES)
    row = Row(("opencv",), model=model)
    evaluation = SimpleNamespace(
        training=SimpleNamespace(key=key, row=row, given=model or None, seed=0),
        aligned=path == "opencv" and runtime == home,
        place=Place(row, Column(path, runtime, "fp32")),
        runtime=runtime,
    )
    return Predicted(evaluation, Measured(SimpleNamespace(predictions=found)))


@pytest.mark.parametrize("order", [1, -1])
def test_every_given_model_of_a_path_is_told(order):
    cells = [
        cell("one", "opencv", "cat", model="one"),
        cell("one", "pillow", "dog", model="one"),
        cell("two", "opencv", "cat", model="two"),
        cell("two", "pillow", "cat", model="two"),
    ]
    assert _flips(cells[::order], "opencv", "pillow")("a") == "cat → dog (1 of 2 models)"


def test_each_model_is_told_in_the_runtime_of_its_aligned_cell():
    cells = [
        cell("one", "opencv", "cat", model="one"),
        cell("one", "pillow", "cat", model="one"),
        cell("one", "pillow", "truck", model="one", runtime=ONNX),
        cell("two", "opencv", "cat", model="two", runtime=ONNX, home=ONNX),
        cell("two", "pillow", "dog", model="two", runtime=ONNX, home=ONNX),
    ]
    assert _flips(cells, "opencv", "pillow")("a") == "cat → dog (1 of 2 models)"


def test_outputs_of_nan_are_no_class():
    cells = [cell("0", "opencv", "cat"), cell("0", "pillow", None)]
    assert _flips(cells, "opencv", "pillow")("a") == "cat → no prediction (1 of 1 seeds)"
