"""`alignkit schema`."""

import json

import jsonschema

from alignkit.experiment.experiment import experiment_schema
from alignkit.report.results import results_schema


def test_the_schema_is_printed_as_json(alignkit):
    document = json.loads(alignkit("schema").out)
    assert document == experiment_schema()
    jsonschema.Draft202012Validator.check_schema(document)


def test_the_schema_of_results_is_printed_as_json(alignkit):
    document = json.loads(alignkit("schema", "--results").out)
    assert document == results_schema()
    jsonschema.Draft202012Validator.check_schema(document)
