"""Words of an embedding in cards and lists: its nearest image, and how near."""

from pathlib import Path

import numpy as np

from alignkit.runner.changed_predictions import Served, ServedImages
from alignkit.tasks.embedding import Embedding
from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers
from tests.tasks.embedding_case import answers as of_identities


def answers(vectors, **options):
    vectors = np.asarray(vectors, np.float32)
    ids = tuple(f"{letter}.jpg" for letter in "abcdef"[: len(vectors)])
    identities = np.zeros(len(vectors), np.int64)
    return EmbeddingAnswers(ids, vectors, identities, ("ann",), None, Embedding(**options))


def test_an_answer_is_the_nearest_other_image_with_its_cosine():
    found = answers([[1, 0], [4, 3], [0, 2], [-1, 0]])
    assert [found.said(index) for index in range(4)] == [
        "nearest b.jpg, cosine 0.8000",
        "nearest a.jpg, cosine 0.8000",
        "nearest b.jpg, cosine 0.6000",
        "nearest c.jpg, cosine 0",
    ]


def test_an_image_that_is_no_query_or_has_no_direction_says_so():
    found = answers([[1, 0], [1, 1], [0, 0]])
    assert found.said(2) == "no image found"
    few = answers(np.eye(4) + 0.1, queries=2)
    assert [few.said(index) for index in range(4)].count("not searched for") == 2


def test_a_query_that_loses_its_identity_has_become_worse_and_one_that_finds_it_better():
    before = of_identities([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], [0, 0, 1, 1])
    after = of_identities([[0.2, 1], [1, 0.1], [0, 1], [0.1, 1]], [0, 0, 1, 1])
    facts = before.task.facts()
    for sides, kind in (((before, after), "worse"), ((after, before), "better")):
        served = Served("model", "opencv", "pillow", 0, "torch fp32", True, *sides)
        ((said,), _) = ServedImages([served], facts).of("0.jpg", Path())
        assert said.turned == (kind,)
