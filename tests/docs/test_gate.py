"""What docs/gate.md shows is true."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from alignkit.experiment import load_experiment
from alignkit.experiment.metric_option import metric_names
from alignkit.experiment.rule_option import RULE_PRESETS
from alignkit.gate.outputs import OUTPUTS
from tests.gate_case import make_case

TEXT = (Path(__file__).parents[2] / "docs" / "gate.md").read_text()


def block(kind: str) -> str:
    return re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)[0]


def test_the_file_it_shows_loads(tmp_path):
    file = tmp_path / "gate.yaml"
    file.write_text(block("yaml"))
    assert len(load_experiment(file).gate.rules or ()) == 3


def test_every_metric_preset_and_output_is_named():
    for name in metric_names():
        assert f".{name.partition('.')[2]}" in TEXT or name in TEXT or "AVERAGE" in TEXT, name
    assert all(f"`{name}`" in TEXT for name in (*RULE_PRESETS, *OUTPUTS))


@pytest.mark.slow
def test_the_tests_it_shows_run(tmp_path):
    make_case(tmp_path)
    (tmp_path / "test_shown.py").write_text(block("python"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--alignkit-update"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
