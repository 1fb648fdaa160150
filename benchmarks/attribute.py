"""Cost of attribution over a full factorial, counted in stage computations.

    python benchmarks/attribute.py [--images 60] [--side 224] [--folder DIR]

Two stacks differ in four stages (decode, resize, quantise, colour), so each image has 16 mixtures.
*Naive* is the number of runs of a stage if each mixture were computed separately, *distinct* the
number of different (input, stage) pairs, *run* the number of runs that happened. Each distinct
computation is then timed separately, once; the cost is the time of all mixtures over the sum of
these times. Target: at most 1.5. Without a folder, scikit-learn's photos are used.

    python benchmarks/attribute.py --share [--images 300] [--before CHECKOUT]

runs an experiment of a given shufflenet at 224 pixels, with three paths and three runtimes, and
divides the stored time of its attributions by the stored time of its cells and by that of the run:
ratios of one run. With another checkout, that one is run first. Target: at most 0.1 of a run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
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
    parser.add_argument("--share", action="store_true")
    parser.add_argument("--before", type=Path)
    given = parser.parse_args()
    if given.share:
        figures = share(given.before, max(given.images, 100), ", before") if given.before else []
        show([*figures, *share(Path(__file__).parents[1], max(given.images, 100))])
        return
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


EXPERIMENT = """\
name: share
data: {{name: digits-on-photos, train: 40, eval: {images}, seed: 0}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 224}}}}
  torchpipe-gpu: {{preset: torchpipe-gpu-surrogate, size: 224}}
  pillow: {{preset: pillow-train, size: 224}}
models: [{{name: given, preprocess: opencv, model: shufflenet_v2_x0_5, weights: {weights}}}]
evaluate:
  backends: [torch, {{name: onnxruntime, precision: [fp32, fp16]}}]
"""


def share(checkout: Path, images: int, note: str = "") -> list[Figure]:
    """Run the experiment from a checkout in an empty folder; divide the seconds that it stored."""
    from torchvision.models import shufflenet_v2_x0_5

    with TemporaryDirectory() as folder:
        weights, file = Path(folder, "weights.pt"), Path(folder, "share.yaml")
        torch.manual_seed(0)
        torch.save(shufflenet_v2_x0_5(num_classes=10).state_dict(), weights)
        file.write_text(EXPERIMENT.format(images=images, weights=weights))
        command = [sys.executable, "-m", "alignkit", "run", str(file), "--reports", folder]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        began = time.monotonic()
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        whole = time.monotonic() - began
        cells, compared = stored(folder, "cells"), stored(folder, "comparisons")
    if not cells:
        raise SystemExit(done.stderr)
    predicted = sum(cells.values())
    attributed = sum(value for label, value in compared.items() if label.startswith("attribute "))
    print(f"{checkout}: run {whole:.1f} s, cells {predicted:.1f} s, attribution {attributed:.1f} s")
    asked = None if note else 0.1
    return [
        Figure(f"attribution / cells of one run{note}", [attributed / predicted]),
        Figure(f"attribution / whole run{note}", [attributed / whole], at_most=asked),
    ]


def stored(folder: str, kind: str) -> dict[str, float]:
    """Map the label of each stored work of a kind to the seconds it took."""
    files = Path(folder, ".cache", kind).glob("*/key.json")
    return {each["label"]: each["seconds"] for each in map(json.loads, map(Path.read_text, files))}


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
