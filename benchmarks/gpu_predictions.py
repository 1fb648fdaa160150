"""Predictions that were made without a GPU, held against what a GPU gave.

    python benchmarks/gpu_predictions.py OUT

OUT is what benchmarks/gpu.py wrote, also on another machine. Two kinds of prediction: *decode*,
that `nvjpeg-model` gives nvJPEG's pixels, for each way to decode and each kind of JPEG, from
OUT/pairs.json; and *precision*, that a simulated precision gives a real runtime's logits, from the
newest run of experiments/gpu.yaml in OUT. Predictions that nothing measured are listed too, with
the reason. Exits with 1 if a prediction is refuted, 2 if OUT is damaged, 5 if none was measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from alignkit.errors import AlignkitError, ExitCode, RecordError
from alignkit.place import Column
from alignkit.stored_file import DamagedError, read_sealed
from alignkit.studies.calibrate.recorder import (
    CORES,
    EITHER,
    GPU_WAYS,
    INTERPOLATION,
    JPEG_ENGINE,
    Way,
)
from alignkit.studies.compare_runs.compared_runs import StoredRun, stored_run
from alignkit.text import columns

State = Literal["held", "refuted", "not measured"]
RULES = {
    (CORES, 0): "nvjpeg-model (repeat, float, truncate)",
    (CORES, INTERPOLATION): "nvjpeg-model (interpolate, float, truncate)",
    (JPEG_ENGINE, 0): "nvjpeg-model (repeat, islow, round)",
    (JPEG_ENGINE, INTERPOLATION): "nvjpeg-model (interpolate, islow, round)",
}
"""Engine and flags → rule; the engine's is that of ``torchvision-cuda-engine-surrogate``."""
CHECKED = ("4:2:0 baseline", "4:4:4 baseline")
"""Kinds on which the rule was found and checked, on CUDA cores."""
KINDS = (
    *CHECKED, "4:2:2 baseline", "4:4:0 baseline", "4:1:1 baseline", "grey baseline",
    "4:2:0 progressive", "4:4:4 progressive", "4:2:2 progressive", "grey progressive",
)  # fmt: skip
ENGINES = ("tensorrt-rtx", "tensorrt")
EAGER = ("torch device=cuda", "onnxruntime provider=cuda")
REAL: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("simulated", "fp16", ENGINES),
    ("simulated", "tf32", (*ENGINES, *EAGER, "onnxruntime provider=tensorrt")),
    ("simulated boundaries=nodes", "fp16", EAGER),
    ("simulated boundaries=nodes", "bf16", EAGER),
    ("simulated quantised_for=tensorrt", "int8", ENGINES),
)
"""Simulated column, precision, and beginnings of the names of the real columns that it predicts."""
SIZE, CLASSES = "size of the logits' drift", "predicted classes"
ALIKE = 2.0
"""Greatest ratio of two drifts that are called of one size."""
EXPLAINED = 0.5
"""Greatest number of predictions in which simulation and hardware differ, as a share of those that
the precision changes: the simulation then explains most of them."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One prediction and how it ended."""

    about: str
    what: str
    basis: str
    """``checked before`` against stored output, or ``hypothesis``."""
    state: State
    evidence: str


def decode_predictions(
    record: Mapping[str, Any], ways: Mapping[str, Way] = GPU_WAYS
) -> Iterator[Prediction]:
    """Hold the decoder's rule against every way and kind of a record of pairs."""
    sources = {each["facts"].get("way"): each for each in record["sources"]}
    reasons = {each["file"]: each["reason"] for each in record["not_compared"]}
    for name, way in ways.items():
        if name not in sources:
            reason = reasons.get(name, "no pair was recorded")
            yield Prediction(f"{name}, every kind", "", "hypothesis", "not measured", reason)
            continue
        for kind in KINDS:
            engine = way.engine
            if engine == EITHER:
                baseline = kind.endswith("baseline")
                engine = JPEG_ENGINE if baseline and _has_engine(sources[name]["facts"]) else CORES
            known = engine == CORES and not way.flags and kind in CHECKED
            rule = RULES[engine, way.flags]
            state, evidence = _decoded(sources[name]["kinds"].get(kind), rule)
            yield Prediction(
                about=f"{name} ({engine}), {kind}",
                what=rule,
                basis="checked before" if known else "hypothesis",
                state=state,
                evidence=evidence or "no pair of this kind",
            )


def _has_engine(facts: Mapping[str, Any]) -> bool:
    return facts.get("machine", {}).get("engine_status") == 0


def _decoded(kind: Mapping[str, Any] | None, rule: str) -> tuple[State, str]:
    if kind is None:
        return "not measured", ""
    for each in kind["rules"]:
        if rule in (each["rule"], *each["alike"]):
            text = "{wrong:,} of {samples:,} samples differ, by {greatest} at most".format(**each)
            if kind["nearest"] != each["rule"]:
                text += f"; nearer: {kind['nearest']}"
            return "held" if each["reproduces"] else "refuted", text
    return "not measured", "the rule decoded no file"


