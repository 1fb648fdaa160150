"""Values that a rule about a model observes: in the matrix, or since a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from alignkit.errors import ExitCode
from alignkit.experiment.metric_option import RuleMetric
from alignkit.experiment.rule_option import Rule
from alignkit.place import Row
from alignkit.record import BaselineFacts, Drift, MatrixEntry, Measurements
from alignkit.record.verdict_facts import Statement, stated
from alignkit.task_facts import over_classes

_OF_FINITE = ("logits.", "cosine", "norm")
"""Beginnings of the metrics that leave out images whose outputs are not finite."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One value that a rule is compared with, or the reason why there is none."""

    trained_with: str
    """The reference path of a pixel metric, ``baseline``, or the row of the matrix."""
    evaluated_with: str
    backend: str = ""
    precision: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    """Images, each counted once, or the groups of those that depend on each other."""
    grouped: bool = False
    """Whether ``n`` counts groups."""
    seeds: int = 1
    images_error: float | None = None
    """Standard error of the value over the choice of images; ``None`` if not known."""
    seeds_error: float = 0.0
    """Standard error over the choice of seeds."""
    unseen: float = 0.0
    """Change on either side by flips too rare to show in so few images; see
    `alignkit.compare.statistics.rule_of_three`."""
    at_least: float | None = None
    """A lower bound, if the value itself is not known."""
    different: Statement | None = None
    """A finding that fails whatever the limit is: other shapes, or values that are not finite."""
    amount: Statement | None = None
    """How far the pixels of a share of images differ."""
    perfect: bool = False
    """Whether nothing differs: PSNR is infinite and passes any limit."""
    cause: tuple[Statement, ...] = ()
    unchanged: bool = False
    """Whether it was not compared, since nothing can have changed it."""
    idle: bool = False
    """Whether both sides run the same stages with the same options, so that nothing can differ."""
    reason: str = ""
    """Reason why there is no value, or no interval."""
    missing: ExitCode = ExitCode.CRASHED
    """Exit code if there is no value."""


def applies(rule: Rule, entry: MatrixEntry, record: Measurements) -> bool:
    """Return whether a rule applies to an entry of the matrix; no rule does to an unsuited one."""
    if entry.unsuited or (rule.against == "reference" and _is_aligned(entry, record)):
        return False
    return rule.covers(entry.place)


def _is_aligned(entry: MatrixEntry, record: Measurements) -> bool:
    """Return whether it is its row's aligned cell, perhaps under another name of the path.

    That cell has no drift from itself.
    """
    if entry.aligned:
        return True
    aligned = record.aligned(entry.row)
    if aligned is None:
        return False
    of_path = record.alike(aligned.evaluated_with, entry.evaluated_with)
    return of_path and entry.column.runtime == aligned.column.runtime


def since(rule: Rule, entry: MatrixEntry, baseline: BaselineFacts) -> Observed:
    """Compare an entry with the predictions that a baseline keeps of it."""
    at, key = entry.place.names, entry.place.json_key
    if not entry.ran:
        return _unmeasured(entry)
    if key not in baseline.metrics:
        return Observed(*at, reason="the baseline has no such entry", missing=ExitCode.BASELINE)
    paired = baseline.drifts.get(key)
    if paired is None:
        reason = "the baseline keeps no predictions of this entry's seeds to pair with"
        return Observed(*at, reason=reason, missing=ExitCode.BASELINE)
    observed = _of_drift(rule, paired.drift, len(paired.seeds), at)
    return _relative(observed, rule, baseline.metrics[key])


def of_entry(rule: Rule, entry: MatrixEntry, record: Measurements) -> Observed:
    """Compare an entry with the aligned one of its row."""
    if entry.drift is None:
        return _unmeasured(entry)
    observed = _of_drift(rule, entry.drift, max(1, len(entry.seeds)), entry.place.names)
    aligned = record.aligned(entry.row)
    return replace(
        _relative(observed, rule, aligned.metrics if aligned else {}),
        cause=_below_floor(rule, entry, record),
    )


