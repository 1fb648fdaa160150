"""Changes of averages over classes with few images: against loops, and by small simulations."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.metrics import f1_score, precision_score, recall_score

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.class_changes import changes_by_image, resampled
from alignkit.compare.predictions import Predictions
from alignkit.tasks.multi_label.multi_label_answers import MultiLabelAnswers

SCORES = {"recall.macro": recall_score, "precision.macro": precision_score, "f1.macro": f1_score}


def answers(labels, predicted, classes, outside=0):
    """One-hot logits; a prediction of -1 is NaN, one of ``classes`` and above an outside class."""
    logits = np.zeros((len(labels), classes + outside), np.float32)
    for row, each in zip(logits, predicted, strict=True):
        row[slice(None) if each < 0 else each] = np.nan if each < 0 else 1
    names = tuple(map(str, range(classes + outside)))
    ids = tuple(map(str, range(len(labels))))
    return Predictions(ids, np.asarray(labels), logits, names[:classes], names[classes:])


def sides(rng, classes, images, lose, win):
    labels = np.repeat(np.arange(classes), images)
    wrong, other = ((labels + rng.integers(1, classes, len(labels))) % classes for _ in "ab")
    before = np.where(rng.random(len(labels)) < 0.75, labels, wrong)
    chance, right = rng.random(len(labels)), before == labels
    after = np.where(right & (chance < lose / 0.75), other, before)
    after = np.where(~right & (chance < win / 0.25), labels, after)
    return labels, before, after


def macro(name, labels, predicted, classes):
    """By scikit-learn; the mean over the classes that are defined, as alignkit averages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_class = SCORES[name](
            labels, predicted, labels=range(classes), average=None, zero_division=np.nan
        )
    return np.nanmean(by_class)


CASES = {
    "one image a class": ([0, 1, 2, 3], [0, 1, 2, 2], [0, 1, 3, 3]),
    "two images a class": ([0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 1, 1, 2, 0, 3, 3],
                           [0, 0, 1, 2, 2, 0, 3, 1]),
    "unequal classes": ([0, 1, 1, 2, 2, 2, 3, 3, 3, 3], [0, 1, 2, 2, 2, 2, 3, 3, 0, 3],
                        [1, 1, 1, 2, 0, 2, 3, 3, 3, 2]),
    "a class that one side never predicts": ([0, 0, 1, 1, 2, 3], [0, 0, 1, 1, 2, 3],
                                             [0, 0, 1, 1, 1, 3]),
    "a class without an image": ([0, 0, 1, 1, 2, 2], [0, 3, 1, 1, 2, 2], [0, 0, 1, 3, 2, 2]),
    "a change between two wrong classes": ([0, 0, 1, 2, 3], [1, 0, 1, 2, 3], [2, 0, 1, 2, 3]),
    "nothing changes": ([0, 1, 2, 3], [0, 1, 2, 2], [0, 1, 2, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SCORES])
@pytest.mark.parametrize("case", [*CASES])
def test_an_image_adds_what_the_change_loses_without_its_own_change(case, name):
    labels, before, after = map(np.array, CASES[case])
    change = changes_by_image(*(answers(labels, e, 4).tallies() for e in (before, after)))[name]
    ends = [macro(name, labels, each, 4) for each in (before, after)]
    expected = np.zeros(len(labels))
    for image in np.flatnonzero(before != after):
        kept, alone = after.copy(), before.copy()
        kept[image], alone[image] = before[image], after[image]
        lost = ends[1] - macro(name, labels, kept, 4)
        expected[image] = (lost + macro(name, labels, alone, 4) - ends[0]) / 2
    assert change.change == pytest.approx(ends[1] - ends[0], abs=1e-12)
    found = np.zeros(len(labels))
    found[change.images] = change.added
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("before", "after", "outside"),
    [([0, 1, 2], [0, 1, 3], 1), ([0, 1, 2], [0, -1, 2], 0), ([-1, -1, -1], [0, -1, -1], 0)],
    ids=["an outside class", "no prediction", "nothing was predicted before"],
)
def test_a_prediction_of_no_class_is_a_lost_one(before, after, outside):
    one, other = (answers([0, 1, 2], each, 3, outside) for each in (before, after))
    change = changes_by_image(one.tallies(), other.tallies())["recall.macro"]
    assert change.added.sum() == pytest.approx(change.change)
    assert abs(change.change) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("classes", "images"), [(60, 1), (30, 2), (20, 3), (12, 5), (6, 20)])
def test_macro_recall_of_equal_classes_has_the_interval_and_p_of_top1(classes, images):
    labels, *both = sides(np.random.default_rng(3), classes, images, 0.1, 0.03)
    found = drift(*([answers(labels, each, classes)] for each in both), draws=SharedDraws(500))
    ours, plain = (found.metrics[name] for name in ("recall.macro", "top1"))
    assert [ours.value, ours.low, ours.high] == pytest.approx([plain.value, plain.low, plain.high])
    assert found.p_values["recall.macro"] == pytest.approx(found.p_values["top1"])


