"""`alignkit doctor`."""

import json
import subprocess
import sys
from importlib import metadata

import pytest

from alignkit.decoders import DECODERS
from alignkit.plugins import Plugin, PluginTable
from alignkit.record import Environment

DOCTOR_OF_TWO = """
import sys
from alignkit.cli import main
from alignkit.decoders import DECODERS, decoder_check
from alignkit.plugins import PluginTable
two = {name: DECODERS[name] for name in ("opencv", "torchpipe")}
decoder_check.DECODERS = PluginTable("tested", two)
sys.argv = ["alignkit", "doctor", "--json"]
main()
"""


@pytest.fixture(autouse=True)
def one_decoder_tested(monkeypatch):
    """The self-test of all decoders takes seconds, and has tests of its own."""
    table = PluginTable("tested", {"opencv": DECODERS["opencv"]})
    monkeypatch.setattr("alignkit.decoders.decoder_check.DECODERS", table)


def test_a_machine_with_the_base_install_is_healthy(alignkit):
    told = alignkit("doctor")
    assert told.code == 0
    for title in ("environment", "versions", "codecs", "flags", "extras", "decoder self-test"):
        assert f"\n{title}\n" in f"\n{told.out}"
    assert "equals opencv" in told.out


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


def test_an_extra_is_told_with_its_version_or_the_command_that_installs_it(alignkit, monkeypatch):
    monkeypatch.setitem(DECODERS, "other", Plugin("x:Y", module="no_such_library", extra="dream"))
    monkeypatch.setitem(DECODERS, "more", Plugin("x:Y", distributions=("numpy",), extra="numbers"))
    extras = json.loads(alignkit("doctor", "--json").out)["extras"]
    assert extras["dream"] == "not installed: pip install 'alignkit[dream]'"
    assert extras["numbers"] == f"numpy {metadata.version('numpy')}"


@pytest.mark.slow  # tests/cli/test_main.py has a library that prints, which loads faster
def test_the_json_is_json_although_torchpipe_prints_to_stdout():
    pytest.importorskip("torchpipe")
    done = subprocess.run(
        [sys.executable, "-c", DOCTOR_OF_TWO], capture_output=True, text=True, check=True
    )
    tested = json.loads(done.stdout)["self_test"]
    assert {each["decoder"] for each in tested} == {"torchpipe", "opencv"}
    assert done.stderr == ""
