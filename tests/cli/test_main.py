"""What holds for every command."""

import os
import subprocess
import sys

import pytest
import typer

from alignkit import cli
from alignkit.cli.commands import COMMANDS
from alignkit.errors import AlignkitError, MissingDependency
from alignkit.experiment import load_experiment
from alignkit.version import __version__

HEAVY = ("torch", "torchvision", "torchpipe", "cv2", "numpy", "pandas", "sklearn", "scipy", "PIL",
         "onnx", "onnxruntime", "pyarrow", "jinja2")  # fmt: skip
FOR_A_FILE = ("pydantic", "yaml")
"""Needed by what reads an experiment or a record, and by nothing else."""


def imported_by(*commands: list[object], of: tuple[str, ...] = HEAVY) -> set[str]:
    """Libraries in a process that ran the commands one after the other; each must succeed."""
    code = (
        "import sys; from alignkit.cli import main\n"
        f"for arguments in {[[*map(str, each)] for each in commands]}:\n"
        "    sys.argv[1:] = arguments\n"
        "    try: main()\n"
        "    except SystemExit as ended: assert not ended.code, ended.code\n"
        f"print(*[name for name in {of} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_light_commands_import_nothing_heavy():
    assert imported_by(["run", "--help"], ["list"], ["check", "--schema", "experiment"]) == set()


def test_the_help_loads_no_command_and_nothing_to_read_files_with():
    modules = tuple(f"alignkit.cli.{late.target.partition(':')[0]}" for late in COMMANDS.values())
    assert imported_by(["--help"], of=(*HEAVY, *FOR_A_FILE, *modules)) == set()
    alone = imported_by(["check", "--help"], of=modules)
    assert alone == {"alignkit.cli.check_command"}


def test_checking_a_file_loads_no_record(file):
    assert imported_by(["check", file], of=(*HEAVY, "alignkit.record")) == set()


def test_plan_imports_nothing_heavy(file, tmp_path):
    load_experiment(file).data.fingerprint("train")  # as after a first run: its digits are known
    assert imported_by(["plan", file, "--reports", tmp_path / "reports"]) == set()


def test_the_version_is_printed(alignkit):
    told = alignkit("--version")
    assert (told.code, told.out) == (0, f"alignkit {__version__}\n")


def test_python_m_alignkit_is_the_same_command():
    command = [sys.executable, "-m", "alignkit", "--version"]
    assert subprocess.check_output(command, text=True) == f"alignkit {__version__}\n"


def test_without_arguments_it_shows_the_help(alignkit):
    told = alignkit()
    assert "→ alignkit run experiments/" in told.out + told.err


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("rum", "run"), ("doktor", "doctor"), ("compare", "compare-runs"), ("base", "baseline")],
)
def test_an_unknown_command_suggests_the_nearest(alignkit, wrong, right):
    told = alignkit(wrong)
    assert told.code == 2
    assert f"Did you mean '{right}'?" in told.err
    assert told.out == ""


def test_an_unknown_option_is_a_usage_error(alignkit, file):
    told = alignkit("plan", file, "--jsn")
    assert told.code == 2
    assert "--json" in told.err


@pytest.mark.parametrize("error", [AlignkitError("do this"), MissingDependency("get that")])
def test_an_error_for_the_user_is_its_message_and_its_exit_code(alignkit, monkeypatch, error):
    def broken() -> None:
        raise error

    monkeypatch.setattr(cli, "app", broken)
    told = alignkit()
    assert (told.code, told.err, told.out) == (error.exit_code, f"{error}\n", "")


def test_a_defect_keeps_its_traceback_and_is_no_drift(alignkit, monkeypatch):
    monkeypatch.setattr(cli, "app", lambda: 1 / 0)
    told = alignkit()
    assert told.code == 3
    assert "ZeroDivisionError" in told.err
    assert "This is a bug in alignkit, not in your experiment" in told.err


@pytest.mark.parametrize("error", [EOFError, typer.Abort, BrokenPipeError])
def test_an_input_that_ends_in_a_command_is_a_defect_and_no_drift(
    alignkit, monkeypatch, file, error
):
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("alignkit.experiment.load_experiment", broken)
    told = alignkit("check", file)
    assert told.code == 3
    assert error.__name__ in told.err
    assert "This is a bug in alignkit" in told.err


@pytest.mark.parametrize(
    ("words", "kept"), [(("baseline", "log"), False), (("baseline", "record"), True)]
)
def test_only_a_command_that_keeps_work_says_so(alignkit, monkeypatch, file, words, kept):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("alignkit.experiment.load_experiment", interrupted)
    monkeypatch.setenv("CI", "")
    told = alignkit(*words, file)
    assert told.code == 130
    assert ("finished work is kept" in told.err) == kept


@pytest.mark.parametrize("buffering", ["1", ""])
def test_a_closed_pipe_ends_it_quietly(buffering):
    environment = os.environ | {"PYTHONUNBUFFERED": buffering}
    command = [sys.executable, "-m", "alignkit", "list", "tasks"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as writer:
        writer.stdout.close()
        told = writer.stderr.read().decode()
    assert "Traceback" not in told
    assert writer.returncode == 3


def test_only_results_go_to_stdout_also_where_a_library_prints_there():
    """A library in C writes to descriptor 1, past Python's stdout."""
    code = (
        "import os\n"
        "from alignkit import cli\n"
        "def loud():\n"
        "    os.write(1, b'loud library\\n')\n"
        "    print('result')\n"
        "cli.app = loud\n"
        "cli.main()\n"
        "os.write(1, b'afterwards\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "result\nafterwards\n"
    assert done.stderr == "loud library\n"