@pytest.mark.parametrize(("classes", "images"), [(60, 1), (4, 20)])
def test_standard_errors_are_those_of_new_sets(classes, images):
    # resamples that drop classes gave 0.77 of it with one image a class
    rng, names = np.random.default_rng(1), ("top1", *SCORES, "precision.weighted", "f1.weighted")
    seen = {name: [] for name in names}
    for _ in range(80):
        labels, *both = sides(rng, classes, images, 0.05, 0.05)
        found = drift(*([answers(labels, each, classes)] for each in both), draws=SharedDraws(100))
        for name, known in seen.items():
            known.append((found.metrics[name].value, found.errors[name].images))
    ratio = {}
    for name, known in seen.items():
        change, error = np.array(known).T
        ratio[name] = np.sqrt((error**2).mean()) / change.std()
    # so few sets show the spread to 8 %, of all metrics alike
    assert ratio["top1"] == pytest.approx(1, abs=0.25)
    assert ratio == pytest.approx(dict.fromkeys(names, ratio["top1"]), rel=0.12)


@pytest.mark.parametrize("flips", [1, 3, 20])
def test_the_far_end_of_flips_that_go_one_way_is_near_that_of_a_poisson_number(flips):
    # Garwood, Biometrika 28, 1936; percentiles at n - 1 degrees of freedom end at 3, 5, 7, 10, …
    labels = np.arange(400)
    after = labels.copy()
    after[:flips] = (labels[:flips] + 1) % 400
    found = drift([answers(labels, labels, 400)], [answers(labels, after, 400)])
    exact = chi2.ppf(0.975, 2 * flips + 2) / 2
    for end in (found.churn.high, -found.metrics["top1"].low, -found.metrics["recall.macro"].low):
        assert 400 * end == pytest.approx(exact, abs=0.05 * exact + 1.2)


def test_a_seed_without_a_change_counts_as_one():
    labels, before, after = sides(np.random.default_rng(0), 20, 2, 0.1, 0.1)
    home = [answers(labels, before, 20)] * 3
    cells = [home, [home[0], *[answers(labels, after, 20)] * 2]]
    found = drift(*cells, draws=SharedDraws(300)).metrics["recall.macro"]
    assert found.value == pytest.approx(
        ((after == labels).mean() - (before == labels).mean()) / 1.5
    )


def labelled(scores):
    """One label an image, as many labels as images."""
    count = len(scores)
    names = tuple(map(str, range(count)))
    limits = (0.5,) * count
    return MultiLabelAnswers(names, np.eye(count, dtype=bool), scores, names, (), limits, "as-is")


def test_a_class_weighs_in_map_as_often_as_its_objects_are_drawn():
    rng = np.random.default_rng(0)
    tallies = labelled(rng.random((12, 12)).astype(np.float32)).tallies()
    weights = np.concatenate([*SharedDraws(50).of(12, None)], axis=1)
    by_class = tallies.metrics_of(weights)["ap"]
    expected = np.nansum(by_class * weights, axis=0) / weights.sum(axis=0)
    assert resampled(tallies, weights)["map"] == pytest.approx(expected)
    ones = np.ones((12, 1), np.float32)
    assert resampled(tallies, ones)["map"] == tallies.metrics_of(ones)["map"]


def test_the_error_of_map_is_that_of_new_sets():
    rng, known = np.random.default_rng(2), []
    for _ in range(60):
        base = 0.8 * np.eye(25) * (rng.random((25, 1)) < 0.7) + 0.5 * rng.random((25, 25))
        both = ((base + 0.15 * rng.random((25, 25))).clip(0, 1) for _ in "ab")
        one, other = (labelled(each.astype(np.float32)) for each in both)
        found = drift([one], [other], draws=SharedDraws(100))
        known.append((found.metrics["map"].value, found.errors["map"].images))
    change, error = np.array(known).T
    assert np.sqrt((error**2).mean()) / change.std() == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("images", [1, 60, 400])
def test_a_change_that_no_image_moves_says_what_may_be_unseen(images):
    labels = np.arange(images) % 20
    side = answers(labels, labels, 20)
    found = drift([side], [replace(side)])
    top1, recall = (found.metrics[name] for name in ("top1", "recall.macro"))
    if images == 1:
        assert (top1.value, top1.low) == (0, None)
        return
    # e^-3.6889 is 0.025; the smallest class of 20 has images / 20
    assert top1.reason == f"none of {images}; up to {368.89 / images:.1f}\N{NO-BREAK SPACE}% unseen"
    assert (top1.low, top1.high, recall.reason) == (0, 0, top1.reason)
    assert found.churn.reason == top1.reason
