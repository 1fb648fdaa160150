"""What the record holds of an attribution, and how it reads."""

import json
from dataclasses import replace

from alignkit.attribute import (
    Attribution,
    amount,
    attribute,
    attribution_facts,
    breakdown,
    inside_decode_facts,
    sentence,
)
from alignkit.attribute.shares import attributed
from alignkit.record import AttributionFacts, Estimate, FactorShare
from alignkit.task_facts import CLASSIFICATION
from tests.attribute.test_attribute import ONE_RUNTIME
from tests.stacks import REFERENCE, changed, turned_photos


def estimate(value: float) -> Estimate:
    return Estimate(value, value, value)


def example(metric: str = "recall.macro", **changes: object) -> Attribution:
    effects = {"decode": -0.001, "resize": -0.019, "precision": 0.0}
    shares = tuple(
        FactorShare(factor, estimate(effect), estimate(effect))
        for factor, effect in effects.items()
    )
    facts = attributed(CLASSIFICATION)[metric]
    whole = Attribution(facts, "one-at-a-time", shares, estimate(-0.001), estimate(-0.021))
    return replace(whole, **changes)


def test_what_the_digits_cannot_show_is_not_called_zero():
    tiny = FactorShare("decode", estimate(0.0002), estimate(0.0002))
    assert breakdown(example(shares=(tiny,), method="shapley")) == "decode 0.0 pp"


def test_what_was_not_measured_has_its_reason_in_place_of_numbers():
    found = attribute(REFERENCE, changed("resize"), turned_photos(), resamples=200)
    assert sentence(found.metrics["churn"]) == "Churn: no model was given"


def test_the_facts_survive_json():
    candidate = changed("resize", "decode")
    found = attribute(REFERENCE, candidate, turned_photos(), [ONE_RUNTIME], resamples=200)
    rows = attribution_facts(found, backend="torch", precision="fp32")
    rows += inside_decode_facts(found)
    assert [row.metric for row in rows][-1] == "pixels.decode"
    for row in rows:
        stored = json.loads(row.model_dump_json())
        assert AttributionFacts.model_validate(stored) == row
        assert [share.factor for share in row.shares] == ["decode", "resize"]
    assert rows[0].unit == "grey levels"
    assert rows[0].sentence.startswith("Mean |Δpixel| ")


def test_paths_that_do_not_differ_say_so():
    found = attribute(REFERENCE, replace(REFERENCE, name="other"), turned_photos())
    for row in attribution_facts(found):
        assert row.total.value == 0.0
        assert row.sentence.endswith(": the paths do not differ in any stage")


def test_what_is_left_of_a_zero_after_summing_is_zero():
    assert amount(attributed(CLASSIFICATION)["churn"], -1e-17) == "0 pp"
