"""What is stored of controls and of the gate."""

from __future__ import annotations

from typing import Literal

from alignkit.record.place import Placed
from alignkit.record.stored import Count, Stored, VerdictState


class Control(Stored):
    """A check of the measurement itself, made with the run."""

    name: str
    expected: str
    observed: str
    passed: bool
    failing: Literal["error", "inconclusive"] = "error"
    """What the verdict becomes where it does not pass; a finding is not taken back."""
    traceback: str = ""
    """Of the defect that kept the check from being made."""


class RuleOutcome(Placed):
    """A gate rule applied to one matrix entry, or to two paths: these have no backend."""

    metric: str
    limit: str
    """The rule in words."""
    state: VerdictState
    observed: str
    """The measured value, with its interval."""
    rule: str = ""
    """The rule's id, the same whatever its limits are."""
    cause: str = ""
    """What is known of why."""
    needed: Count | None = None
    """Images that would settle an inconclusive outcome, with as many seeds; ``None`` if none."""
    needed_seeds: Count | None = None
    """Seeds that would, with as many images; ``None`` if no number would, or of one seed."""
    waived: str = ""
    """Until when a failure is waived, and why."""
    line: Count = 0
    """Of the rule in the file, from 1; 0 for a default rule."""


class Verdict(Stored):
    """What the gate says of the run."""

    state: VerdictState
    sentence: str
    """Effect, interval and cause in one sentence."""
    informational: bool
    exit_code: int
    rules: tuple[RuleOutcome, ...] = ()
