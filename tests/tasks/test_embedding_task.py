"""The task's options, the outputs that it recognises, and its file."""

from dataclasses import fields, replace

import numpy as np
import pytest

from alignkit.annotations import Pairs
from alignkit.errors import BackendError, ConfigError, DataError
from alignkit.experiment.option import plugin_from
from alignkit.preprocess import stage_identity
from alignkit.samples import Samples
from alignkit.tasks import TASKS, ClassMap, OutputShape
from alignkit.tasks.embedding import Embedding
from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers
from alignkit.tasks.embedding.embedding_facts import at_far
from tests.tasks.embedding_case import answers, people


def test_stored_vectors_take_the_options_of_advice_that_are_given_now(tmp_path):
    people(4, 2, margin=0.02, k=5).to_parquet(tmp_path / "a.parquet")
    task = Embedding(margin=0.05, index_size=7, k=5)
    stored = Embedding.read(tmp_path / "a.parquet")
    found = task.adopt(stored)
    assert (found.task.margin, found.task.index_size) == (0.05, 7)
    # an older baseline is compared all the same
    assert not stored.unlike(found)
    assert "different options" in stored.unlike(people(4, 2, k=6))


def shape(*sides, name="embedding", whole=False):
    return OutputShape(name, (None, *sides), whole)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"far": ()}, "one or more rates"),
        ({"far": (0.1, 0.1)}, "that differ"),
        ({"far": (1.0,)}, "far: 1; between 0 and 1"),
        ({"far": (float("nan"),)}, "between 0 and 1"),
        ({"different_pairs": 10}, "different_pairs: 10; 100 or more"),
        ({"queries": 0}, "queries: 0; 1 or more"),
        ({"k": 1}, "k: 1; 2 or more"),
        ({"index_size": -1}, "index_size: -1; 0 or more"),
        ({"margin": 0.0}, "margin: 0; between 0 and 1"),
    ],
)
def test_options_without_a_meaning_are_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        Embedding(**options)


def test_every_option_is_part_of_the_key():
    other = {
        "output": "vectors", "far": (0.5,), "different_pairs": 200, "queries": 7, "k": 3,
        "index_size": 9, "margin": 0.5,
    }  # fmt: skip
    assert {*other} == {each.name for each in fields(Embedding)}
    keys = [str(stage_identity(Embedding(**{name: given}))) for name, given in other.items()]
    assert len({*keys, str(stage_identity(Embedding()))}) == len(other) + 1


def test_the_options_of_a_file_give_the_task():
    given = {"name": "embedding", "far": [0.01], "k": 5, "index_size": 10}
    assert plugin_from(TASKS, given) == Embedding(far=(0.01,), k=5, index_size=10)


@pytest.mark.parametrize(
    ("rate", "name"),
    [(0.1, "far=1e-1"), (0.0025, "far=2.5e-3"), (1e-6, "far=1e-6"), (0.3, "far=3e-1")],
)
def test_a_rate_is_named_by_its_digits(rate, name):
    assert at_far(rate) == name
    assert float(name.partition("=")[2]) == rate


def test_the_output_that_is_recognised_is_named_with_its_size():
    said = Embedding().recognise([shape(512)], None)
    assert said == "embedding: 512 values an image: an embedding, compared by cosine"
    # the number of identities is none of the model's
    assert Embedding().recognise([shape(512)], 10) == said
    assert Embedding().wanted([shape(7, 7, 3, name="map"), shape(512)]) == ("embedding",)


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ([shape(512, 7, 7)], r"embedding \(\?, 512, 7, 7\).*export the model with its pooling"),
        ([shape(197, 768)], "with its pooling"),
        ([shape(512), shape(10, name="logits")], "2 outputs fit.*output: embedding"),
        ([shape(4, whole=True)], "whole numbers"),
        ([shape(1)], "one value an image"),
        ([], "no output fits"),
    ],
)
def test_other_outputs_are_refused_with_the_next_step(outputs, said):
    with pytest.raises(ConfigError, match=said):
        Embedding().recognise(outputs, None)


def test_an_output_of_another_shape_than_promised_is_an_error():
    for made in (np.zeros((2, 3, 1), np.float32), np.zeros((2, 3)), np.zeros((1, 3), np.float32)):
        with pytest.raises(BackendError, match="one vector an image"):
            Embedding().decode((made,), [None, None], ClassMap(()))


