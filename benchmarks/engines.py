"""Lots and engines: the driver's share of the work, engines relative to the local pool, and memory.

    python benchmarks/engines.py [--images FOLDER] [--rounds N] [--workers N] [--engines dask,ray]
                                 [--lots N] [--memory 10000,100000,1000000] [--decodes 20000]
                                 [--picture docs/pictures/memory.svg]

*share*: the driver's time for one lot (hand out, read, store, recall and add up its part) over the
time that one process works on it. *ratio*: images per second of each engine with so many workers
over those of the local pool with as many processes, in one round; workers start beforehand.
*memory*: the driver's RSS after so many images of made lots, whose part is real and whose work
takes no time: dispatch and merge alone. The ids and places that a list of files holds are not in
it. *decodes*: the same of real images, decoded again and again by the local pool. ``--picture``
draws both. Targets: share at most 0.05, ratio at least 0.85, memory flat within 5 %.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Hashable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, overload

from figures import Figure, machine_in_words, show

from alignkit.datasets.digits_on_photos import DigitsOnPhotos
from alignkit.datasets.unlabelled_images import Images
from alignkit.experiment.yaml_argument import named_paths
from alignkit.isolation import Limits
from alignkit.lots import IMAGES_A_LOT, Lot, LotEngine, LotWork, lot_count, lot_of, lot_parts
from alignkit.lots.engines import EngineOption
from alignkit.lots.kept_lots import KeptLots
from alignkit.lots.local import LocalEngine
from alignkit.lots.remote import LostLot, RemoteEngine
from alignkit.samples import Samples
from alignkit.studies.diff.diff_images import DiffImages
from alignkit.studies.diff.diff_lots import DiffLots
from alignkit.studies.diff.diff_tally import DiffTally
from alignkit.workspace import Workspace

COLOURS = ("#1b6ca8", "#a8501b", "#3b7a2a", "#7a2a6b")
PATHS = named_paths(["opencv-train", "pillow-train"], size=224)


def work() -> DiffLots:
    """Return the work of ``alignkit diff`` with its default options."""
    return DiffLots(DiffImages(tuple(each.preprocess for each in PATHS)), Limits(lossy=True))


class Repeated(Sequence[str]):
    """Ids that take no memory."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __len__(self) -> int:
        return self.number

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        assert isinstance(index, int)
        return f"folder/image-{index:012}.jpg"


class Again:
    """The images of a folder, again and again."""

    def __init__(self, samples: Samples, rows: Sequence[int]) -> None:
        self.samples, self.rows = samples, rows

    def __call__(self, index: int, /) -> bytes:
        return self.samples.read(self.rows[index] % len(self.samples))

    def only(self, indices: Sequence[int], /) -> Again:
        return Again(self.samples, [self.rows[each] for each in indices])


def repeated(samples: Samples, number: int) -> Samples:
    """Return so many images, of which many are the same."""
    reads = Again(samples, range(number))
    return Samples(Repeated(number), (), (), reads, f"{number}")  # type: ignore[arg-type]


class Done:
    """A cluster whose lots are done at once, all with the same part."""

    name = "made"

    def __init__(self, text: str) -> None:
        self.text = text
        self.handles: list[Hashable] = []

    def workers(self) -> int:
        return 8

    def submit(self, work: LotWork[Any], lot: Lot, processes: int) -> Hashable:
        pickle.dumps((work, lot, processes))  # as it would be sent
        self.handles.append(handle := object())
        return handle

    def wait(self, seconds: float) -> Sequence[tuple[Hashable, str | LostLot]]:  # noqa: ARG002
        return [(self.handles.pop(), self.text)]

    def cancel(self) -> None:
        self.handles.clear()


def summed(samples: Samples, engine: LotEngine, store: KeptLots | None = None) -> DiffTally:
    """Add up all lots, as the command does."""
    tally = DiffTally(work().paths)
    for part in lot_parts(work(), samples, engine, store=store, changed="fail"):
        tally.join(part)
    return tally


def photographs(folder: str) -> Samples:
    """Return the images of a folder, or the bundled ones."""
    return (Images(Path(folder)) if folder else DigitsOnPhotos()).evaluation()


def share(samples: Samples) -> float:
    """Measure one lot: the driver's part over the work of one process."""
    lot, doing = lot_of(samples, 0, "fail"), work()
    began = time.perf_counter()
    (done,) = LocalEngine(1).parts(doing, iter([lot]), lambda _: None)
    worked = time.perf_counter() - began
    text, tally = doing.text(done.part), DiffTally(doing.paths)
    with tempfile.TemporaryDirectory() as folder:
        store = KeptLots(Workspace(Path(folder)))
        began = time.perf_counter()
        pickle.dumps((doing, lot_of(samples, 0, "fail")))
        part = doing.parsed(text)
        store.keep(doing, lot, samples.fingerprint, text)
        store.find(doing, lot, samples.fingerprint)
        tally.join(part)
        driver = time.perf_counter() - began
    print(f"a lot of {len(lot.samples)} images: {worked:.2f} s of work, a part of {len(text):,} B")
    return driver / worked


def ratios(samples: Samples, name: str, workers: int, rounds: int) -> list[float]:
    """Return an engine's speed over the local pool's, of each round."""
    found = []
    with EngineOption(name, workers=workers, processes=1).open() as engine:  # type: ignore[arg-type]
        # every worker has loaded its libraries before time is taken
        summed(samples.take(range(min(len(samples), workers * IMAGES_A_LOT))), engine)
        for _ in range(rounds):
            taken = []
            for each in (LocalEngine(workers), engine):
                began = time.perf_counter()
                summed(samples, each)
                taken.append(time.perf_counter() - began)
            found.append(taken[0] / taken[1])
            speeds = [len(samples) / seconds for seconds in taken]
            print(f"local {speeds[0]:.0f}, {name} {speeds[1]:.0f} images/s", flush=True)
    return found


