"""What a program may rely on in ``results.json``."""

import json

import jsonschema
import pytest

from alignkit.record.document import write_record
from alignkit.report import render
from alignkit.report.results import OF_RECORD, Results, results_from_record, results_schema
from tests.report.records import quickstart


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_record(quickstart(folder), folder)
    render(folder)
    return json.loads((folder / "results.json").read_text(), parse_constant=pytest.fail)


def test_a_runs_results_satisfy_the_published_schema(document):
    schema = results_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["format"] == 3


def test_an_unknown_field_does_not_satisfy_it(document):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(results_schema()).validate({**document, "more": 1})


def test_results_say_what_the_record_says(document):
    record = json.loads(quickstart().model_dump_json())
    assert {name: document[name] for name in OF_RECORD} == {
        name: record[name] for name in OF_RECORD
    }
    assert document["verdict"] == record["verdict"]
    known = {each["name"]: each["surrogate_of"] for each in record["paths"]}
    assert document["surrogates"] == {
        path: f"surrogate of {real}, not yet calibrated" for path, real in known.items() if real
    }
    assert document["surrogates"]


def test_it_is_read_back_as_it_was_written(document):
    assert Results.model_validate(document) == results_from_record(quickstart())
