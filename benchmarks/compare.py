"""Speed of comparing two paths relative to decoding and resizing alone.

Each round decodes and resizes every image on both paths without storing it, then compares the paths
with the same number of threads on the same bytes in memory; only ratios within a round are
meaningful. Targets: 0.85 with exact statistics of every stage, 0.65 with SSIM at the network's
size, and 10 times the naive loop, which computes the same two taps with float64 NumPy and
scikit-image.

    python benchmarks/compare.py [--images FOLDER] [--count N] [--threads N] [--repeats N]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from figures import Figure, show
from prepare import bundled_photos, seconds
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from alignkit.compare.compare_pixels import compare_preprocess
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.pillow import PillowDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.preprocess import Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.samples import Samples
from alignkit.torch_settings import available_threads

SIZE = (224, 224)
OPENCV = Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), SIZE))
NEAREST = SimpleJPEGDecoder(chroma="nearest")
PAIRS = {
    "the same path twice": OPENCV,
    "another decoder": Preprocess("decoder", NEAREST, Resize(OpenCVResizer(), SIZE)),
    "another resizer": Preprocess("resizer", OpenCVDecoder(), Resize(PillowResizer(), SIZE)),
    "both": Preprocess("both", NEAREST, Resize(PillowResizer(), SIZE)),
    "both, unrounded floats": Preprocess(
        "floats", NEAREST, Resize(TorchResizer(align_corners=True), SIZE)
    ),
}


def bare_loop(candidate: Preprocess, files: list[bytes], threads: int) -> None:
    def work(first: int) -> None:
        for encoded in files[first::threads]:
            for path in (OPENCV, candidate):
                image = path.decode.decode(encoded).image
                if image is not None:
                    path.resize(image)

    in_threads(work, range(threads), threads)


def comparison(candidate: Preprocess, files: list[bytes], threads: int, *, ssim: bool) -> None:
    samples = Samples(tuple(map(str, range(len(files)))), (), (), files.__getitem__, "benchmark")
    compare_preprocess(OPENCV, candidate, samples, ssim=ssim, threads=threads)


def naive_loop(_: Preprocess, files: list[bytes], threads: int) -> None:
    """Compare both taps with Pillow, float64 arrays and scikit-image, as in hand-written code."""
    left = Preprocess("pillow", PillowDecoder(), Resize(PillowResizer(), SIZE))
    right = Preprocess("nearest", NEAREST, Resize(PillowResizer(), SIZE))

    def work(first: int) -> None:
        for encoded in files[first::threads]:
            one, two = left.taps(encoded).pixels, right.taps(encoded).pixels
            for stage in ("decode", "resize"):
                gap = np.abs(two[stage].astype(np.float64) - one[stage].astype(np.float64))
                (
                    np.percentile(gap, (99, 99.9)),
                    gap.max(),
                    gap.mean(),
                    [(gap > level).mean() for level in (1, 2, 4, 8)],
                )
                if gap.any():
                    peak_signal_noise_ratio(one[stage], two[stage], data_range=255)
                structural_similarity(one[stage], two[stage], channel_axis=2, data_range=255)

    in_threads(work, range(threads), threads)


def in_threads(work: Callable[[int], None], firsts: Iterable[int], threads: int) -> None:
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, firsts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, help="a folder of JPEGs, used in turn")
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--threads", type=int, default=available_threads())
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    found = sorted(given.images.rglob("*.jp*g")) if given.images else []
    photos = [file.read_bytes() for file in found] or bundled_photos(61)
    files = [photos[index % len(photos)] for index in range(given.count)]
    print(
        f"{len(files)} images, {given.threads} threads; speed as a share of decode + resize alone"
    )
    figures: list[Figure] = []
    for name, candidate in PAIRS.items():
        figures += report(name, candidate, files, given.threads, given.repeats)
    part = files[: max(8, len(files) // 20)]
    slow = seconds(partial(naive_loop, OPENCV, part, given.threads)) / len(part)
    fast = seconds(partial(comparison, PAIRS["both"], files, given.threads, ssim=True)) / len(files)
    print(
        f"naive loop {1 / slow:.0f} images/s, this {1 / fast:.0f}: {slow / fast:.1f} times as fast"
    )
    show([*figures, Figure("compare with SSIM / naive loop, speed", [slow / fast], at_least=10)])


def report(
    name: str, candidate: Preprocess, files: list[bytes], threads: int, repeats: int
) -> list[Figure]:
    """Print the speed of the bare loop; return the ratios over the rounds."""
    bare = partial(bare_loop, candidate, files, threads)
    kinds = {
        "statistics": partial(comparison, candidate, files, threads, ssim=False),
        "with SSIM": partial(comparison, candidate, files, threads, ssim=True),
    }
    seconds(bare)  # warms up
    ratios: dict[str, list[float]] = {kind: [] for kind in kinds}
    rates = []
    for _ in range(repeats):
        before = seconds(bare)
        for kind, work in kinds.items():
            took, after = seconds(work), seconds(bare)
            ratios[kind].append((before + after) / 2 / took)
            before = after
        rates.append(len(files) / before)
    print(f"{name:24} alone {statistics.median(rates):.0f} images/s", flush=True)
    return [
        Figure(
            f"compare / decode and resize alone, speed, {name}, {kind}",
            each,
            at_least=0.65 if kind == "with SSIM" else 0.85,
        )
        for kind, each in ratios.items()
    ]


if __name__ == "__main__":
    main()
