"""A sample that is too small is inconclusive, never a pass: simulated with a drift that is known."""

import math

import numpy as np
import pytest

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.predictions import Predictions
from alignkit.compare.statistics import rule_of_three
from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.judge import judge
from alignkit.record import (
    CoverageDiff,
    MatrixEntry,
    Measurements,
    PathFacts,
    PixelStage,
    RuleOutcome,
)
from alignkit.record.verdict_facts import stated
from tests.tasks.embedding_case import answers, people

CLASSES = ("cat", "dog", "truck")


def predictions(classes: np.ndarray, labels: np.ndarray) -> Predictions:
    ids = tuple(map(str, range(len(labels))))
    return Predictions(ids, labels, np.eye(3, dtype=np.float32)[classes], CLASSES)


def outcome(rule: Rule, images: int, share: float, seed: int = 0) -> RuleOutcome:
    """Of a model that is always right, and on the other path wrong on a true share of images."""
    labels = np.arange(images) % 3
    lost = np.random.default_rng(seed).random(images) < share
    sides = predictions(labels, labels), predictions((labels + lost) % 3, labels)
    entry = MatrixEntry(
        trained_with="a", evaluated_with="b", backend="torch", precision="fp32", state="measured",
        aligned=False, drift=drift([sides[0]], [sides[1]], draws=SharedDraws(300)), seeds=(0,),
    )  # fmt: skip
    return judge(Gate(rules=(rule,)), Measurements(matrix=[entry]), controls=()).rules[0]


@pytest.mark.parametrize("metric", ["churn", "recall.macro", "top1", "recall[cat]"])
def test_a_few_images_without_a_flip_do_not_pass(metric):
    found = outcome(Rule(metric=metric, margin=0.01), images=30, share=0.0)
    assert found.state == "inconclusive"
    assert found.needed is not None
    # the sample that it needs is stated instead of what may be unseen
    assert found.observed == ()
    images = found.needed.images * (
        3 if metric == "recall[cat]" else 1
    )  # those of the class are needed
    enough = outcome(Rule(metric=metric, margin=0.01), images, share=0.0)
    assert enough.state == "pass"


@pytest.mark.parametrize("metric", ["churn", "recall.macro", "top1"])
def test_a_limit_needs_enough_images_to_show_a_change_as_large(metric):
    found = outcome(Rule(metric=metric, fail=0.02), images=30, share=0.0)
    assert found.state == "inconclusive"
    assert found.needed is not None
    assert found.observed == ()
    assert rule_of_three(found.needed.images) <= 0.02 < rule_of_three(found.needed.images - 1)
    enough = found.needed.images + 3  # the smallest class decides, and 3 do not divide every number
    assert outcome(Rule(metric=metric, fail=0.02), enough, share=0.0).state == "pass"
    # no number of images proves that nothing ever changes: a limit of 0 is about these
    assert outcome(Rule(metric=metric, fail=0), images=30, share=0.0).state == "pass"
    # a change beyond the limit is seen among few images too
    assert outcome(Rule(metric=metric, fail=0.02), images=30, share=0.5).state == "fail"


def test_what_may_be_unseen_stands_beside_a_decided_value():
    for margin, images, share in ((0.05, 600, 0.0), (0.3, 60, 0.0), (0.01, 60, 0.5)):
        found = outcome(Rule(metric="top1", margin=margin), images, share)
        assert found.state in ("pass", "fail")
        # of none, the value itself says what may be unseen
        assert [each.kind for each in found.observed] == ["unseen"] * bool(share)
        assert bool(found.value.reason) == (not share)


def test_only_a_pass_says_that_nothing_changed():
    def verdict(*rules: Rule, **gate: object):
        labels = np.arange(30) % 3
        same = predictions(labels, labels)
        entry = MatrixEntry(
            trained_with="a", evaluated_with="b", backend="torch", precision="fp32",
            state="measured", aligned=False, drift=drift([same], [same], draws=SharedDraws(300)), seeds=(0,),
        )  # fmt: skip
        return judge(Gate(rules=rules, **gate), Measurements(matrix=[entry]), controls=())

    passed = verdict(Rule(metric="churn", fail=0.2))
    assert passed.sentence == (stated("nothing changed", comparisons=1),)
    undecided = verdict(Rule(metric="churn", fail=0.2), Rule(metric="top1", margin=0.01))
    assert undecided.state == "inconclusive"
    assert undecided.sentence == (stated("failed", rules=(1,)),)


