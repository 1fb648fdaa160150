"""Search in an index against plain NumPy, one pair at a time."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

from alignkit.tasks.embedding import queries as module
from alignkit.tasks.embedding.queries import first_right, nearest
from alignkit.tasks.embedding.unit_vectors import (
    error_bound,
    similarities,
    similarity_blocks,
    unit_vectors,
)

NORMAL = np.random.default_rng(0).normal
CASES = {
    "normal": NORMAL(size=(300, 16)),
    "each ten times": np.repeat(NORMAL(size=(30, 16)), 10, axis=0),
    "all equal": np.ones((300, 16)),
    "few directions": NORMAL(size=(300, 3)).round() + 0.5,
    "all but equal": NORMAL(size=16) + 1e-6 * NORMAL(size=(300, 16)),
    "one dimension": NORMAL(size=(300, 1)),
    "fewer than asked for": NORMAL(size=(6, 16)),
}


def plain(index, queries, own):
    """All images by similarity, then by place; a query's own image is left out."""
    wide = index.astype(float)
    similar = [[float(np.dot(one, other)) for other in wide] for one in queries.astype(float)]
    return [
        sorted((place for place in range(len(index)) if place != mine), key=lambda p: (-row[p], p))
        for row, mine in zip(similar, own, strict=True)
    ]


@pytest.fixture(params=CASES)
def case(request):
    units, _ = unit_vectors(CASES[request.param].astype(np.float32))
    own = np.sort(np.random.default_rng(1).permutation(len(units))[:60])
    return units, own


def test_the_nearest_are_those_of_a_plain_search(case):
    units, own = case
    found = nearest(units, units[own], own, 10)
    for row, expected in enumerate(plain(units, units[own], own)):
        assert [each for each in found.images[row] if each >= 0] == expected[:10]
        products = units[expected[:10]].astype(float) * units[own[row]].astype(float)
        exact = [math.fsum(each) for each in products]
        assert found.similarity[row, : len(exact)] == pytest.approx(exact, abs=1e-15)
    assert ((found.images < 0) == np.isneginf(found.similarity)).all()


def test_queries_of_another_side_do_not_find_their_own_image(case):
    units, own = case
    others, _ = unit_vectors(units[own] + np.float32(0.05))
    own[::3] = -1  # not in the index, so that all of its images are found
    found = nearest(units, others, own, 5)
    expected = plain(units, others, own)
    assert [[p for p in row if p >= 0] for row in found.images.tolist()] == [
        e[:5] for e in expected
    ]


def test_the_rank_of_the_first_right_image_is_that_of_a_plain_search(case):
    units, own = case
    for count in (1, 3, 100):
        identities = np.random.default_rng(2).integers(0, count, len(units))
        found = nearest(units, units[own], own, 4)
        ranks = first_right(units, identities, units[own], identities[own], own, found)
        for row, order in enumerate(plain(units, units[own], own)):
            right = np.flatnonzero(identities[order] == identities[own[row]])
            assert ranks[row] == (right[0] + 1 if len(right) else 0)


def test_a_product_of_matrices_tells_what_is_above_and_what_is_equal(case):
    units, own = case
    none = np.full(len(own), -1)
    (exact,) = [found for _, found in similarity_blocks(units[own], units, none)]
    for rank in (0, 3, -1):
        around = np.sort(exact, axis=1)[:, rank]
        (found,) = [each for _, each in similarity_blocks(units[own], units, none, around)]
        for told in (np.greater, np.equal):
            assert (told(found, around[:, None]) == told(exact, around[:, None])).all()


def test_of_an_identity_that_the_index_lacks_nothing_is_found():
    units, _ = unit_vectors(CASES["normal"].astype(np.float32))
    identities, own = np.zeros(300, np.int64), np.full(2, -1)
    found = nearest(units, units[:2], own, 4)
    assert first_right(units, identities, units[:2], np.array([7, 0]), own, found).tolist() == [
        0,
        1,
    ]


def test_a_search_settles_few_queries_twice_and_none_wrongly(monkeypatch):
    """A search of the whole index is for near ties: the bound must hold, and be worth its price."""
    units, _ = unit_vectors(NORMAL(size=(2_000, 64)).astype(np.float32))
    again = []
    searched = module._searched
    monkeypatch.setattr(
        module, "_searched", lambda *given: again.append(len(given[1])) or searched(*given)
    )
    nearest(units, units, np.arange(2_000), 10)
    assert again == [0]
    equal = np.repeat(units[:50], 40, axis=0)
    nearest(equal, equal, np.arange(2_000), 10)
    assert again == [0, 2_000]


