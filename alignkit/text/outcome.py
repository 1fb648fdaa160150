"""Outcomes of rules in words: the rule, the value beside its limit, the reason and the remark.

A surface names the style it needs, and formats no number of an outcome itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from alignkit.record.stored import Estimate
from alignkit.record.verdict_facts import UNCHECKED, RuleLimits, RuleOutcome
from alignkit.text.numbers import MINUS, NBSP, estimated, grouped, plain, signed
from alignkit.text.numbers import significant as short
from alignkit.text.statements import statement_words
from alignkit.text.task_words import TaskWords, digits, interval_in

Style: TypeAlias = Literal["rule", "value", "brief", "remark", "line"]
"""``rule``: its limits · ``value``: what was observed, or the reason why nothing was · ``brief``:
the value beside the limit that decides · ``remark``: the cause, what would settle it and the
waiver · ``line``: value, rule and remark."""

_STANDING: Mapping[str, str] = {
    "images": "every image must have an approved line",
    "paths": "every approved path is looked at",
    "cells": "every cell ran",
    "comparison": "something is compared with something else",
    "calibration": "no image that calibrates is evaluated",
    "recorded": "every image is recorded",
    UNCHECKED: "a rule looks at all that differs",
}
"""Metric of a rule that no file writes → the rule."""


def said(outcome: RuleOutcome, style: Style) -> str:
    """Say an outcome, or a part of it; empty for a part that it has not."""
    if style != "line":
        parts = {"rule": _rule, "value": _observed, "brief": _brief, "remark": _remark}
        return parts[style](outcome)
    rest = _remark(outcome)
    return f"{_observed(outcome)} ({_rule(outcome)})" + (f"; {rest}" if rest else "")


def cell_words(outcome: RuleOutcome, words: TaskWords) -> str:
    """Say a rule that a cell does not pass in the few words that it has room for."""
    metric, limits = words.in_cell(outcome.metric), outcome.limits
    if outcome.state == "error" or outcome.not_run:
        return f"{metric} not measured"
    if limits is None:
        return f"{metric}: {_rule(outcome)}"
    waived = ", waived" if outcome.waived else ""
    if outcome.state == "inconclusive":
        few = "undecided" if limits.margin is None else f"too few images for {_past(limits)}"
        return f"{metric}: {few}"
    if limits.decides is None or not outcome.told:
        return f"{metric}: {_observed(outcome)}{waived}"
    value = outcome.value.value if outcome.value else None
    if limits.signed and (limits.margin is not None or limits.direction == "both"):
        better = "better, but " * (words.goodness(outcome.metric, value or 0.0) > 0)
        return f"{metric} {better}outside {_past(limits)}{waived}"
    side = "<" if limits.worse == "below" or limits.direction == "drop" else ">"
    shown = _value(outcome, interval=False).replace(" ", NBSP)
    return f"{metric} {shown} {side}{NBSP}{_past(limits)}{waived}"


def _past(limits: RuleLimits) -> str:
    """Word the limit that decides, with its sign, on one line."""
    limit = limits.margin if limits.decides is None else limits.decides
    assert limit is not None
    sign = _sign(limits) if limits.signed or limits.margin is not None else ""
    more = " of its value" * limits.relative
    return f"{sign}{_amount(limit, limits.unit)}{more}".replace(" ", NBSP)


def _rule(outcome: RuleOutcome) -> str:
    """Word a rule: ``macro recall: within ±1 pp``, ``decode mean absolute difference: fail …``."""
    limits = outcome.limits
    if limits is None:
        return _standing(outcome)
    words = []
    if limits.margin is not None:
        words.append(f"within {_sign(limits)}{_amount(limits.margin, limits.unit)}")
    one_way = "" if limits.direction == "both" else f"{limits.direction} "
    for name, limit in (("warn", limits.warn), ("fail", limits.fail)):
        if limit is not None:
            words.append(f"{name} {one_way}{limits.worse} {_amount(limit, limits.unit)}")
    relative = " of its value" if limits.relative else ""
    against = ", against the baseline" if limits.since_approval else ""
    mode = " (cumulative)" if outcome.cumulative and not against else ""
    where = "".join(f", {kind} {value}" for kind, value in outcome.where.items())
    return f"{outcome.label}{mode}{where}: {', '.join(words)}{relative}{against}"


def _standing(outcome: RuleOutcome) -> str:
    allowed = next((e.number("allowed") for e in outcome.observed if "allowed" in e.values), None)
    if allowed is not None:
        return f"images without pixels: warn above 0 %, fail above {_amount(allowed, 'share')}"
    if outcome.label:
        return f"tap {outcome.evaluated_with}: {outcome.label}"
    return _STANDING.get(outcome.metric, "recorded stages")


def _observed(outcome: RuleOutcome) -> str:
    """Word a value with its interval and what stands beside it, or why there is none."""
    found, limits, kinds = outcome.value, outcome.limits, [e.kind for e in outcome.observed]
    parts = [
        # a bound has the unit of the limits beside it
        f"at least {_amount(each.number('value'), limits.unit)}"
        if each.kind == "at least" and limits
        else statement_words(each)
        for each in outcome.observed
    ]
    if outcome.rule == UNCHECKED:
        return f"no rule looks at {'; '.join(parts)}"
    if outcome.not_run and found:
        return f"not run: {found.reason}"
    if found is None or outcome.instead:
        return "; ".join(parts)
    if found.value is None:
        return "; ".join([*parts, found.reason or "not measured"])
    # an amount is a part of the value
    return (", " if "amount" in kinds else "; ").join([_value(outcome), *parts])


def _brief(outcome: RuleOutcome) -> str:
    """Word a value beside the limit that decides, ``churn 7.70 %, 2 % allowed``."""
    limits, instead = outcome.limits, outcome.instead
    if not outcome.told or limits is None:
        return f"{outcome.metric}: {_observed(outcome)}"
    if instead:
        return f"{outcome.label}: {statement_words(instead)}"
    assert limits.decides is not None
    limit = _amount(limits.decides, limits.unit)
    amounts = [statement_words(each) for each in outcome.observed if each.kind == "amount"]
    value = ", ".join([_value(outcome), *amounts])
    if limits.worse == "below":
        return f"{outcome.label} {value}, at least {limit} asked"
    return f"{outcome.label} {value}, {_sign(limits) if limits.signed else ''}{limit} allowed"


def _remark(outcome: RuleOutcome) -> str:
    """Word the cause, what would settle it and the waiver, as far as they are known."""
    needed, waiver = outcome.needed, outcome.waived
    parts = [*map(statement_words, outcome.cause)]
    if needed:
        parts.append(settled_by(needed.images, needed.seeds, needed.of))
    if waiver:
        parts.append(f"waived until {waiver.until}: {waiver.reason}")
    return "; ".join(filter(None, parts))


def settled_by(images: int | None, seeds: int | None, drawn: str = "images") -> str:
    """Say which sample would settle an inconclusive outcome; empty if none is known.

    ``drawn`` names the things that ``images`` counts.
    """
    if not images:
        alone = f"needs about {seeds} seeds to decide; more {drawn} alone do not suffice"
        return alone if seeds else ""
    either = f" or {seeds} seeds" if seeds else ""
    return f"needs about {grouped(images)} {drawn}{either} to decide"


def _value(outcome: RuleOutcome, *, interval: bool = True) -> str:
    """Word what was measured: a change with its sign and interval, or a size."""
    found, limits = outcome.value, outcome.limits
    assert found is not None
    assert found.value is not None
    assert limits is not None
    if not limits.signed:
        size, limit = _size(found.value, limits.unit), limits.decides
        # a value that reads like the limit that it crosses needs more digits
        alike = limit is not None and limit != found.value and size == _size(limit, limits.unit)
        return _amount(found.value, limits.unit) if alike else size
    whole = found if interval else Estimate(found.value, None, None)  # a value of its own
    if limits.relative or limits.unit == "points":
        words = estimated(whole, unit=" %" if limits.relative else " pp")
    else:
        words = f"{signed(found.value, digits(found))} {limits.unit}".rstrip()
        words += f" {interval_in(found, 'value', size=False)}" if interval else ""
    reason = f": {found.reason}" if interval and found.low is None and found.reason else ""
    return words.rstrip() + reason


def _size(value: float, unit: str) -> str:
    """Word what was measured; a share as the matrix does, unless that hides a small one."""
    if unit != "share" or 0 < value < 0.001 or value in (0, 1):
        return _amount(value, unit)
    return f"{plain(100 * value, 2)} %"


def _sign(limits: RuleLimits) -> str:
    return {"both": "±", "drop": MINUS, "rise": "+"}[limits.direction]


def _amount(value: float, unit: str) -> str:
    """Word a limit with every digit that it has."""
    shown = {"share": "%", "points": "pp"}.get(unit)
    return f"{short(100 * value, 4)} {shown}" if shown else f"{short(value, 4)} {unit}".rstrip()
