"""CPU time of decoders relative to simplejpeg's, on the same files in turn, one thread.

A round decodes every file once in each way; a ratio is that of one round's sums. Target for
`nvjpeg-model`: 4.

    python benchmarks/decode.py [FOLDER] [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cv2
import torch
from figures import Figure, cost, ratios, show

from alignkit.datasets.digits_on_photos import DigitsOnPhotos
from alignkit.datasets.unlabelled_images import Images
from alignkit.decoders import DECODERS
from alignkit.decoders.jpeg_coefficients import read_coefficients
from alignkit.preprocess.jpeg_header import read_jpeg_header

NAMES = ("simplejpeg", "opencv", "pillow", "nvjpeg-model")


def main() -> None:
    """Decode all files of a folder in each way, round by round."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="default: bundled photos")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    samples = (Images(given.folder) if given.folder else DigitsOnPhotos()).evaluation()
    read = (samples.read(index) for index in range(len(samples)))
    files = [each for each in read if read_jpeg_header(each)]
    decoders = {name: DECODERS[name].load()() for name in NAMES}
    ways: dict[str, Callable[[bytes], object]] = {
        name: each.decode for name, each in decoders.items()
    }
    ways["nvjpeg-model: coefficients"] = read_coefficients
    # the ways alternate from file to file, so that other work on the machine slows all of them
    taken: dict[str, list[float]] = {name: [0.0] * given.rounds for name in ways}
    for number in range(given.rounds):
        for file in files:
            for name, decode in ways.items():
                taken[name][number] += cost(partial(decode, file)).cpu
    headers = [read_jpeg_header(file) for file in files]
    megapixels = sum(each.height * each.width for each in headers if each) / 1e6
    print(f"{len(files)} JPEG files, {megapixels:.1f} MP, one thread")
    for name, seconds in taken.items():
        print(f"{name:27} {statistics.median(seconds) * 1e3 / megapixels:6.1f} ms/MP")
    plain = taken.pop("simplejpeg")
    show(
        [
            Figure(
                f"CPU time: {name} / simplejpeg",
                ratios(each, plain),
                at_most=4 if name == "nvjpeg-model" else None,
            )
            for name, each in taken.items()
        ]
    )


if __name__ == "__main__":
    main()