@pytest.mark.parametrize("error", [0.25, 2**-14])
def test_a_library_that_sums_worse_than_float32_changes_nothing(monkeypatch, error):
    import faiss

    units, _ = unit_vectors(CASES["normal"].astype(np.float32))
    own = np.arange(300)
    expected = nearest(units, units, own, 10)
    exact = faiss.knn

    def rough(queries, index, wanted, **given):
        similar, places = exact(queries, index, len(index), **given)
        similar += np.random.default_rng(0).uniform(-error, error, similar.shape)
        order = np.argsort(-similar, axis=1)[:, :wanted]
        return tuple(np.take_along_axis(each, order, axis=1) for each in (similar, places))

    monkeypatch.setattr(faiss, "knn", rough)
    found = nearest(units, units, own, 10)
    assert (found.images == expected.images).all()
    assert (found.similarity == expected.similarity).all()


def test_sums_in_float32_stay_within_the_bound():
    for dimensions in (2, 512, 4_096):
        units, _ = unit_vectors(NORMAL(size=(64, dimensions)).astype(np.float32))
        exact = np.hstack([block for _, block in similarity_blocks(units, units, np.full(64, -1))])
        forwards, backwards = units @ units.T, units[:, ::-1] @ units[:, ::-1].T
        apart = max(np.abs(exact - each).max() for each in (forwards, backwards))
        assert 0 < apart < error_bound(dimensions)


def test_a_similarity_does_not_depend_on_what_stands_beside_its_pair():
    units, _ = unit_vectors(np.exp(NORMAL(size=(50, 333))).astype(np.float32))
    whole = similarities(units[:, None], units)
    order = np.random.default_rng(3).permutation(50)
    assert (whole == whole.T).all()
    assert (similarities(units[:, None], units[order]) == whole[:, order]).all()
    for part in (slice(0, 1), slice(7, 40), slice(None, None, 3)):
        assert (similarities(units[part, None], units) == whole[part]).all()


@pytest.mark.parametrize("size", [1e-45, 1e-30, 1.0, 8e37])
def test_a_vector_of_any_length_has_a_direction(size):
    vectors = np.array([[3, 4], [0, -2], [0, 0]], np.float32) * np.float32(size)
    units, images = unit_vectors(vectors)
    assert images.tolist() == [0, 1]
    assert np.abs(units - [[0.6, 0.8], [0, -1]]).max() < (0.2 if size == 1e-45 else 2**-25)


def test_only_finite_vectors_that_are_not_zero_have_a_direction():
    vectors = np.array(
        [[1, 2], [np.nan, 1], [0, 0], [np.inf, 0], [-1, 0], [0, -np.inf]], np.float32
    )
    units, images = unit_vectors(vectors)
    assert images.tolist() == [0, 4]
    assert units.dtype == np.float32
    assert np.abs(np.linalg.norm(units.astype(np.float64), axis=1) - 1).max() < 2**-23
    assert unit_vectors(vectors[:0])[0].shape == (0, 2)


SEARCH = """
import hashlib, sys
import faiss, numpy as np
from alignkit.tasks.embedding.queries import nearest
from alignkit.tasks.embedding.unit_vectors import unit_vectors
faiss.omp_set_num_threads(int(sys.argv[1]))
faiss.cvar.distance_compute_blas_threshold = int(sys.argv[2])
draw = np.random.default_rng(0)
units, _ = unit_vectors((draw.normal(size=64) + draw.normal(size=(1000, 64))).astype(np.float32))
units[500:600] = units[:100]
own = np.arange(1000)
parts = [nearest(units, units[part], own[part], 10) for part in np.array_split(own, int(sys.argv[3]))]
bits = b"".join(each.images.tobytes() + each.similarity.tobytes() for each in parts)
images = np.concatenate([each.images for each in parts])
similarity = np.concatenate([each.similarity for each in parts])
print(hashlib.sha256(images.tobytes() + similarity.tobytes()).hexdigest())
"""


def test_threads_and_blocks_change_no_bit():
    found = set()
    for threads, threshold, parts in (("1", "20", "1"), ("2", "20", "7"), ("2", "100000", "60")):
        done = subprocess.run(
            [sys.executable, "-c", SEARCH, threads, threshold, parts],
            env={**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        found.add(done.stdout)
    assert len(found) == 1
