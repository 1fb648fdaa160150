"""``gate:``: rules, assertions about taps, waivers, and their fit to the rest of the file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from alignkit.experiment.option import STRICT_MODEL, Flag, Number
from alignkit.experiment.rule_option import Against, Rule
from alignkit.plugins import NO_GPU
from alignkit.preprocess import StageName
from alignkit.preprocess.stages import Name
from alignkit.task_facts import CLASSIFICATION, TaskFacts


class Waiver(BaseModel):
    """One entry of ``gate.waive``: a rule that may fail until a date, and why."""

    model_config = STRICT_MODEL
    rule: str
    """Its metric; or its id, which adds path, backend, precision and mode if it names them."""
    path: Name | None = None
    """Only where the candidate is this path."""
    until: Annotated[dt.date, Field(strict=False)]
    """The last day it holds."""
    reason: Annotated[str, Field(min_length=8)]
    """Why the rule may fail for now; shown with the verdict."""


Side = Annotated[int, Field(ge=1)]
DtypeName = Literal[
    "uint8", "uint16", "uint32", "int8", "int16", "int32", "int64", "float16", "bfloat16",
    "float32", "float64",
]  # fmt: skip
ChannelOrder = Literal["rgb", "bgr"]


class TapRule(BaseModel):
    """One entry of ``gate.taps.rules``: assertions about one tap, each judged by itself."""

    model_config = STRICT_MODEL
    tap: Annotated[str, Field(min_length=1)]
    """Name by which the serving code recorded it."""
    size: Annotated[tuple[Side, Side], Field(strict=False)] | None = None
    """[height, width] in pixels of every image."""
    range: Annotated[tuple[Number, Number], Field(strict=False)] | None = None
    """[least, greatest] number that any image may hold."""
    dtype: DtypeName | None = None
    """Type of the recorded numbers."""
    channels: ChannelOrder | None = None
    """Order of the channels, decided by the distance from the reference path's pixels."""

    @property
    def asserted(self) -> Iterator[str]:
        """Yield the names of the assertions."""
        for name in ("size", "range", "dtype", "channels"):
            if getattr(self, name) is not None:
                yield name

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        message = ""
        if not [*self.asserted]:
            message = "a rule about a tap needs 'size', 'range', 'dtype' or 'channels'"
        elif self.range is not None and self.range[0] >= self.range[1]:
            message = f"'range: [{self.range[0]:g}, {self.range[1]:g}]' holds no interval"
        if message:
            raise PydanticCustomError("tap_rule", "{message}", {"message": message})
        return self


class TapsOption(BaseModel):
    """``gate.taps``: a folder of recorded stages, and what must hold of them."""

    model_config = STRICT_MODEL
    folder: Annotated[Path, Field(strict=False)]
    """The folder that ``ALIGNKIT_TAPS`` named when the stages were recorded."""
    rules: Annotated[tuple[TapRule, ...], Field(min_length=1)]
    """Assertions, in any number."""
    stages: dict[str, StageName] = {}
    """Stage of a tap whose name does not say it, for ``channels``."""


class Gate(BaseModel):
    """``gate:``: when the run fails."""

    model_config = STRICT_MODEL
    informational: Flag = False
    """Show verdicts, but exit 0."""
    on_inconclusive: Literal["warn", "fail"] = "warn"
    """Whether a sample too small to decide warns or fails (exit code 7)."""
    allow_missing: Flag | Literal["gpu"] = False
    """Skip paths and cells that this machine cannot run without exit code 4: any of them, or only
    those that need a GPU."""
    environment: str | None = None
    """Fingerprint of the environment whose baseline is used; by default this machine's. A machine
    without a GPU can name a GPU's, to compare its stand-in with that GPU's golden tensors."""
    rules: Annotated[tuple[Rule, ...], Field(min_length=1)] | None = None
    """By default churn ≤ 2 % and, of images with labels, macro recall within ±1 point; of another
    task its usual churn and first metric; without a model, ``strict``."""
    taps: TapsOption | None = None
    """Assertions about the stages that serving code recorded with `alignkit.tap`."""
    waive: tuple[Waiver, ...] = ()
    """Rules that may fail until a date, each with a reason."""

    def allows(self, reason: str) -> bool:
        """Return whether a path or cell that cannot run here for this reason may be skipped."""
        return NO_GPU in reason if self.allow_missing == "gpu" else self.allow_missing

    @property
    def expanded(self) -> list[Rule]:
        """The rules as given, presets spelt out; empty if there are none."""
        return [each for rule in self.rules or () for each in rule.expanded()]

    def placed(
        self,
        lines: Sequence[int] = (),
        *,
        with_model: bool,
        labelled: bool = True,
        task: TaskFacts = CLASSIFICATION,
    ) -> list[tuple[Rule, int]]:
        """Return every rule with its line (0 if unknown): presets expanded, ``coverage`` added."""
        # no rules in the file means the usual ones, not none
        usual = default_rules(task, labelled=labelled) if with_model else PIXEL_RULES
        # a file that only asserts something about taps has no candidate to compare
        rules = self.rules or (() if self.taps else usual)
        numbered = zip(rules, lines or [0] * len(rules), strict=True)
        placed = [(each, line) for rule, line in numbered for each in rule.expanded()]
        # pixel metrics leave out images that one side cannot decode, and a comparison with a
        # baseline those that are gone, so coverage is checked too
        for against in get_args(Against):
            kinds = {each.measured.kind for each, _ in placed if each.against == against}
            left_out = "pixel" in kinds or (against == "baseline" and kinds)
            if left_out and "coverage" not in kinds:
                placed.append((Rule(metric="coverage", fail=0.0, against=against), 0))
        return placed

    @model_validator(mode="after")
    def _waivers_match(self) -> Self:
        if not self.waive:
            return self
        known = {
            name
            # whether there are labels is not known here; either set of default rules may hold
            for with_model in (False, True)
            for rule, _ in self.placed(with_model=with_model)
            for name in (rule.id, rule.metric or "")
        }
        for waiver in self.waive:
            if waiver.rule not in known:
                ids = ", ".join(sorted(known))
                message = f"a waiver for {waiver.rule!r}, which is no rule's id: {ids}"
                raise PydanticCustomError("waiver", "{message}", {"message": message})
        return self


PIXEL_RULES = (Rule(preset="strict"),)


def default_rules(task: TaskFacts, *, labelled: bool) -> tuple[Rule, ...]:
    """Return the rules of a file that gives none: the usual churn, the first metric within 1 %.

    Within one point if it is a share, else within one hundredth of its value.
    """
    churn = task.usual_churn
    rules = [] if churn is None else [Rule(metric="churn", fail=churn)]
    first = task.matrices[0]
    if labelled or churn is None:
        share = all(each.unit == "share" for each in task.metrics if each.name == first)
        rules.append(Rule(metric=first, margin=0.01, relative=not share))
    return tuple(rules)
