"""Time of commands that do little: the help, a check, a plan, and a quickstart that is cached.

Every command is a process of its own, with its imports compiled and its files in the page cache, as
from the second time on. They take turns with ``python -c pass``. First a quickstart with few
training images is run, which takes most of the time. Targets: 0.15 s for help and plan, with 0.4 s
of CPU time, and 1.5 s for the cached quickstart.

    python benchmarks/start.py [--repeats N] [--before FOLDER] [--only COMMAND ...]

FOLDER is a checkout of an earlier commit, whose commands take turns with this one's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from figures import Cost, Figure, alternate, ratios, show

ROOT = Path(__file__).resolve().parents[1]
SMALL = ("--set", "data.train=200", "--set", "train.epochs=1")
"""Of the quickstart: short trainings, and as many cells, images and pages."""
COMMANDS = {
    "help": ("--help",),
    "check": ("check", "quickstart.yaml"),
    "plan": ("plan", "quickstart.yaml"),
    "cached run": ("run", "quickstart.yaml", *SMALL, "--no-open", "-q"),
}
ASKED = {"help": 0.15, "plan": 0.15, "cached run": 1.5}
"""Most seconds."""
ASKED_CPU = {"help": 0.4, "plan": 0.4}


def process(tree: Path | None, folder: Path, arguments: tuple[str, ...]) -> None:
    """Carry out a command with a tree's code, or Python alone."""
    hidden = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "CI")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    kept |= {"PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    command = [sys.executable, *(("-m", "alignkit") if tree else ("-c", "pass")), *arguments]
    ended = subprocess.run(
        command, check=False, cwd=folder, env=kept, capture_output=True, text=True
    )
    # 1: a verdict about the quickstart's drift
    if ended.returncode > 1:
        sys.exit(ended.stderr)


def figures(name: str, side: list[Cost], python: list[Cost], before: list[Cost] | None):
    walls, cpus = [each.wall for each in side], [each.cpu for each in side]
    yield Figure(f"alignkit {name}, wall", walls, at_most=ASKED.get(name), unit="s")
    yield Figure(f"alignkit {name}, CPU", cpus, at_most=ASKED_CPU.get(name), unit="s")
    if before is None:
        yield Figure(
            f"alignkit {name} / python -c pass, CPU", ratios(cpus, [each.cpu for each in python])
        )
    else:
        for kind, now, then in (
            ("wall", walls, [each.wall for each in before]),
            ("CPU", cpus, [each.cpu for each in before]),
        ):
            yield Figure(f"alignkit {name}, now / before, {kind}", ratios(now, then))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--before", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", default=[*COMMANDS], choices=COMMANDS)
    given = parser.parse_args()
    trees = {"now": ROOT} | ({"before": given.before.resolve()} if given.before else {})
    with tempfile.TemporaryDirectory() as temporary:
        works = {"python": partial(process, None, Path(temporary), ())}
        for side, tree in trees.items():
            folder = Path(temporary) / side
            folder.mkdir()
            # one file for both, so that they do the same
            shutil.copy(ROOT / "experiments" / "quickstart.yaml", folder)
            for name in given.only:
                works[f"{name} {side}"] = partial(process, tree, folder, COMMANDS[name])
        costs = alternate(works, given.repeats)
    show(
        [
            figure
            for name in given.only
            for figure in figures(
                name, costs[f"{name} now"], costs["python"], costs.get(f"{name} before")
            )
        ]
    )


if __name__ == "__main__":
    main()
