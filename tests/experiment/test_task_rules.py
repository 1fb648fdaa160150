"""Gate rules of tasks other than classification."""

import pytest
from pydantic import ValidationError

from alignkit.experiment.gate_option import default_rules
from alignkit.experiment.metric_option import find_metric, not_of_task
from alignkit.experiment.rule_option import Rule
from alignkit.task_facts import CLASSIFICATION
from alignkit.tasks.embedding import Embedding
from alignkit.text.task_words import TaskWords
from tests.report.task_records import DETECTION, SCORE, SEGMENTATION

EMBEDDING = Embedding().facts()


@pytest.mark.parametrize(
    ("name", "unit", "signed"),
    [
        ("map50", "points", True),
        ("miou", "points", True),
        ("iou[road]", "points", True),
        ("ap50[cat]", "points", True),
        ("boxes.lost", "share", False),
        ("pixel_churn", "share", False),
        ("box.shift", "px", False),
        ("boundary.shift", "px", False),
        ("score.error", "", True),
        ("score.error.apart", "", False),
        ("score.error.missing", "share", False),
        ("verification.accuracy", "points", True),
        ("tar@far=1e-3", "points", True),
        ("tar@far=2.5e-2.kept", "points", True),
        ("far@far=1e-3.kept", "share", False),
        ("recall@1", "points", True),
        ("recall@1.kept", "points", True),
        ("overlap@10", "share", False),
        ("neighbour_churn", "share", False),
        ("cosine.p01", "", False),
        ("norm", "points", True),
    ],
)
def test_a_rule_knows_unit_and_direction_of_each_metric(name, unit, signed):
    metric = find_metric(name)
    assert (metric.unit, metric.signed) == (unit, signed)


def test_a_limit_that_no_value_passes_is_refused():
    with pytest.raises(ValidationError, match="can never fire"):
        Rule(metric="boxes.lost", fail=1.0)
    assert Rule(metric="score.error", fail=1000.0).fail == 1000.0


@pytest.mark.parametrize(
    ("name", "task", "has"),
    [
        ("map50", CLASSIFICATION, "top1"),
        ("top1", DETECTION, "map50"),
        ("logits.max_abs", DETECTION, "boxes.lost"),
        ("ap50[cat]", SEGMENTATION, r"iou\[CLASS\]"),
        ("score.other", SCORE, "score.error"),
        ("recall@5", EMBEDDING, "recall@1"),
        ("tar@far=1e-5.kept", EMBEDDING, "tar@far=1e-4.kept"),
    ],
)
def test_a_rule_about_another_tasks_metric_says_which_there_are(name, task, has):
    import re

    assert re.search(f"does not measure {re.escape(repr(name))}; it has .*{has}",
                     not_of_task(find_metric(name), task))  # fmt: skip


def test_every_metric_of_embeddings_may_have_a_rule_in_its_own_unit():
    for facts in (*EMBEDDING.metrics, *EMBEDDING.measures):
        metric = find_metric(facts.name)
        words = TaskWords(EMBEDDING)
        if facts.name != "norm":  # a share that may be negative
            assert metric.signed == words.is_signed(facts.name), facts.name
        assert (metric.worse == "below") == (words.best(facts.name) == 1), facts.name
        assert (metric.unit == "") == (facts.unit == "value"), facts.name


def test_rules_about_pixels_are_of_every_task():
    for name in ("decode.mean_abs", "coverage", "churn"):
        assert not_of_task(find_metric(name), DETECTION) == ""


def test_the_usual_rules_are_of_churn_and_the_first_metric():
    def named(task, labelled=True):
        return [
            (each.metric, each.fail, each.margin, each.relative)
            for each in default_rules(task, labelled=labelled)
        ]

    assert named(CLASSIFICATION) == [
        ("churn", 0.02, None, False),
        ("recall.macro", None, 0.01, False),
    ]
    assert named(CLASSIFICATION, labelled=False) == [("churn", 0.02, None, False)]
    assert named(DETECTION) == [("churn", 0.05, None, False), ("map50", None, 0.01, False)]
    assert named(SCORE) == [("score.error", None, 0.01, True)]