def precision_predictions(
    run: StoredRun, real: Sequence[tuple[str, str, tuple[str, ...]]] = REAL
) -> Iterator[Prediction]:
    """Hold every simulated column against the real ones, on the same models and images."""
    served = dict.fromkeys((each.backend, each.precision) for each in run.record.cells)
    for simulated, precision, beginnings in real:
        for backend, same in served:
            if same == precision and any(_named(backend, each) for each in beginnings):
                yield from _compared(run, precision, simulated, backend)


def _named(column: str, beginning: str) -> bool:
    """``tensorrt batch=…`` is a ``tensorrt``, and ``tensorrt-rtx`` is not."""
    return f"{column} ".startswith(f"{beginning} ")


def _compared(run: StoredRun, precision: str, simulated: str, real: str) -> Iterator[Prediction]:
    distances = _distances(run, precision, simulated, real)
    about = f"{real} {precision} by {simulated}"
    basis = "hypothesis"
    if not distances.logits:
        reason = next(
            (each.reason for each in run.record.cells
             if (each.backend, each.precision) == (real, precision) and each.reason),
            "the two have no cell in common",
        )  # fmt: skip
        for what in (SIZE, CLASSES):
            yield Prediction(about, what, basis, "not measured", reason)
        return
    drift, expected, gap = (
        each / distances.logits
        for each in (distances.real_drift, distances.simulated_drift, distances.gap)
    )
    alike = expected <= ALIKE * drift and drift <= ALIKE * expected
    size = (
        f"mean |Δlogit| from fp32: real {drift:.3g}, simulated {expected:.3g}; between the two "
        f"{gap:.3g}, as the order of sums is unknown"
    )
    yield Prediction(about, SIZE, basis, "held" if alike else "refuted", size)
    explained = distances.apart <= EXPLAINED * distances.real_flips
    classes = (
        f"of {distances.images} predictions {distances.real_flips} change from fp32, "
        f"{distances.simulated_flips} in the simulation; {distances.apart} differ between the two"
    )
    yield Prediction(about, CLASSES, basis, "held" if explained else "refuted", classes)


@dataclass(slots=True)
class _Distances:
    """Sums over the cells that a simulated and a real column have in common."""

    images: int = 0
    logits: int = 0
    real_drift: float = 0.0
    simulated_drift: float = 0.0
    gap: float = 0.0
    real_flips: int = 0
    simulated_flips: int = 0
    apart: int = 0


def _distances(run: StoredRun, precision: str, simulated: str, real: str) -> _Distances:
    first = run.record.cells[0]  # the reference runtime, on every path
    found = _Distances()
    for place, seed in run.cells:
        if (place.column.backend, place.column.precision) != (real, precision):
            continue
        places = (
            place,
            replace(place, column=replace(place.column, backend=simulated)),
            replace(place, column=Column(place.column.preprocess, first.backend, first.precision)),
        )
        sides = [run.predictions(each, seed) for each in places]
        ours, theirs, plain = sides
        if ours is None or theirs is None or plain is None:
            continue
        found.images += len(ours)
        found.logits += ours.logits.size
        found.real_drift += float(np.abs(ours.logits - plain.logits).sum(dtype=np.float64))
        found.simulated_drift += float(np.abs(theirs.logits - plain.logits).sum(dtype=np.float64))
        found.gap += float(np.abs(ours.logits - theirs.logits).sum(dtype=np.float64))
        found.real_flips += int((ours.predicted != plain.predicted).sum())
        found.simulated_flips += int((theirs.predicted != plain.predicted).sum())
        found.apart += int((ours.predicted != theirs.predicted).sum())
    return found


def table(predictions: Sequence[Prediction]) -> str:
    """Return the predictions as lines, refuted ones first, with a count of each state."""
    order = ("refuted", "held", "not measured")
    rows = [("", "prediction", "rule", "basis", "evidence")]
    rows += [
        (each.state, each.about, each.what, each.basis, each.evidence)
        for each in sorted(predictions, key=lambda each: order.index(each.state))
    ]
    counts = ", ".join(f"{sum(p.state == state for p in predictions)} {state}" for state in order)
    return f"{columns(rows)}\n{len(predictions)} predictions: {counts}"


def predictions(out: Path) -> list[Prediction]:
    """Hold every prediction against the results in a folder."""
    found = [*decode_predictions(_pairs(out / "pairs.json"))]
    runs = sorted(
        (out / "reports" / "gpu").glob("*/record.json"), key=lambda each: each.stat().st_mtime
    )
    return [*found, *precision_predictions(stored_run(runs[-1].parent))] if runs else found


def _pairs(record: Path) -> dict[str, Any]:
    """Read a record of pairs; without one there is no source. Raises `RecordError` if damaged."""
    if not record.exists():
        return {"sources": [], "not_compared": []}
    try:
        found: dict[str, Any] = json.loads(read_sealed(record))
    except (DamagedError, OSError, ValueError) as error:
        raise RecordError(f"{record} cannot be read ({error}); compare the pairs again") from None
    return found


def main() -> int:
    """Print the predictions and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out", type=Path)
    try:
        found = predictions(parser.parse_args().out)
    except AlignkitError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    print(table(found))
    states = {each.state for each in found}
    if "refuted" in states:
        return ExitCode.DRIFT
    return ExitCode.PASS if "held" in states else ExitCode.NOTHING_COMPARED


if __name__ == "__main__":
    raise SystemExit(main())
