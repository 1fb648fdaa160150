"""Answers of every task in a baseline: they come back whole, and their drift is that of a run."""

from dataclasses import replace

import numpy as np
import pytest

from alignkit.baseline import MetricLine
from alignkit.baseline.approval import MetricChange
from alignkit.baseline.baseline_from_run import drift_since, pack, predicted_ids, unpack
from alignkit.baseline.pending import model_lines
from alignkit.compare import drift
from alignkit.errors import BaselineError
from alignkit.tasks.detection import Detection
from alignkit.tasks.multi_label import MultiLabel
from alignkit.tasks.score import OwnScore
from alignkit.tasks.segmentation import Segmentation
from alignkit.text.names import Names
from tests import task_case
from tests.tasks.boxes_at_random import random_answers

RATE = "def rate(outputs, sample):\n    return float(outputs['output'].max())\n"
OUTPUTS = {"segmentation": (3, 9, 8), "multi-label": (3,), "score": (4,)}
COUNT = 6


@pytest.fixture(autouse=True)
def _code(tmp_path, monkeypatch):
    (tmp_path / "own_rating.py").write_text(RATE)
    monkeypatch.chdir(tmp_path)


def task_of(name):
    return {
        "detection": Detection,
        "segmentation": Segmentation,
        "multi-label": MultiLabel,
        "score": lambda: OwnScore(score="own_rating.py:rate"),
    }[name]()


def truth_of(name):
    draw = np.random.default_rng(9)
    if name == "segmentation":
        return task_case.masks_of(draw.integers(0, 3, (COUNT, 9, 8)).astype(np.uint8))
    return task_case.labels_of(draw.random((COUNT, 3)) < 0.5) if name == "multi-label" else ()


def answers(name, seed):
    """Two models' answers to the same images with the same truth."""
    if name == "detection":
        made = random_answers(0, images=12)
        lower = np.float32(1 - 0.3 * seed)
        return replace(made, found=replace(made.found, scores=made.found.scores * lower))
    task, samples = task_of(name), task_case.samples_of(task_case.ids(COUNT), truth_of(name))
    outputs = np.random.default_rng(seed).normal(size=(COUNT, *OUTPUTS[name])).astype(np.float32)
    places = [task_case.squash(8, 9, 8, 9)] * COUNT
    classes = replace(task_case.CLASSES, classes=samples.classes)
    records = task.keep(task.decode((outputs,), places, classes), samples)
    return task.answers(samples.ids, records, samples, classes)


NAMES = ("detection", "segmentation", "multi-label", "score")


@pytest.mark.parametrize("name", NAMES)
def test_answers_come_back_bit_for_bit(name, tmp_path):
    before = answers(name, 0)
    packed = pack(before, task_of(name).facts())
    after = unpack(packed)
    for each, file in ((before, "before"), (after, "after")):
        each.to_parquet(tmp_path / file)
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()
    assert predicted_ids(packed) == list(before.ids)
    assert pack(after, task_of(name).facts()) == packed


@pytest.mark.parametrize("name", NAMES)
def test_the_drift_since_a_baseline_is_that_of_the_answers(name):
    before, after = ([answers(name, seed)] for seed in (0, 1))
    facts = task_of(name).facts()
    expected = drift(before, after)
    found = drift_since(*([pack(each, facts) for each in side] for side in (before, after)))
    assert found == expected
    assert found.churn.value > 0
    assert {*found.measures} == {each.name for each in facts.measures}


def test_answers_of_another_task_are_no_pair():
    packed = (pack(answers(name, 0), task_of(name).facts()) for name in ("score", "detection"))
    with pytest.raises(BaselineError, match="answers of score, and the models now solve detection"):
        drift_since(*([each] for each in packed))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda packed: packed[:-20], "restore it from version control"),
        (lambda packed: packed.replace("score:", "detection:"), "restore it from version control"),
        (lambda packed: packed.replace("score:", "poses:"), "no task 'poses'"),
    ],
)
def test_a_string_that_is_damaged_or_of_an_unknown_task_is_an_error(damage, said):
    with pytest.raises(BaselineError, match=said):
        unpack(damage(pack(answers("score", 0), task_of("score").facts())))


def test_a_review_names_the_first_metrics_of_the_task_in_their_units(tmp_path):
    place = {"trained_with": "a", "evaluated_with": "b", "backend": "torch", "precision": "fp32"}
    new = MetricLine(**place, metrics={"map50": 0.5, "map": 0.25, "score.rate": 0.125})
    change = [MetricChange(old=None, new=new)]
    for name, said in (
        ("detection", "map50 none → 50.00 %, map none → 25.00 %"),
        ("score", "score.rate none → 0.125"),
    ):
        line, _ = model_lines(change, tmp_path, Names(()), task_of(name).facts())
        assert said in line
