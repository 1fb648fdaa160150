"""What README and docs show is true: commands exist, the experiment loads, exit codes are ours."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from alignkit.cli import app
from alignkit.errors import GRAVITY, ExitCode
from alignkit.experiment import load_experiment
from alignkit.loader import EncodedImages

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
EXPERIMENTS = (ROOT / "docs" / "experiments.md").read_text()
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]


def blocks(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """Every command of the pages, in a block or in a sentence."""
    shown = []
    for text in (page.read_text() for page in PAGES):
        joined = text.replace("\\\n", "")
        shown += [part for kind, block in blocks(joined) if kind == "console"
                  for line in block.splitlines() for part in re.split(" && |  #", line)]  # fmt: skip
        shown += re.findall(r"`(alignkit [^`>]+?)(?: >[^`]*)?`", text)
    return sorted({" ".join(line.split()) for line in shown if line.startswith("alignkit ")})


@cache
def help_of(words: str) -> str:
    told = CliRunner().invoke(app, [*words.split(), "--help"])
    assert told.exit_code == 0, told.output
    return told.output


@pytest.mark.parametrize("command", commands())
def test_every_command_and_its_options_exist(command):
    _, name, *rest = shlex.split(command.replace("…", "").partition(" > ")[0])
    if name in ("COMMAND", "--help"):
        return
    told = help_of(name)
    if rest and not rest[0].startswith("-") and f"\n  {rest[0]} " in told:  # of the group
        told = help_of(f"{name} {rest[0]}")
    for word in rest:
        if word.startswith("-"):
            assert re.search(rf"(?<![\w-]){word}(?![\w-])", told), word


def test_every_subcommand_is_in_the_table():
    told = CliRunner().invoke(app, ["--help"]).output
    names = re.findall(r"^  ([a-z-]+)  ", told[told.index("Measure:") :], re.MULTILINE)
    assert names
    for name in names:
        assert re.search(rf"^\|.*`alignkit {name}\b.*\|.*\|$", COMMANDS, re.MULTILINE), name


def test_the_experiment_it_shows_loads(tmp_path):
    (shown,) = [block for kind, block in blocks(EXPERIMENTS) if kind == "yaml"]
    file = tmp_path / "my.yaml"
    file.write_text(shown)
    experiment = load_experiment(file)
    assert [path.size for path in experiment.paths] == [(48, 48)] * 3


def test_the_mistake_it_shows_is_told_so(tmp_path):
    (shown,) = [block for kind, block in blocks(EXPERIMENTS) if kind == "yaml"]
    (expected,) = [
        block for kind, block in blocks(EXPERIMENTS) if kind == "text" and "my.yaml:" in block
    ]
    file = tmp_path / "my.yaml"
    file.write_text(shown.replace("interpolation: linear", "interpolatoin: linear"))
    with pytest.raises(Exception, match="interpolatoin") as caught:
        load_experiment(file)
    assert str(caught.value).splitlines()[0].removeprefix(f"{tmp_path}/") == expected.strip()


def test_its_exit_codes_are_those_of_the_code():
    rows = re.findall(r"^\| (\d+) \|", COMMANDS, re.MULTILINE)
    assert [int(row) for row in rows] == sorted(ExitCode)
    order = re.search(r"that occurred: ([\d, ]+)\.", COMMANDS).group(1)
    assert [int(code) for code in order.split(", ")] == [int(code) for code in reversed(GRAVITY)]


def test_the_test_command_is_where_the_ci_script_looks_for_it():
    marked = TEXT[TEXT.index("<!-- tests -->") :].splitlines()
    assert marked[1] == "```console"
    command = 'python -m pytest -n auto --dist worksteal -m "not slow"'
    assert marked[2] == f'python -m pip install ".[dev]" && {command}'


def test_the_training_loop_it_shows_runs_and_sees_every_image_each_epoch():
    (shown,) = [
        block for kind, block in blocks(TEXT) if kind == "python" and "MixedLoader" in block
    ]
    data = load_experiment(
        ROOT / "experiments" / "quickstart.yaml", ("data.train=30", "data.eval=20")
    ).data
    seen = []
    names = {
        "epochs": 2,
        "train": EncodedImages(data.training()),
        "train_step": lambda images, labels: seen.append((tuple(images.shape), len(labels))),
    }
    exec(shown, names)
    assert seen == [((30, 3, 224, 224), 30)] * 2
