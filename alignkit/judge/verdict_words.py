"""Rules and their outcomes in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from alignkit.experiment.rule_option import Rule
from alignkit.judge.observe_model import Observed
from alignkit.record import Estimate, RuleOutcome, VerdictState
from alignkit.record.verdict_facts import BASELINE
from alignkit.text.names import Names, place_in_words
from alignkit.text.numbers import (
    MINUS,
    estimated,
    grouped,
    plain,
    signed,
    significant,
)
from alignkit.text.task_words import digits, interval_in

SEVERITY: tuple[VerdictState, ...] = ("error", "fail", "inconclusive", "warn", "pass")
NOTHING_CHANGED = "nothing of it changed since it was approved"
NOT_LOOKED_AT = f"not looked at: {NOTHING_CHANGED}"
_JUDGED = ("data", "evaluate", "gate", "models", "preprocess", "train")
"""Keys of a file that decide what is judged, and by which rules."""


def limits(rule: Rule) -> str:
    """Word a rule: ``macro recall within ±1 pp``, ``decode: mean absolute difference, fail …``."""
    metric = rule.measured
    unit = "share" if rule.relative else metric.unit
    side = {"below": "below", "above": "above"}[metric.worse]
    words = []
    if rule.margin is not None:
        sign = {"both": "±", "drop": MINUS, "rise": "+"}[rule.direction]
        words.append(f"within {sign}{_amount(rule.margin, unit)}")
    for name, limit in (("warn", rule.warn), ("fail", rule.fail)):
        if limit is not None:
            one_way = "" if rule.direction == "both" else f"{rule.direction} "
            words.append(f"{name} {one_way}{side} {_amount(limit, unit)}")
    relative = " of its value" if rule.relative else ""
    against = ", against the baseline" if rule.against == BASELINE else ""
    mode = " (cumulative)" if rule.mode == "cumulative" else ""
    where = "".join(f", {kind} {value}" for kind, value in (rule.where or {}).items())
    return f"{metric.words}{mode}{where}: {', '.join(words)}{relative}{against}"


def in_words(
    rule: Rule,
    seen: Observed,
    state: VerdictState,
    *,
    settled: bool = False,
    flips: str = "flips",
    drawn: str = "images",
) -> str:
    """Word a value with its interval, or the reason why there is none.

    ``settled`` tells that a sample is known which decides it: the remark then says how large.
    ``flips`` is the task's word for answers that change, ``drawn`` that for the sample's parts.
    """
    if seen.different or seen.perfect or seen.unchanged:
        return seen.different or ("identical" if seen.perfect else NOT_LOOKED_AT)
    if seen.value is None:
        bound = "" if seen.at_least is None else _amount(seen.at_least, rule.measured.unit)
        reason = seen.reason or "not measured"
        return f"at least {bound}; {reason}" if bound else reason
    metric = rule.measured
    unit = "share" if rule.relative else metric.unit
    if not metric.signed:
        value = ", ".join(filter(None, (_value(seen.value, unit), seen.amount)))
    else:
        change = Estimate(seen.value, seen.low, seen.high, seen.reason)
        value = _changed(change, unit, relative=rule.relative)
        value += f": {seen.reason}" if seen.low is None and seen.reason else ""
    told = seen.reason and seen.low == seen.high == 0 and state != "inconclusive"
    return value if settled or told else value + _unseen(rule, seen, state, flips, drawn)


def beside_limit(rule: Rule, seen: Observed, state: VerdictState) -> tuple[str, float | None]:
    """Return a value beside the limit that decides, and the value as a multiple of that limit.

    ``churn 7.70 %, 2 % allowed``; an empty text without a value.
    """
    metric = rule.measured
    if seen.different:
        return f"{metric.words}: {seen.different}", None
    if seen.value is None or (limit := _deciding(rule, seen.value, state)) is None:
        return "", None
    unit = "share" if rule.relative else metric.unit
    value = in_words(rule, replace(seen, unseen=0.0), state)
    if metric.worse == "below":
        excess = limit / seen.value if seen.value > 0 else None
        return f"{metric.words} {value}, at least {_amount(limit, unit)} asked", excess
    sign = {"both": "±", "drop": MINUS, "rise": "+"}[rule.direction] if metric.signed else ""
    words = f"{metric.words} {value}, {sign}{_amount(limit, unit)} allowed"
    return words, badness(rule, seen.value) / limit if limit else None


def _deciding(rule: Rule, value: float, state: VerdictState) -> float | None:
    """Return the limit that a value crossed, else the one that it must not."""
    if state == "warn" and rule.warn is not None:
        return rule.warn
    crossed = rule.fail is not None and badness(rule, value) > rule.fail
    if rule.margin is None or crossed:
        return rule.warn if rule.fail is None else rule.fail
    return rule.margin


def badness(rule: Rule, value: float) -> float:
    """Return a value so that a larger one is worse, by the rule's direction."""
    if not rule.measured.signed:
        return value
    return {"both": abs(value), "drop": -value, "rise": value}[rule.direction]


