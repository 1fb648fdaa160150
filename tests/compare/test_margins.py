"""Margins are computed a few images at a time, and are those of all images together."""

import numpy as np
import pytest

from alignkit.compare import margins
from alignkit.compare.predictions import Predictions


@pytest.fixture
def pair():
    draw = np.random.default_rng(0)
    before = np.round(draw.normal(size=(50, 9)), 1).astype(np.float32)  # with ties
    after = before + draw.choice([0, 0, 0.3], size=before.shape).astype(np.float32)
    before[3, 2], after[7, 1], before[9], after[9] = np.nan, np.inf, np.inf, np.inf
    ids = tuple(map(str, range(50)))
    none = np.zeros(0, np.int64)
    return tuple(
        Predictions(ids, none, each, (), tuple(map(str, range(9)))) for each in (before, after)
    )


def test_parts_of_the_images_have_the_numbers_of_all(pair, monkeypatch):
    drift, moved = margins.margin_drift([pair]), margins.moved_most([pair])
    monkeypatch.setattr(margins, "_ROWS", 7)
    assert (margins.margin_drift([pair]), margins.moved_most([pair])) == (drift, moved)
    assert {each.id for each in moved} > {"7"}
