"""Lines of a run's cells as they end."""

from types import SimpleNamespace

import numpy as np

from alignkit.compare.predictions import Predictions
from alignkit.outcome import Measured
from alignkit.place import Column, Row
from alignkit.runner.matrix_stage import CellLines
from alignkit.tasks.classification import Classification
from alignkit.text.names import Names


def cell(path, ids, *, aligned=False, kept="full", labelled=True):
    """A measured cell of a model of path a."""
    logits = np.eye(2, dtype=np.float32)[[index % 2 for index in range(len(ids))]]
    labels = np.zeros(len(ids), np.int64)
    row = Row(("a",))
    evaluation = SimpleNamespace(
        aligned=aligned,
        place=SimpleNamespace(row=row, column=Column(path, "torch", "fp32")),
        training=SimpleNamespace(row=row, given=None),
        task=Classification(logits=kept),
    )
    names = (("x", "y"), ()) if labelled else ((), ("x", "y"))
    predictions = Predictions(tuple(ids), labels[: len(ids) * labelled], logits, *names)
    answer = SimpleNamespace(predictions=predictions)
    return SimpleNamespace(evaluation=evaluation, ended=Measured(answer), seed=0)


def test_a_cell_without_an_image_of_its_reference_says_so_and_the_run_goes_on():
    lines = CellLines(Names([]))
    first = [*lines.after(cell("a", ["1", "2"], aligned=True))]
    (other,) = (
        each.replace("\N{NO-BREAK SPACE}", " ") for each in lines.after(cell("b", ["3", "4"]))
    )
    (third,) = lines.after(cell("c", ["2", "5"]))
    assert len(first) == 1
    assert other.endswith(
        "top-1 50.0 %, macro recall 50.0 %; no drift, as the two predictions share no image"
    )
    assert "churn" in third
