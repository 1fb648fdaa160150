"""Observe what the rules of a gate name in the record of a run, and judge it: the `Verdict`.

A ``warn`` or ``fail`` limit is compared with the measured value; a ``margin`` with the whole 95 %
interval, so that too small a sample is *inconclusive* and never a pass. A missing measurement is an
*error*, with the exit code of its reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING

from alignkit.errors import ExitCode, worst
from alignkit.experiment.gate_option import Gate, Waiver
from alignkit.experiment.rule_option import Rule
from alignkit.judge.causes import causes
from alignkit.judge.headline import Headline, headline_of, replaced, sentence
from alignkit.judge.loose_limits import Faults, loose_limit
from alignkit.judge.observe import observe
from alignkit.judge.observe_model import Observed
from alignkit.judge.standing_rules import JudgedRule, standing_outcomes
from alignkit.judge.steps import next_steps
from alignkit.record import (
    Control,
    Estimate,
    Measurements,
    RuleOutcome,
    Verdict,
    VerdictState,
)
from alignkit.record.verdict_facts import (
    BASELINE,
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

_NOT_YET = Observed("", "any")
"""The outcome of rules about recorded stages in a run."""


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
    judged += _left(gate) if asserted is None else asserted
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
        cause=() if broken or not found else _causes(found, record),
        steps=next_steps(found, record, outcomes, broken=bool(broken), doubts=bool(doubts)),
        headline=next((i for i, e in enumerate(outcomes) if found and e is found.first), None),
        informational=gate.informational,
        exit_code=informational_exit_code(code) if gate.informational else int(code),
        rules=outcomes,
        overrides=replaced(record.overrides),
    )


def _causes(found: Headline, record: Measurements) -> tuple[Statement, ...]:
    return () if found.state == "error" else causes(found.entry, found.first, record)


def _left(gate: Gate) -> list[JudgedRule]:
    """Return what a run leaves to the gate: rules about recorded stages."""
    if gate.taps is None:
        return []
    outcome = RuleOutcome(
        metric="taps",
        trained_with="",
        evaluated_with="taps",
        backend="",
        precision="",
        state="inconclusive",
        observed=(stated("left taps"),),
        left_to_gate=True,
        rule="taps",
    )
    return [JudgedRule(outcome, ExitCode.PASS, compared=True)]


def _judged(
    rule: Rule, line: int, gate: Gate, record: Measurements, faults: Faults, today: date
) -> list[JudgedRule]:
    unread = left_to_gate(rule, record)  # a run cannot know, so its verdict stays open
    judged = []
    labels = record.task.labels
    groups = "groups of images" if labels == CLASSIFICATION.labels else labels
    for seen in [_NOT_YET] if unread else observe(rule, record):
        state, needed = ("inconclusive", None) if unread else _state(rule, seen)
        code = ExitCode.PASS if unread else _code(state, seen, gate)
        limits = _limits(rule, seen, state)
        drawn = groups if seen.grouped else "images"
        settled = needed is not None and (needed.images or needed.seeds) is not None
        unseen = () if settled else _unseen(rule, seen, state, drawn)
        not_run = seen.missing == ExitCode.MISSING and state == "error" and gate.allows(seen.reason)
        if not_run:
            state, code = "warn", ExitCode.PASS
        # a waiver accepts a result, so that it cannot excuse an error, which has none
        waiver = _waiver(gate, rule, seen, today) if state in ("fail", "inconclusive") else None
        if waiver:
            state, code = "warn", ExitCode.PASS
        outcome = RuleOutcome(
            metric=rule.metric or "",
            label=rule.measured.words,
            limits=limits,
            where=dict(rule.where or {}),
            trained_with=seen.trained_with,
            evaluated_with=seen.evaluated_with,
            backend=seen.backend,
            precision=seen.precision,
            state=state,
            value=None if unread else Estimate(seen.value, seen.low, seen.high, seen.reason),
            observed=(stated(unread),) if unread else (*_beside(seen), *unseen),
            excess=_excess(rule, seen, limits.decides),
            not_run=not_run,
            left_to_gate=bool(unread),
            rule=rule.id,
            cumulative=rule.measured.kind == "pixel" and rule.measured_mode == "cumulative",
            cause=seen.cause,
            needed=needed and Needed(needed.images, needed.seeds, drawn),
            waived=waiver and Waived(str(waiver.until), waiver.reason),
            loose=loose_limit(rule, faults) if state == "pass" else {},
            line=line,
        )
        # a coverage rule that the file does not name is no comparison that its author asked for
        implied = rule.metric == "coverage" and gate.rules is not None and rule not in gate.expanded
        measured = seen.value is not None or seen.different or seen.perfect or seen.unchanged
        judged.append(
            JudgedRule(outcome, code, bool(unread or (measured and not (seen.idle or implied))))
        )
    return judged


def left_to_gate(rule: Rule, record: Measurements) -> StatementKind | None:
    """Return what `alignkit run` leaves to the gate for a rule, if anything."""
    if rule.against == BASELINE and record.baseline is None:
        return "left baseline"
    return "left groups" if rule.where is not None and record.groups is None else None


def _limits(rule: Rule, seen: Observed, state: VerdictState) -> RuleLimits:
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
        decides=None if seen.value is None else _deciding(rule, seen.value, state),
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
    if limit is None or seen.value is None or seen.different:
        return None
    if rule.measured.worse == "below":
        return limit / seen.value if seen.value > 0 else None
    return badness(rule, seen.value) / limit if limit else None


def _beside(seen: Observed) -> Iterator[Statement]:
    """State what stands instead of a value, or beside it."""
    if seen.different:
        yield seen.different
    elif seen.perfect:
        yield stated("identical")
    elif seen.unchanged:
        yield stated("unchanged")
    elif seen.value is None and seen.at_least is not None:
        yield stated("at least", value=seen.at_least)
    elif seen.amount:
        yield seen.amount


def _unseen(rule: Rule, seen: Observed, state: VerdictState, drawn: str) -> Iterator[Statement]:
    """State the flips that so few images may not show, unless they decide nothing."""
    if seen.value is None or seen.different or seen.perfect or seen.unchanged:
        return
    undecided = state == "inconclusive"
    # an estimate without a width says itself what may be unseen
    told = seen.reason and seen.low == seen.high == 0 and not undecided
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
    if seen.different:
        return "fail", None
    if seen.perfect or seen.unchanged:
        return "pass", None
    metric = rule.measured
    if seen.value is None:
        certain = seen.at_least is not None and rule.fail is not None and seen.at_least > rule.fail
        return ("fail" if certain else "error"), None
    states: list[VerdictState] = ["pass"]
    needed = None
    bad = badness(rule, seen.value)
    bounds: dict[VerdictState, float | None] = {"warn": rule.warn, "fail": rule.fail}
    for state, limit in bounds.items():
        # low values of PSNR, SSIM and cosine are the bad ones
        if limit is not None and (bad < limit if metric.worse == "below" else bad > limit):
            states.append(state)
    # none among so few images proves little; a limit of 0 is about these images alone
    if rule.fail and seen.unseen > rule.fail and states == ["pass"]:
        return "inconclusive", _enough_for(rule.fail, seen)
    if rule.margin is not None:
        inside, needed = _within(rule, rule.margin, seen)
        states.append(inside)
    return _worst(states), needed


def _enough_for(limit: float, seen: Observed) -> RequiredSample:
    """Compute how many images, or groups, of this kind almost surely show as large a change."""
    from alignkit.compare.statistics import RequiredSample

    return RequiredSample(math.ceil(seen.n * seen.unseen / limit), None)


def _within(
    rule: Rule, margin: float, seen: Observed
) -> tuple[VerdictState, RequiredSample | None]:
    """Test whether the margin includes the 95 % interval: two one-sided tests for both directions.

    To pass, it must also include the flips that so few images may have failed to show.
    """
    assert seen.value is not None
    if seen.low is None or seen.high is None:
        return "inconclusive", _enough_for(margin, seen) if seen.unseen else None
    # zero flips among few images prove little
    low, high = seen.low - seen.unseen, seen.high + seen.unseen
    low_holds = rule.direction == "rise" or low >= -margin
    high_holds = rule.direction == "drop" or high <= margin
    if low_holds and high_holds:
        return "pass", None
    if seen.low > margin or seen.high < -margin:  # without the unseen: a failure must be certain
        return "fail", None
    return "inconclusive", _required_sample(seen, abs(margin - badness(rule, seen.value)))


def _required_sample(seen: Observed, gap: float) -> RequiredSample:
    """Compute how many images, or groups, or seeds would move the interval off the margin.

    Returns ``None`` for both if the value equals the margin. If the errors of images and seeds are
    not known apart, the interval is assumed to shrink as 1/√n.
    """
    from alignkit.compare.statistics import NORMAL, RequiredSample, required_sample

    assert seen.low is not None
    assert seen.high is not None
    if gap < 1e-9 or not seen.n:  # no number of images separates equal values
        return RequiredSample(None, None)
    whole = (seen.high - seen.low) / 2 / NORMAL
    return required_sample(
        gap,
        images_error=whole if seen.images_error is None else seen.images_error,
        seeds_error=seen.seeds_error,
        images=seen.n,
        seeds=seen.seeds,
        unseen=seen.unseen,
    )


def _code(state: VerdictState, seen: Observed, gate: Gate) -> ExitCode:
    if state == "error":
        return seen.missing
    if state == "fail":
        return ExitCode.DRIFT
    return _inconclusive(gate) if state == "inconclusive" else ExitCode.PASS


def _inconclusive(gate: Gate) -> ExitCode:
    return ExitCode.INCONCLUSIVE if gate.on_inconclusive == "fail" else ExitCode.PASS


def _waiver(gate: Gate, rule: Rule, seen: Observed, today: date) -> Waiver | None:
    for waiver in gate.waive:
        named = waiver.rule in (rule.id, rule.metric)
        if named and waiver.path in (None, seen.evaluated_with) and today <= waiver.until:
            return waiver
    return None


def _worst(states: Iterable[VerdictState]) -> VerdictState:
    return min(states, key=SEVERITY.index, default="error")


def informational_exit_code(code: int) -> int:
    """Return 0 for drift and inconclusive outcomes, where they may not fail a run.

    Any other code stays: it means that nothing was decided.
    """
    return 0 if code in (ExitCode.DRIFT, ExitCode.INCONCLUSIVE) else code