def test_models_come_first_where_pixels_fail_too():
    labels = np.arange(30) % 3
    sides = predictions(labels, labels), predictions((labels + 1) % 3, labels)
    entry = MatrixEntry(
        trained_with="a", evaluated_with="b", backend="torch", precision="int8",
        state="measured", aligned=False, seeds=(0,),
        drift=drift([sides[0]], [sides[1]], draws=SharedDraws(300)),
    )  # fmt: skip
    stage = PixelStage(
        reference="a", candidate="b", stage="decode", mode="isolated", max_abs=1, mean_abs=1,
        share_differing=1, images=30, identical=0,
    )  # fmt: skip
    same = CoverageDiff(reference="a", candidate="b", images=30, only_reference=0,
                        only_candidate=0)  # fmt: skip
    gate = Gate(rules=(Rule(metric="decode.mean_abs", fail=0), Rule(metric="churn", fail=0.1)))
    evidence = Measurements(
        matrix=[entry], pixels=[stage], coverage_diffs=[same],
        paths=(PathFacts(name="a", stages=()), PathFacts(name="b", stages=())),
    )  # fmt: skip
    first = judge(gate, evidence, controls=()).first
    assert (first.metric, first.value.value, first.limits.decides) == ("churn", 1.0, 0.1)


@pytest.mark.parametrize(
    ("metric", "images", "share"),
    [("recall.macro", 30, 0.03), ("recall.macro", 300, 0.01), ("top1", 300, 0.01),
     ("churn", 300, 0.01), ("recall[cat]", 300, 0.01)],
)  # fmt: skip
def test_a_drift_on_or_past_the_margin_passes_in_one_sample_of_forty_at_most(metric, images, share):
    rule = Rule(metric=metric, margin=0.01)
    states = [outcome(rule, images, share, seed).state for seed in range(80)]
    assert states.count("pass") <= 5  # 2 of 80 are expected at the most; 6 or more: p = 0.02


def test_what_a_sample_need_not_show_bounds_the_exact_interval_of_none():
    from scipy.stats import beta, poisson

    for n in (3, 30, 3_000):
        exact = beta.ppf(0.975, 1, n)
        assert exact < rule_of_three(n) < exact * (1 + 4 / n)
        assert poisson.pmf(0, n * rule_of_three(n)) == pytest.approx(0.025)


def of_embeddings(rule: Rule, one, other) -> RuleOutcome:
    entry = MatrixEntry(
        trained_with="a", evaluated_with="b", backend="torch", precision="fp32", state="measured",
        aligned=False, drift=drift([one], [other], draws=SharedDraws(300)), seeds=(0,),
    )  # fmt: skip
    evidence = Measurements(matrix=[entry], task=one.task.facts())
    return judge(Gate(rules=(rule,)), evidence, controls=()).rules[0]


def test_a_sample_of_identities_is_one_of_so_many_identities():
    rule = Rule(metric="recall@1", margin=0.02)
    few, many = (people(15, images, noise=0.2) for images in (2, 8))
    for one in (few, many):
        found = of_embeddings(rule, one, one)
        # more images of these identities show nothing more
        assert found.needed.images == math.ceil(rule_of_three(15) * 15 / 0.02)
        assert (found.needed.images, found.needed.of) == (185, "identities")
    limit = of_embeddings(Rule(metric="recall@1", fail=0.02), few, few)
    assert (limit.needed.images, limit.needed.of) == (185, "identities")


def test_without_an_interval_a_margin_decides_nothing():
    one, other = (answers(v, [0] * 6) for v in (np.eye(6), np.roll(np.eye(6), 1, axis=0) + 0.1))
    found = of_embeddings(Rule(metric="recall@1", margin=0.02), one, other)
    assert found.state == "inconclusive"
    assert (found.value.low, found.value.reason) == (
        None, "too few images, or groups of images, define it"
    )  # fmt: skip
    assert found.needed.images == 185
