"""Observe what the rules of a gate name in the record of a run, and judge it: the `Verdict`.

A ``warn`` or ``fail`` limit is compared with the measured value; a ``margin`` with the whole 95 %
interval, so that too small a sample is *inconclusive* and never a pass. A missing measurement is an
*error*, with the exit code of its reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

from alignkit.errors import ExitCode, worst
from alignkit.experiment.gate_option import Gate, Waiver
from alignkit.experiment.rule_option import Rule
from alignkit.judge.causes import causes
from alignkit.judge.headline import headline_of, replaced, sentence
from alignkit.judge.observe import Observed, observe, of_paths
from alignkit.judge.standing_rules import JudgedRule, standing_outcomes
from alignkit.judge.steps import next_steps
from alignkit.record import (
    Control,
    Measurements,
    RuleOutcome,
    Verdict,
    VerdictState,
)
from alignkit.record.verdict_facts import (
    BASELINE,
    DECISIVE,
    SEVERITY,
    Needed,
    RuleLimits,
    Statement,
    StatementKind,
    Waived,
    stated,
)
from alignkit.task_facts import CLASSIFICATION

if TYPE_CHECKING:
    from alignkit.compare.statistics import RequiredSample

Faults: TypeAlias = Mapping[str, Mapping[str, float]]
"""Control → its `alignkit.record.Control.differences`."""
BLANK = "planted fault: with one even colour"
UNSCALED = "planted fault: with values of 0 to 1"
"""As a tensor that is not normalised. A limit must fail these two by themselves: the others change
no grey or symmetric image."""


def judge(
    gate: Gate,
    record: Measurements,
    *,
    controls: Sequence[Control],
    lines: Sequence[int] = (),
    today: date | None = None,
    asserted: Sequence[JudgedRule] | None = None,
) -> Verdict:
    """Apply every rule wherever it applies, and sum the outcomes up in three lines.

    ``asserted`` are the outcomes of the rules about recorded stages, which a gate
    judges itself; a run leaves them to it.

    ``lines`` are those of the rules in the file, from 1. ``today`` decides which waivers hold.
    """
    record = record.own_part
    faults = {each.name: each.differences for each in controls if each.differences}
    judged = [
        each
        for rule, line in gate.placed(
            lines,
            with_model=bool(record.matrix),
            labelled=record.labelled,
            task=record.task,
        )
        for each in _judged(rule, line, gate, record, faults, today or date.today())  # noqa: DTZ011 - a waiver ends at the reader's midnight
    ]
    if asserted is None and gate.taps is not None:
        judged.append(_left("left taps", "taps", metric="taps", rule="taps"))
    judged += asserted or ()
    judged += standing_outcomes(gate, record, judged)
    state = _worst(each.outcome.state for each in judged)
    # the measurement itself is wrong, whatever the rules say
    broken = [each for each in controls if each.passed is False and each.failing == "error"]
    doubts = [each for each in controls if each.passed is False and each.failing == "inconclusive"]
    codes = [each.code for each in judged] + [ExitCode.CRASHED] * bool(broken)
    if doubts:
        state = _worst([state, "inconclusive"])
        # a change that was found stands, whatever else is in doubt
        codes += [ExitCode.CRASHED] * (state == "inconclusive")
    code = worst(codes)
    outcomes = tuple(each.outcome for each in judged)
    found = headline_of(outcomes, record)
    return Verdict(
        state="error" if broken else state,
        sentence=tuple(sentence(found, outcomes, broken, doubts, record)),
        cause=()
        if broken or not found or found.state == "error"
        else causes(found.entry, found.first, record),
        steps=next_steps(found, record, outcomes, broken=bool(broken), doubts=bool(doubts)),
        headline=next((i for i, e in enumerate(outcomes) if found and e is found.first), None),
        informational=gate.informational,
        exit_code=informational_exit_code(code) if gate.informational else int(code),
        rules=outcomes,
        overrides=replaced(record.overrides),
    )


def _left(kind: StatementKind, path: str, **fields: Any) -> JudgedRule:
    """Leave a rule to the gate: a run cannot know, so its verdict stays open."""
    outcome = RuleOutcome(
        **of_paths("", path).fields, **fields, state="inconclusive", observed=(stated(kind),),
        left_to_gate=True,
    )  # fmt: skip
    return JudgedRule(outcome, ExitCode.PASS, compared=True)


def _judged(
    rule: Rule, line: int, gate: Gate, record: Measurements, faults: Faults, today: date
) -> list[JudgedRule]:
    # a coverage rule that the file does not name is no comparison that its author asked for
    implied = rule.metric == "coverage" and gate.rules is not None and rule not in gate.expanded
    common: dict[str, Any] = {
        "metric": rule.metric or "",
        "label": rule.measured.words,
        "where": dict(rule.where or {}),
        "rule": rule.id,
        "cumulative": rule.measured.kind == "pixel" and rule.measured_mode == "cumulative",
        "line": line,
    }
    if left := left_to_gate(rule, record):
        return [_left(left, "any", limits=_limits(rule, None), **common)]
    labels = record.task.labels
    groups = "groups of images" if labels == CLASSIFICATION.labels else labels
    judged = []
    for seen in observe(rule, record):
        state, needed = _state(rule, seen)
        code = _code(state, seen, gate)
        decides = None if seen.found.value is None else _deciding(rule, seen.found.value, state)
        settled = needed is not None and (needed.images or needed.seeds) is not None
        drawn = groups if seen.grouped else "images"
        unseen = () if settled else _unseen(rule, seen, state, drawn)
        reason = seen.found.reason
        not_run = seen.missing == ExitCode.MISSING and state == "error" and gate.allows(reason)
        # a waiver accepts a result, so that it cannot excuse an error, which has none
        waiver = _waiver(gate, rule, seen, today) if state in ("fail", "inconclusive") else None
        if not_run or waiver:
            state, code = "warn", ExitCode.PASS
        outcome = RuleOutcome(
            **seen.place.fields,
            **common,
            limits=_limits(rule, decides),
            state=state,
            value=seen.found,
            observed=(*filter(None, [seen.beside]), *unseen),
            excess=_excess(rule, seen, decides),
            not_run=not_run,
            cause=seen.cause,
            needed=needed and Needed(needed.images, needed.seeds, drawn),
            waived=waiver and Waived(str(waiver.until), waiver.reason),
            loose=_loose(rule, faults) if state == "pass" else {},
        )
        measured = seen.found.value is not None or outcome.instead is not None
        judged.append(JudgedRule(outcome, code, measured and not (seen.idle or implied)))
    return judged


def _loose(rule: Rule, faults: Faults) -> dict[str, float]:
    """Return the planted faults that a rule on pixels passes, if they are all or one of those two.

    The faults are at the end of a path; in grey levels a stage before may bear no more than that.
    """
    metric, limit = rule.measured, rule.warn if rule.fail is None else rule.fail
    if metric.kind != "pixel" or limit is None:
        return {}
    last = "normalise" if metric.stage == "normalise" else "colour"
    values = {name: each.get(f"{last}.{metric.field}") for name, each in faults.items()}
    known = {name: value for name, value in values.items() if value is not None}
    below = metric.worse == "below"
    kept = [name for name, value in known.items() if (limit <= value if below else limit >= value)]
    if not kept or (len(kept) < len(known) and not {BLANK, UNSCALED} & {*kept}):
        return {}
    return {name: known[name] for name in kept}


def left_to_gate(rule: Rule, record: Measurements) -> StatementKind | None:
    """Return what `alignkit run` leaves to the gate for a rule, if anything."""
    if rule.against == BASELINE and record.baseline is None:
        return "left baseline"
    return "left groups" if rule.where is not None and record.groups is None else None


def _limits(rule: Rule, decides: float | None) -> RuleLimits:
    metric = rule.measured
    return RuleLimits(
        unit="share" if rule.relative else metric.unit,
        worse=metric.worse,
        warn=rule.warn,
        fail=rule.fail,
        margin=rule.margin,
        direction=rule.direction,
        signed=metric.signed,
        relative=rule.relative,
        since_approval=rule.against == BASELINE,
        decides=decides,
    )


def _deciding(rule: Rule, value: float, state: VerdictState) -> float | None:
    """Return the limit that a value crossed, else the one that it must not."""
    if state == "warn" and rule.warn is not None:
        return rule.warn
    crossed = rule.fail is not None and badness(rule, value) > rule.fail
    if rule.margin is None or crossed:
        return rule.warn if rule.fail is None else rule.fail
    return rule.margin


def _excess(rule: Rule, seen: Observed, limit: float | None) -> float | None:
    """Return the value as a multiple of the limit that decides."""
    value = seen.found.value
    if limit is None or value is None or _decided(seen):
        return None
    if rule.measured.worse == "below":
        return limit / value if value > 0 else None
    return badness(rule, value) / limit if limit else None


def _decided(seen: Observed) -> VerdictState | None:
    return DECISIVE.get(seen.beside.kind) if seen.beside else None


def _unseen(rule: Rule, seen: Observed, state: VerdictState, drawn: str) -> Iterator[Statement]:
    """State the flips that so few images may not show, unless they decide nothing."""
    found, undecided = seen.found, state == "inconclusive"
    if found.value is None or _decided(seen):
        return
    # an estimate without a width says itself what may be unseen
    told = found.reason and found.low == found.high == 0 and not undecided
    # smaller than a tenth of the margin decides nothing, nor smaller than a limit
    decides = undecided and seen.unseen > (rule.fail or math.inf)
    if not told and (seen.unseen >= (rule.margin or math.inf) / 10 or decides):
        unit = "%" if rule.relative else "pp"
        kind: StatementKind = "too few" if undecided else "unseen"
        yield stated(kind, share=seen.unseen, unit=unit, few=drawn)


def badness(rule: Rule, value: float) -> float:
    """Return a value so that a larger one is worse, by the rule's direction."""
    if not rule.measured.signed:
        return value
    return {"both": abs(value), "drop": -value, "rise": value}[rule.direction]


