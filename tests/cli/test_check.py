"""`alignkit check`."""

import json

import jsonschema
import pytest

from alignkit.errors import ConfigWarning
from alignkit.report.results import results_schema


def test_the_schema_is_printed_as_json_and_describes_every_key_for_editors(alignkit):
    schema = json.loads(alignkit("check", "--schema", "experiment").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert list(undescribed(schema)) == []
    assert [name for name, each in schema["$defs"].items() if not each.get("description")] == []
    resizes = schema["$defs"]["PreprocessOption"]["properties"]["resize"]["anyOf"]
    assert all("squash" in each["properties"]["fit"]["description"] for each in resizes)
    assert schema["properties"]["preprocess"]["description"].startswith(
        "The paths; the first is the reference"
    )


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


def undescribed(node, path=""):
    """Yield every key of a file that a JSON Schema does not describe."""
    if isinstance(node, list):
        for number, each in enumerate(node):
            yield from undescribed(each, f"{path}/{number}")
    elif isinstance(node, dict):
        for name, each in node.get("properties", {}).items():
            if isinstance(each, dict) and not each.get("description"):
                yield f"{path}: {name}"
        # these say which of the keys are required
        for name, each in node.items():
            if name not in ("if", "then", "else"):
                yield from undescribed(each, f"{path}/{name}")


def test_check_without_files_says_how_it_is_called(alignkit, file):
    assert alignkit("check").err == "give experiment files: alignkit check FILE…\n"
    told = alignkit("check", file, "--schema", "results")
    assert (told.code, told.out) == (2, "")
    assert alignkit("check", file).out == f"{file} is right: 4 trainings, 8 cells\n"


def test_each_file_is_an_entry_of_the_json(alignkit, file, tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(file.read_text().replace("opencv-train", "opencv-trian"))
    told = alignkit("check", file, wrong, tmp_path / "absent.yaml", "--json")
    assert (told.code, told.err) == (2, "")
    right, mistaken, absent = json.loads(told.out)
    assert right == {
        "file": str(file), "right": True, "mistakes": [], "work": "4 trainings, 8 cells",
        "models": {}, "skipped": {}, "not_checked": [], "warnings": [],
    }  # fmt: skip
    (mistake,) = mistaken["mistakes"]
    line = wrong.read_text().splitlines()[mistake["line"] - 1]
    assert line[mistake["column"] - 1 :].startswith("opencv-trian")
    assert mistake["key"] == "preprocess.opencv.preset"
    assert "did you mean 'opencv-train'" in mistake["message"]
    assert "no such file" in absent["mistakes"][0]["message"]
    (mistake,) = json.loads(alignkit("check", file, "--set", "train.epochs=0", "--json").out)[0][
        "mistakes"
    ]
    assert mistake["where"] == "--set train.epochs=0"
    assert "line" not in mistake
