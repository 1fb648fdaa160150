"""Drift against scikit-learn, statsmodels and scipy's own bootstrap."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap
from sklearn.metrics import precision_score, recall_score

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.metrics import METRICS
from alignkit.compare.predictions import Predictions
from alignkit.compare.statistics import detectable_effect
from alignkit.errors import DataError, NothingCompared

CLASSES = tuple("abcdefghij")

FLIPS = ("right_to_wrong", "wrong_to_right", "wrong_to_wrong")


def predictions(seed=0, n=1_000, classes=10, noise=0.0, shared=0) -> Predictions:
    rng = np.random.default_rng(shared)
    labels = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)) + 2.0 * np.eye(classes)[labels]
    logits += noise * np.random.default_rng(seed).normal(size=logits.shape)
    ids = tuple(f"{index:05}" for index in range(n))
    return Predictions(ids, labels, logits.astype(np.float32), CLASSES[:classes])


def estimates(found):
    yield from found.metrics.values()
    yield found.churn
    for each in found.classes:
        yield each.recall
        yield each.precision


def test_the_same_predictions_drift_by_exactly_zero():
    sides = [predictions(seed, noise=0.3) for seed in range(3)]
    again = [predictions(seed, noise=0.3) for seed in range(3)]
    found = drift(reference=sides, candidate=again)
    assert {(each.value, each.low, each.high) for each in estimates(found)} == {(0.0, 0.0, 0.0)}
    assert [getattr(found, each) for each in FLIPS] == [0, 0, 0]
    assert (found.logits.max_abs, found.logits.mean_abs, found.logits.cosine) == (0.0, 0.0, 1.0)
    assert found.mcnemar_p == 1.0
    assert found.detectable == detectable_effect(1_000, 0.0)


def test_values_are_the_differences_of_scikit_learns():
    before, after = predictions(), predictions(1, noise=0.5)
    found = drift(reference=[before], candidate=[after], draws=SharedDraws(50))
    for average in ("macro", "micro", "weighted"):
        for name, score in (("recall", recall_score), ("precision", precision_score)):
            new = score(after.labels, after.predicted, average=average)
            old = score(before.labels, before.predicted, average=average)
            assert found.metrics[f"{name}.{average}"].value == pytest.approx(new - old, abs=1e-12)
    new = precision_score(after.labels, after.predicted, average=None)
    old = precision_score(before.labels, before.predicted, average=None)
    assert [each.precision.value for each in found.classes] == pytest.approx(new - old)
    assert found.churn.value == np.mean(before.predicted != after.predicted)
    assert [each.support for each in found.classes] == np.bincount(before.labels).tolist()
    assert tuple(found.metrics) == METRICS


def test_outputs_outside_the_classes_are_wrong_and_change_churn_as_any_other():
    before, after = (predictions(seed, n=300, noise=1.5) for seed in (1, 2))
    three = before.labels < 3  # the images of three classes, under models of more outputs

    def of_three(whole: Predictions) -> Predictions:
        kept = whole.rows(np.flatnonzero(three))
        return replace(kept, classes=whole.classes[:3], outside=whole.classes[3:])

    sides = of_three(before), of_three(after)
    found = drift(reference=[sides[0]], candidate=[sides[1]], draws=SharedDraws(50))
    old, new = (each.predicted for each in sides)
    assert set(new) - {0, 1, 2}
    assert found.churn.value == np.mean(old != new)
    truth = sides[0].labels
    moved = (old != truth) & (new != truth) & (old != new)
    assert found.wrong_to_wrong == moved.sum() > 0
    for average in ("macro", "micro", "weighted"):
        for name, score in (("recall", recall_score), ("precision", precision_score)):
            options = {"labels": range(3), "average": average}
            change = score(truth, new, **options) - score(truth, old, **options)
            assert found.metrics[f"{name}.{average}"].value == pytest.approx(change, abs=1e-12)
    assert [each.name for each in found.classes] == list(before.classes[:3])


def test_several_seeds_are_averaged_and_their_flips_summed():
    befores = [predictions(seed, noise=0.2) for seed in (1, 2)]
    afters = [predictions(seed, noise=0.5) for seed in (3, 4)]
    joint = drift(reference=befores, candidate=afters, draws=SharedDraws(50))
    single = [
        drift(reference=[a], candidate=[b], draws=SharedDraws(50))
        for a, b in zip(befores, afters, strict=True)
    ]
    for name in METRICS:
        mean = np.mean([each.metrics[name].value for each in single])
        assert joint.metrics[name].value == pytest.approx(mean, abs=1e-12)
    assert joint.churn.value == pytest.approx(np.mean([each.churn.value for each in single]))
    for flips in FLIPS:
        assert getattr(joint, flips) == sum(getattr(each, flips) for each in single)
    assert joint.n == 1_000 * 2


def test_seed_sides_count_an_image_once_in_mcnemar():
    one = drift(
        reference=[predictions()], candidate=[predictions(1, noise=0.5)], draws=SharedDraws(10)
    )
    thrice = drift(
        reference=[predictions()] * 3,
        candidate=[predictions(1, noise=0.5)] * 3,
        draws=SharedDraws(10),
    )
    assert thrice.mcnemar_p == one.mcnemar_p
    assert thrice.detectable == pytest.approx(one.detectable)
    joint, single = thrice.metrics["top1"], one.metrics["top1"]
    # equal seeds add nothing but Student's quantile at 999 degrees of freedom
    assert (joint.value, joint.low, joint.high) == pytest.approx(
        (single.value, single.low, single.high), rel=2e-3
    )
    assert joint.value == single.value
    assert thrice.errors["top1"].seeds == 0.0


@pytest.mark.parametrize("seeds", [1, 3])
def test_intervals_agree_with_scipys_paired_bootstrap(seeds):
    n = 400
    befores = [predictions(seed, n=n, classes=4, noise=0.2) for seed in range(seeds)]
    afters = [predictions(seed + 10, n=n, classes=4, noise=0.8) for seed in range(seeds)]
    found = drift(reference=befores, candidate=afters, draws=SharedDraws(8_000))

    def recall_drift(index):
        def macro(side):
            labels, right = side.labels[index], (side.predicted == side.labels)[index]
            return np.mean([right[labels == each].mean() for each in range(4)])

        pairs = zip(befores, afters, strict=True)
        return np.mean([macro(after) - macro(before) for before, after in pairs])

    theirs = scipy_bootstrap(
        (np.arange(n),), recall_drift, vectorized=False, n_resamples=1_500, method="percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval  # fmt: skip
    ours = found.metrics["recall.macro"]
    # a 2.5 % quantile of 1,500 draws has a standard error of some 0.07 standard deviations
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.06 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.06 * width)


def test_intervals_cover_a_known_difference_about_19_times_in_20():
    covered = 0
    rng = np.random.default_rng(0)
    for repeat in range(100):
        flipped = rng.choice(3, size=300, p=[0.90, 0.07, 0.03])  # lost 7 %, won 3 %: -4 points
        labels = np.zeros(300, np.int64)
        right = rng.random(300) < 0.5
        before = np.where(flipped == 0, right, flipped == 1)
        after = np.where(flipped == 0, right, flipped == 2)
        ids = tuple(map(str, range(300)))
        sides = [
            Predictions(ids, labels, np.eye(2, dtype=np.float32)[1 - side.astype(int)], ("x", "y"))
            for side in (before, after)
        ]
        found = drift(reference=sides[:1], candidate=sides[1:], draws=SharedDraws(400, repeat))
        covered += found.metrics["top1"].low <= -0.04 <= found.metrics["top1"].high
    assert 0.88 <= covered / 100 <= 0.99


def test_drift_is_deterministic_in_the_seed():
    sides = {"reference": [predictions()], "candidate": [predictions(1, noise=0.5)]}
    assert drift(**sides, draws=SharedDraws(200)) == drift(**sides, draws=SharedDraws(200))
    other = drift(**sides, draws=SharedDraws(200, 1))
    assert (
        other.metrics["recall.macro"]
        != drift(**sides, draws=SharedDraws(200)).metrics["recall.macro"]
    )


def test_undefined_ratios_are_none_with_a_reason():
    labels = np.array([0, 0, 1, 1])
    ids, classes = tuple("wxyz"), ("a", "b", "c")
    before = Predictions(ids, labels, np.eye(3, dtype=np.float32)[[0, 0, 1, 1]], classes)
    after = Predictions(ids, labels, np.eye(3, dtype=np.float32)[[0, 0, 0, 2]], classes)
    found = drift(reference=[before], candidate=[after], draws=SharedDraws(100))
    absent, lost = found.classes[2], found.classes[1]
    assert absent.recall.value is None
    assert "no image" in absent.recall.reason
    assert lost.precision.value is None
    assert "never predicts" in lost.precision.reason
    assert lost.recall.value == -1.0
    assert found.metrics["top1"].value == -0.5


def test_a_model_that_gives_nan_is_wrong_and_counted():
    before, after = predictions(n=100), predictions(n=100)
    after.logits[:7] = np.nan
    found = drift(reference=[before], candidate=[after], draws=SharedDraws(100))
    assert found.non_finite == 7
    assert found.logits.max_abs == 0.0
    assert found.right_to_wrong == np.sum(before.predicted[:7] == before.labels[:7])
    assert found.churn.value == 0.07


def test_images_only_one_side_predicted_are_left_out():
    before, after = predictions(n=100), predictions(n=100)
    found = drift(
        reference=[before.rows(np.arange(90))], candidate=[after.rows(np.arange(20, 100))],
        draws=SharedDraws(10),
    )  # fmt: skip
    assert found.n == 70


def test_sides_that_do_not_pair_up_are_refused():
    one = predictions(n=20)
    with pytest.raises(DataError, match="1 reference and 2 candidate"):
        drift(reference=[one], candidate=[one, one])
    with pytest.raises(DataError, match="different images"):
        drift(reference=[one, one.rows(np.arange(10))], candidate=[one, one])
    with pytest.raises(NothingCompared):
        drift(reference=[one.rows(np.arange(9))], candidate=[one.rows(np.arange(9, 20))])
