"""What the record holds of an attribution."""

import json
from dataclasses import replace

from alignkit.attribute import NOTHING_DIFFERS, attribute
from alignkit.record import AttributionFacts
from tests.attribute.test_attribute import ONE_RUNTIME
from tests.stacks import REFERENCE, changed, turned_photos


def test_what_was_not_measured_has_its_reason_in_place_of_numbers():
    found = attribute(REFERENCE, changed("resize"), turned_photos(), resamples=200)["churn"]
    assert (found.reason, found.total.reason) == ("no model was given",) * 2
    assert found.total.value is found.interaction.value is None


def test_the_facts_survive_json():
    candidate = changed("resize", "decode")
    rows = attribute(REFERENCE, candidate, turned_photos(), [ONE_RUNTIME], resamples=200)
    for row in rows.values():
        stored = json.loads(row.model_dump_json())
        assert AttributionFacts.model_validate(stored) == row
        assert [share.factor for share in row.shares] == ["decode", "resize"]
    assert rows["pixels"].unit == "grey levels"


def test_paths_that_do_not_differ_say_so():
    found = attribute(REFERENCE, replace(REFERENCE, name="other"), turned_photos())
    for row in found.values():
        assert row.total.value == 0.0
        assert row.reason == NOTHING_DIFFERS
