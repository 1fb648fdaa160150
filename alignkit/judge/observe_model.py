"""Values of a rule about a model: in the matrix, or since a baseline."""

from __future__ import annotations

from dataclasses import replace

from alignkit.errors import ExitCode
from alignkit.experiment.metric_option import RuleMetric
from alignkit.experiment.rule_option import Rule
from alignkit.judge.evidence import Evidence, Observed
from alignkit.record import BaselineFacts, Drift, MatrixEntry


def applies(rule: Rule, entry: MatrixEntry) -> bool:
    """Return whether a rule applies to an entry of the matrix; no rule does to an unsuited one."""
    if entry.unsuited or (rule.against == "reference" and entry.aligned):
        return False
    return (
        rule.path in (None, entry.evaluated_with)
        and rule.backend in (None, entry.backend)
        and rule.precision in (None, entry.precision)
    )


def since(rule: Rule, entry: MatrixEntry, baseline: BaselineFacts) -> Observed:
    """Compare an entry with the predictions that a baseline keeps of it."""
    at = entry.place.names
    if entry.state != "measured":
        missing = ExitCode.MISSING if entry.state == "skipped" else ExitCode.CRASHED
        return Observed(*at, reason=entry.reason or "not measured", missing=missing)
    key, field_ = entry.place.json_key, rule.measured.field
    if key not in baseline.metrics:
        return Observed(*at, reason="the baseline has no such entry", missing=ExitCode.BASELINE)
    paired = baseline.drifts.get(key)
    if paired is None:
        reason = "the baseline keeps no predictions of this entry's seeds to pair with"
        return Observed(*at, reason=reason, missing=ExitCode.BASELINE)
    found = _of_drift(rule, paired.drift, len(paired.seeds), at)
    if rule.relative and found.value is not None:
        found = _relative(found, baseline.metrics[key].get(field_))
    return found


def of_entry(rule: Rule, entry: MatrixEntry, evidence: Evidence) -> Observed:
    """Compare an entry with the aligned one of its row."""
    at = entry.place.names
    if entry.drift is None:
        missing = ExitCode.MISSING if entry.state == "skipped" else ExitCode.CRASHED
        return Observed(*at, reason=entry.reason or "not measured", missing=missing)
    found = _of_drift(rule, entry.drift, max(1, len(entry.seeds)), at)
    if rule.relative and found.value is not None:
        found = _relative(found, _aligned_value(entry, rule.measured.field, evidence))
    return found


def _of_drift(rule: Rule, drift: Drift, seeds: int, at: tuple[str, str, str, str]) -> Observed:
    """Return a metric's value from paired predictions."""
    metric, n = rule.measured, drift.n // seeds
    if metric.field.startswith("logits."):
        value = getattr(drift.logits, metric.field.removeprefix("logits."))
        return Observed(*at, value=value, n=n, reason=drift.logits.reason)
    if metric.kind == "class":
        chosen = [each for each in drift.classes if each.name == metric.of_class]
        if not chosen:
            known = ", ".join(each.name for each in drift.classes[:8])
            reason = f"there is no class {metric.of_class!r}; there are {known}"
            return Observed(*at, reason=reason, missing=ExitCode.USAGE)
        estimate, n = getattr(chosen[0], metric.field), chosen[0].support
    else:
        estimate = drift.churn if metric.field == "churn" else drift.metrics.get(metric.field)
    if estimate is None or estimate.value is None:
        reason = estimate.reason if estimate else "not measured"
        return Observed(*at, n=n, reason=reason, missing=ExitCode.NOTHING_COMPARED)
    errors = drift.errors.get(metric.field) if metric.kind != "class" else None
    return Observed(
        *at,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=n,
        seeds=seeds,
        images_error=errors.images if errors else None,
        seeds_error=errors.seeds if errors else 0.0,
        unseen=_unseen(metric, drift, n),
    )


def _unseen(metric: RuleMetric, drift: Drift, images: int) -> float:
    """Bound the change of a metric that none of ``images`` needs to show.

    A macro average moves most if its smallest class does. For precision, a class is assumed to be
    predicted as often as it occurs.
    """
    from alignkit.compare.statistics import rule_of_three

    supports = [each.support for each in drift.classes if each.support]
    if metric.field.endswith(".macro") and supports:
        return rule_of_three(min(supports)) / len(supports)
    return rule_of_three(images) if images else 0.0


def _relative(found: Observed, whole: float | None) -> Observed:
    """Divide a change by the value before it."""
    if not whole:
        reason = "the value before is zero or unknown, so that nothing is relative to it"
        at = (found.trained_with, found.evaluated_with, found.backend, found.precision)
        return Observed(*at, n=found.n, reason=reason)
    assert found.value is not None
    return replace(
        found,
        value=found.value / whole,
        low=None if found.low is None else found.low / whole,
        high=None if found.high is None else found.high / whole,
        images_error=None if found.images_error is None else found.images_error / whole,
        seeds_error=found.seeds_error / whole,
        unseen=found.unseen / whole,
    )


def _aligned_value(entry: MatrixEntry, metric: str, evidence: Evidence) -> float | None:
    for each in evidence.matrix:
        if each.aligned and each.row == entry.row:
            return each.metrics.get(metric)
    return None
