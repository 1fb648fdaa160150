"""Matrix × rules → Verdict.

A rule looks at every entry of the matrix that is not its row's own reference. A ``warn`` or ``fail``
limit is compared with the measured value; a ``margin`` with the whole 95 % interval, so that too
small a sample is *inconclusive* and never a pass. What could not be measured is an *error*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alignkit.errors import ExitCode
from alignkit.experiment import Gate, Rule
from alignkit.record import (
    Cell,
    Control,
    Estimate,
    MatrixEntry,
    PixelStage,
    RuleOutcome,
    Verdict,
    VerdictState,
)

SEVERITY: tuple[VerdictState, ...] = ("pass", "warn", "inconclusive", "fail", "error")
METRIC_NAMES = {
    "churn": "churn",
    "top1": "top-1 accuracy",
    "recall.macro": "macro recall",
    "recall.micro": "micro recall",
    "precision.macro": "macro precision",
    "precision.micro": "micro precision",
}


def judge(
    gate: Gate,
    *,
    matrix: Sequence[MatrixEntry],
    cells: Sequence[Cell],
    pixels: Sequence[PixelStage],
    controls: Sequence[Control],
) -> Verdict:
    """Apply every rule to every entry and say the outcome in one sentence."""
    compared = [entry for entry in matrix if not entry.aligned]
    outcomes = tuple(_outcome(rule, entry) for rule in gate.rules for entry in compared)
    state = _worst(outcome.state for outcome in outcomes)
    broken = [control for control in controls if not control.passed]
    if broken:
        state = "error"
        sentence = (
            f"The measurement cannot be trusted: the control {broken[0].name!r} expected "
            f"{broken[0].expected} and observed {broken[0].observed}."
        )
    else:
        sentence = _sentence(compared, pixels)
    return Verdict(
        state=state,
        sentence=sentence,
        informational=gate.informational,
        exit_code=int(_exit_code(gate, state, cells, compared, broken)),
        rules=outcomes,
    )


def _worst(states: Iterable[VerdictState]) -> VerdictState:
    return max(states, key=SEVERITY.index, default="error")


def _exit_code(
    gate: Gate,
    state: VerdictState,
    cells: Sequence[Cell],
    compared: Sequence[MatrixEntry],
    broken: Sequence[Control],
) -> ExitCode:
    if broken or any(cell.state == "failed" for cell in cells):
        return ExitCode.CRASHED
    if not any(entry.state == "measured" for entry in compared):
        return ExitCode.NOTHING_COMPARED
    if any(cell.state == "skipped" for cell in cells) and not gate.allow_missing:
        return ExitCode.MISSING
    if gate.informational:
        return ExitCode.PASS
    if state == "fail":
        return ExitCode.DRIFT
    if state == "inconclusive" and gate.on_inconclusive == "fail":
        return ExitCode.INCONCLUSIVE
    return ExitCode.PASS


def _outcome(rule: Rule, entry: MatrixEntry) -> RuleOutcome:
    estimate = estimate_of(entry, rule.metric)
    state, observed = (
        ("error", entry.reason or "not measured")
        if estimate is None or estimate.value is None
        else (_state(rule, estimate), points(estimate))
    )
    return RuleOutcome(
        metric=rule.metric,
        limit=describe(rule),
        trained_with=entry.trained_with,
        evaluated_with=entry.evaluated_with,
        backend=entry.backend,
        precision=entry.precision,
        state=state,
        observed=observed,
    )


def estimate_of(entry: MatrixEntry, metric: str) -> Estimate | None:
    """The entry's drift in a metric; ``None`` if it was not measured."""
    if entry.drift is None:
        return None
    return entry.drift.churn if metric == "churn" else entry.drift.metrics.get(metric)


def _state(rule: Rule, estimate: Estimate) -> VerdictState:
    assert estimate.value is not None
    states: list[VerdictState] = ["pass"]
    if rule.margin is not None:
        states.append(_within(rule.margin, estimate))
    if rule.warn is not None and abs(estimate.value) > rule.warn:
        states.append("warn")
    if rule.fail is not None and abs(estimate.value) > rule.fail:
        states.append("fail")
    return _worst(states)


def _within(margin: float, estimate: Estimate) -> VerdictState:
    """Equivalence by inclusion of the 95 % interval in ±margin (two one-sided tests)."""
    if estimate.low is None or estimate.high is None:
        return "error"
    if -margin <= estimate.low and estimate.high <= margin:
        return "pass"
    if estimate.low > margin or estimate.high < -margin:
        return "fail"
    return "inconclusive"


def describe(rule: Rule) -> str:
    """A rule's limits in words."""
    limits = []
    if rule.margin is not None:
        limits.append(f"within ±{100 * rule.margin:g} pp")
    if rule.warn is not None:
        limits.append(f"warn above {100 * rule.warn:g} %")
    if rule.fail is not None:
        limits.append(f"fail above {100 * rule.fail:g} %")
    return f"{METRIC_NAMES[rule.metric]} {', '.join(limits)}"


def points(estimate: Estimate) -> str:
    """``−0.42 pp [−0.61, −0.23]``; the value of churn is a share, of all else a difference."""
    if estimate.value is None:
        return estimate.reason or "not measured"
    text = f"{_signed(estimate.value)} pp"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{_signed(estimate.low)}, {_signed(estimate.high)}]"


def _signed(fraction: float) -> str:
    text = f"{100 * fraction:+.2f}".replace("-", "−")
    return "0.00" if text in ("+0.00", "−0.00") else text


def _sentence(compared: Sequence[MatrixEntry], pixels: Sequence[PixelStage]) -> str:
    measured = [entry for entry in compared if entry.drift is not None]
    if not measured:
        return "Nothing was compared: no cell besides the references could run."
    worst = max(measured, key=lambda entry: (entry.drift and entry.drift.churn.value) or 0.0)
    drift = worst.drift
    assert drift is not None
    if not any(entry.drift and (entry.drift.churn.value or 0.0) > 0 for entry in measured):
        return f"Aligned: no prediction changed in any of {len(measured)} comparisons."
    recall = drift.metrics["recall.macro"]
    churn = 100 * (drift.churn.value or 0.0)
    cause = _cause(worst, pixels)
    return (
        f"Trained with {worst.trained_with}, served with {worst.evaluated_with} "
        f"({worst.backend} {worst.precision}): macro recall {points(recall)}, "
        f"{churn:.1f} % of predictions change{cause}."
    )


def _cause(worst: MatrixEntry, pixels: Sequence[PixelStage]) -> str:
    if worst.trained_with == worst.evaluated_with:
        return "; the pixels are the same, so the runtime is the cause"
    pair = {worst.trained_with, worst.evaluated_with}
    stages = [
        stage
        for stage in pixels
        if stage.mode == "isolated"
        and {stage.reference, stage.candidate} == pair
        and stage.stage != "normalise"
        and stage.mean_abs
    ]
    if not stages:
        return ""
    largest = max(stages, key=lambda stage: stage.mean_abs or 0.0)
    others = [stage for stage in stages if stage is not largest]
    text = f"; the largest difference is in {largest.stage} (mean {largest.mean_abs:.2f} grey levels"
    if others:
        text += ", " + ", ".join(f"{stage.stage} {stage.mean_abs:.2f}" for stage in others)
    return text + ")"
