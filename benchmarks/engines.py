"""Engines: equal records and speed over many files, the driver's share, and its memory.

    python benchmarks/engines.py [--images FOLDER]... [--number 20000] [--engines dask,ray]
                                 [--workers 2] [--rounds 1] [--memory 10000,100000,1000000]

So many files with names of their own are made of the JPEG images of the folders, as links or
copies. ``alignkit diff`` and a gate without a model compare them by the local pool, by each engine
with so many workers, each with one process that decodes, and in four shards. Records must be equal,
byte by byte, except for commands, times and the seal. The figures:

- images/s of a diff by an engine over those of the local pool with as many processes. The first
  tenth of the lots is left out, and with it the start of workers. At least 0.85.
- The driver's time for a lot (hand out, read, store, recall and add up its part) over the time that
  one process works on it, of 20 lots. At most 0.05.
- The driver's RSS when all lots but the last are stored over that after a tenth, of each diff's
  last round. The memory for the record's text, after the lots, is in the printed maximum alone. At
  most 1.05.
- The driver's RSS at the end of the most made lots over that of the fewest, by each engine: their
  part is real and their work takes no time, so that dispatch and merge remain. At most 1.05.
"""

from __future__ import annotations

import argparse
import json
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

from engine_memory import NAMES, made, resident, work
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
FEWEST = 10 * IMAGES_A_LOT
"""Images of ten lots: the first tenth is left out."""
DIFFER = ("started", "seconds", "sha256")
"""Keys of a record that are not the same: when it was made, how long it took, the seal."""
GATE = """\
name: engines
data: {{name: images, root: {root}}}
preprocess:
  training: {{preset: opencv-train, size: 224}}
  serving: {{preset: pillow-train, size: 224}}
"""


def files_in(folders: Sequence[str], scratch: Path) -> list[Path]:
    """List the images of the folders, or those of the bundled data, written below ``scratch``."""
    if not folders:
        samples, folder = DigitsOnPhotos().evaluation(), scratch / "bundled"
        folder.mkdir()
        for number in range(len(samples)):
            (folder / f"{number:06}.jpg").write_bytes(samples.read(number))
        folders = [str(folder)]
    found = [
        each
        for folder in folders
        for each in sorted(Path(folder).rglob("*"))
        if each.suffix.lower() in (".jpg", ".jpeg")
    ]
    if not found:
        sys.exit(f"{', '.join(folders)}: no JPEG image; --images names a folder that has some")
    return found


def many(images: Sequence[Path], number: int, folder: Path) -> None:
    """Fill a folder with so many files of these images, which the system then has in memory."""
    folder.mkdir()
    kilobytes = sum(len(each.read_bytes()) for each in images) / len(images) / 1000
    print(f"{number:,} files of {len(images):,} images, {kilobytes:.0f} kB on average", flush=True)
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
    stored_at: list[float]
    """When each lot was stored, in order."""
    memory: list[tuple[int, float]]
    """Images done, before all are → the driver's RSS in MB, at most."""
    most: float
    """Greatest RSS of the driver that was seen from its start to its end, MB."""


