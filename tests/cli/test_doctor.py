"""`alignkit doctor`."""

import json

import pytest

from alignkit import machine as processor
from alignkit.backends import BACKENDS, usable_backends
from alignkit.decoders import DECODERS
from alignkit.machine import vector_extensions
from alignkit.plugins import Plugin
from alignkit.record import Environment


def test_a_machine_with_the_base_install_is_healthy(alignkit):
    told = alignkit("doctor")
    assert told.code == 0
    for title in ("environment", "versions", "codecs", "flags", "decoder self-test", "plugins"):
        assert f"\n{title}\n" in f"\n{told.out}"
    assert "equals opencv" in told.out


def test_the_vector_extensions_are_told(alignkit):
    (line,) = [x for x in alignkit("doctor").out.splitlines() if x.startswith("  extensions ")]
    assert line.split(maxsplit=1)[1] == vector_extensions()


def test_the_json_holds_an_environment_as_records_store_it(alignkit):
    document = json.loads(alignkit("doctor", "--json").out)
    Environment.model_validate(document["environment"])
    assert all(each["passed"] for each in document["self_test"])


def test_a_library_of_the_base_install_that_is_missing_is_told_with_the_fix(alignkit, monkeypatch):
    plugin = Plugin("x:Y", distributions=("gone-lib",), module="no_such_library")
    monkeypatch.setitem(DECODERS, "other", plugin)
    told = alignkit("doctor")
    assert told.code == 4
    (line,) = [line for line in told.out.splitlines() if "decoder other" in line]
    assert line.endswith("no_such_library is not installed: pip install 'gone-lib'")


def test_a_library_of_an_extra_may_be_missing(alignkit, monkeypatch):
    plugin = Plugin("x:Y", module="no_such_library", extra="dali")
    monkeypatch.setitem(DECODERS, "other", plugin)
    assert alignkit("doctor").code == 0


@pytest.mark.parametrize("command", ["doctor", "list"])
def test_doctor_and_list_say_the_same_of_backends(alignkit, command):
    expected = [(each.name, each.reason) for each in usable_backends()]
    if command == "list":
        document = json.loads(alignkit("list", "backends", "--json").out)["backends"]
        told = [(each["name"], each["why"]) for each in document if each["name"] not in BACKENDS]
    else:
        document = json.loads(alignkit("doctor", "--json").out)["backends"]
        parts = ("backend", "device", "precision")
        told = [
            (" ".join(each[part] for part in parts if each[part]), each["reason"])
            for each in document
        ]
    assert told == expected


def test_an_emulated_precision_is_marked(alignkit, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("flags : avx2\n")
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    lines = alignkit("doctor").out.splitlines()
    (line,) = [line for line in lines if line.startswith("  torch device=cpu ")]
    assert " fp32, fp16 (emulated), bf16 (emulated)" in line
    listed = json.loads(alignkit("list", "backends", "--json").out)["backends"]
    (bf16,) = [each for each in listed if each["name"] == "torch device=cpu bf16"]
    assert bf16["usable"]
    assert "emulates" in bf16["note"]


def test_what_a_backend_can_run_is_told_and_why_not_the_rest(alignkit):
    lines = alignkit("doctor").out.splitlines()
    (line,) = [line for line in lines if line.startswith("  torch device=cpu ")]
    assert "fp32" in line
    assert line.endswith("tf32: tf32 is the arithmetic of NVIDIA GPUs; a CPU has none")
