"""Types of a judgement: controls, rules with their outcomes, the verdict, findings in a file.

They hold places, numbers, names and kinds; `alignkit.text.verdict` says them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from alignkit.record.stored import STRICT, Count, Estimate, Placed, Real, Stored, VerdictState

BASELINE = "baseline"
"""The reference of what is compared with approved lines."""
UNCHECKED = "unchecked"
"""The rule that a rule looks at all that differs."""
SEVERITY: tuple[VerdictState, ...] = ("error", "fail", "inconclusive", "warn", "pass")

StatementKind: TypeAlias = Literal[
    # what was observed instead of a value, or beside it
    "shapes", "not finite", "no answer", "identical", "unchanged", "at least", "amount", "unseen",
    "too few", "left baseline", "left groups", "left taps", "no approved line", "dropped",
    "repeated", "cells", "no cell", "no comparison", "undecoded", "by neither", "not by both",
    "allows", "calibration", "no candidate", "no rule", "differs", "blind", "answers", "class",
    "since approval",
    # what a recorded stage held
    "tap unknown", "tap empty", "tap refused", "tap values", "tap others", "tap no value",
    "tap range", "tap outside", "tap order", "tap part",
    # causes of an outcome
    "change", "earlier change", "one-sided", "gone", "here first", "earlier stage", "below floor",
    # statements of a verdict
    "message", "distrust", "doubt", "lost", "quick", "part", "loose", "error", "measured",
    "failed", "held", "none held", "nothing changed", "beside",
    "baseline alone", "unshown", "copies", "not run", "overrides", "stopped",
    # causes of a verdict
    "lost on one side", "runtime", "shares unknown", "no stage", "opposed", "most", "largest",
    "all", "pixels", "options", "stage",
    # steps
    "repair model", "repair control", "continue", "whole", "remove doubt", "tighten",
    "repeat gate", "let CI check", "install", "repair files", "give rules", "record lines",
    "record others", "remove reason", "let gate judge", "no sample", "measure more", "train seeds",
    "serve runtime", "advised", "swap", "swap all", "train served", "undo", "run with",
]  # fmt: skip
DECISIVE: Mapping[StatementKind, VerdictState] = {
    "shapes": "fail", "not finite": "fail", "no answer": "fail", "identical": "pass",
    "unchanged": "pass",
}  # fmt: skip
"""Finding → the state of an outcome that has it, whatever its limits are."""
StatementValue: TypeAlias = Count | Real | str | tuple[Count, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """Something to be said: its kind, and what is filled in by name."""

    __pydantic_config__ = STRICT

    kind: StatementKind
    values: dict[str, StatementValue] = field(default_factory=dict)

    def number(self, name: str) -> float:
        """Return a number that is filled in."""
        value = self.values[name]
        assert isinstance(value, int | float)
        return value

    def names(self, name: str) -> list[str]:
        """Return a list of names that is filled in, or one name."""
        value = self.values[name]
        return [*map(str, value)] if isinstance(value, tuple) else [str(value)]


def stated(kind: StatementKind, **values: StatementValue) -> Statement:
    """Make a statement."""
    return Statement(kind, values)


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


@dataclass(frozen=True, slots=True)
class RuleLimits:
    """The limits of a rule."""

    __pydantic_config__ = STRICT

    unit: str
    """Of the limits and the value; ``share`` is a fraction of a whole, ``points`` a difference."""
    worse: Literal["above", "below"] = "above"
    warn: Real | None = None
    fail: Real | None = None
    margin: Real | None = None
    direction: Literal["both", "drop", "rise"] = "both"
    signed: bool = False
    """Whether the value is a change, whose drop and rise differ."""
    relative: bool = False
    """Whether it is a share of the value before."""
    since_approval: bool = False
    """Whether the value is compared with the baseline's."""
    decides: Real | None = None
    """The one that the value crossed, else the one that it must not."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The sample that would decide an inconclusive outcome: so many images, or so many seeds."""

    __pydantic_config__ = STRICT

    images: Count | None
    """With as many seeds; ``None`` if no number of images would."""
    seeds: Count | None
    """With as many images; ``None`` if no number would, or for one seed."""
    of: str = "images"
    """The things that ``images`` counts: identities, where images of one depend on each other."""


