"""What attribution over a full factorial costs, counted in stage computations.

    python benchmarks/attribute.py [--images 60] [--side 224] [--folder DIR]

Two stacks differ in four stages (decode, resize, quantise, colour), so 16 hybrids are made of each
image. Every stage is timed where it runs. *Distinct* is the number of different (input, stage)
pairs of the factorial; *run* is how often a stage ran; the cost is the whole time over the time
spent in stages. Target: at most 1.5. Without a folder, photos of scikit-learn's are used.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from alignkit.attribute import hybrid
from alignkit.attribute.hybrid import Hybrids, all_mixtures, make_hybrids
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.preprocess import Colour, Preprocess, Quantise, Resize
from alignkit.resizers.torch import TorchResizer
from tests.photos import encoded, photo


class Clock:
    """Counts and times every stage that runs."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def timed(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        def run(name: str, *arguments: Any) -> Any:
            began = time.perf_counter()
            result = apply(name, *arguments)
            self.seconds[name] += time.perf_counter() - began
            self.runs[name] += 1
            return result

        return run


def stacks(side: int) -> tuple[Preprocess, Preprocess]:
    reference = Preprocess(
        "reference", SimpleJPEGDecoder(), Resize(TorchResizer("bilinear"), (side, side))
    )
    candidate = replace(
        reference,
        name="candidate",
        decode=SimpleJPEGDecoder(chroma="nearest"),
        resize=Resize(TorchResizer("bilinear", align_corners=True), (side, side)),
        quantise=Quantise("truncate"),
        colour=Colour("bgr"),
    )
    return reference, candidate


def distinct(hybrids: Hybrids) -> Counter[str]:
    """Stage → computations of one image's factorial that have different inputs or options."""
    found: Counter[str] = Counter()
    decided = 0
    for level in hybrids.levels:
        decided += len(level.factors)
        found[level.stage] = 2**decided
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.folder:
        files = [path.read_bytes() for path in sorted(given.folder.rglob("*.jpg"))[: given.images]]
    else:
        photos = [photo("china", 427, 640), photo("flower", 427, 640)]
        files = [encoded(photos[n % 2], quality=60 + n % 35) for n in range(given.images)]
    hybrids = make_hybrids(*stacks(given.side))
    wanted = all_mixtures(hybrids.factors)
    hybrids.tensors(files[0], wanted)
    clock = Clock()
    hybrid.apply_stage = clock.timed(hybrid.apply_stage)
    began = time.perf_counter()
    for file in files:
        hybrids.tensors(file, wanted)
    whole = time.perf_counter() - began
    expected = distinct(hybrids)
    print(f"{len(files)} images, {len(wanted)} hybrids, factors {', '.join(hybrids.factors)}")
    for stage, seconds in clock.seconds.items():
        runs = clock.runs[stage] / len(files)
        print(f"{stage:10} distinct {expected[stage]:3}  run {runs:5.2f}  {seconds:6.2f} s")
    in_stages = sum(clock.seconds.values())
    print(f"whole {whole:.2f} s, in stages {in_stages:.2f} s: cost {whole / in_stages:.2f}")


if __name__ == "__main__":
    main()
