"""`alignkit list`."""

import json

import pytest

from alignkit import machine as processor
from alignkit.cli.list_command import FAMILIES
from alignkit.decoders import DECODERS
from alignkit.models.architectures import MODELS
from alignkit.plugins import NO_GPU, UNPROVEN, Plugin, gpu_present


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
        if family != "backends":  # shown once for each device and reason
            assert f"    {each['name']} " in alignkit("list", family).out.replace("\n", " \n")


def test_what_is_missing_is_listed_with_the_fix(alignkit, monkeypatch):
    plugin = Plugin("x:Y", module="no_such_library", extra="gpu", summary="reads nothing")
    monkeypatch.setitem(DECODERS, "other", plugin)
    told = alignkit("list", "decoders").out
    reason = "  no_such_library is not installed: pip install 'alignkit[gpu]'"
    lines = told.splitlines()
    assert lines[lines.index(reason) + 1].split() == ["other", "reads", "nothing"]


def test_each_device_of_a_runtime_is_listed_with_its_precisions(alignkit):
    lines = alignkit("list", "backends").out.splitlines()
    (here,) = [line for line in lines if line.startswith("    onnxruntime provider=cpu ")][:1]
    assert lines.index(here) < lines.index(
        "  tf32 is the arithmetic of NVIDIA GPUs; a CPU has none"
    )
    assert "fp32, fp16, int8: ONNX Runtime" in here
    if not gpu_present():
        at = lines.index(f"  {NO_GPU}; {UNPROVEN}")
        assert lines[at + 1].split("  ")[2] == "torch device=cuda"


def test_surrogates_are_called_so(alignkit):
    presets = json.loads(alignkit("list", "presets", "--json").out)["presets"]
    surrogates = [each for each in presets if each["name"].endswith("-surrogate")]
    assert surrogates
    assert all(each["summary"].startswith("surrogate of ") for each in surrogates)
    assert all(each["evidence"] for each in surrogates)


def test_lines_of_a_gpu_say_what_has_not_run_there(alignkit):
    listed = json.loads(alignkit("list", "--json").out)
    backends = {each["name"]: each["note"] for each in listed["backends"]}
    for name, note in backends.items():
        on_a_gpu = "=cuda" in name or "=tensorrt" in name or name.startswith("tensorrt")
        assert (note == "not yet run on hardware") is (on_a_gpu or name.startswith("torchpipe"))
        assert (note == "not compared with hardware") is name.startswith("simulated ")
    presets = {each["name"] for each in listed["presets"] if each["note"]}
    assert presets == {"dali-gpu"}  # an H100 ran the other two
    assert alignkit("list", "presets").out.count("; not yet run on hardware\n") == 1


def test_models_are_listed_by_name_only_when_asked_for(alignkit):
    assert "resnet18" not in alignkit("list").out
    assert alignkit("list", "models").out.count("\n") == len(MODELS) + 2


def test_an_unknown_family_suggests_the_nearest(alignkit):
    told = alignkit("list", "decodrs")
    assert (told.code, told.err) == (2, "unknown family 'decodrs'; did you mean 'decoders'?\n")


def test_an_emulated_precision_is_marked(alignkit, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("flags : avx2\n")
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    lines = alignkit("list", "backends").out.splitlines()
    (line,) = [line for line in lines if "(emulated)" in line]
    assert line.startswith("    torch device=cpu ")
    assert " fp32, fp16 (emulated), bf16 (emulated): PyTorch" in line
    listed = json.loads(alignkit("list", "backends", "--json").out)["backends"]
    (bf16,) = [each for each in listed if each["name"] == "torch device=cpu bf16"]
    assert bf16["usable"]
    assert "emulates" in bf16["note"]
