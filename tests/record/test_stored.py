"""Dataclasses that the record stores as they are: strict, finite, in one order."""

import json
import math
from dataclasses import fields, replace

import pytest
from pydantic import TypeAdapter, ValidationError

from alignkit.errors import RecordError
from alignkit.record import Cell, Drift, Estimate, LogitDistance, NoiseFloor
from alignkit.record.diff_document import DiffRecord
from alignkit.record.document import stored_document

NOTHING = Estimate(0.0, 0.0, 0.0)
DRIFT = Drift(
    n=3, metrics={"top1": NOTHING}, churn=NOTHING, right_to_wrong=0,
    wrong_to_right=0,
    wrong_to_wrong=0, detectable=0.1, mcnemar_p=1.0,
    logits=LogitDistance(1.0, 0.5, None, inside={"1e-05": 2}),
)  # fmt: skip
PLACE = {
    "trained_with": "a",
    "evaluated_with": "b",
    "backend": "torch",
    "precision": "fp32",
    "seed": 0,
    "aligned": False,
    "key": "k",
    "state": "measured",
}


def cell(drift) -> Cell:
    return Cell(**PLACE, drift=drift)


def test_a_dataclass_is_stored_and_read_back_as_it_is():
    stored = cell(DRIFT)
    assert stored.drift == DRIFT
    assert Cell.model_validate_json(stored.model_dump_json()) == stored
    assert [*json.loads(stored.model_dump_json())["drift"]] == [each.name for each in fields(Drift)]


@pytest.mark.parametrize("value", [math.nan, math.inf, "much"])
def test_a_value_that_is_no_finite_number_is_refused(value):
    churn = replace(NOTHING, value=value)
    with pytest.raises(ValidationError, match="churn"):
        cell(replace(DRIFT, churn=churn))


@pytest.mark.parametrize(
    "change",
    [
        {"n": -1},
        {"n": "three"},
        {"mcnemar_p": math.nan},
        {"metrics": {"top1": 0.5}},
        {"churn": {"value": 0.1}},
        {"logits": NOTHING},
        {"logits": LogitDistance(math.nan, None, None)},
        {"logits": LogitDistance(None, None, None, inside={"1e-05": -1})},
    ],
)
def test_a_wrong_type_inside_a_dataclass_is_refused(change):
    with pytest.raises(ValidationError):
        cell(replace(DRIFT, **change))


@pytest.mark.parametrize("place", [(), ("churn",), ("logits",), ("metrics", "top1")])
def test_a_key_that_no_field_has_is_refused(place):
    stored = json.loads(cell(DRIFT).model_dump_json())
    inner = stored["drift"]
    for name in place:
        inner = inner[name]
    inner["more"] = 1
    with pytest.raises(ValidationError, match="more"):
        Cell.model_validate(stored)


@pytest.mark.parametrize("kind", [Drift, NoiseFloor, Estimate])
def test_a_schema_forbids_further_keys(kind):
    assert TypeAdapter(kind).json_schema()["additionalProperties"] is False


def test_a_document_of_another_kind_is_refused_before_its_format(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"format": 99}')
    with pytest.raises(RecordError, match="is not a record of alignkit diff"):
        stored_document(path, DiffRecord, missing="", again="")
