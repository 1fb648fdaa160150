"""Spread of several builds of one engine: their answers are compared on equal tensors.

Where an experiment asks for it, a model is exported, converted and opened several times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.outcome import Failed, capture
from alignkit.record import BuildSpread
from alignkit.stored_file import write_atomically
from alignkit.workspace import Workspace, content_key

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.compare.answers import Answers


def measure_spread(
    first: Answers,
    predicted: Callable[[Session], Answers],
    build: Callable[[], AbstractContextManager[Session]],
    *,
    builds: int,
) -> BuildSpread:
    """Compare ``builds`` builds, of which ``first`` are the answers of one; open one at a time.

    ``predicted`` gives a session's answers to the same images. If a build fails, the result holds
    its reason and no spread.
    """
    several = [first]

    def again() -> None:
        for _ in range(1, builds):
            with build() as session:
                several.append(predicted(session))

    if isinstance(ended := capture(again), Failed):
        return BuildSpread(builds=len(several), reason=ended.message)
    return spread_of(several)


def spread_of(several: Sequence[Answers]) -> BuildSpread:
    """Count the images that builds answer differently, and compute the range of every number."""
    first, *others = several
    flipped = np.zeros(len(first), np.bool_)
    for other in others:
        flipped |= first.changed(other)
    counts = {"builds": len(several), "images": len(first), "flips": int(flipped.sum())}
    numbers = [found for each in several if (found := each.raw_rows()) is not None]
    if len(numbers) < len(several):
        return BuildSpread(**counts, reason=f"outputs are not compared: {first.no_logits}")
    if not all(np.isfinite(each).all() for each in numbers):
        return BuildSpread(**counts, reason="a build gives outputs that are not finite")
    # float64: a difference of float32 logits is not rounded once more
    least, greatest = numbers[0].astype(np.float64), numbers[0].astype(np.float64)
    for each in numbers[1:]:
        np.minimum(least, each, out=least)
        np.maximum(greatest, each, out=greatest)
    apart = greatest - least
    return BuildSpread(**counts, max_abs=float(apart.max()), mean_abs=float(apart.mean()))


def spread_stored(
    cell: dict[str, Any], builds: int, workspace: Workspace, measure: Callable[[], BuildSpread]
) -> BuildSpread:
    """Return the spread stored for a cell's parts, or measure it; a failed build is not stored."""
    parts = {**cell, "builds": builds}
    label = f"{builds} builds"
    known = workspace.recall("spreads", content_key(parts), label, _read_spread)
    if known is not None:
        return known
    spread = measure()
    # a failure may be gone tomorrow
    if spread.builds == builds:
        with workspace.store("spreads", parts, label) as filling:
            write_atomically(filling / "spread.json", json.dumps(spread.model_dump(mode="json")))
    return spread


def _read_spread(folder: Path) -> BuildSpread:
    return BuildSpread.model_validate_json((folder / "spread.json").read_text())