@dataclass(frozen=True, slots=True)
class Waived:
    """The last day and the reason of a waiver."""

    __pydantic_config__ = STRICT

    until: str
    reason: str


class RuleOutcome(Placed):
    """A gate rule applied to one matrix entry, or to two paths: these have no backend."""

    metric: str
    state: VerdictState
    label: str = ""
    """Name of the metric in a sentence; empty for a rule that no file writes."""
    limits: RuleLimits | None = None
    where: dict[str, str] = {}
    """The kind of images that it is about; empty for all."""
    value: Estimate | None = None
    """The value beside the limits, with its interval or the reason why there is none."""
    observed: tuple[Statement, ...] = ()
    """Findings instead of a value, or beside it."""
    not_run: bool = False
    """Whether nothing was measured, which the gate allows."""
    left_to_gate: bool = False
    """Whether a run leaves it to `alignkit gate`, which alone can measure it."""
    rule: str = ""
    """The rule's id, the same whatever its limits are."""
    cumulative: bool = False
    """Whether it is about the pixels of a stage together with all stages before it."""
    excess: Real | None = None
    """The value as a multiple of its limit: a rule fails above 1; ``None`` without a value or for a
    limit of 0."""
    cause: tuple[Statement, ...] = ()
    needed: Needed | None = None
    waived: Waived | None = None
    loose: dict[str, Real] = {}
    """Planted faults that the limit would pass, and their values; empty if it holds something."""
    line: Count = 0
    """Line of the rule in the file, from 1; 0 for a default rule."""

    @property
    def instead(self) -> Statement | None:
        """The finding that decides it whatever its limits are; ``None`` if they decide."""
        return next((each for each in self.observed if each.kind in DECISIVE), None)

    @property
    def told(self) -> bool:
        """Whether a value stands beside its limit, or something that no limit allows."""
        if self.instead and DECISIVE[self.instead.kind] == "fail":
            return True
        known = self.value is not None and self.value.value is not None
        return known and self.limits is not None and self.limits.decides is not None


class NextStep(Stored):
    """A step against what a verdict says."""

    what: Statement
    measured: bool | None = None
    """Whether its effect was measured here; ``None`` for a step that has none."""
    command: str = ""
    """Shell command that does or measures it."""
    yaml: str = ""
    """Lines for the experiment."""


class Verdict(Stored):
    """The gate's judgement of the run, in three lines: the rule, the cause, the next step."""

    state: VerdictState
    sentence: tuple[Statement, ...] = ()
    """The rules that decide it, and the parts that it rests on or does not cover."""
    cause: tuple[Statement, ...] = ()
    """The stage or runtime that causes it, and the mechanism; empty if it is not known."""
    steps: tuple[NextStep, ...] = ()
    """Next steps, the first recommended."""
    headline: Count | None = None
    """Index of the outcome that it speaks of; ``None`` without outcomes."""
    informational: bool
    exit_code: int
    rules: tuple[RuleOutcome, ...] = ()
    overrides: tuple[str, ...] = ()
    """``--set`` arguments that replaced rules or paths of the file."""

    @property
    def first(self) -> RuleOutcome | None:
        """The outcome that it speaks of; ``None`` without outcomes."""
        return None if self.headline is None else self.rules[self.headline]


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


def worst_first(outcomes: Sequence[RuleOutcome]) -> list[RuleOutcome]:
    """Order outcomes by severity, then by how far they lie above their limits."""

    def badness(each: RuleOutcome) -> tuple[int, float]:
        return SEVERITY.index(each.state), -math.inf if each.excess is None else -each.excess

    return sorted(outcomes, key=badness)
