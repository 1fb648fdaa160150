"""Words of an embedding in cards and lists: its nearest image, and how near."""

from pathlib import Path

from alignkit.runner.changed_predictions import Served, ServedImages
from tests.tasks.embedding_case import answers as of_identities


def test_a_query_that_loses_its_identity_has_become_worse_and_one_that_finds_it_better():
    before = of_identities([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], [0, 0, 1, 1])
    after = of_identities([[0.2, 1], [1, 0.1], [0, 1], [0.1, 1]], [0, 0, 1, 1])
    facts = before.task.facts()
    for sides, kind in (((before, after), "worse"), ((after, before), "better")):
        served = Served("model", "opencv", "pillow", 0, "torch fp32", True, *sides)
        ((said,), _) = ServedImages([served], facts).of("0.jpg", Path())
        assert said.turned == (kind,)
