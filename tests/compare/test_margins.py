"""Margins are computed a few images at a time, and are those of all images together."""

import numpy as np
import pytest

from alignkit.compare import drift, margins
from alignkit.compare.predictions import Predictions
from alignkit.studies.diff.diff_predictions import nothing_drifts


@pytest.fixture
def pair():
    draw = np.random.default_rng(0)
    before = np.round(draw.normal(size=(50, 9)), 1).astype(np.float32)  # with ties
    after = before + draw.choice([0, 0, 0.3], size=before.shape).astype(np.float32)
    before[3, 2], after[7, 1], before[9], after[9] = np.nan, np.inf, np.inf, np.inf
    ids = tuple(map(str, range(50)))
    return answers(ids, before), answers(ids, after)


def answers(ids, logits):
    outputs = tuple(map(str, range(logits.shape[1])))
    return Predictions(ids, np.zeros(0, np.int64), np.float32(logits), (), outputs)


def test_parts_of_the_images_have_the_numbers_of_all(pair, monkeypatch):
    drift, moved = margins.margin_drift([pair]), margins.moved_most([pair])
    monkeypatch.setattr(margins, "_ROWS", 7)
    assert (margins.margin_drift([pair]), margins.moved_most([pair])) == (drift, moved)
    assert {each.id for each in moved} > {"7"}


ROWS = np.array([[4.0, 1, 0], [0, 3, 1], [2, 0, 5]] * 3)
TIES = np.array([[4.0, 4, 0], [3, 3, 1], [5, 0, 5]] * 3)
NAN, INF = np.full_like(ROWS, np.nan), np.full_like(ROWS, np.inf)
LOST = np.where(np.arange(9)[:, None] % 2, np.nan, TIES)
ONE_HOT = np.eye(3)[ROWS.argmax(axis=1)]
TIED, NO_FINITE = "tied with another", "no image has finite logits"


@pytest.mark.parametrize(
    ("before", "after", "reason", "compared"),
    [
        (ROWS, ROWS * [1.2, 1, 1], "", 9),
        (ONE_HOT, ONE_HOT * 0.9, "", 9),
        (TIES, ROWS, TIED, 0),  # where the reference ties, whatever the candidate does
        (LOST, ROWS, TIED, 0),  # of the images that are left
        (NAN, ROWS, NO_FINITE, 0),
        (ROWS, INF, NO_FINITE, 0),
        (LOST, np.where(np.isnan(LOST), TIES, np.nan), NO_FINITE, 0),  # each on one side alone
    ],
)
def test_margins_that_are_not_known_say_what_is_so(before, after, reason, compared):
    ids = tuple(map(str, range(len(before))))
    found = drift([answers(ids, before)], [answers(ids, after)]).margins
    assert (found.compared, reason in found.reason) == (compared, True)
    assert bool(found.reason) == bool(reason)
    assert (found.p50 is None) == (compared == 0)


@pytest.mark.parametrize("logits", [NAN, ROWS * 0, ROWS * 0 + [5, 0, 0]])
def test_a_model_that_answers_nothing_has_no_margins_and_no_reason_of_their_own(logits):
    ids = tuple(map(str, range(9)))
    both = [answers(ids, logits)], [answers(ids, logits)]
    assert drift(*both).margins is None
    reason = drift(*both).churn.reason
    assert "nothing was compared" in reason
    assert (
        nothing_drifts(
            {"n": 9, "non_finite": 0, "left_out": 0, "left_out_reason": ""}, reason, margins=True
        ).margins.reason
        == reason
    )
