"""Tables, neighbours and identities of a pair: the numbers are those of the searches."""

import numpy as np
import pytest
from pydantic import TypeAdapter

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.record import Drift, Estimate
from alignkit.tasks.embedding import Embedding
from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers
from alignkit.tasks.embedding.queries import Queries
from alignkit.tasks.embedding.retrieval import CELLS, KEPT_INDEX, own_search, retrieval
from alignkit.tasks.embedding.retrieval_facts import (
    advice,
    changed_neighbours,
    moved_identities,
    numbers,
    retrieval_table,
)
from tests.tasks.embedding_case import answers

N = 120
IDS = tuple(f"{place:03}.jpg" for place in range(N))


def searched(reference, candidate, identities, k=6):
    drawn = Queries.drawn(identities, N)
    own = own_search(reference, drawn, k), own_search(candidate, drawn, k)
    return retrieval((reference, candidate), own, drawn, k)


def whole(result):
    """Every number of the images as they are, with an interval of no width."""
    found = {name: float(each.of(np.ones((N, 1), np.float32))[0])
             for name, each in numbers(result).items()}  # fmt: skip
    return {
        name: Estimate(*([None] * 3), "unknown") if np.isnan(value) else Estimate(*[value] * 3)
        for name, value in found.items()
    }


@pytest.fixture(scope="module")
def case():
    draw = np.random.default_rng(0)
    identities = np.arange(N) % 20
    reference = draw.normal(size=(20, 16))[identities] + 0.7 * draw.normal(size=(N, 16))
    candidate = reference + 0.6 * draw.normal(size=(N, 16))
    return searched(reference.astype(np.float32), candidate.astype(np.float32), identities)


def test_the_table_has_the_numbers_of_each_cell(case):
    ones = np.ones((N, 1), np.float32)
    table = retrieval_table(case, whole(case))
    recall, recall_k, overlap, churn, rank = table.rows
    assert [row.unit for row in table.rows] == [*["share"] * 4, "value"]
    for column, cell in enumerate(CELLS):
        assert recall.cells[column].value == case.recall(cell, 1).of(ones)[0]
        assert recall_k.cells[column].value == case.recall(cell, 6).of(ones)[0]
        assert overlap.cells[column].value == case.overlap(cell).of(ones)[0]
        assert churn.cells[column].value == case.churned(cell).of(ones)[0]
        assert rank.cells[column].value == case.rank_change(cell).of(ones)[0]
    assert (overlap.cells[0].value, churn.cells[0].value, rank.cells[0].value) == (1, 0, 0)
    assert "All 120\xa0images are queries; 120 have another image" in table.note


def test_without_identities_the_table_says_why_and_keeps_the_neighbours(case):
    draw = np.random.default_rng(1)
    vectors = draw.normal(size=(2, N, 8)).astype(np.float32)
    result = searched(*vectors, np.full(N, -1))
    table = retrieval_table(result, whole(result))
    assert [row.cells[1].value is None for row in table.rows] == [True, True, False, False, True]
    assert table.rows[0].cells[1].reason == "the identities of the images are not known"
    (said,) = advice([result], whole(result), margin=0.01, index_size=0)
    assert said.startswith("Whether the index can be kept is unknown: the identities")
    assert {near.right for each in changed_neighbours([result], IDS) for near in each.after} == {
        None
    }


def test_equal_embeddings_keep_the_index_and_change_no_neighbour(case):
    vectors = np.random.default_rng(2).normal(size=(N, 8)).astype(np.float32)
    result = searched(vectors, vectors.copy(), np.arange(N) % 20)
    assert advice([result], whole(result), margin=0.01, index_size=0) == (
        "Keep the index: every embedding is the same on both sides.",
    )
    assert changed_neighbours([result], IDS) == ()


def test_advice_counts_the_identities_of_the_queries(case):
    said = " ".join(advice([case], whole(case), margin=0.01, index_size=0))
    assert "(120\xa0queries of 20\xa0identities)" in said