def _unseen(rule: Rule, seen: Observed, state: VerdictState, flips: str, drawn: str) -> str:
    """Word the flips that so few images may not show; empty if they decide nothing."""
    # smaller than a tenth of the margin decides nothing, nor smaller than a limit
    decides = state == "inconclusive" and seen.unseen > (rule.fail or math.inf)
    if seen.unseen < (rule.margin or math.inf) / 10 and not decides:
        return ""
    size = f"{plain(100 * seen.unseen, 2)} {'%' if rule.relative else 'pp'}"
    # a rule that passed has counted them
    few = f"too few {drawn} to rule out ±{size} of {flips} not seen"
    return f"; {few}" if state == "inconclusive" else f"; {flips} not seen are less than ±{size}"


def settled_by(images: int | None, seeds: int | None, drawn: str = "images") -> str:
    """Say which sample would settle an inconclusive outcome; empty if none is known.

    ``drawn`` names the things that ``images`` counts.
    """
    if images is None and seeds is None:
        return ""
    if images is None:
        return f"needs about {seeds} seeds to decide; more {drawn} alone do not suffice"
    either = "" if seeds is None else f" or {seeds} seeds"
    return f"needs about {grouped(images)} {drawn}{either} to decide"


def worst_first(outcomes: Sequence[RuleOutcome]) -> list[RuleOutcome]:
    """Order outcomes by severity, then by how far they lie above their limits."""

    def badness(each: RuleOutcome) -> tuple[int, float]:
        return SEVERITY.index(each.state), -math.inf if each.excess is None else -each.excess

    return sorted(outcomes, key=badness)


def remark(outcome: RuleOutcome) -> str:
    """Return the cause, what would settle it and the waiver, as far as they are known."""
    waived = outcome.waived and f"waived {outcome.waived}"
    settled = settled_by(outcome.needed, outcome.needed_seeds, outcome.needed_of)
    return "; ".join(filter(None, (outcome.cause, settled, waived)))


def explained(outcome: RuleOutcome) -> str:
    """Return what was observed, the limit, and what is known of why."""
    return "; ".join(filter(None, (f"{outcome.observed} ({outcome.limit})", remark(outcome))))


def _changed(change: Estimate, unit: str, *, relative: bool) -> str:
    """Word a change with its interval, in points, in percent or in the unit of its metric."""
    if relative or unit == "points":
        return estimated(change, unit=" %" if relative else " pp")
    assert change.value is not None
    shown = f"{signed(change.value, digits(change))} {unit}".rstrip()
    return f"{shown} {interval_in(change, 'value', size=False)}".rstrip()


def _value(value: float, unit: str) -> str:
    """Word what was measured; a share as the matrix does, unless that hides a small one."""
    if unit != "share" or 0 < value < 0.001 or value in (0, 1):
        return _amount(value, unit)
    return f"{plain(100 * value, 2)} %"


def _amount(value: float, unit: str) -> str:
    """Word a limit with every digit that it has."""
    if unit == "share":
        return f"{significant(100 * value, 4)} %"
    if unit == "points":
        return f"{significant(100 * value, 4)} pp"
    return f"{significant(value, 4)} {unit}".rstrip()


def replaced(overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the ``--set`` arguments that change what is judged, or by which rules."""
    return tuple(each for each in overrides if re.split(r"[.=]", each, maxsplit=1)[0] in _JUDGED)


def first_undecided(outcomes: Sequence[RuleOutcome], names: Names) -> list[str]:
    """Return a line for the first inconclusive rule, with how many others there are, if any is."""
    undecided = [each for each in worst_first(outcomes) if each.state == "inconclusive"]
    if not undecided:
        return []
    first, *others = undecided
    are = "is" if len(others) == 1 else "are"
    more = f"; {len(others)} more {are} inconclusive" if others else ""
    place = place_in_words(first, names)
    return [f"inconclusive  {first.metric}: {place}: {explained(first)}{more}"]
