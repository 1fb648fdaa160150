"""`MixedLoader` against decoding and resizing alone, on the same images and as many threads.

python benchmarks/loader.py [--images N] [--side PIXELS]; prints images/s of both and their ratio.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
from sklearn.datasets import load_sample_image

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.loader import MixedLoader
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer

RUNS = 5


def best(works: Sequence[Callable[[], None]], images: int) -> list[float]:
    """Images a second of each one's fastest run, after one that is not counted.

    They take turns, so that a busy machine slows all of them.
    """
    seconds: list[list[float]] = [[] for _ in works]
    for number in range(RUNS + 1):
        for work, taken in zip(works, seconds, strict=True):
            began = time.perf_counter()
            work()
            if number:
                taken.append(time.perf_counter() - began)
    return [images / min(taken) for taken in seconds]


def main() -> None:
    """Measure both, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--side", type=int, default=224)
    given = parser.parse_args()
    cv2.setNumThreads(1)
    picture = np.ascontiguousarray(load_sample_image("china.jpg")[..., ::-1])
    encoded = [
        cv2.imencode(".jpg", np.roll(picture, 3 * number, axis=1))[1].tobytes()
        for number in range(given.images)
    ]
    threads = len(os.sched_getaffinity(0))
    path = Preprocess("cpu", OpenCVDecoder(), Resize(OpenCVResizer(), (given.side, given.side)))
    batches = [
        (encoded[start : start + 32], range(min(32, given.images - start)))
        for start in range(0, given.images, 32)
    ]

    def decode_alone() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(path.taps, encoded))

    def through_loader() -> None:
        for _ in MixedLoader(batches, path, path, threads=threads):
            pass

    alone, mixed = best((decode_alone, through_loader), given.images)
    print(f"decode and resize alone {alone:7.0f} images/s")
    print(f"MixedLoader             {mixed:7.0f} images/s, {mixed / alone:.2f} of it")
    print(f"load of the machine     {os.getloadavg()[0]:7.1f}, {threads} CPUs")


if __name__ == "__main__":
    main()
