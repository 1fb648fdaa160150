"""Drift of images without labels, against NumPy and against the same images labelled."""

import numpy as np
import pytest

from alignkit.compare import drift, drift_change
from alignkit.compare.answers import aligned, plain_metrics
from alignkit.compare.margins import margins_of
from alignkit.compare.metrics import METRICS, predicted_classes
from alignkit.compare.predictions import Predictions
from alignkit.errors import DataError
from alignkit.samples import NO_LABELS

NAMES = tuple("abcdefghij")


def logits_of(seed: int, noise: float, n: int = 400) -> np.ndarray:
    base = np.random.default_rng(0).normal(size=(n, 10))
    return (base + noise * np.random.default_rng(seed).normal(size=base.shape)).astype(np.float32)


def unlabelled(seed: int = 0, noise: float = 0.0, n: int = 400) -> Predictions:
    ids = tuple(f"{index:04}" for index in range(n))
    return Predictions(ids, np.zeros(0, np.int64), logits_of(seed, noise, n), (), NAMES)


def labelled(seed: int = 0, noise: float = 0.0, n: int = 400) -> Predictions:
    labels = np.random.default_rng(9).integers(0, 10, n)
    ids = tuple(f"{index:04}" for index in range(n))
    return Predictions(ids, labels, logits_of(seed, noise, n), NAMES)


def test_what_needs_labels_is_empty_with_the_reason_and_never_zero():
    found = drift([unlabelled()], [unlabelled(1, 0.5)])
    assert tuple(found.metrics) == METRICS
    for each in found.metrics.values():
        assert (each.value, each.low, each.high, each.reason) == (None, None, None, NO_LABELS)
    empty = ("right_to_wrong", "wrong_to_right", "wrong_to_wrong", "detectable", "mcnemar_p")
    assert [getattr(found, name) for name in empty] == [None] * 5
    assert (found.classes, found.p_values) == ((), {})
    assert set(plain_metrics(unlabelled()).values()) == {None}


def test_churn_and_logits_are_those_of_the_same_images_with_labels():
    for seeds in (1, 3):
        bare = drift(*[[unlabelled(k + s, s * 0.5) for k in range(seeds)] for s in (0, 1)])
        known = drift(*[[labelled(k + s, s * 0.5) for k in range(seeds)] for s in (0, 1)])
        assert bare.churn == known.churn
        assert bare.errors == {"churn": known.errors["churn"]}
        assert (bare.logits, bare.margins, bare.moved) == (known.logits, known.margins, known.moved)
        flips = known.right_to_wrong + known.wrong_to_right + known.wrong_to_wrong
        assert bare.changed == known.changed == flips > 0


def test_margins_are_those_of_sorted_logits():
    before, after = unlabelled(), unlabelled(1, 0.3)
    top = np.sort(before.logits.astype(np.float64), axis=1)
    assert margins_of(before.logits, before.predicted) == pytest.approx(top[:, -1] - top[:, -2])
    rows = np.arange(len(before))
    own = after.logits.astype(np.float64)[rows, before.predicted]
    rest = np.where(np.eye(10, dtype=bool)[before.predicted], -np.inf, after.logits).max(axis=1)
    lost = 1 - (own - rest) / (top[:, -1] - top[:, -2])
    found = drift([before], [after]).margins
    assert (found.p50, found.p99) == pytest.approx(tuple(np.quantile(lost, (0.5, 0.99))))
    changed = before.predicted != after.predicted
    # an image loses its whole margin exactly if its class changes
    assert ((lost > 1) == changed).all()
    assert found.halved == ((lost >= 0.5) & ~changed).sum() > 0
    assert found.compared == 400


def test_images_that_moved_most_are_named_with_both_classes():
    before, after = unlabelled(), unlabelled(1, 0.05)
    moved = drift([before], [after]).moved
    changed = [index for index in range(400) if before.predicted[index] != after.predicted[index]]
    assert 0 < len(changed) < 20 == len(moved)
    assert {each.id for each in moved[: len(changed)]} == {before.ids[index] for index in changed}
    for each in moved:
        index = int(each.id)
        assert each.before == NAMES[before.predicted[index]]
        assert each.after == NAMES[after.predicted[index]]
        assert each.max_abs == pytest.approx(
            np.abs(before.logits[index] - after.logits[index].astype(np.float64)).max()
        )
    for some in (moved[: len(changed)], moved[len(changed) :]):
        assert [each.lost for each in some] == sorted((e.lost for e in some), reverse=True)


def test_equal_predictions_move_no_image_and_lose_no_margin():
    found = drift([unlabelled()], [unlabelled()])
    assert (found.changed, found.churn.value, found.moved) == (0, 0.0, ())
    assert (found.margins.p50, found.margins.p99, found.margins.halved) == (0.0, 0.0, 0)


def test_outputs_that_are_not_finite_have_no_margin():
    after = unlabelled(1, 0.02)
    after.logits[3, 0], after.logits[4] = np.nan, np.inf
    found = drift([unlabelled()], [after])
    assert found.margins.compared == 398
    shown = {each.id: each for each in found.moved}
    assert (shown["0003"].after, shown["0003"].lost) == ("no prediction", None)
    one = Predictions(("a",), np.zeros(0, np.int64), np.ones((1, 1), np.float32), (), ("only",))
    assert "no other output" in drift([one], [one]).margins.reason


def test_equal_rows_that_are_not_finite_have_not_moved():
    before, after = unlabelled(), unlabelled()
    for logits in (before.logits, after.logits):
        logits[3, 0], logits[4, 1], logits[5, 2] = np.inf, -np.inf, np.nan
    assert drift([before], [after]).moved == ()


def test_changes_of_churn_need_no_labels():
    sides = [[unlabelled()], [unlabelled(1, 0.5)], [unlabelled(2, 0.5)]]
    change = drift_change((sides[0], sides[1]), (sides[0], sides[2]), ("churn", "recall.macro"))
    assert change["churn"].change.value is not None
    assert change["recall.macro"].change.reason == NO_LABELS


def test_a_file_of_unlabelled_predictions_is_read_as_it_was_written(tmp_path):
    made = unlabelled(1, 0.5)
    made.to_parquet(tmp_path / "p.parquet")
    again = Predictions.from_parquet(tmp_path / "p.parquet")
    assert (again.ids, again.classes, again.outside) == (made.ids, (), NAMES)
    assert again.labels.shape == (0,)
    assert not again.labelled
    assert (again.logits == made.logits).all()
    assert (again.predicted == predicted_classes(made.logits)).all()
    part = again.rows(np.array([5, 2]))
    assert (part.ids, part.labels.shape) == (("0005", "0002"), (0,))


def test_labelled_and_unlabelled_predictions_are_not_compared():
    with pytest.raises(DataError, match="different classes"):
        aligned(unlabelled(), labelled())
