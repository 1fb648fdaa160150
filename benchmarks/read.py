"""Share of reading the file in an image's preparation, the most that caching bytes could save.

The figures are CPU times of one thread, and the two sides take turns. The files are in the system's
page cache, as in every second read.

    python benchmarks/read.py [FOLDER] [--size N] [--repeats N]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
from figures import Figure, alternate, ratios, show

from alignkit.datasets.digits_on_photos import DigitsOnPhotos
from alignkit.datasets.unlabelled_images import Images
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.prepare import prepare_one
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer


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
    works = {
        "read": lambda: [samples.read(index) for index in range(len(files))],
        "prepare": lambda: [
            prepare_one(name, encoded, path)
            for name, encoded in zip(samples.ids, files, strict=True)
        ],
    }
    costs = alternate(works, given.repeats)
    read, prepared = ([each.cpu for each in side] for side in costs.values())
    mean = sum(map(len, files)) / len(files) / 1e3
    print(f"{len(files)} images of {mean:.0f} kB: µs per image, CPU time")
    for name, side in (("read", read), ("decode and resize", prepared)):
        print(f"{name:20} {min(side) / len(files) * 1e6:.0f}")
    whole = [one + other for one, other in zip(read, prepared, strict=True)]
    show([Figure("reading a file / reading, decoding and resizing it", ratios(read, whole))])


if __name__ == "__main__":
    main()