def test_identities_and_pairs_of_the_samples_are_joined_by_id():
    pairs = Pairs(*(np.array(each) for each in ([0, 1], [1, 2], [True, False], [0, 1])))
    samples = Samples(("a", "b", "c"), (1, 0, 1), ("x", "y"), lambda _: b"", "", pairs=pairs)
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = Embedding().answers(["c", "b"], vectors, samples, ClassMap(("x", "y")))
    assert found.identities.tolist() == [1, 0]
    assert [found.truth_said(index) for index in range(2)] == ["y", "x"]
    assert (found.pairs.first.tolist(), found.pairs.second.tolist()) == ([1], [0])


def test_two_sides_that_do_not_fit_say_so():
    one = people(4, 2)
    assert "have 16 and 8 values" in one.unlike(people(4, 2, dimensions=8))
    assert "options" in one.unlike(people(4, 2, k=3))
    assert "identities" in one.unlike(answers(one.vectors, [0, 0, 1, 1, 2, 2, 0, 0]))
    given = Pairs(np.array([0]), np.array([1]), np.array([True]), np.array([0]))
    assert "pairs" in one.unlike(replace(one, pairs=given))
    assert one.unlike(people(4, 2, moved=1.0)) == ""


def test_a_file_holds_every_bit(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    vectors[1] = [np.nan, np.inf, -0.0]
    pairs = Pairs(
        *(np.array(each) for each in ([3, 0, 0], [1, 2, 1], [True, False, True], [1, 9, 0]))
    )
    whole = answers(vectors, [0, 0, 1, 1, -1], pairs, far=(0.25,), k=4)
    whole.to_parquet(tmp_path / "a.parquet", apart=np.arange(5) / 3)
    found = EmbeddingAnswers.from_parquet(tmp_path / "a.parquet")
    assert found.vectors.tobytes() == vectors.tobytes()
    assert (found.ids, found.names, found.task) == (whole.ids, whole.names, whole.task)
    assert found.identities.tolist() == [0, 0, 1, 1, -1]
    assert not whole.unlike(found)
    read = {
        *zip(
            *(getattr(found.pairs, e).tolist() for e in ("first", "second", "same", "fold")),
            strict=True,
        )
    }
    assert read == {(0, 2, False, 9), (0, 1, True, 0), (3, 1, True, 1)}


def test_a_file_of_another_task_or_cut_short_is_refused(tmp_path):
    file = tmp_path / "a.parquet"
    people(4, 2).to_parquet(file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        EmbeddingAnswers.from_parquet(file)
    file.write_bytes(whole.replace(b'"far":[0.1', b'"far":[9.1'))
    with pytest.raises(DataError, match="between 0 and 1"):
        EmbeddingAnswers.from_parquet(file)


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_a_p_value_of_recall_rests_on_the_identities_that_move_it(lost):
    from alignkit.compare import drift
    from alignkit.compare.bootstrap import SharedDraws

    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(120, 16)).astype(np.float32)
    identities = np.arange(120)
    for each in range(lost):  # a pair of images each; all others are alone with theirs
        identities[2 * each + 1] = identities[2 * each]
        vectors[2 * each + 1] = vectors[2 * each] + 0.01
    after = vectors + rng.normal(size=vectors.shape).astype(np.float32) * 1e-4
    after[: 2 * lost] = rng.normal(size=(2 * lost, 16))
    identities = np.unique(identities, return_inverse=True)[1]
    names = tuple(f"{each:03d}" for each in range(identities.max() + 1))
    ids = tuple(f"{each}.png" for each in range(120))
    sides = [
        EmbeddingAnswers(ids, each, identities, names, None, Embedding())
        for each in (vectors, after)
    ]
    found = drift(*([each] for each in sides), draws=SharedDraws(200))
    assert found.metrics["recall@1"].value == -1
    # of one identity nothing is known: neither an interval nor a test
    expected = None if lost == 1 else pytest.approx(2 * 0.5**lost)
    assert found.p_values.get("recall@1") == expected
    assert (found.metrics["recall@1"].low is None) == (lost == 1)
