"""Recall, overlap and changed neighbours of two sides, against plain NumPy and by hand."""

import numpy as np
import pytest

from alignkit.tasks.embedding import Embedding
from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers
from alignkit.tasks.embedding.queries import Queries
from alignkit.tasks.embedding.retrieval import (
    CELLS,
    FIRST,
    KEPT_INDEX,
    REBUILT,
    MedianOf,
    own_search,
    retrieval,
)

N, DIMENSIONS = 400, 24


def searched(reference, candidate, identities, *, queries=5_000, k=10, seed=0):
    drawn = Queries.drawn(identities, queries, seed)
    own = own_search(reference, drawn, k), own_search(candidate, drawn, k)
    return retrieval((reference, candidate), own, drawn, k)


def plain(number):
    """The value of a number with all images weighing alike."""
    n = len(number.above) if hasattr(number, "above") else number.images.max() + 1
    return float(number.of(np.ones((n, 1), np.float32))[0])


def numbers(result):
    """Every number by name; the first cell's recall is no difference."""
    of_cells = {
        (name, cell): getattr(result, name)(cell, *given)
        for name, given in (("recall_change", (1,)), ("recall_change", (10,)), ("overlap", ()),
                            ("churned", ()), ("rank_change", ()))
        for cell in CELLS
    }  # fmt: skip
    return {name: plain(each) for name, each in {**of_cells, **result.measures()}.items()}


@pytest.fixture(scope="module")
def sides():
    draw = np.random.default_rng(0)
    identities = draw.permutation(np.arange(N) % 60)
    centres = draw.normal(size=(60, DIMENSIONS))
    reference = centres[identities] + 0.9 * draw.normal(size=(N, DIMENSIONS))
    candidate = reference + 0.5 * draw.normal(size=(N, DIMENSIONS))
    return reference.astype(np.float32), candidate.astype(np.float32), identities


def by_numpy(index, asked, identities, images):
    """Order of all other images and the rank of the first right one, of each query."""
    index, asked = (
        e / np.linalg.norm(e.astype(np.float64), axis=1)[:, None] for e in (index, asked)
    )
    similar = asked[images] @ index.T
    similar[np.arange(len(images)), images] = -np.inf
    order = np.argsort(-similar, axis=1)[:, :-1]
    right = identities[order] == identities[images][:, None]
    return order, np.where(right.any(axis=1), right.argmax(axis=1) + 1, 0)


@pytest.mark.parametrize("queries", [5_000, 150])
def test_every_cell_is_that_of_a_plain_search(sides, queries):
    reference, candidate, identities = sides
    result = searched(reference, candidate, identities, queries=queries)
    images = result.queries.images
    assert len(images) == min(queries, N)
    vectors = {"reference": reference, "candidate": candidate}
    first, ranks = by_numpy(reference, reference, identities, images)
    known = ranks > 0
    for cell in CELLS:
        order, there = by_numpy(*(vectors[side] for side in cell), identities, images)
        assert (result.cells[cell].near == order[:, :10]).all()
        assert plain(result.recall(cell, 1)) == pytest.approx((there[known] == 1).mean())
        assert plain(result.recall(cell, 10)) == pytest.approx((there[known] <= 10).mean())
        change = (there[known] <= 10).mean() - (ranks[known] <= 10).mean()
        assert plain(result.recall_change(cell, 10)) == pytest.approx(change)
        both = [len({*a} & {*b}) / 10 for a, b in zip(first[:, :10], order[:, :10], strict=True)]
        assert plain(result.overlap(cell)) == pytest.approx(np.mean(both))
        assert plain(result.churned(cell)) == pytest.approx((first[:, 0] != order[:, 0]).mean())
        assert plain(result.rank_change(cell)) == np.median((there - ranks)[known])
    measures = {name: plain(each) for name, each in result.measures().items()}
    assert measures["recall@1.kept"] == plain(result.recall_change(KEPT_INDEX, 1)) != 0
    assert measures["overlap@10"] == plain(result.overlap(KEPT_INDEX)) < 1
    assert measures["neighbour_churn"] == plain(result.churned(KEPT_INDEX)) > 0


def test_equal_vectors_change_nothing_at_all(sides):
    vectors, _, identities = sides
    vectors = vectors.copy()
    vectors[7], vectors[8, 3], vectors[20:40] = 0, np.nan, vectors[20]
    for other in (vectors, vectors.copy()):
        result = searched(vectors, other, identities)
        found = numbers(result)
        assert {v for (name, *_), v in ((n if isinstance(n, tuple) else (n,), v)
                                        for n, v in found.items()) if "overlap" not in name} == {0}  # fmt: skip
        assert {v for n, v in found.items() if "overlap" in str(n)} == {1}
        assert result.equal


