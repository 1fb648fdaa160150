"""`Stages`: what a preset or another stack's file says of each stage of a path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Stages:
    """The stage block as an experiment file would hold it, and what is to be told of it."""

    block: dict[str, Any] = field(default_factory=dict)
    surrogate_of: str = ""
    """The GPU stack these stages stand in for on a CPU; empty if they stand for themselves."""
    warnings: tuple[str, ...] = ()
    """What the other stack ignores or leaves open."""
