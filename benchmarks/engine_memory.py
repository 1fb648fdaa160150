"""The driver's memory over images of made lots.

    python benchmarks/engine_memory.py FOLDER NUMBER ENGINE WORKERS

prints, as JSON, the driver's RSS in MB after so many images of made lots, ten times. The part of a
made lot is that of real images of the folder; a worker of the engine returns it at once. The ids
and places that a list of files holds are not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from alignkit.datasets.unlabelled_images import Images
from alignkit.experiment.yaml_argument import named_paths
from alignkit.isolation import Limits
from alignkit.isolation.worker import Begin, Encoded
from alignkit.lots import IMAGES_A_LOT, Lot, lot_count, lot_parts
from alignkit.lots.engines import EngineOption
from alignkit.lots.local import LocalEngine
from alignkit.samples import Samples
from alignkit.studies.diff.diff_images import DiffImages, DiffLots
from alignkit.studies.diff.diff_tally import DiffTally

NAMES = ("opencv-train", "pillow-train")
PATHS = named_paths(list(NAMES), size=224)


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


class NoneDecoded(DiffImages):
    """The work of a diff, which decodes no image."""

    __slots__ = ()

    def warm_up(self, begin: Begin) -> None:
        """See `Work.warm_up`."""

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> Any:  # noqa: ARG002
        """See `Work.__call__`."""
        return len(images)


@dataclass(frozen=True, slots=True)
class MadeLots(DiffLots):
    """Lots that take no time: one empty image is read and none decoded, and all have one part."""

    part: str = ""
    images_a_task = 1

    def encoded(self, lot: Lot) -> Iterator[Encoded]:
        """See `LotWork.encoded`."""
        yield Encoded(lot.samples.ids[0], b"")

    def groups(self, lot: Lot) -> Sequence[int]:  # noqa: ARG002
        """See `LotWork.groups`."""
        return (1,)

    def images(self, result: Any) -> int:
        """See `LotWork.images`."""
        return int(result)

    def add(self, part: DiffTally, results: Sequence[Any]) -> DiffTally:  # noqa: ARG002
        """See `LotWork.add`."""
        return self.parsed(self.part)


def resident(process: int | str = "self") -> float:
    """Return a process's memory in MB; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    found = [int(line.split()[1]) for line in lines if line.startswith("VmRSS")]
    return found[0] / 1024 if found else 0.0


def memory(folder: str, number: int, engine: EngineOption) -> list[tuple[int, float]]:
    """Return numbers of made images and the driver's RSS in MB after them, ten times."""
    samples = Images(Path(folder)).evaluation()
    # a few: they are sent with every made lot
    samples = samples.take(range(min(64, len(samples))))
    (part,) = lot_parts(work(), samples, LocalEngine(1))
    lots = MadeLots(NoneDecoded(work().paths), work().limits, work().text(part))
    tally, found, every = DiffTally.of(work().paths), [], max(1, lot_count(number) // 10)
    with engine.open() as opened:
        parts = lot_parts(lots, repeated(samples, number), opened, changed="fail")
        for place, each in enumerate(parts, 1):
            tally.join(each)
            if place % every == 0 or place == lot_count(number):
                found.append((min(number, place * IMAGES_A_LOT), resident()))
    return found


def made(folder: Path, number: int, engine: str, workers: int) -> list[tuple[int, float]]:
    """Measure `memory` in a process of its own, as freed memory is not always returned."""
    command = [sys.executable, __file__, str(folder), str(number), engine, str(workers)]
    # workers find this file
    found_here = {"PYTHONPATH": os.pathsep.join(filter(None, [*sys.path]))}
    began = time.perf_counter()
    output = subprocess.check_output(command, env=os.environ | found_here)
    found = [tuple(each) for each in json.loads(output.splitlines()[-1])]
    seconds = time.perf_counter() - began
    most = max(mb for _, mb in found)
    print(f"{number:,} made images, {engine}: {found[-1][1]:.1f} MB at the end, {most:.1f} at most,"
          f" {seconds:.0f} s", flush=True)  # fmt: skip
    return found


if __name__ == "__main__":
    import engine_memory  # workers do not know this module as __main__

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("number", type=int)
    parser.add_argument("engine", choices=("local", "dask", "ray"))
    parser.add_argument("workers", type=int)
    given = parser.parse_args()
    used = {"processes" if given.engine == "local" else "workers": given.workers}
    option = EngineOption(given.engine, **used)
    print(json.dumps(engine_memory.memory(given.folder, given.number, option)))
