"""How much change an answer bears: the bound against many random changes, the line against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from alignkit.compare.linear_answers import (
    LinearAnswers,
    greatest_changes,
    greatest_safe_changes,
    turning_points,
)
from alignkit.compare.predictions import Predictions
from alignkit.tasks.multi_label import MultiLabel
from tests.task_case import CLASSES, NAMES, ids, labels_of, samples_of


def predictions(logits) -> Predictions:
    logits = np.asarray(logits, np.float32)
    names = tuple(f"c{at}" for at in range(logits.shape[1]))
    labels = np.zeros(len(logits), np.int64)
    return Predictions(tuple(ids(len(logits))), labels, logits, names)


def multi_label(scores, task=None):
    scores = np.asarray(scores, np.float32)
    truth = labels_of(np.zeros(scores.shape, np.bool_))
    samples = samples_of(ids(len(scores)), truth, NAMES)
    return (task or MultiLabel()).answers(ids(len(scores)), scores, samples, CLASSES)


def test_the_bound_of_a_class_is_half_its_margin():
    made = predictions([[3, 1, 0], [0, 0, -1], [5, 5.5, -2]])
    assert greatest_safe_changes(made).tolist() == [1.0, 0.0, 0.25]


def test_the_bound_of_labels_is_the_distance_of_the_nearest_threshold():
    sigmoid = multi_label([[2.0, -0.5, 9], [0.0, 1, 1]])
    assert greatest_safe_changes(sigmoid).tolist() == [0.5, 0.0]
    # of probabilities, and with a threshold for each label: 0.75 is reached by a logit of log 3
    own = MultiLabel(threshold=dict.fromkeys(NAMES, 0.75))
    found = greatest_safe_changes(multi_label([[np.log(3) + 0.25, 9, -9]], own))
    assert found == pytest.approx([0.25], abs=1e-6)
    as_is = MultiLabel(scores="as-is", threshold=0.5)
    assert greatest_safe_changes(multi_label([[0.75, 0.0, 0.875]], as_is)).tolist() == [0.25]
    # a probability of 0 or 1 is one of no finite logit
    assert np.isposinf(greatest_safe_changes(multi_label([[1, 2, 3]], MultiLabel(threshold=1.0))))


def test_the_bound_holds_where_probabilities_are_rounded():
    # the sigmoid of the lesser one is 0.5 in float64
    near, nearer = multi_label([[2.0**-52, 1, 1]]), multi_label([[2.0**-53, 1, 1]])
    assert not near.changed(nearer).any()
    assert near.given.all()
    assert not multi_label([[0.0, 0.0, -(2.0**-53)]]).given.any()


FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
KINDS = {
    "class": predictions,
    "labels by sigmoid": multi_label,
    "labels by own thresholds": lambda scores: multi_label(
        scores, MultiLabel(threshold=dict(zip(NAMES, (0.1, 0.75, 1.0), strict=True)))
    ),
    "labels by scores as they are": lambda scores: multi_label(
        scores, MultiLabel(scores="as-is", threshold=0.5)
    ),
}


def test_every_kind_of_answers_with_a_bound_is_among_the_cases():
    values = np.zeros((1, len(NAMES)))
    assert {type(made(values)) for made in KINDS.values()} == set(LinearAnswers.__subclasses__())


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_no_change_below_the_bound_changes_an_answer(kind, data):
    """Any outputs, and any change of them: float32 as runtimes give, ties, NaN and infinity too."""
    outputs = len(NAMES) if kind != "class" else data.draw(st.integers(1, 6))
    rows = arrays(np.float32, (data.draw(st.integers(1, 4)), outputs), elements=FLOATS)
    raw = data.draw(rows)
    own = KINDS[kind](raw)
    safe = greatest_safe_changes(own)
    changes = {"any": data.draw(rows)}
    # just below the bound, where a fault would show
    finite = np.where(np.isfinite(safe), safe, 1.0)[:, None]
    share = data.draw(st.floats(0, 1))
    signs = data.draw(arrays(np.float64, raw.shape, elements=st.sampled_from([-1.0, 0.0, 1.0])))
    changes["near"] = (raw + share * finite * signs).astype(np.float32)
    for moved in changes.values():
        other = KINDS[kind](moved)
        # rounding to float32 may exceed the size that was asked for
        below = greatest_changes(own, other) < safe
        assert not (own.changed(other) & below).any()


def test_a_change_right_above_the_bound_can_change_every_answer():
    rng = np.random.default_rng(3)
    raw = rng.normal(size=(200, 5)).astype(np.float32)
    own = predictions(raw)
    order = np.argsort(raw, axis=1)
    moved = raw.astype(np.float64)
    size = greatest_safe_changes(own) * (1 + 1e-4)
    moved[np.arange(200), order[:, -1]] -= size
    moved[np.arange(200), order[:, -2]] += size
    assert own.changed(predictions(moved)).all()


def test_turning_points_by_hand():
    before = predictions([[4, 0, 0], [4, 0, 0], [4, 0, 0], [1, 1, 0]])
    after = predictions([[0, 4, 0], [3, 0, 2], [5, 0, 0], [0, 1, 0]])
    # 4 - 4t against 4t: ½; 4 - t against 2t: 4/3; never; a tie that breaks at once
    assert turning_points(before, after) == pytest.approx([0.5, 4 / 3, np.inf, 0.0])


@pytest.mark.parametrize("made", [predictions, multi_label])
def test_turning_points_agree_with_the_answers_on_the_line(made):
    rng = np.random.default_rng(5)
    raw, moved = rng.normal(size=(2, 5000, 3))  # more than one part
    before, after = made(raw), made(moved)
    turns = turning_points(before, after)
    ends = [each.raw_rows().astype(np.float64) for each in (before, after)]
    for share in (0.1, 0.25, 0.5, 1.0, 1.7, 3.0):
        mixed = made((1 - share) * ends[0] + share * ends[1])
        assert np.array_equal(before.changed(mixed), turns < share)
        assert np.array_equal(before.toward(after, share).raw_rows(), mixed.raw_rows())
    assert np.array_equal(before.changed(after), turns < 1)


def test_the_ends_of_the_line_are_the_answers_themselves():
    raw, moved = (np.random.default_rng(6).normal(size=(2, 30, 4)) * 1e6).astype(np.float32)
    before, after = predictions(raw), predictions(moved)
    assert np.array_equal(before.toward(after, 0.0).logits, raw)
    assert np.array_equal(before.toward(after, 1.0).logits, moved)


def test_nan_bears_nothing_and_an_infinite_output_decides():
    before = predictions([[np.nan, 1], [np.inf, 1], [5, 1], [5, -np.inf]])
    after = predictions([[0, 1], [np.inf, 1], [np.nan, 1], [4, -np.inf]])
    assert greatest_safe_changes(before).tolist()[:3] == [0.0, np.inf, 2.0]
    assert turning_points(before, after).tolist() == [0.0, np.inf, 0.0, np.inf]
    assert greatest_changes(before, after).tolist() == [np.inf, np.inf, np.inf, np.inf]
    assert greatest_safe_changes(multi_label([[np.nan, 5, 5]])).tolist() == [0.0]


def test_a_single_output_has_no_rival():
    made = predictions([[1.0], [2.0]])
    assert np.isposinf(greatest_safe_changes(made)).all()
    assert np.isposinf(turning_points(made, predictions([[0.0], [9.0]]))).all()


def test_images_without_labels_have_bounds_too():
    made = Predictions(("a",), np.zeros(0, np.int64), np.ones((1, 2), np.float32), (), ("x", "y"))
    assert greatest_safe_changes(made).tolist() == [0.0]
