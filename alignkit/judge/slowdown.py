"""Ratio of two latencies, with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignkit.record import LatencyFacts


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Candidate minus reference, or its share of the reference where that was asked for."""

    value: float
    low: float
    high: float


def slowdown(
    reference: LatencyFacts,
    candidate: LatencyFacts,
    which: Literal["p50", "p95"],
    *,
    relative: bool,
) -> Slowdown:
    """Milliseconds an image (or a share), median over rounds and its 96 % interval."""
    pairs = zip(getattr(reference, which), getattr(candidate, which), strict=True)
    changes = sorted((b - a) / a if relative else b - a for a, b in pairs)
    return Slowdown(changes[len(changes) // 2], changes[1], changes[-2])
