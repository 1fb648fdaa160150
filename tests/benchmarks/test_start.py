"""Every benchmark starts in a clean checkout by the line its own docstring gives."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_COMMANDS = {ROOT / "benchmarks" / f"{each}.py" for each in ("atlas", "figures", "lite0_weights")}
BENCHMARKS = sorted({*(ROOT / "benchmarks").glob("*.py")} - NO_COMMANDS)
ASK_FOR_HELP = """
import runpy, sys, traceback
sys.path[0] = "benchmarks"  # as for each of these scripts
sys.modules["tests"] = None  # an editable install would find it, a user's install does not
for file in sys.argv[1:]:
    if file == "checkout":
        del sys.modules["tests"]
        continue
    sys.argv = [file, "--help"]
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as ended:
        assert not ended.code, file
    except BaseException:
        sys.exit(f"{file}: {traceback.format_exc()}")
"""


def started(file: Path) -> str:
    """Return the documented command line, as far as the file."""
    lines = (ast.get_docstring(ast.parse(file.read_text())) or "").splitlines()
    name = f"benchmarks/{file.name}"
    return next(line.strip().partition(name)[0] + name for line in lines if name in line)


def test_every_benchmark_documents_how_it_starts():
    known = {f"{before}python benchmarks/{each.name}" for each in BENCHMARKS for before in ("", "PYTHONPATH=. ")}  # fmt: skip
    assert {started(each) for each in BENCHMARKS} <= known


@pytest.mark.slow  # it imports what all of them need
def test_every_benchmark_starts_as_it_documents():
    """In one process, as most of the time goes by while libraries are imported."""
    pytest.importorskip("selenium")
    names = [f"benchmarks/{each.name}" for each in BENCHMARKS]
    needs = [started(each).startswith("PYTHONPATH=. ") for each in BENCHMARKS]
    alone = [name for name, need in zip(names, needs, strict=True) if not need]
    checkout = [name for name, need in zip(names, needs, strict=True) if need]
    done = subprocess.run(
        [sys.executable, "-c", ASK_FOR_HELP, *alone, "checkout", *checkout],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage:") == len(names)
