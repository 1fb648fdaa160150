"""Speed of `prepare` relative to a bare decode-and-resize loop.

Both do the same work on the same bytes in memory with the same number of threads, alternating
several times; only their ratio is meaningful. The bare loop stores nothing; `prepare` adds taps,
outcomes and the file it writes. Target: 0.95.

    python benchmarks/prepare.py [--images FOLDER] [--threads N] [--size N] [--repeats N]
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from figures import Figure, show

from alignkit.datasets.unlabelled_images import Images
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.prepare import prepare
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.samples import Samples
from alignkit.workspace import Workspace


def bundled_photos(count: int) -> list[bytes]:
    """Cut scikit-learn's two photographs into 4:2:0 JPEGs of 0.1 to 0.27 megapixels."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    random = np.random.default_rng(0)
    photos = load_sample_images().images
    files = []
    for index in range(count):
        height, width = random.integers(300, 428), random.integers(400, 641)
        file = io.BytesIO()
        piece = np.ascontiguousarray(photos[index % 2][:height, :width])
        Image.fromarray(piece).save(file, "JPEG", quality=85, subsampling="4:2:0")
        files.append(file.getvalue())
    return files


def bare_loop(files: list[bytes], size: int, threads: int) -> None:
    def work(first: int) -> None:
        for encoded in files[first::threads]:
            flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
            image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags)
            if image is not None:
                cv2.resize(image, (size, size), interpolation=cv2.INTER_LINEAR)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))


def prepare_loop(files: list[bytes], size: int, threads: int, workspace: Workspace) -> None:
    path = Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), (size, size)))
    ids = tuple(map(str, range(len(files))))
    samples = Samples(ids, (), (), files.__getitem__, "benchmark")
    prepare(samples, path, workspace, split="train", threads=threads)


def seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def one_ratio(files: list[bytes], size: int, threads: int) -> tuple[float, float]:
    """Return bare seconds (mean of a run before and after) over `prepare`'s, and bare images/s."""
    bare = partial(bare_loop, files, size, threads)
    with tempfile.TemporaryDirectory() as folder:
        whole = partial(prepare_loop, files, size, threads, Workspace(Path(folder)))
        before, between, after = seconds(bare), seconds(whole), seconds(bare)
    return (before + after) / 2 / between, len(files) / before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, help="a folder of images; default: bundled photos")
    parser.add_argument("--count", type=int, default=1200)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--size", type=int, nargs="+", default=[48, 224])
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    if given.images:
        chosen = Images(given.images, limit=given.count).evaluation()
        files = [chosen.read(index) for index in range(len(chosen))]
    else:
        files = bundled_photos(given.count)
    print(
        f"{len(files)} images, {given.repeats} repeats; ratio = prepare / bare loop, median (range)"
    )
    figures = []
    for size in given.size:
        for threads in given.threads:
            one_ratio(files, size, threads)  # warms up
            pairs = [one_ratio(files, size, threads) for _ in range(given.repeats)]
            ratios, rates = zip(*pairs, strict=True)
            print(f"size {size:4}  threads {threads}  bare {statistics.median(rates):.0f}/s")
            what = f"prepare / bare loop, speed, {size} px, {threads} threads"
            figures.append(Figure(what, ratios, at_least=0.95))
    show(figures)


if __name__ == "__main__":
    main()