def test_queries_that_lost_a_right_neighbour_stand_first(case):
    listed = changed_neighbours([case], IDS)
    assert len(listed) == 20
    places = [IDS.index(each.query) for each in listed]
    before, after = case.cells[CELLS[0]], case.cells[KEPT_INDEX]
    lost = (before.hits(1) - after.hits(1))[places]
    assert (np.diff(lost) <= 0).all()
    assert lost[0] == 1
    for place, each in zip(places, listed, strict=True):
        assert [near.id for near in each.before] == [IDS[p] for p in before.near[place, :5]]
        assert [near.id for near in each.after] == [IDS[p] for p in after.near[place, :5]]
        assert [near.right for near in each.after] == [p % 20 == place % 20
                                                       for p in after.near[place, :5]]  # fmt: skip
        assert each.before[0].id != each.after[0].id
        similar = [near.similarity for near in each.after]
        assert similar == sorted(similar, reverse=True)


def test_of_several_seeds_each_query_is_listed_in_the_one_that_loses_most(case):
    same = np.random.default_rng(3).normal(size=(N, 8)).astype(np.float32)
    unchanged = searched(same, same, np.arange(N) % 20)
    assert changed_neighbours([unchanged, case], IDS) == changed_neighbours([case], IDS)


def test_the_identities_that_moved_most_come_first():
    identities = np.array([0, 0, 1, 1, 2, -1])
    apart = np.array([0.1, 0.3, 0.0, np.nan, 0.5, 0.9])
    table = moved_identities([apart, apart], identities, ["a", "b", "c"])
    rows = {row.label: [cell.value for cell in row.cells] for row in table.rows}
    assert rows == {
        "c, 1\xa0image": [0.5, 0.5], "a, 2\xa0images": [pytest.approx(0.2), pytest.approx(0.3)],
    }  # fmt: skip
    assert next(iter(rows)).startswith("c")
    assert table.note.startswith("The first 2 of 3\xa0identities")
    assert moved_identities([np.zeros(6)], identities, ["a", "b", "c"]) is None
    assert moved_identities([apart], np.full(6, -1), []) is None


def test_the_facts_of_a_drift_agree_with_its_measures():
    draw = np.random.default_rng(4)
    identities = np.arange(N) % 20
    centres = draw.normal(size=(20, 16))[identities]

    def side(noise):
        vectors = (centres + noise * draw.normal(size=(N, 16))).astype(np.float32)
        names = tuple(f"person {each}" for each in range(20))
        task = Embedding(k=6, queries=80)
        return EmbeddingAnswers(IDS, vectors, identities, names, None, task)

    found = drift([side(0.5), side(0.5)], [side(0.7), side(0.7)])
    tables = {each.name: each for each in found.tables}
    recall, _, overlap, churn, _ = (row.cells for row in tables["retrieval"].rows)
    assert overlap[1] == found.measures["overlap@6"]
    assert churn[1] == found.measures["neighbour_churn"]
    assert churn[3] == found.churn
    assert recall[1].value - recall[0].value == pytest.approx(found.measures["recall@1.kept"].value)
    assert recall[3].value - recall[0].value == pytest.approx(found.metrics["recall@1"].value)
    assert tables["moved-identities"].rows[0].label.startswith("person ")
    assert len(found.remarks) >= 2
    assert (found.asked, len(found.neighbours)) == (160, 20)
    assert TypeAdapter(Drift).validate_json(TypeAdapter(Drift).dump_json(found)) == found


@pytest.mark.parametrize(
    ("identities", "options", "said"),
    [
        (None, {}, "the identities of the images are not known"),
        (range(12), {}, "no identity has two images"),
        ([0, 0, *range(1, 11)], {"queries": 1}, "no image that is searched for has another image"),
    ],
)
def test_without_a_query_that_counts_the_advice_and_the_tables_say_why(identities, options, said):
    vectors = np.random.default_rng(1).normal(size=(12, 4))
    sides = [answers(each, identities, **options) for each in (vectors, vectors + 0.1)]
    found = drift(sides[:1], sides[1:], draws=SharedDraws(20))
    assert found.remarks[0].startswith(f"Whether the index can be kept is unknown: {said}")
    tables = {each.name: each for each in found.tables}
    reasons = [found.metrics["recall@1"].reason, found.measures["recall@1.kept"].reason,
               tables["retrieval"].rows[0].cells[0].reason]  # fmt: skip
    assert all(each.startswith(said) for each in reasons), reasons
