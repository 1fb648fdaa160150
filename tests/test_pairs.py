"""Pairs that data gives stay with the images that are taken."""

from dataclasses import replace

import numpy as np
import pytest

from alignkit.annotations import Pairs
from alignkit.errors import DataError
from alignkit.samples import Samples

PAIRS = Pairs(
    np.array([0, 1, 2, 0]), np.array([1, 2, 3, 3]), np.array([True, False, True, False]),
    np.array([0, 0, 1, 9]),
)  # fmt: skip
SAMPLES = Samples(("a", "b", "c", "d"), (), (), lambda _: b"", "f", pairs=PAIRS)


def listed(pairs, ids):
    return [
        (ids[a], ids[b], bool(same), int(fold))
        for a, b, same, fold in zip(pairs.first, pairs.second, pairs.same, pairs.fold, strict=True)
    ]


def test_pairs_follow_their_images_into_a_selection():
    taken = SAMPLES.take([3, 2, 0])
    assert listed(taken.pairs, taken.ids) == [("c", "d", True, 1), ("a", "d", False, 9)]
    assert len(SAMPLES.take([1]).pairs) == 0
    assert len(SAMPLES.take([]).pairs) == 0
    assert replace(SAMPLES, pairs=None).take([0, 1]).pairs is None


def test_a_selection_of_all_keeps_all_pairs():
    taken = SAMPLES.take(range(4))
    assert listed(taken.pairs, taken.ids) == listed(PAIRS, SAMPLES.ids)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"second": np.array([0, 2, 3, 3])}, "pair 0 has the same image twice, number 0"),
        ({"fold": np.array([0, 0, 1, 10])}, "from 0 to 9"),
        ({"same": np.array([True])}, "4 pairs need as many"),
    ],
)
def test_wrong_pairs_are_refused(change, said):
    with pytest.raises(DataError, match=said):
        replace(PAIRS, **change)


def test_an_image_taken_twice_has_no_place_for_its_pairs():
    with pytest.raises(DataError, match="taken twice"):
        SAMPLES.take([0, 0])
