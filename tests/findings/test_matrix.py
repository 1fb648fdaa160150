"""States and labels of cells and entries, from outcomes."""

import numpy as np
import pytest

from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.predictions import Predictions
from alignkit.experiment import load_experiment
from alignkit.findings.matrix import cell_facts, matrix_facts
from alignkit.outcome import Failed, Measured, Skipped
from alignkit.plan import make_plan
from alignkit.predict import Answer
from alignkit.predict.predict_cells import Predicted
from alignkit.record import BatchCheck

YAML = """\
name: small
data: {name: digits-on-photos, train: 40, eval: 20}
preprocess:
  a: {decode: pillow, resize: {name: pillow, size: 32}}
  b: {decode: opencv, resize: {name: opencv, size: 32}}
train: {epochs: 1, seeds: [0]}
evaluate: {backends: [torch, {name: simulated, precision: tf32}]}
"""


def answer():
    ids, labels = tuple("xyz"), np.array([0, 1, 0])
    predictions = Predictions(
        ids=ids, labels=labels, logits=np.eye(2, dtype=np.float32)[labels], classes=("0", "1")
    )
    return Measured(Answer(predictions, {}, "", BatchCheck()))


@pytest.mark.parametrize(
    ("ended", "state"),
    [
        (answer(), "simulated"),
        (Skipped("x is not installed"), "skipped"),
        (Failed("out of memory", ""), "failed"),
    ],
)
def test_the_label_of_a_simulation_stands_at_numbers_alone(ended, state, tmp_path):
    (tmp_path / "x.yaml").write_text(YAML)
    predicted = [
        Predicted(each, ended if each.runtime.name == "simulated" else answer())
        for each in make_plan(load_experiment(tmp_path / "x.yaml")).evaluations
    ]
    draws = SharedDraws(20)
    cells = [*cell_facts(predicted, tmp_path, draws)]
    facts = (*cells, *matrix_facts(predicted, cells, draws))
    assert len(facts) == 16
    for each in facts:
        simulates = each.backend == "simulated"
        assert each.state == (state if simulates else "measured")
        assert bool(each.simulation) == (simulates and state == "simulated")
