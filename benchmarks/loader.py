"""Speed of `MixedLoader` relative to bare loops on the same images and number of threads.

    python benchmarks/loader.py [--images N] [--side PIXELS] [--runs N]

One loop decodes and resizes; the other also normalises and stacks, as the loader does. The output
is images per second and CPU time per image; only CPU time is meaningful on a busy machine.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
from figures import Figure, alternate, ratios, show
from sklearn.datasets import load_sample_image

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.loader import MixedLoader
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer

BATCH = 32


def main() -> None:
    """Measure all contenders, alternating between them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--runs", type=int, default=7)
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
    costs = alternate(works, given.runs)
    print(f"{threads} threads")
    for name, side in costs.items():
        wall, cpu = min(each.wall for each in side), min(each.cpu for each in side)
        print(
            f"{name:24} {given.images / wall:6.0f} images/s, "
            f"CPU {1e3 * cpu / given.images:.2f} ms an image"
        )
    alone, by_hand, loader = ([each.wall for each in side] for side in costs.values())
    alone_cpu, _, loader_cpu = ([each.cpu for each in side] for side in costs.values())
    show(
        [
            Figure(
                "MixedLoader / decode and resize alone, speed", ratios(alone, loader), at_least=0.9
            ),
            Figure("decode and resize alone / MixedLoader, CPU", ratios(alone_cpu, loader_cpu)),
            Figure("MixedLoader / the same work by hand, speed", ratios(by_hand, loader)),
        ]
    )


if __name__ == "__main__":
    main()
