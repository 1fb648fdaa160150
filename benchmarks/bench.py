"""Run benchmarks one after the other and make the table of docs/performance.md from them.

Each runs by the line of its own docstring, with its defaults, in a process of its own; the table
has the figures of its JSON line that have a goal. A benchmark that fails or needs a library that is
not installed is named with its reason, and the exit code is 1. `--write` puts the rows into the
page, which keeps those of the other benchmarks; of a busy machine it writes none.

    python benchmarks/bench.py [NAME ...] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from figures import QUIET, machine_in_words

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- table of nox -s bench -->", "<!-- end of the table -->"
HEAD = "| figure | benchmark | asked | measured | processor |\n|---|---|---|---|---|"
OTHERS = {"atlas", "bench", "engine_memory", "figures", "lite0_weights", "oracle", "serving"}
"""Files here that are no benchmarks of this command: those of a GPU have `nox -s gpu`, and
`serving.py` needs photographs and a server."""
NAMES = sorted({each.stem for each in ROOT.glob("benchmarks/*.py")} - OTHERS)
SECONDS = 900
"""Limit of one benchmark; each should take less than 180."""
CALM = 60
"""Most seconds to wait until the load of the benchmark before has died away."""


class NotMeasuredError(Exception):
    """A benchmark that gave no figures, with its reason."""


def calm_down() -> None:
    """Wait until the load is that of a quiet machine, for a minute in the worst case."""
    until = time.monotonic() + CALM
    while os.getloadavg()[0] > QUIET * (os.cpu_count() or 1) and time.monotonic() < until:
        time.sleep(5)


def measured(name: str) -> dict[str, Any]:
    """Run one benchmark, pass its text on, and return its JSON line."""
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py")]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    ran = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    *text, last = ran.stdout.splitlines() or [""]
    print("\n".join(text), flush=True)
    if ran.returncode:
        raise NotMeasuredError((ran.stderr.strip().splitlines() or ["no reason was printed"])[-1])
    try:
        found = json.loads(last)
    except ValueError:
        raise NotMeasuredError("its last line is not JSON") from None
    return dict(found)


def rows(found: dict[str, Any]) -> list[str]:
    """Make one benchmark's lines of the table; the first names the processor.

    They are its figures with a goal. The others help to find out why a goal is missed, and stand
    in the benchmark's own text.
    """
    families = ", ".join(found["families"])
    busy = f", BUSY (load {found['load']})" if found["busy"] else ""
    limits = "".join(f", {name}={value}" for name, value in found["limits"].items())
    processor = f"{found['processor']} ({families}{limits}), {found['cores']} cores{busy}"
    script = f"[{found['benchmark']}](../benchmarks/{found['benchmark']}.py)"
    asked = [each for each in found["figures"] if each["asked"]]
    return [
        f"| {each['what']} | {script} | {each['asked']}{', missed' * (each['met'] is False)} "
        f"| {each['measured']} | {processor if each is asked[0] else ''} |"
        for each in asked
    ]


def write(table: Mapping[str, Sequence[str]]) -> None:
    """Put the benchmarks' rows between the page's two marks, in place of their earlier ones."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    earlier, _, after = rest.partition(END)
    kept = {name: [] for name in NAMES}
    for row in earlier.strip().splitlines()[2:]:
        name = row.partition("| [")[2].partition("]")[0]
        kept.get(name, []).append(row)  # rows of a benchmark that is no more are dropped
    lines = [row for rows in {**kept, **table}.values() for row in rows]
    PAGE.write_text(f"{before}{BEGIN}\n\n{HEAD}\n" + "\n".join(lines) + f"\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    given = parser.parse_args()
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    table: dict[str, list[str]] = {}
    failed, busy = {}, []
    for name in given.names or NAMES:
        calm_down()
        began = time.monotonic()
        print(f"== {name}", flush=True)
        try:
            found = measured(name)
        except (NotMeasuredError, subprocess.TimeoutExpired) as reason:
            failed[name] = str(reason)
            print(f"not measured: {reason}")
            continue
        print(f"{machine_in_words(found)}; {time.monotonic() - began:.0f} s\n", flush=True)
        table[name] = rows(found)
        busy += [name] if found["busy"] else []
    print("\n".join([HEAD, *chain.from_iterable(table.values())]))
    if given.write and busy:
        failed["table"] = f"not written, the machine was busy at the start of {', '.join(busy)}"
    elif given.write:
        write(table)
    for name, reason in failed.items():
        print(f"{name}: {reason}", file=sys.stderr)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
