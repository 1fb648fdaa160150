"""Figures of benchmarks: as text, as one JSON line, and in the table of the page."""

import importlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alignkit.machine import cpu_name, vector_extensions

ROOT = Path(__file__).parents[2]


@pytest.fixture
def figures(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("figures")


@pytest.fixture
def bench(monkeypatch, figures):
    return importlib.import_module("bench")


def test_a_json_line_ends_the_text(figures, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks/case.py"])
    rounds = [0.9, 0.7, 0.8]
    figures.show([figures.Figure("this / that", rounds, at_least=0.85), figures.Figure("x", [2.0])])
    *text, line = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert text[0].split("  ")[1:] == ["0.8 (0.7 to 0.9)", "asked: at least 0.85, MISSED"]
    assert (found["benchmark"], found["processor"]) == ("case", cpu_name())
    assert " ".join(found["extensions"]) == vector_extensions()
    figure = found["figures"][0]
    assert (figure["median"], figure["lowest"], figure["highest"]) == (
        statistics.median(rounds), min(rounds), max(rounds),
    )  # fmt: skip
    assert (figure["rounds"], figure["met"], found["figures"][1]["met"]) == (3, False, None)


@pytest.mark.parametrize(("a_core", "busy"), [(1.21, True), (1.19, False)])
def test_a_busy_machine_is_never_called_quiet(figures, bench, monkeypatch, a_core, busy):
    monkeypatch.setattr(figures, "LOAD_AT_START", a_core * figures.os.cpu_count())
    found = figures.machine()
    assert found["busy"] is busy
    assert ("BUSY" in figures.machine_in_words(found)) is busy
    asked, free = figures.Figure("a / b", [1], at_least=0.5), figures.Figure("c", [1])
    shown = [each.as_json() for each in (free, asked, asked)]
    first, second = bench.rows({"benchmark": "case", "figures": shown, **found})
    assert ("BUSY" in first) is busy
    assert second == first.rpartition(" | ")[0] + " |  |"  # the processor of a benchmark once


def test_sides_take_turns_and_children_count(figures):
    turns = []
    burn = "import time\nwhile time.process_time() < 0.15: pass"
    works = {
        "child": lambda: turns.append(subprocess.run([sys.executable, "-c", burn], check=True)),
        "sleep": lambda: turns.append(time.sleep(0.1)),
    }
    costs = figures.alternate(works, 2)
    assert [each is None for each in turns] == 3 * [False, True]
    assert [len(each) for each in costs.values()] == [2, 2]
    assert all(each.cpu > 0.1 for each in costs["child"])
    assert all(each.cpu < 0.1 <= each.wall for each in costs["sleep"])


def test_rows_replace_those_of_their_benchmark_and_keep_the_others(bench, tmp_path, monkeypatch):
    page = tmp_path / "performance.md"
    page.write_text(f"Before\n{bench.BEGIN}\n{bench.END}\nafter\n")
    monkeypatch.setattr(bench, "PAGE", page)

    def row(name, measured):
        return f"| figure | [{name}](../benchmarks/{name}.py) | | {measured} | processor |"

    bench.write({"train": [row("train", 1), row("train", 2)]})
    bench.write({"diff": [row("diff", 3)]})
    bench.write({"train": [row("train", 4)]})
    lines = "\n".join([row("diff", 3), row("train", 4)])
    assert page.read_text() == (
        f"Before\n{bench.BEGIN}\n\n{bench.HEAD}\n{lines}\n\n{bench.END}\nafter\n"
    )


def test_every_benchmark_is_run_and_ends_with_its_figures(bench):
    assert {"decode", "diff", "start", "train"} <= {*bench.NAMES}
    assert "figures" not in bench.NAMES
    for name in bench.NAMES:
        assert "show(" in (bench.ROOT / "benchmarks" / f"{name}.py").read_text(), name
