"""`alignkit list`."""

import json

import pytest

from alignkit.cli.doctor_command import FAMILIES
from alignkit.decoders import DECODERS
from alignkit.models.architectures import MODELS
from alignkit.plugins import Plugin
from alignkit.preprocess.presets import PRESETS


def test_every_family_is_listed(alignkit):
    told = alignkit("list")
    assert told.code == 0
    heads = [line for line in told.out.splitlines() if line and not line.startswith(" ")]
    assert heads == list(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_is_listed_alone_and_as_json(alignkit, family):
    document = json.loads(alignkit("list", family, "--json").out)
    assert list(document) == [family]
    for each in document[family]:
        assert each["usable"] is (each["why"] == "")
        assert f"  {each['name']} " in alignkit("list", family).out.replace("\n", " \n")


def test_what_is_missing_is_listed_with_the_fix(alignkit, monkeypatch):
    plugin = Plugin("x:Y", module="no_such_library", extra="gpu")
    monkeypatch.setitem(DECODERS, "other", plugin)
    told = alignkit("list", "decoders").out
    assert "no_such_library is not installed: pip install 'alignkit[gpu]'" in told


def test_surrogates_are_called_so(alignkit):
    presets = json.loads(alignkit("list", "presets", "--json").out)["presets"]
    surrogates = [each for each in presets if each["name"].endswith("-surrogate")]
    assert surrogates
    assert all(each["summary"].startswith("surrogate of ") for each in surrogates)


def test_lines_of_a_gpu_say_that_nothing_has_run_there(alignkit):
    listed = json.loads(alignkit("list", "--json").out)
    backends = {each["name"]: each["note"] for each in listed["backends"]}
    for name, note in backends.items():
        on_a_gpu = "=cuda" in name or "=tensorrt" in name or name.startswith("tensorrt")
        assert (note == "not yet run on hardware") is (on_a_gpu or name.startswith("torchpipe"))
        assert (note == "not compared with hardware") is name.startswith("simulated ")
    presets = {each["name"] for each in listed["presets"] if each["note"]}
    assert presets == {"dali-gpu", "torchpipe-gpu", "torchvision-cuda"}
    told = alignkit("list", "presets").out
    assert told.count("; not yet run on hardware\n") == 3


def test_models_are_listed_by_name_only_when_asked_for(alignkit):
    assert "resnet18" not in alignkit("list").out
    assert alignkit("list", "models").out.count("\n") == len(MODELS) + 1


def test_an_unknown_family_suggests_the_nearest(alignkit):
    told = alignkit("list", "decodrs")
    assert (told.code, told.err) == (2, "unknown family 'decodrs'; did you mean 'decoders'?\n")


def test_presets_are_listed_alone_with_where_their_settings_come_from(alignkit):
    told = alignkit("list", "presets").out
    assert all(f"\n    from {preset.source}\n" in told for preset in PRESETS.values())
    assert "    from " not in alignkit("list").out