def resident() -> float:
    """Return this process's memory in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def memory(folder: str, number: int, *, decoded: bool) -> list[tuple[int, float]]:
    """Return numbers of images and the driver's RSS in MB after them, ten times."""
    samples = photographs(folder)
    (part,) = lot_parts(work(), samples.take(range(min(64, len(samples)))), LocalEngine(1))
    engine: LotEngine = LocalEngine() if decoded else RemoteEngine(Done(work().text(part)))
    tally, found = DiffTally(work().paths), []
    total = repeated(samples, number)
    lots = lot_count(number)
    for place, each in enumerate(lot_parts(work(), total, engine, changed="fail"), 1):
        tally.join(each)
        if place % max(1, lots // 10) == 0 or place == lots:
            found.append((min(number, place * IMAGES_A_LOT), resident()))
    return found


def in_a_process(folder: str, number: int, kind: str) -> list[tuple[int, float]]:
    """Measure memory in a process of its own, as freed memory is not always returned."""
    command = [sys.executable, __file__, "--images", folder, "--one", str(number), kind]
    began = time.perf_counter()
    found = [tuple(each) for each in json.loads(subprocess.check_output(command))]
    seconds = time.perf_counter() - began
    print(
        f"{number:,} {kind} images: {found[0][1]:.1f} MB after {found[0][0]:,}, {found[-1][1]:.1f} "
        f"at the end, {max(mb for _, mb in found):.1f} at most, {seconds:.0f} s",
        flush=True,
    )
    return found


def picture(lines: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """Draw RSS over images, whose axis is logarithmic, as SVG."""
    points = [point for line in lines.values() for point in line]
    first = math.floor(math.log10(min(images for images, _ in points)))
    last = math.ceil(math.log10(max(images for images, _ in points)))
    top = 50 * math.ceil(max(mb for _, mb in points) / 50)

    def x(images: float) -> float:
        return round(60 + 560 * (math.log10(images) - first) / max(1, last - first), 1)

    def y(mb: float) -> float:
        return round(300 - 240 * mb / top, 1)

    drawn = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 400" font-family="sans-serif">',
        "<style>text { font-size: 12px }</style>",
        "<title>Memory of the driver over images</title>",
        '<rect width="660" height="400" fill="#fff"/>',
        '<text x="60" y="20">RSS of the driver, MB</text>',
    ]
    for mb in range(0, top + 1, 50):
        drawn.append(f'<path d="M60 {y(mb)}H620" stroke="#ccc"/>')
        drawn.append(f'<text x="52" y="{y(mb) + 4}" text-anchor="end">{mb}</text>')
    for power in range(first, last + 1):
        at = x(10**power)
        drawn.append(f'<text x="{at}" y="318" text-anchor="middle">{10**power:,}</text>')
    drawn.append('<text x="620" y="336" text-anchor="end">images (logarithmic)</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        for images, mb in line:
            drawn.append(f'<circle cx="{x(images)}" cy="{y(mb)}" r="3" fill="{colour}"/>')
        path = " ".join(f"{x(images)},{y(mb)}" for images, mb in line)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        drawn.append(f'<text x="{60 + 145 * number}" y="40" fill="{colour}">{name}</text>')
    for number, words in enumerate(textwrap.wrap(machine_in_words(), 95)):
        drawn.append(f'<text x="60" y="{356 + 14 * number}">{escape(words)}</text>')
    return "\n".join([*drawn, "</svg>", ""])


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", default="", help="default: bundled photos")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lots", type=int, default=4)
    parser.add_argument("--engines", default="dask,ray")
    parser.add_argument("--memory", default="10000,100000,1000000")
    parser.add_argument("--decodes", type=int, default=20_000)
    parser.add_argument("--picture", type=Path, metavar="FILE.svg")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        number, kind = given.one
        print(json.dumps(memory(given.images, int(number), decoded=kind == "decoded")))
        return
    some = repeated(photographs(given.images), given.lots * IMAGES_A_LOT)
    found = [Figure("driver's time / work on a lot", [share(some)], at_most=0.05)]
    for name in filter(None, given.engines.split(",")):
        speeds = ratios(some, name, given.workers, given.rounds)
        what = f"images/s of {name} / local pool, {given.workers} workers"
        found.append(Figure(what, speeds, at_least=0.85))
    numbers = [int(each) for each in given.memory.split(",") if each]
    lines = {f"{each:,} made": in_a_process(given.images, each, "made") for each in numbers}
    if len(numbers) > 1:
        ends = [lines[f"{each:,} made"][-1][1] for each in (numbers[-1], numbers[0])]
        what = f"driver's RSS after {numbers[-1]:,} / {numbers[0]:,} made images"
        found.append(Figure(what, [ends[0] / ends[1]], at_most=1.05))
    if given.decodes:
        line = in_a_process(given.images, given.decodes, "decoded")
        lines[f"{given.decodes:,} decoded"] = line
        what = f"driver's RSS after {given.decodes:,} / {line[0][0]:,} decoded images"
        found.append(Figure(what, [line[-1][1] / line[0][1]], at_most=1.05))
    if given.picture and lines:
        given.picture.write_text(picture(lines), encoding="utf-8")
    show(found)


if __name__ == "__main__":
    main()
