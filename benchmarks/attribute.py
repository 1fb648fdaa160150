"""What attribution over a full factorial costs, counted in stage computations.

    python benchmarks/attribute.py [--images 60] [--side 224] [--folder DIR]

Two stacks differ in four stages (decode, resize, quantise, colour), so 16 hybrids are made of each
image. *Naive* is how often a stage would run if each hybrid were made by itself, *distinct* how
many different (input, stage) pairs there are, *run* how often it ran. Each distinct computation is
then timed by itself, once; the cost is the time of all hybrids over the sum of these. Target: at
most 1.5. Without a folder, pieces of scikit-learn's photos are used.
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
from prepare import bundled_photos

from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.preprocess import Colour, Preprocess, Quantise, Resize
from alignkit.preprocess.stage_mixtures import Hybrids, all_mixtures, make_hybrids
from alignkit.resizers.torch import TorchResizer


class Clock:
    """Counts every stage that runs, and remembers the time of each."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def timed(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        """In place of `Hybrids.apply`."""

        def run(hybrids: Hybrids, name: str, *arguments: Any) -> Any:
            began = time.perf_counter()
            result = apply(hybrids, name, *arguments)
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
        files = bundled_photos(given.images)
    hybrids = make_hybrids(*stacks(given.side))
    wanted = all_mixtures(hybrids.factors)
    for file in files:
        hybrids.tensors(file, wanted)  # whatever is slow only once
    began = time.perf_counter()
    for file in files:
        hybrids.tensors(file, wanted)
    whole = time.perf_counter() - began
    clock = counted(hybrids, files)
    expected = distinct(hybrids)
    print(f"{len(files)} images, {len(wanted)} hybrids, factors {', '.join(hybrids.factors)}")
    print("stage      naive  distinct    run     seconds")
    for stage, seconds in clock.seconds.items():
        runs = clock.runs[stage] / len(files)
        print(f"{stage:10} {len(wanted):5}  {expected[stage]:8}  {runs:5.2f}  {seconds:10.2f}")
    once = sum(
        seconds * expected[stage] * len(files) / clock.runs[stage]
        for stage, seconds in clock.seconds.items()
    )
    print(f"all hybrids {whole:.2f} s, distinct computations {once:.2f} s: cost {whole / once:.2f}")


def counted(hybrids: Hybrids, files: list[bytes]) -> Clock:
    """The same once more, with every stage counted and timed."""
    clock, plain = Clock(), Hybrids.apply
    Hybrids.apply = clock.timed(plain)  # type: ignore[method-assign]
    try:
        for file in files:
            hybrids.tensors(file, all_mixtures(hybrids.factors))
    finally:
        Hybrids.apply = plain  # type: ignore[method-assign]
    return clock


if __name__ == "__main__":
    main()
