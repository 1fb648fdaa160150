"""``gate:``: the rules of an experiment, its waivers, and their fit to the rest of the file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple, Self, get_args

from pydantic import BaseModel, Field, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from alignkit.experiment.metric_option import MetricKind, not_of_task
from alignkit.experiment.option import STRICT_MODEL, Flag, Name, no_such, wrong
from alignkit.experiment.rule_option import Against, Rule, unreachable
from alignkit.experiment.tap_option import TapsOption
from alignkit.plugins import NO_GPU
from alignkit.preprocess import Preprocess
from alignkit.preprocess.normalise import Normalise
from alignkit.samples import NO_LABELS
from alignkit.task_facts import CLASSIFICATION, TaskFacts
from alignkit.text.numbers import listed


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
OF_MODELS: frozenset[MetricKind] = frozenset(("model", "class"))
"""Kinds of metrics that have no value without a model."""


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


class Able(NamedTuple):
    """The measurements that an experiment can make."""

    labelled: bool
    predicts: bool
    """Whether models predict."""
    precisions: tuple[str, ...]
    """The precision of each runtime that they predict in."""
    task: TaskFacts = CLASSIFICATION


def misplaced(
    gate: Gate, *, stacks: Sequence[Preprocess], backends: Sequence[str], able: Able
) -> list[InitErrorDetails]:
    """Return one line for each rule that this file can never measure, or never fail."""
    rules = gate.rules or ()
    lines = []
    paths = [each.name for each in stacks]
    # one path has nothing to be compared with
    alone = all(rule.against == "baseline" for rule in rules) if rules else bool(gate.taps)
    if len(paths) == 1 and len(able.precisions) < 2 and not alone:
        message = (
            "needs two paths or more; the first is the reference (one is enough where models run "
            "in two runtimes or precisions, or every rule is against the baseline)"
        )
        lines.append(wrong("paths", message, "preprocess", given=paths[0]))
    for index, rule in enumerate(rules):
        for key, message in _mistakes(rule, paths, backends, able):
            given = getattr(rule, key)
            lines.append(wrong("rule", message, "gate", "rules", index, key, given=given))
        if message := beyond_normalised(rule, stacks):
            lines.append(wrong("rule", message, "gate", "rules", index, given=rule))
    for index, waiver in enumerate(gate.waive):
        if waiver.path is not None and waiver.path not in paths:
            message, loc = no_such("path", waiver.path, paths), ("gate", "waive", index, "path")
            lines.append(wrong("waiver", message, *loc, given=waiver.path))
    return lines


def beyond_normalised(rule: Rule, stacks: Sequence[Preprocess]) -> str:
    """Say which limit in normalised units no two pixels of 0..255 reach; empty if there is none.

    A baseline may have been normalised by other numbers, so that its rules are not looked at.
    """
    metric = rule.metric and rule.measured
    if not metric or metric.unit != "normalised units" or rule.against == "baseline":
        return ""
    reference, *others = stacks
    candidates = [each for each in others if rule.path in (None, each.name)]
    ranges = [_greatest(reference.normalise, each.normalise) for each in candidates]
    return unreachable(rule, "above", 0.0, max(ranges, default=None), metric.name)


def _greatest(a: Normalise, b: Normalise) -> float:
    """Return the greatest difference of a black pixel on one side and a white one on the other."""
    channels = list(zip(a.mean, a.std, b.mean, b.std, strict=True))
    return max(
        max((1 - mean) / std + other / other_std, (1 - other) / other_std + mean / std)
        for mean, std, other, other_std in channels
    )


def _mistakes(
    rule: Rule, paths: Sequence[str], backends: Sequence[str], able: Able
) -> Iterator[tuple[str, str]]:
    metrics = [each.measured for each in rule.expanded()]
    kinds = {each.kind for each in metrics}
    key = "preset" if rule.preset else "metric"
    if not able.predicts and kinds & OF_MODELS:
        yield key, "needs a model, and these images have no labels to train one with; give 'models'"
    elif foreign := next(filter(None, (not_of_task(each, able.task) for each in metrics)), ""):
        yield key, foreign
    elif not able.labelled and any(each.needs_labels for each in metrics):
        names = ", ".join(each.name for each in metrics if each.needs_labels)
        yield key, f"{names} needs labels, and {NO_LABELS}; {_unlabelled(able.task)} need none"
    if len(paths) == 1 and rule.against == "reference" and kinds & {"pixel", "coverage"}:
        yield key, "compares the pixels of two paths, and 'preprocess' has one"
    if rule.path is not None and rule.path not in paths:
        yield "path", no_such("path", rule.path, paths)
    compared = rule.against == "reference" and kinds & {"pixel", "coverage"}
    if rule.path == paths[0] and compared:
        yield "path", f"{rule.path!r} is the reference itself; name one of the others"
    if rule.backend is not None and rule.backend not in backends:
        yield "backend", no_such("backend", rule.backend, backends)
    if rule.precision is not None and able.predicts and rule.precision not in able.precisions:
        yield "precision", no_such("precision", rule.precision, sorted({*able.precisions}))


def _unlabelled(task: TaskFacts) -> str:
    """List the metrics of predictions that need no labels."""
    logits = ["logits.*"] if task.class_scores else []
    return listed(["churn", *logits, *(each.name for each in task.measures)])
