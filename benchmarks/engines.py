"""Engines: equal records and speed over many files, the driver's share, and its memory.

    python benchmarks/engines.py [--images FOLDER]... [--number 20000] [--engines dask,ray]
                                 [--workers 2] [--rounds 1] [--memory 10000,100000,1000000]
                                 [--picture docs/pictures/memory.svg]

So many files with names of their own are made of the images of the folders, as links or copies.
``alignkit diff`` and a gate without a model compare them by the local pool, by each engine with so
many workers, each with one process that decodes, and in four shards. Records must be equal, byte by
byte, except for command and times; of a merged gate, the measured values must be, up to the last
digits of means. *ratio*: images per second of a diff over those of the local pool with as many
processes, from the tenth part of the lots on, so that the start of workers is apart. *share*: the
driver's time for one lot (hand out, read, store, recall and add up its part) over the time that one
process works on it. *memory*: the driver's RSS over the images done, of these diffs and of made
lots, whose part is real and whose work takes no time: dispatch and merge alone. Targets: ratio at
least 0.85, share at most 0.05, memory flat within 5 %.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine_memory import NAMES, made, picture, resident, work
from figures import Figure, machine_in_words, show

from alignkit.datasets.digits_on_photos import DigitsOnPhotos
from alignkit.datasets.unlabelled_images import Images
from alignkit.lots import IMAGES_A_LOT, lot_of
from alignkit.lots.kept_lots import KeptLots
from alignkit.lots.local import LocalEngine
from alignkit.samples import Samples
from alignkit.studies.diff.diff_tally import DiffTally
from alignkit.workspace import Workspace

SHARDS = 4
LOTS_OF_SHARE = 20
DIFFER = ("started", "seconds", "sha256")
"""Keys of a record that are not the same: when and how it was made, and the seal of its text."""
MEASURED = ("pixels", "coverage_diffs")
"""Keys of a record that hold what a gate measured: those of a merged gate that must be the same."""
GATE = """\
name: engines
data: {{name: images, root: {root}}}
preprocess:
  training: {{preset: opencv-train, size: 224}}
  serving: {{preset: pillow-train, size: 224}}
"""


def files_in(folders: Sequence[str]) -> list[Path]:
    """List the images of the folders, or those of the bundled data."""
    if folders:
        return [
            each
            for folder in folders
            for each in sorted(Path(folder).rglob("*"))
            if each.suffix.lower() in (".jpg", ".jpeg")
        ]
    samples, folder = DigitsOnPhotos().evaluation(), Path(tempfile.mkdtemp())
    for number in range(len(samples)):
        (folder / f"{number:06}.jpg").write_bytes(samples.read(number))
    return sorted(folder.iterdir())


def many(images: Sequence[Path], number: int, folder: Path) -> None:
    """Fill a folder with so many files of these images."""
    folder.mkdir()
    for place in range(number):
        image, file = images[place % len(images)], folder / f"{place:07}.jpg"
        try:
            os.link(image, file)
        except OSError:  # another file system, or too many links
            shutil.copy(image, file)


@dataclass(frozen=True)
class Ran:
    """A command that ended."""

    seconds: float
    first: float
    """Seconds until its first lot was stored."""
    rate: float
    """Images per second from the tenth part of the lots on."""
    memory: list[tuple[int, float]]
    """Images done → the driver's RSS in MB, at most."""


