"""Types of a judgement: controls, rules with their outcomes, the verdict, findings in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignkit.record.stored import STRICT, Count, Placed, Real, Stored, VerdictState

BASELINE = "baseline"
"""The reference of what is compared with approved lines."""


class Control(Stored):
    """A check of the measurement itself, made with the run."""

    name: str
    expected: str
    observed: str
    passed: bool | None
    """``None`` if it cannot be made here: ``observed`` says why."""
    failing: Literal["error", "inconclusive"] = "error"
    """The verdict's state if it does not pass, unless that is worse already."""
    traceback: str = ""
    """Traceback of the defect that prevented the check."""
    differences: dict[str, Real] = {}
    """Pixel metric → its value between the images as they are and with the planted fault."""


class RuleOutcome(Placed):
    """A gate rule applied to one matrix entry, or to two paths: these have no backend."""

    metric: str
    limit: str
    """The rule in words."""
    state: VerdictState
    observed: str
    """The measured value, with its interval."""
    not_run: bool = False
    """Whether nothing was measured, which the gate allows."""
    left_to_gate: bool = False
    """Whether a run leaves it to `alignkit gate`, which alone can measure it."""
    rule: str = ""
    """The rule's id, the same whatever its limits are."""
    cumulative: bool = False
    """Whether it is about the pixels of a stage together with all stages before it."""
    brief: str = ""
    """The value beside its limit: ``churn 7.70 %, 2 % allowed``; empty without a value."""
    excess: Real | None = None
    """The value as a multiple of its limit: a rule fails above 1; ``None`` without a value or for a
    limit of 0."""
    cause: str = ""
    """The cause, as far as it is known."""
    needed: Count | None = None
    """Images that would decide an inconclusive outcome, with as many seeds; ``None`` if none."""
    needed_of: str = "images"
    """The things that ``needed`` counts: identities, where images of one depend on each other."""
    needed_seeds: Count | None = None
    """Seeds that would, with as many images; ``None`` if no number would, or for one seed."""
    waived: str = ""
    """The day until which a failure is waived, and the reason."""
    loose: str = ""
    """Says with which planted faults the limit holds too; empty if it holds something."""
    line: Count = 0
    """Line of the rule in the file, from 1; 0 for a default rule."""


class Action(Stored):
    """A step against what a verdict says."""

    words: str
    measured: bool | None = None
    """Whether its effect was measured here; ``None`` for a step that has none."""
    command: str = ""
    """Shell command that does or measures it."""
    yaml: str = ""
    """Lines for the experiment."""


class Verdict(Stored):
    """The gate's judgement of the run, in three lines: the rule, the cause, the next step."""

    state: VerdictState
    sentence: str
    """The rules that decide it, each value beside its limit, and the place."""
    cause: str = ""
    """The stage or runtime that causes it, and the mechanism; empty if it is not known."""
    actions: tuple[Action, ...] = ()
    """Next steps, the first recommended."""
    informational: bool
    exit_code: int
    rules: tuple[RuleOutcome, ...] = ()
    overrides: tuple[str, ...] = ()
    """``--set`` arguments that replaced rules or paths of the file."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A message about a line of the gate's file: a mistake, or a waiver that ended."""

    __pydantic_config__ = STRICT

    file: str
    line: Count
    """From 1; 0 for the file as a whole."""
    column: int
    level: Literal["error", "warning"]
    rule: str
    """A stable name of the kind of finding."""
    message: str