def _state(rule: Rule, seen: Observed) -> tuple[VerdictState, RequiredSample | None]:
    """Return the outcome and, if it is inconclusive, how many images or seeds would settle it."""
    if known := _decided(seen):
        return known, None
    value = seen.found.value
    if value is None:
        # a bound beyond the limit is enough
        least = seen.beside.number("value") if seen.beside else -math.inf
        return ("fail" if rule.fail is not None and least > rule.fail else "error"), None
    states: list[VerdictState] = ["pass"]
    needed = None
    bad, below = badness(rule, value), rule.measured.worse == "below"
    bounds: dict[VerdictState, float | None] = {"warn": rule.warn, "fail": rule.fail}
    for state, limit in bounds.items():
        # low values of PSNR, SSIM and cosine are the bad ones
        if limit is not None and (bad < limit if below else bad > limit):
            states.append(state)
    # none among so few images proves little; a limit of 0 is about these images alone
    if rule.fail and seen.unseen > rule.fail and states == ["pass"]:
        return "inconclusive", _enough_for(rule.fail, seen)
    if rule.margin is not None:
        inside, needed = _within(rule, rule.margin, seen, value)
        states.append(inside)
    return _worst(states), needed


def _enough_for(limit: float, seen: Observed) -> RequiredSample:
    """Compute how many images, or groups, of this kind almost surely show as large a change."""
    from alignkit.compare.statistics import RequiredSample

    return RequiredSample(math.ceil(seen.n * seen.unseen / limit), None)