def ran(words: Sequence[str], reports: Path, number: int) -> Ran:
    """Run a command, and look at its stored lots and its memory meanwhile."""
    lots, memory = reports / ".cache" / "lots", dict[int, float]()
    before = {each.parent.name for each in lots.glob("[!.]*/key.json")}
    command = [sys.executable, "-m", "alignkit", *words, "--reports", str(reports)]
    began = time.time()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        while process.poll() is None:
            done = sum(1 for _ in lots.glob("[!.]*")) * IMAGES_A_LOT
            if 0 < done < number:
                memory[done] = max(memory.get(done, 0.0), resident(process.pid))
            time.sleep(0.1)
        seconds = time.time() - began
        if process.returncode not in (0, 1):  # 1: a gate found drift
            said.seek(0)
            sys.exit(f"{' '.join(words)} ended with {process.returncode}: {said.read().decode()}")
    files = (each for each in lots.glob("[!.]*/key.json") if each.parent.name not in before)
    stored_at = sorted(each.stat().st_mtime for each in files)
    if len(stored_at) < 2:
        return Ran(seconds, seconds, math.nan, [])
    tenth = -(-len(stored_at) // 10) - 1
    images = (len(stored_at) - 1 - tenth) * IMAGES_A_LOT
    rate = images / (stored_at[-1] - stored_at[tenth])
    return Ran(seconds, stored_at[0] - began, rate, sorted(memory.items()))


def diffs(folder: Path, scratch: Path, name: str, options: list[str], number: int) -> Ran:
    """Compare all files by one engine; its record is ``NAME.json``."""
    out = f"json={scratch / name}.json"
    words = ["diff", str(folder), "-p", ",".join(NAMES), *options, "--out", out]
    return ran(words, Path(tempfile.mkdtemp(dir=scratch)), number)


def diff_in_shards(folder: Path, scratch: Path, workers: int, number: int) -> float:
    """Compare every shard, and then read all; return the seconds."""
    reports, began = scratch / "shards", time.time()
    words = ["diff", str(folder), "-p", ",".join(NAMES), "--threads", str(workers)]
    for each in range(1, SHARDS + 1):
        ran([*words, "--shard", f"{each}/{SHARDS}"], reports, number)
    ran([*words, "--out", f"json={scratch}/shards.json"], reports, number)
    return time.time() - began


def gates(scratch: Path, name: str, options: list[str], number: int) -> Ran:
    """Judge all files by one engine; the record is ``gate-NAME.json``."""
    reports = Path(tempfile.mkdtemp(dir=scratch))
    words = ["gate", str(scratch / "gate.yaml"), *options, "--no-html"]
    found = ran(words, reports, number)
    (record,) = reports.glob("engines/*/record.json")
    shutil.copy(record, scratch / f"gate-{name}.json")
    return found


def gate_in_shards(scratch: Path, number: int) -> float:
    """Measure every shard of the gate, and merge them; return the seconds."""
    reports, file, began = scratch / "merged", str(scratch / "gate.yaml"), time.time()
    parts = [str(scratch / f"part-{each}.json") for each in range(1, SHARDS + 1)]
    for each, part in enumerate(parts, 1):
        words = ["gate", file, "--shard", f"{each}/{SHARDS}", "--out", f"shard={part}"]
        ran([*words, "--no-html"], scratch / f"part-{each}", number)
    ran(["report", "merge", file, *parts], reports, number)
    (record,) = reports.glob("engines/*/record.json")
    shutil.copy(record, scratch / "gate-shards.json")
    return time.time() - began


def facts(file: Path) -> dict[str, Any]:
    """Return a record without its `DIFFER`, and without commands that it proposes."""
    # a proposed command names the folder of the reports
    content = json.loads(file.read_text(), object_hook=without_command)
    return {key: value for key, value in content.items() if key not in DIFFER}


def without_command(facts: dict[str, Any]) -> dict[str, Any]:
    """Drop the command of a part of a record."""
    return {key: value for key, value in facts.items() if key != "command"}


def differences(one: Any, other: Any, place: str = "") -> list[str]:
    """Name the values that differ, floats by more than the order of their sum explains."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [each for key in one for each in differences(one[key], other[key], f"{place}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [each for n, (a, b) in pairs for each in differences(a, b, f"{place}.{n}")]
    if isinstance(one, float) and isinstance(other, float) and math.isclose(one, other):
        return []
    return [] if one == other else [f"{place}: {one!r} and {other!r}"]


def check_equal(scratch: Path, prefix: str, names: Sequence[str]) -> None:
    """End the benchmark unless all records are that of the local pool."""
    expected = facts(scratch / f"{prefix}local.json")
    for name in names:
        found, what = facts(scratch / f"{prefix}{name}.json"), "record"
        if f"{prefix}{name}" == "gate-shards":  # each shard tested itself
            what = "measured values"
            found, expected = ({key: each[key] for key in MEASURED} for each in (found, expected))
        equal = json.dumps(found) == json.dumps(expected)
        if not equal and (wrong := differences(expected, found)):
            sys.exit(f"{prefix}{name}: the record is another one: {'; '.join(wrong[:5])}")
        how = "byte-equal" if equal else "equal, except for the last digits of means"
        print(f"{what} of {prefix}{name}: {how}", flush=True)


def share(samples: Samples) -> float:
    """Measure lots: the driver's part over the work of one process, after the first of each."""
    lot, doing = lot_of(samples, 0, "fail"), work()
    for _ in range(2):  # the first time starts the process
        began = time.perf_counter()
        (done,) = LocalEngine(1, keep=True).parts(doing, iter([lot]), lambda _: None)
        worked = time.perf_counter() - began
    text, tally = doing.text(done.part), DiffTally(doing.paths)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        store = KeptLots(Workspace(Path(folder)))
        for each in range(1 + LOTS_OF_SHARE):  # the first time hashes the code, once a command
            began, data = time.perf_counter(), f"{samples.fingerprint}{each}"
            pickle.dumps((doing, lot_of(samples, 0, "fail")))
            part = doing.parsed(text)
            store.keep(doing, lot, data, text)
            store.find(doing, lot, data)
            tally.join(part)
            times.append(time.perf_counter() - began)
    driver = sum(times[1:]) / LOTS_OF_SHARE
    print(f"a lot of {len(lot.samples)} images: {worked:.2f} s of work, {1e3 * driver:.1f} ms of "
          f"the driver (the first {1e3 * times[0]:.0f}), a part of {len(text):,} B")  # fmt: skip
    return driver / worked


def compared(given: argparse.Namespace, scratch: Path) -> tuple[list[Figure], dict[str, Any]]:
    """Compare the files by all engines; return the ratios, and the lines of the picture."""
    folder, number, names = scratch / "files", given.number, list(filter(None, given.engines))
    many(files_in(given.images), number, folder)
    (scratch / "gate.yaml").write_text(GATE.format(root=folder))
    engines = {"local": ["--threads", str(given.workers)]}
    engines |= {
        name: ["--engine", name, "--workers", str(given.workers), "--threads", "1"]
        for name in names
    }
    rates, lines = {name: list[float]() for name in engines}, {}
    for _ in range(given.rounds):
        for name, options in engines.items():
            found = diffs(folder, scratch, name, options, number)
            rates[name].append(found.rate)
            lines[f"diff, {name}"] = found.memory
            start, whole, mb = found.first, found.seconds, found.memory[-1][1]
            print(f"diff, {name}: {found.rate:.0f} images/s, first lot after {start:.1f} s, "
                  f"{whole:.1f} s in all, {mb:.0f} MB", flush=True)  # fmt: skip
    seconds = diff_in_shards(folder, scratch, given.workers, number)
    print(f"diff, {SHARDS} shards: {seconds:.1f} s", flush=True)
    check_equal(scratch, "", [*names, "shards"])
    for name, options in engines.items():
        found = gates(scratch, name, [] if name == "local" else options[:-2], number)
        print(f"gate, {name}: {found.seconds:.1f} s", flush=True)
    print(f"gate, {SHARDS} shards: {gate_in_shards(scratch, number):.1f} s", flush=True)
    check_equal(scratch, "gate-", [*names, "shards"])
    figures = []
    for name in names:
        ratios = [a / b for a, b in zip(rates[name], rates["local"], strict=True)]
        what = f"images/s of {name} / local pool, {given.workers} workers, {number:,} images"
        figures.append(Figure(what, ratios, at_least=0.85))
    grown = [line[-1][1] / line[len(line) // 10][1] for line in lines.values()]
    figures.append(Figure("driver's RSS at the end / after a tenth", grown, at_most=1.05))
    return figures, lines


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", action="append", default=[], help="default: bundled photos")
    parser.add_argument("--number", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["dask", "ray"])
    parser.add_argument("--memory", default="10000,100000,1000000")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg")
    given = parser.parse_args()
    began = time.perf_counter()
    print(machine_in_words(), flush=True)
    with tempfile.TemporaryDirectory(prefix="alignkit-engines-") as scratch:
        found, lines = compared(given, Path(scratch))
        files = Path(scratch) / "files"
        found.insert(0, Figure("driver's time / work on a lot", [share(Images(files).evaluation())],
                               at_most=0.05))  # fmt: skip
        numbers = [int(each) for each in given.memory.split(",") if each]
        ends = {each: made(files, each) for each in numbers}
    lines |= {f"{each:,} made": line for each, line in ends.items()}
    if len(numbers) > 1:
        first, *_, last = numbers
        what = f"driver's RSS after {last:,} / {first:,} made images"
        found.append(Figure(what, [ends[last][-1][1] / ends[first][-1][1]], at_most=1.05))
    if given.picture:
        given.picture.write_text(picture(lines), encoding="utf-8")
    print(f"{time.perf_counter() - began:.0f} s in all")
    show(found)


if __name__ == "__main__":
    main()
