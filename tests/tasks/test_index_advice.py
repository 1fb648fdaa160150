"""Advice on an index follows what was measured, and says so."""

import pytest

from alignkit.compare.statistics import rule_of_three
from alignkit.record import Estimate
from alignkit.tasks.embedding.retrieval_facts import IndexWay, index_advice

HOLDS = Estimate(0.001, -0.0005, 0.0025)
LOSES = Estimate(-0.05, -0.06, -0.04)
OPEN = Estimate(-0.005, -0.03, 0.02)
UNKNOWN = Estimate(None, None, None, "there are no identities")
LIMIT = "the margin of 1 pp"


def advised(kept, rebuilt, *, identities=800, **given):
    ways = (IndexWay(each, 5_000, identities) for each in (kept, rebuilt))
    return index_advice(*ways, margin=0.01, **given)


@pytest.mark.parametrize(
    ("kept", "rebuilt", "first"),
    [
        (HOLDS, LOSES, f"Keep the index: recall@1 falls by less than {LIMIT}."),
        (LOSES, HOLDS, f"Build the index again: kept, it loses more than {LIMIT}."),
        (LOSES, OPEN, "Build the index again"),
        (LOSES, LOSES, f"The candidate loses more than {LIMIT} also with an index"),
        (OPEN, LOSES, "It is not resolved"),
        (OPEN, HOLDS, "It is not resolved"),
        (UNKNOWN, UNKNOWN, "Whether the index can be kept is unknown: there are no identities"),
    ],
)
def test_the_first_sentence_is_what_was_shown(kept, rebuilt, first):
    assert advised(kept, rebuilt)[0].startswith(first)


def test_few_identities_without_a_change_prove_nothing():
    nothing = Estimate(0.0, 0.0, 0.0)
    least = next(n for n in range(1, 10_000) if rule_of_three(n) <= 0.01)
    assert advised(nothing, nothing, identities=least)[0].startswith("Keep the index")
    first = advised(nothing, nothing, identities=least - 1)[0]
    assert first.startswith("It is not resolved")
    assert f"{least} identities would show that it does not" in first.replace("\xa0", " ")


def test_the_cost_is_that_of_the_rows_and_no_time_is_invented():
    given = (LOSES, HOLDS)
    assert "'index_size'" in advised(*given)[-1]
    last = advised(*given, index_size=3_600_000)[-1].replace("\xa0", " ")
    assert last == (
        "A new index means to embed 3 600 000 images; how long that takes was not measured."
    )
    for kept in (HOLDS, OPEN):
        assert "embed" not in " ".join(advised(kept, HOLDS, index_size=10))