def rate(stored_at: Sequence[float], number: int) -> float:
    """Return images per second without the first tenth of the lots; the last lot may be short."""
    tenth = -(-len(stored_at) // 10)
    return (number - tenth * IMAGES_A_LOT) / (stored_at[-1] - stored_at[tenth - 1])


def ran(words: Sequence[str], reports: Path, number: int) -> Ran:
    """Run a command, and look at its stored lots and its memory meanwhile."""
    lots, memory, most = reports / ".cache" / "lots", dict[int, float](), 0.0
    before = {each.parent.name for each in lots.glob("[!.]*/key.json")}
    command = [sys.executable, "-m", "alignkit", *words, "--reports", str(reports)]
    began = time.time()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        while process.poll() is None:
            done = sum(1 for _ in lots.glob("[!.]*")) * IMAGES_A_LOT
            held = resident(process.pid)
            most = max(most, held)
            if 0 < done < number:
                memory[done] = max(memory.get(done, 0.0), held)
            time.sleep(0.1)
        seconds = time.time() - began
        if process.returncode not in (0, 1):  # 1: a gate found drift
            said.seek(0)
            sys.exit(f"{' '.join(words)} ended with {process.returncode}: {said.read().decode()}")
    files = (each for each in lots.glob("[!.]*/key.json") if each.parent.name not in before)
    stored_at = sorted(each.stat().st_mtime for each in files)
    first = stored_at[0] - began if stored_at else seconds
    return Ran(seconds, first, stored_at, sorted(memory.items()), most)


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
    """Store every shard of the gate, and then judge all; return the seconds."""
    reports, file, began = scratch / "divided", str(scratch / "gate.yaml"), time.time()
    for each in range(1, SHARDS + 1):
        ran(["gate", file, "--shard", f"{each}/{SHARDS}"], reports, number)
    ran(["gate", file, "--no-html"], reports, number)
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
    """Name the values that differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [each for key in one for each in differences(one[key], other[key], f"{place}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [each for n, (a, b) in pairs for each in differences(a, b, f"{place}.{n}")]
    return [] if one == other else [f"{place}: {one!r} and {other!r}"]


def check_equal(scratch: Path, prefix: str, names: Sequence[str]) -> None:
    """End the benchmark unless all records are that of the local pool."""
    local = facts(scratch / f"{prefix}local.json")
    for name in names:
        found = facts(scratch / f"{prefix}{name}.json")
        if json.dumps(found) != json.dumps(local):
            named = "; ".join(differences(local, found)[:5]) or "the order of keys"
            sys.exit(f"{prefix}{name}: the record is another one: {named}")
        print(f"record of {prefix}{name}: byte-equal", flush=True)


def share(samples: Samples) -> list[float]:
    """Measure lots: the driver's part over the work of one process, after the first of each."""
    lot, doing = lot_of(samples, 0, "fail"), work()
    for _ in range(2):  # the first time starts the process
        began = time.perf_counter()
        (done,) = LocalEngine(1, keep=True).parts(doing, iter([lot]), lambda _: None)
        worked = time.perf_counter() - began
    text, tally = doing.text(done.part), DiffTally.of(doing.paths)
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
    print(f"a lot of {len(lot.samples)} images: {worked:.2f} s of work; the driver's "
          f"{LOTS_OF_SHARE} parts {1e3 * min(times[1:]):.1f} to {1e3 * max(times[1:]):.1f} ms, the "
          f"one before them {1e3 * times[0]:.0f}; {len(text):,} B a part", flush=True)  # fmt: skip
    return [each / worked for each in times[1:]]


def grown(name: str, line: Sequence[tuple[int, float]], number: int) -> Figure:
    """Return how much a driver's memory grew; each has a figure, so that none hides another."""
    early = next(mb for images, mb in line if images >= number / 10)
    what = f"driver's RSS before the last lot / after a tenth, {name}"
    return Figure(what, [line[-1][1] / early], at_most=1.05)


def compared(given: argparse.Namespace, scratch: Path) -> list[Figure]:
    """Compare the files by all engines; return the ratios."""
    folder, number, names = scratch / "files", given.number, list(filter(None, given.engines))
    many(files_in(given.images, scratch), number, folder)
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
            rates[name].append(rate(found.stored_at, number))
            lines[f"diff, {name}"] = found.memory
            start, whole, mb = found.first, found.seconds, found.memory[-1][1]
            print(f"diff, {name}: {rates[name][-1]:.0f} images/s, first lot after {start:.1f} s, "
                  f"{whole:.1f} s in all; driver {mb:.0f} MB before the last lot, "
                  f"{found.most:.0f} at most", flush=True)  # fmt: skip
    seconds = diff_in_shards(folder, scratch, given.workers, number)
    print(f"diff, {SHARDS} shards: {seconds:.1f} s", flush=True)
    check_equal(scratch, "", [*names, "shards"])
    for name, options in engines.items():
        found = gates(scratch, name, [] if name == "local" else options[:-2], number)
        own = ", with its own number of processes" if name == "local" else ""  # no --threads
        print(f"gate, {name}: {found.seconds:.1f} s{own}", flush=True)
    print(f"gate, {SHARDS} shards: {gate_in_shards(scratch, number):.1f} s", flush=True)
    check_equal(scratch, "gate-", [*names, "shards"])
    figures = []
    for name in names:
        ratios = [a / b for a, b in zip(rates[name], rates["local"], strict=True)]
        what = f"images/s of {name} / local pool, {given.workers} workers, {number:,} images"
        figures.append(Figure(what, ratios, at_least=0.85))
    figures += [grown(name, line, number) for name, line in lines.items()]
    return figures


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--images",
        action="append",
        default=[],
        help="folders of JPEG images; default: the bundled ones, of 96 to 192 px",
    )
    parser.add_argument("--number", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["dask", "ray"])
    parser.add_argument("--memory", default="10000,100000,1000000")
    given = parser.parse_args()
    if given.number < FEWEST:
        parser.error(f"--number {given.number}: give at least {FEWEST:,}, ten lots")
    began = time.perf_counter()
    print(machine_in_words(), flush=True)
    with tempfile.TemporaryDirectory(prefix="alignkit-engines-") as scratch:
        found = compared(given, Path(scratch))
        files = Path(scratch) / "files"
        shares = share(Images(files).evaluation())
        found.insert(0, Figure("driver's time / work on a lot", shares, at_most=0.05))
        numbers = [int(each) for each in given.memory.split(",") if each]
        for name in ["local", *filter(None, given.engines)]:
            ends = [made(files, each, name, given.workers)[-1] for each in numbers]
            if len(numbers) > 1:
                (first, before), *_, (last, after) = ends
                what = f"driver's RSS after {last:,} / {first:,} made images, {name}"
                found.append(Figure(what, [after / before], at_most=1.05))
    print(f"{time.perf_counter() - began:.0f} s in all")
    show(found)


if __name__ == "__main__":
    main()
