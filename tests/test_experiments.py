"""`alignkit run experiments/*.yaml` works in a fresh clone: nothing has to be brought for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from alignkit.datasets.made_files import MadeImages
from alignkit.experiment import load_experiment
from alignkit.plan.required_models import script_file

ROOT = Path(__file__).parents[1]
FILES = sorted(ROOT.glob("experiments/*.yaml"))
TEMPLATES = sorted(ROOT.glob("experiments/templates/*.yaml"))
LED = "".join(
    page.read_text() for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
)  # fmt: skip


def test_there_are_at_most_twelve():
    assert 6 < len(FILES) <= 12


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_experiment_makes_its_own_data_and_models(file):
    experiment = load_experiment(file)
    assert isinstance(experiment.content.data, MadeImages)
    assert experiment.content.train.pretrained is None
    for model in experiment.content.models:
        assert model.files == ()
        assert script_file(experiment, model).parent == file.parent
        assert script_file(experiment, model).is_file()
    assert experiment.name == file.stem


@pytest.mark.parametrize("file", FILES + TEMPLATES, ids=lambda file: file.stem)
def test_a_page_leads_to_it(file):
    assert file.name in LED


@pytest.mark.slow
def test_all_run_quickly_and_end_with_a_table(tmp_path):
    files = [each.relative_to(ROOT).as_posix() for each in FILES]
    command = [sys.executable, "-m", "alignkit", "run", *files, "--quick", "--no-open"]
    ended = subprocess.run(
        [*command, "--reports", tmp_path], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "FAILED" not in ended.stdout
    lines = ended.stdout.splitlines()
    assert lines[-1] == f"all pages  {tmp_path / 'index.html'}"
    table = lines[-len(files) - 2 : -1]
    assert table[0].split() == ["file", "verdict", "headline", "time", "page"]
    for file, line in zip(files, table[1:], strict=True):
        assert line.startswith(file)
        assert Path(line.split()[-1]).is_file()
    links = re.findall(r'<a href="([^"#]+)">', (tmp_path / "index.html").read_text())
    assert len(links) == len(files)
    assert all((tmp_path / each).is_file() for each in links)