def test_weights_of_images_count_a_query_as_often(sides):
    result = searched(*sides)
    weights = np.random.default_rng(4).integers(0, 3, (N, 5)).astype(np.float32)
    counted = result.queries.counted
    for draw in range(5):
        often = weights[:, draw].astype(int)
        hits = np.repeat(result.cells[KEPT_INDEX].hits(1)[counted], often[counted])
        assert result.recall(KEPT_INDEX, 1).of(weights)[draw] == pytest.approx(hits.mean())
        change = result.cells[KEPT_INDEX].ranks - result.cells[FIRST].ranks
        median = np.median(np.repeat(change[counted], often[counted]))
        assert result.rank_change(KEPT_INDEX).of(weights)[draw] == median


def test_a_median_of_nothing_is_undefined():
    weights = np.zeros((3, 2), np.float32)
    assert np.isnan(MedianOf(np.array([1.0, 2.0]), np.array([0, 2])).of(weights)).all()
    assert np.isnan(MedianOf(np.zeros(0), np.zeros(0, np.int64)).of(weights)).all()


def test_an_image_without_a_direction_is_a_miss_and_not_left_out():
    eye = np.eye(4, dtype=np.float32)
    vectors = np.concatenate([eye, eye])  # two images of each of four identities
    broken = vectors.copy()
    broken[0], broken[5] = np.nan, 0
    identities = np.tile(np.arange(4), 2)
    result = searched(vectors, broken, identities, k=3)
    assert plain(result.recall(FIRST, 1)) == 1
    # queries 0 and 5 find nothing; those of their identities lack them in the new index alone
    assert plain(result.recall(KEPT_INDEX, 1)) == 6 / 8
    assert plain(result.recall(REBUILT, 1)) == 4 / 8
    assert result.lacking == (0, 2)
    assert result.cells[KEPT_INDEX].near[0].tolist() == [-1, -1, -1]
    assert plain(result.overlap(KEPT_INDEX)) == 6 / 8


def test_images_alone_of_their_identity_are_no_queries_for_recall():
    vectors = np.array([[1, 0], [1, 0.1], [0, 1]], np.float32)
    result = searched(vectors, vectors, np.array([0, 0, 1]), k=2)
    assert result.queries.counted.tolist() == [True, True, False]
    assert plain(result.recall(FIRST, 1)) == 1
    unknown = searched(vectors, vectors, np.full(3, -1), k=2)
    assert np.isnan(plain(unknown.recall(FIRST, 1)))
    assert plain(unknown.overlap(KEPT_INDEX)) == 1


def test_equal_vectors_of_one_identity_and_single_images():
    same = np.ones((5, 3), np.float32)
    result = searched(same, same * 2, np.zeros(5, np.int64), k=2)
    assert result.cells[FIRST].near.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1]]
    assert plain(result.recall(REBUILT, 1)) == 1
    alone = searched(same[:1], same[:1], np.zeros(1, np.int64), k=2)
    assert alone.cells[FIRST].near.tolist() == [[-1, -1]]
    none = searched(same[:0], same[:0], np.zeros(0, np.int64), k=2)
    assert none.cells[FIRST].near.shape == (0, 2)


def test_queries_are_drawn_by_seed_alone(sides):
    reference, candidate, identities = sides
    drawn = [Queries.drawn(identities, 100, seed).images.tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({*drawn[0]}) == 100
    assert sorted(drawn[0]) == drawn[0]
    broken = candidate.copy()
    broken[drawn[0]] = np.nan
    result = searched(reference, broken, identities, queries=100)
    assert result.queries.images.tolist() == drawn[0]
    assert plain(result.recall(KEPT_INDEX, 1)) == 0


def test_answers_say_what_their_queries_found(sides):
    reference, candidate, identities = sides
    identities = np.where(np.arange(N) == 7, 60, identities)  # alone of its identity
    ids, names = tuple(map(str, range(N))), tuple(map(str, range(61)))
    few = Embedding(queries=N - 1, k=5)
    one, two = (EmbeddingAnswers(ids, each, identities, names, None, few)
                for each in (reference, candidate))  # fmt: skip
    (missing,) = {*range(N)} - {*one.queries.images.tolist()}
    searched_for = np.arange(N) != missing
    orders = [by_numpy(each, each, identities, np.arange(N)) for each in (reference, candidate)]
    moved = (orders[0][0][:, 0] != orders[1][0][:, 0]) & searched_for
    assert (one.changed(two) == moved).all()
    assert plain(one.churn(two)) == pytest.approx(moved.sum() / (N - 1))
    assert not one.changed(one).any()
    right = (orders[0][1] == 1).astype(float)
    right[[7, missing]] = np.nan
    assert np.array_equal(one.quality(), right, equal_nan=True)
    found = one.metrics_of(np.ones((N, 1), np.float32))
    assert found["recall@1"][0] == pytest.approx(np.nanmean(right))
    assert found["recall@5"][0] > found["recall@1"][0]
