"""Speed of `alignkit diff` relative to decoding and resizing alone, and its memory.

Each round decodes and resizes every image on both paths in threads without storing it, then
compares the paths as the command does: in as many worker processes as there were threads, one pass,
every stage isolated and cumulative, kinds of files, coverage. Only ratios within a round are
meaningful. Both sides import the libraries beforehand; the time to fork and feed the workers is
included. Targets: `ASKED`, with exact statistics and with SSIM at the network's size; 12 times the
naive loop (Pillow, float64 NumPy, scikit-image) in as many processes.

    python benchmarks/diff.py [--images FOLDER] [--count N] [--threads N] [--repeats N] [--memory N]
                              [--cpu]

``--cpu`` compares processor time (parent, zygote and workers) instead of the clock's, for a busy
machine; Linux only.
``--memory 20000`` compares the memory of parent and workers after 1,000 and after 20,000 images.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import cv2
from compare import OPENCV, PAIRS, bare_loop, naive_loop
from figures import Figure, show
from prepare import bundled_photos, seconds

from alignkit.isolation.worker import Encoded
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import run_isolated
from alignkit.studies.diff import EXTENTS
from alignkit.studies.diff.diff_images import DiffImages
from alignkit.studies.diff.diff_tally import DiffTally
from alignkit.torch_settings import available_threads

ASKED = {
    "the same path twice": (0.85, 0.65),
    "another decoder": (0.80, 0.65),
    "another resizer": (0.80, 0.65),
    "both": (0.79, 0.65),
    "both, unrounded floats": (0.65, 0.5),
}
"""Shares of decode and resize alone, per pair of paths: with statistics, and with SSIM too."""


def images_of(files: list[bytes], count: int) -> Iterator[Encoded]:
    for index in range(count):
        yield Encoded(f"{index}.jpg", files[index % len(files)])


def comparison(
    candidate: Preprocess,
    files: list[bytes],
    threads: int,
    *,
    ssim: str,
    planes: str = "none",
) -> DiffTally:
    paths = OPENCV, candidate
    tally, work = DiffTally.of(paths), DiffImages(paths, ssim=EXTENTS[ssim], planes=EXTENTS[planes])
    images = images_of(files, len(files))
    for part in run_isolated(work, paths, images, processes=threads):
        tally.join(part)
    assert tally.of_pair[0].compared == len(files)
    return tally


def naive_in_processes(files: list[bytes], processes: int) -> None:
    with ProcessPoolExecutor(processes) as pool:
        parts = [files[first::processes] for first in range(processes)]
        list(pool.map(partial(naive_loop, OPENCV, threads=1), parts))


def report(name: str, candidate: Preprocess, files: list[bytes], given) -> list[Figure]:
    """Print the speed of the bare loop; return the ratios over the rounds."""
    bare = partial(bare_loop, candidate, files, given.threads)
    kinds = {
        label: partial(comparison, candidate, files, given.threads, ssim=ssim, planes=planes)
        for label, ssim, planes in (
            ("statistics", "none", "none"),
            ("SSIM", "size", "none"),
            ("planes", "none", "size"),
            ("full-size planes", "none", "full"),
        )
    }
    spent = cpu_seconds if given.cpu else seconds
    spent(bare)  # warms up, as the next line does the libraries of the workers
    comparison(candidate, files[:16], given.threads, ssim="size")
    ratios: dict[str, list[float]] = {kind: [] for kind in kinds}
    rates = []
    for _ in range(given.repeats):
        before = spent(bare)
        for kind, work in kinds.items():
            took, after = spent(work), spent(bare)
            ratios[kind].append((before + after) / 2 / took)
            before = after
        rates.append(len(files) / before)
    print(f"{name:24} alone {statistics.median(rates):.0f} images/s", flush=True)
    plain, ssim = ASKED[name]
    asked = {"statistics": plain, "SSIM": ssim}
    return [
        Figure(
            f"diff / decode and resize alone, speed, {name}, {kind}", each, at_least=asked.get(kind)
        )
        for kind, each in ratios.items()
    ]


def cpu_seconds(work: Callable[[], None]) -> float:
    """Do the work; return the processor time of this process, its zygote and all workers."""
    before = cpu_so_far()
    work()
    time.sleep(0.1)  # until the zygote has noted that the workers ended, which is not counted
    return cpu_so_far() - before


def cpu_so_far() -> float:
    ticks = 0
    for zygote in children(os.getpid()):
        for pid in (zygote, *children(zygote)):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            # of the process, and of its children that have ended
            ticks += sum(map(int, fields[11:15]))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def mebibytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def report_memory(files: list[bytes], threads: int, most: int) -> None:
    paths = OPENCV, PAIRS["both"]
    tally, work = DiffTally.of(paths), DiffImages(paths)
    marks = iter([1000, most])
    mark = next(marks)
    images = images_of(files, most)
    for part in run_isolated(work, paths, images, processes=threads):
        tally.join(part)
        if tally.images >= mark:
            mark = next(marks, most + 1)
            workers = [worker for zygote in children(os.getpid()) for worker in children(zygote)]
            shown = " and ".join(f"{mebibytes(worker):.0f}" for worker in workers)
            print(
                f"{tally.images} images: parent {mebibytes(os.getpid()):.0f} MiB, {shown} workers"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, help="a folder of JPEGs, used in turn")
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--threads", type=int, default=available_threads())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    cv2.setNumThreads(1)  # as in the workers, so that no hidden threads run
    found = sorted(given.images.rglob("*.jp*g")) if given.images else []
    photos = [file.read_bytes() for file in found] or bundled_photos(61)
    files = [photos[index % len(photos)] for index in range(given.count)]
    comparison(PAIRS["both"], files[:16], given.threads, ssim="size")
    if given.memory:
        report_memory(photos, given.threads, given.memory)
        return
    print(f"{len(files)} images, {given.threads} threads; as a share of decode + resize alone")
    figures: list[Figure] = []
    for name, candidate in PAIRS.items():
        figures += report(name, candidate, files, given)
    part = files[: max(8, len(files) // 10)]
    slow = seconds(partial(naive_in_processes, part, given.threads)) / len(part)
    fast = partial(comparison, PAIRS["both"], files, given.threads, ssim="size")
    took = seconds(fast) / len(files)
    print(f"naive loop {1 / slow:.0f} images/s, this {1 / took:.0f}: {slow / took:.1f} times")
    show([*figures, Figure("diff with SSIM / naive loop, speed", [slow / took], at_least=12)])


if __name__ == "__main__":
    main()
