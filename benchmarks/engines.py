"""Lots and engines: the driver's share of the work, engines relative to the local pool, and memory.

    python benchmarks/engines.py [--images FOLDER] [--rounds N] [--workers N] [--engines dask,ray]
                                 [--memory 10000,100000,1000000] [--decodes 20000]

*share*: the driver's time for one lot (hand out, read, store, recall and add up its part) over the
time that one process works on it. *ratio*: images per second of each engine with so many workers
over those of the local pool with as many processes, in one round; workers start beforehand.
*memory*: the driver's RSS after so many images of made lots, whose part is real and whose work
takes no time: dispatch and merge alone. The ids and places that a list of files holds are measured
apart. *decodes*: the same of real images, decoded again and again by the local pool.
Targets: share at most 0.05, ratio at least 0.85, memory flat within 5 %.
"""

from __future__ import annotations

import argparse
import json
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, overload

from alignkit.datasets.unlabelled_images import Images
from alignkit.experiment.yaml_argument import named_paths
from alignkit.isolation import Limits
from alignkit.lots import IMAGES_A_LOT, Lot, LotEngine, LotWork, lot_of, lot_parts
from alignkit.lots.engines import EngineOption
from alignkit.lots.kept_lots import KeptLots
from alignkit.lots.local import LocalEngine
from alignkit.lots.remote import LostLot, RemoteEngine
from alignkit.samples import Samples
from alignkit.studies.diff.diff_images import DiffImages
from alignkit.studies.diff.diff_lots import DiffLots
from alignkit.studies.diff.diff_tally import DiffTally
from alignkit.workspace import Workspace

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


def summed(samples: Samples, engine: LotEngine, store: KeptLots | None = None) -> DiffTally:
    """Add up all lots, as the command does."""
    tally = DiffTally(work().paths)
    for part in lot_parts(work(), samples, engine, store=store, changed="fail"):
        tally.join(part)
    return tally


def share(samples: Samples) -> dict[str, float]:
    """Measure one lot: the work, and the driver's part of it."""
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
    images = len(lot.samples)
    return {"images": images, "bytes": len(text), "work_s": worked, "share": driver / worked}


def ratios(samples: Samples, engines: Sequence[str], workers: int, rounds: int) -> dict[str, Any]:
    """Return each engine's speed over the local pool's, of each round."""
    found: dict[str, list[float]] = {name: [] for name in engines}
    for name in engines:
        with EngineOption(name, workers=workers, processes=1).open() as engine:  # type: ignore[arg-type]
            summed(samples.take(range(64)), engine)  # libraries are loaded
            for _ in range(rounds):
                taken = []
                for each in (LocalEngine(workers), engine):
                    began = time.perf_counter()
                    summed(samples, each)
                    taken.append(time.perf_counter() - began)
                found[name].append(taken[0] / taken[1])
    return {
        name: {"rounds": each, "median": statistics.median(each)} for name, each in found.items()
    }


def resident() -> float:
    """Return this process's memory in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def memory(folder: Path, number: int, *, decoded: bool) -> dict[str, float]:
    """Return the driver's RSS in MB before, and after every tenth of the lots."""
    samples = Images(folder).evaluation()
    (part,) = lot_parts(work(), samples.take(range(min(64, len(samples)))), LocalEngine(1))
    engine: LotEngine = LocalEngine() if decoded else RemoteEngine(Done(work().text(part)))
    tally, seen, images = DiffTally(work().paths), [resident()], 0
    total = repeated(samples, number)
    began = time.perf_counter()
    for place, each in enumerate(lot_parts(work(), total, engine, changed="fail")):
        tally.join(each)
        images += IMAGES_A_LOT
        if (place + 1) % max(1, number // IMAGES_A_LOT // 10) == 0:
            seen.append(resident())
    taken = time.perf_counter() - began
    return {"images": number, "seconds": taken, "last_mb": seen[-1], "greatest_mb": max(seen),
            "mb": [round(each, 1) for each in seen]}  # type: ignore[dict-item]  # fmt: skip


def main() -> None:
    """Print a JSON document with all figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=Path, default=Path("/work/shared/data/imagenet400/eval"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lots", type=int, default=8)
    parser.add_argument("--engines", default="dask,ray")
    parser.add_argument("--memory", default="10000,100000,1000000")
    parser.add_argument("--decodes", type=int, default=20_000)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        number, kind = given.one
        print(json.dumps(memory(given.images, int(number), decoded=kind == "decoded")))
        return
    some = repeated(Images(given.images).evaluation(), given.lots * IMAGES_A_LOT)
    document: dict[str, Any] = {"lot": share(some)}
    if given.engines:
        document["ratios"] = ratios(some, given.engines.split(","), given.workers, given.rounds)
    runs = [(each, "made") for each in given.memory.split(",") if each]
    runs += [(str(given.decodes), "decoded")] if given.decodes else []
    # each in a process of its own, as freed memory is not always returned
    document["memory"] = {
        f"{number} {kind}": json.loads(
            subprocess.check_output(
                [sys.executable, __file__, "--images", given.images, "--one", number, kind]
            )
        )
        for number, kind in runs
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
