"""What an experiment file means, and its JSON Schema."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.experiment.experiment import Evaluate, ExperimentFile, Gate, experiment_schema
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.train_option import Augment, Recipe
from alignkit.experiment.yaml_source import parse
from alignkit.preprocess.presets import PRESETS
from tests.experiment.test_load import FREE, FULL

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = jsonschema.Draft202012Validator(experiment_schema())


def accepted(text: str) -> bool:
    return SCHEMA.is_valid(parse(text, "x").value)


def test_the_schema_is_a_valid_json_schema():
    schema = experiment_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("experiments/**/*.yaml")), ids=lambda path: path.name
)
def test_the_schema_accepts_every_experiment_of_the_project(path):
    SCHEMA.validate(yaml.safe_load(path.read_text()))


def test_the_schema_accepts_a_file_with_every_key():
    SCHEMA.validate(parse(FULL, "x").value)


KEYS = [key for key in parse(FULL, "x").keys if key[-1] not in FREE]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: ".".join(map(str, key)))
def test_the_schema_refuses_every_misspelt_key(key):
    document = parse(FULL, "x").value
    holder = document
    for part in key[:-1]:
        holder = holder[part]
    holder[f"{key[-1]}x"] = holder.pop(key[-1])
    assert not SCHEMA.is_valid(document)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("simplejpeg", "simplejpg"),
        ("pillow-train", "pilow-train"),
        ("small-cnn", "small-cn"),
        ("optimiser: sgd", "optimiser: adam"),
        ("epochs: 1", "epochs: 0"),
        ("preset: pillow-train, size: 48", "preset: pillow-train"),
        ("    orient: exif", "    size: 48"),
        ("informational: true", "informational: 'true'"),
        ("metric: churn", "metric: churns"),
    ],
)
def test_the_schema_refuses_wrong_values(old, new):
    assert old in FULL
    assert not accepted(FULL.replace(old, new))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_gives_the_size_it_was_asked_for(name):
    path = PreprocessOption.model_validate({"preset": name, "size": 96}).build("p")
    assert path.size == (96, 96)
    assert path.surrogate_of == PRESETS[name].surrogate_of


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_spelt_out_is_the_same_path(name):
    short = PreprocessOption.model_validate({"preset": name, "size": 224})
    long = PreprocessOption.model_validate(PRESETS[name].stages(224))
    assert short.build("p").identity() == long.build("p").identity()


def preset(**given) -> dict:
    option = PreprocessOption.model_validate({"preset": "opencv-train", "size": 48, **given})
    return option.build("p").identity()


def test_another_resizer_over_a_preset_keeps_the_target():
    resize = preset(resize={"name": "pillow", "filter": "box"})["resize"]
    assert resize["size"] == [48, 48]
    assert resize["resizer"]["stage"] == "PillowResizer"


def test_an_option_over_a_preset_keeps_the_resizer():
    resize = preset(resize={"interpolation": "area"})["resize"]
    assert resize["size"] == [48, 48]
    assert resize["resizer"] == {
        "stage": "OpenCVResizer",
        "interpolation": "area",
        "floats": False,
    }


def test_stages_over_a_preset_replace_its_own():
    assert preset(colour="bgr")["colour"]["space"] == "bgr"
    assert preset(decode="pillow")["decode"]["stage"] == "PillowDecoder"
    assert preset(orient="none")["orient"]["policy"] == "none"


def test_defaults_of_the_file_are_those_of_its_parts():
    content = ExperimentFile.model_validate(
        {
            "name": "x",
            "data": "digits-on-photos",
            "preprocess": {
                "a": {"preset": "opencv-train", "size": 48},
                "b": {"preset": "pillow-train", "size": 48},
            },
        }
    )
    assert (content.train, content.evaluate, content.gate) == (Recipe(), Evaluate(), Gate())
    assert content.train.augment == Augment()


def test_the_first_path_is_the_reference(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text(FULL)
    experiment = load_experiment(file)
    assert experiment.reference.name == "spelt-out"
    assert [path.name for path in experiment.paths] == ["spelt-out", "a-preset"]


def test_the_question_is_the_opening_comment_without_the_editors_line(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text(
        "# yaml-language-server: $schema=s.json\n# Is it\n# so?\n#\n" + FULL[FULL.index("name:") :]
    )
    assert load_experiment(file).question == "Is it so?"
    file.write_text(FULL[FULL.index("name:") :])
    assert load_experiment(file).question == ""


@pytest.mark.parametrize(
    ("given", "where", "message"),
    [
        ({"size": 100}, ("resize", "size"), "write 96 or 128"),
        ({"size": 20}, ("resize", "size"), "write 32"),
        ({"size": [96, 90]}, ("resize", "size"), "90 is no multiple of the stride 32"),
        ({"fit": "squash"}, ("resize", "auto"), "belongs to 'fit: letterbox', not to squash"),
        ({"auto": False, "stride": 32}, ("resize", "stride"), "belongs to 'auto: true'"),
        ({"stride": 0}, ("resize", "stride"), "greater than or equal to 1"),
    ],
)
def test_a_letterbox_in_steps_is_refused_where_it_gives_none(given, where, message):
    resize = {"name": "opencv", "size": 64, "fit": "letterbox", "auto": True, **given}
    with pytest.raises(ValidationError, match=message) as refused:
        PreprocessOption.model_validate({"decode": "opencv", "resize": resize})
    assert [line["loc"] for line in refused.value.errors()] == [where]


def test_an_image_of_varying_size_is_not_cropped():
    option = {"preset": "ultralytics-letterbox-rect", "size": 64, "crop": 32}
    with pytest.raises(ValidationError, match="leave 'crop' or 'auto' out"):
        PreprocessOption.model_validate(option)


def test_models_are_not_trained_on_images_of_varying_size(tmp_path):
    file = tmp_path / "rect.yaml"
    file.write_text(
        "name: rect\ndata: digits-on-photos\npreprocess:\n"
        "  square: {preset: ultralytics-letterbox, size: 64}\n"
        "  rect: {preset: ultralytics-letterbox-rect, size: 64}\n"
    )
    with pytest.raises(ConfigError, match="a training takes one; give the trained model") as told:
        load_experiment(file)
    assert "rect.yaml:5:" in str(told.value)
