"""`alignkit check`."""

import json

import jsonschema
import pytest

from alignkit.errors import ConfigWarning
from alignkit.experiment.experiment import experiment_schema
from alignkit.report.results import results_schema


def test_the_schema_is_printed_as_json(alignkit):
    document = json.loads(alignkit("check", "--schema", "experiment").out)
    assert document == experiment_schema()
    jsonschema.Draft202012Validator.check_schema(document)


def test_the_schema_of_results_is_printed_as_json(alignkit):
    document = json.loads(alignkit("check", "--schema", "results").out)
    assert document == results_schema()
    jsonschema.Draft202012Validator.check_schema(document)


def test_check_and_plan_warn_of_a_path_that_repeats_another(alignkit, file, tmp_path):
    text = file.read_text().replace("pillow-train", "opencv-train")
    file.write_text(text)
    for command in (("check",), ("plan", "--reports", tmp_path)):
        with pytest.warns(ConfigWarning) as told:
            assert alignkit(*command, file).code == 0
        (warning,) = told
        assert str(warning.message).startswith(
            f"{file}:6:3: preprocess.pillow has the stages and options of preprocess.opencv"
        )
    file.write_text(text.replace("pillow: {", "pillow: {same: true, "))
    assert alignkit("check", file).code == 0
