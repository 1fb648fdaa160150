"""Share of reading the file in an image's preparation, the most that caching bytes could save.

The figures are CPU times of one thread, the fastest of several runs; the files are in the system's
page cache, as in every second read.

    python benchmarks/read.py [FOLDER] [--size N] [--repeats N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import cv2

from alignkit.datasets.digits_on_photos import DigitsOnPhotos
from alignkit.datasets.unlabelled_images import Images
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.prepare import prepare_one
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer


def microseconds(work: Callable[[int], object], images: int, repeats: int) -> float:
    """Measure the CPU time per image in the fastest run."""
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        for index in range(images):
            work(index)
        taken.append(time.process_time() - began)
    return min(taken) / images * 1e6


def main() -> None:
    """Read all files, then decode and resize them from memory."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="default: bundled photos")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    cv2.setNumThreads(1)
    data = Images(given.folder) if given.folder else DigitsOnPhotos()
    samples = data.evaluation()
    files = [samples.read(index) for index in range(len(samples))]
    size = (given.size, given.size)
    path = Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), size))
    read = microseconds(samples.read, len(files), given.repeats)
    prepared = microseconds(
        lambda index: prepare_one(samples.ids[index], files[index], path),
        len(files), given.repeats,
    )  # fmt: skip
    mean = sum(map(len, files)) / len(files) / 1e3
    print(
        f"{len(files)} images of {mean:.0f} kB: read {read:.0f} µs, decode and resize to "
        f"{given.size} {prepared:.0f} µs; reading is {read / (read + prepared):.0%}"
    )


if __name__ == "__main__":
    main()
