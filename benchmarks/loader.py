"""Speed of `MixedLoader` relative to bare loops on the same images and number of threads.

    python benchmarks/loader.py [--images N] [--side PIXELS] [--runs N]

One loop decodes and resizes; the other also normalises and stacks, as the loader does. The output
is images per second and CPU time per image; only CPU time is meaningful on a busy machine.
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

BATCH = 32


def fastest(works: Sequence[Callable[[], None]], runs: int) -> list[tuple[float, float]]:
    """Time each contender's best run, in seconds and CPU seconds, after one warm-up run.

    The contenders alternate, so that a busy machine slows all of them.
    """
    taken: list[list[tuple[float, float]]] = [[] for _ in works]
    for number in range(runs + 1):
        for work, own in zip(works, taken, strict=True):
            began, used = time.perf_counter(), time.process_time()
            work()
            if number:
                own.append((time.perf_counter() - began, time.process_time() - used))
    return [(min(wall for wall, _ in own), min(cpu for _, cpu in own)) for own in taken]


def main() -> None:
    """Measure all contenders, alternating between them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--runs", type=int, default=9)
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
        (encoded[start : start + BATCH], range(min(BATCH, given.images - start)))
        for start in range(0, given.images, BATCH)
    ]

    def decode_alone() -> None:
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(lambda image: path.taps(image) and None, encoded):
                pass  # decoded images are not stored, which would take extra time

    def normalise_too() -> None:
        with ThreadPoolExecutor(threads) as pool:
            for images, _ in batches:
                np.stack([*pool.map(lambda image: path.normalise(path.taps(image).last), images)])

    def through_loader() -> None:
        for _ in MixedLoader(batches, path, path, threads=threads):
            pass

    works = {
        "decode and resize": decode_alone,
        "and normalise and stack": normalise_too,
        "MixedLoader": through_loader,
    }
    found = fastest([*works.values()], given.runs)
    (loader, loader_cpu) = found[-1]
    for name, (wall, cpu) in zip(works, found, strict=True):
        print(
            f"{name:24} {given.images / wall:6.0f} images/s, loader {wall / loader:.2f} of it;  "
            f"CPU {1e3 * cpu / given.images:.2f} ms an image, loader {cpu / loader_cpu:.2f} of it"
        )
    print(f"{threads} CPUs, load of the machine {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
