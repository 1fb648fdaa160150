"""Cost of attribution over a full factorial, counted in stage computations.

    python benchmarks/attribute.py [--images 60] [--side 224] [--folder DIR]

Two stacks differ in four stages (decode, resize, quantise, colour), so each image has 16 mixtures.
*Naive* is the number of runs of a stage if each mixture were computed separately, *distinct* the
number of different (input, stage) pairs, *run* the number of runs that happened. Each distinct
computation is then timed separately, once; the cost is the time of all mixtures over the sum of
these times. Target: at most 1.5. Without a folder, scikit-learn's photos are used.
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
from figures import Figure, show
from prepare import bundled_photos

from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.preprocess import Colour, Preprocess, Quantise, Resize
from alignkit.preprocess.stage_mixtures import StageMixtures, all_mixtures, make_stage_mixtures
from alignkit.resizers.torch import TorchResizer


class Clock:
    """Counter and timer of every stage that runs."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def timed(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        """Replace `StageMixtures.apply` and record its time."""

        def run(mixed: StageMixtures, name: str, *arguments: Any) -> Any:
            began = time.perf_counter()
            result = apply(mixed, name, *arguments)
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


def distinct(mixed: StageMixtures) -> Counter[str]:
    """Count one image's distinct computations (input and options) per stage."""
    found: Counter[str] = Counter()
    decided = 0
    for level in mixed.stages:
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
    mixed = make_stage_mixtures(*stacks(given.side))
    wanted = all_mixtures(mixed.factors)
    for file in files:
        mixed.tensors(file, wanted)  # warms up
    began = time.perf_counter()
    for file in files:
        mixed.tensors(file, wanted)
    whole = time.perf_counter() - began
    clock = counted(mixed, files)
    expected = distinct(mixed)
    print(f"{len(files)} images, {len(wanted)} mixtures, factors {', '.join(mixed.factors)}")
    print("stage      naive  distinct    run     seconds")
    for stage, seconds in clock.seconds.items():
        runs = clock.runs[stage] / len(files)
        print(f"{stage:10} {len(wanted):5}  {expected[stage]:8}  {runs:5.2f}  {seconds:10.2f}")
    once = sum(
        seconds * expected[stage] * len(files) / clock.runs[stage]
        for stage, seconds in clock.seconds.items()
    )
    print(f"all mixtures {whole:.2f} s, distinct computations {once:.2f} s")
    show(
        [Figure("all 16 mixtures / their distinct computations, time", [whole / once], at_most=1.5)]
    )


def counted(mixed: StageMixtures, files: list[bytes]) -> Clock:
    """Repeat the same work with every stage counted and timed."""
    clock, plain = Clock(), StageMixtures.apply
    StageMixtures.apply = clock.timed(plain)  # type: ignore[method-assign]
    try:
        for file in files:
            mixed.tensors(file, all_mixtures(mixed.factors))
    finally:
        StageMixtures.apply = plain  # type: ignore[method-assign]
    return clock


if __name__ == "__main__":
    main()