def _within(
    rule: Rule, margin: float, seen: Observed, value: float
) -> tuple[VerdictState, RequiredSample | None]:
    """Test whether the margin includes the 95 % interval: two one-sided tests for both directions.

    To pass, it must also include the flips that so few images may have failed to show.
    """
    low, high = seen.found.low, seen.found.high
    if low is None or high is None:
        return "inconclusive", _enough_for(margin, seen) if seen.unseen else None
    # zero flips among few images prove little
    low_holds = rule.direction == "rise" or low - seen.unseen >= -margin
    high_holds = rule.direction == "drop" or high + seen.unseen <= margin
    if low_holds and high_holds:
        return "pass", None
    if low > margin or high < -margin:  # without the unseen: a failure must be certain
        return "fail", None
    return "inconclusive", _required_sample(seen, high - low, abs(margin - badness(rule, value)))


def _required_sample(seen: Observed, width: float, gap: float) -> RequiredSample:
    """Compute how many images, or groups, or seeds would move the interval off the margin.

    Returns ``None`` for both if the value equals the margin. If the errors of images and seeds are
    not known apart, the interval of this ``width`` is assumed to shrink as 1/√n.
    """
    from alignkit.compare.statistics import NORMAL, RequiredSample, required_sample

    if gap < 1e-9 or not seen.n:  # no number of images separates equal values
        return RequiredSample(None, None)
    whole = width / 2 / NORMAL
    return required_sample(
        gap,
        images_error=whole if seen.images_error is None else seen.images_error,
        seeds_error=seen.seeds_error,
        images=seen.n,
        seeds=seen.seeds,
        unseen=seen.unseen,
    )


def _code(state: VerdictState, seen: Observed, gate: Gate) -> ExitCode:
    if state == "inconclusive" and gate.on_inconclusive == "fail":
        return ExitCode.INCONCLUSIVE
    return {"error": seen.missing, "fail": ExitCode.DRIFT}.get(state, ExitCode.PASS)


def _waiver(gate: Gate, rule: Rule, seen: Observed, today: date) -> Waiver | None:
    for waiver in gate.waive:
        named = waiver.rule in (rule.id, rule.metric)
        if named and waiver.path in (None, seen.place.column.preprocess) and today <= waiver.until:
            return waiver
    return None


def _worst(states: Iterable[VerdictState]) -> VerdictState:
    return min(states, key=SEVERITY.index, default="error")


def informational_exit_code(code: int) -> int:
    """Return 0 for drift and inconclusive outcomes, where they may not fail a run.

    Any other code stays: it means that nothing was decided.
    """
    return 0 if code in (ExitCode.DRIFT, ExitCode.INCONCLUSIVE) else code