def _below_floor(rule: Rule, entry: MatrixEntry, record: Measurements) -> tuple[Statement, ...]:
    """State that a limit of churn is less than two seeds of these models differ, if it is.

    Such a rule fails even for a path that changes no more than training again does.
    """
    limit = rule.margin if rule.fail is None else rule.fail
    if rule.measured.field != "churn" or limit is None or entry.drift is None:
        return ()
    churn, known = entry.drift.churn.value, record.noise_floor
    floors = (e.churn for e in known if len(e.seeds) > 1 and Row.parse(e.preprocess) == entry.row)
    floor = next(floors, 0.0)
    if churn is None or churn <= limit or limit >= floor:
        return ()
    return (stated("below floor", share=floor),)


def _unmeasured(entry: MatrixEntry) -> Observed:
    missing = ExitCode.MISSING if entry.state in ("built", "skipped") else ExitCode.CRASHED
    return Observed(*entry.place.names, reason=entry.reason or "not measured", missing=missing)


def _of_drift(rule: Rule, drift: Drift, seeds: int, at: tuple[str, str, str, str]) -> Observed:
    """Return a metric's value from paired predictions."""
    metric, n = rule.measured, drift.n // seeds  # each image once, not once a seed
    lost = None
    if drift.non_finite_once and metric.field.startswith(_OF_FINITE):
        lost = stated("no answer", images=drift.non_finite_once)
    if metric.field.startswith("logits."):
        value = getattr(drift.logits, metric.field.removeprefix("logits."))
        return Observed(*at, value=value, n=n, different=lost, reason=drift.logits.reason)
    errors = None
    if metric.kind == "class":
        chosen = [each for each in drift.classes if each.name == metric.of_class]
        if not chosen:
            known = ", ".join(each.name for each in drift.classes[:8])
            reason = f"there is no class {metric.of_class!r}; there are {known}"
            return Observed(*at, reason=reason, missing=ExitCode.USAGE)
        own = {"recall": chosen[0].recall, "precision": chosen[0].precision}
        estimate, n = {**own, **chosen[0].others}.get(metric.field), chosen[0].drawn
    else:
        of_whole = {"churn": drift.churn, **drift.measures, **drift.metrics}
        estimate = of_whole.get(metric.field)
        n = n if drift.groups is None else drift.groups
        errors = drift.errors.get(metric.field)  # stored of whole metrics, not of single classes
    if estimate is None or estimate.value is None:
        reason = estimate.reason if estimate else "not measured"
        return Observed(*at, n=n, reason=reason, missing=ExitCode.NOTHING_COMPARED)
    return Observed(
        *at,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=n,
        different=lost,
        grouped=drift.groups is not None,
        seeds=seeds,
        images_error=errors.images if errors else None,
        seeds_error=errors.seeds if errors else 0.0,
        # beside an interval without a width stands what may be unseen
        reason=estimate.reason,
        unseen=_unseen(metric, drift, n),
    )


def _unseen(metric: RuleMetric, drift: Drift, images: int) -> float:
    """Bound the change of a metric that none of ``images``, or of their groups, needs to show.

    A macro average moves most if its smallest class does. For precision, a class is assumed to be
    predicted as often as it occurs. 0 for what any image moves, by little.
    """
    from alignkit.compare.statistics import unseen_change

    if metric.continuous:
        return 0.0
    of_classes = drift.classes if over_classes(metric.field) else ()
    images = drift.defined_by.get(metric.field, images)
    return unseen_change(images, [each.drawn for each in of_classes])


def _relative(observed: Observed, rule: Rule, before: Mapping[str, float | None]) -> Observed:
    """Divide a change by the value before it, if the rule asks for that."""
    if not rule.relative or observed.value is None:
        return observed
    whole = before.get(rule.measured.field)
    if not whole:
        reason = "the value before is zero or unknown, so that nothing is relative to it"
        at = (observed.trained_with, observed.evaluated_with, observed.backend, observed.precision)
        return Observed(*at, n=observed.n, reason=reason)
    amounts = ("value", "low", "high", "images_error", "seeds_error", "unseen")
    known = {name: getattr(observed, name) for name in amounts}
    return replace(
        # a mean score may be below 0, and a drop of it is a drop all the same
        observed,
        **{name: each / abs(whole) for name, each in known.items() if each is not None},
        # what may be unseen of a share is another part of the value, see ``unseen``
        reason="" if observed.low is not None else observed.reason,
    )
