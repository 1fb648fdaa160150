"""Outcomes of rules in words: the rule, the value beside its limit, the reason and the remark.

A surface names the style it needs, and formats no number of an outcome itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from alignkit.record.stored import Estimate
from alignkit.record.verdict_facts import (
    UNCHECKED,
    RuleLimits,
    RuleOutcome,
    Statement,
    StatementKind,
    StatementValue,
)
from alignkit.text.numbers import (
    MINUS,
    NBSP,
    count,
    estimated,
    grouped,
    listed,
    percent,
    plain,
    signed,
)
from alignkit.text.numbers import significant as short
from alignkit.text.task_words import TaskWords, digits, interval_in

NOTHING_CHANGED = "nothing of it changed since it was approved"
Style: TypeAlias = Literal["rule", "value", "brief", "remark", "line"]
"""``rule``: its limits · ``value``: what was observed, or the reason why nothing was · ``brief``:
the value beside the limit that decides · ``remark``: the cause, what would settle it and the
waiver · ``line``: value, rule and remark."""

WORDS: Mapping[StatementKind, str] = {
    "shapes": "{images} images have another shape",
    "not finite": "{values} values are NaN or infinite",
    "no answer": "{images:images} without a value: NaN or infinite",
    "identical": "identical",
    "at least": "at least {value:4}",
    "amount": "mean {mean:3}, max {max:3} {unit}",
    "unseen": "changes not seen are less than ±{share:hundredths} {unit}",
    "too few": "too few {few} to rule out ±{share:hundredths} {unit} of changes not seen",
    "unchanged": f"not looked at: {NOTHING_CHANGED}",
    "left baseline": "`alignkit gate` reads the baseline",
    "left groups": "`alignkit gate` measures subgroups",
    "left taps": "`alignkit gate` judges rules about taps",
    "no approved line": "{images} without an approved line; add them: alignkit baseline record "
    "FILE",
    "dropped": "{paths} not in the file any more; their lines are kept",
    "repeated": "nothing was compared: {path} has the stages and options of {reference}; change "
    "one, or write 'same: true' in preprocess.{path} if that is meant",
    "cells": "{cells} of {of} cells {state}: {reason}",
    "no cell": "no cell besides the references could run",
    "no comparison": "{reason}",
    "undecoded": "{images} of {of} images not decoded by {by}, and so in no comparison: {names}",
    "by neither": "{images} of {of} images decoded by neither {by:nor}, and so in no comparison: "
    "{names}",
    "not by both": "{images} of {of} images not decoded by both {by:and}, and so in no comparison: "
    "{names}",
    "allows": "{{metric: coverage, fail: {share}}} allows as many",
    "calibration": "the scales of int8 come from {images} images, {evaluated} of which are "
    "evaluated, too, so that it looks better here than on new images; name others: 'calibration: "
    "{{root: DIR}}', which need no labels",
    "no candidate": "no candidate can run here, and all may be missing; nothing was compared",
    "no rule": "no rule looks at a stage in which the paths differ, so that nothing was compared",
    "no rule where": "no rule looks at a stage in which the paths differ, so that nothing was "
    "compared; {path} differs in {stages}",
    "differs": "{part}{stage}, which differs on {images} of {of} images",
    "differs by": "{part}{stage}, which differs on {images} of {of} images (mean {mean:3}, max "
    "{max:3} {unit})",
    "blind": "{stage}, which differs on {images} of {of} images (mean {mean:3}, max {max:3} "
    "{unit}), in a way that no limit of {rules:and} shows",
    "answers": "{part}the answers, of which {share:churn} change",
    "class": "the other classes, of which {name} changes by {share:part}",
    "classes": "the other classes, of which {name} changes by {share:part}, and {more} more change",
    "since approval": "{part}{stage}, which changed on {images} of {of} images since it was "
    "approved",
    "tap unknown": "no tap {tap:quoted} in {folder}: {known}",
    "tap empty": "tap {tap:quoted} was recorded for none of the {images} images",
    "tap refused": "{reason}",
    "tap values": "{value} on {images} images",
    "tap others": "{found} of {images} images",
    "tap no value": "{what} for {image}",
    "tap range": "{low} to {high} over {images} images",
    "tap outside": "{low} to {high} over {images} images; outside on {outside} (first {first})",
    "tap order": "{order}: {distance}",
    "tap part": "tap {tap:quoted} was recorded for {images} of {of} images",
    "change": "{change}",
    "earlier change": "it comes from {stage}, {change}",
    "one-sided": "{images} of {of} only {by} decodes: {names}",
    "gone": "{images} of {of} approved images are gone: {names}",
    "here first": "{images} images change here first: {cause}",
    "below floor": "the limit is less than retraining changes ({share:%})",
    "earlier stage": "all of it comes from an earlier stage",
}  # fmt: skip
"""Kind → its words, filled in with its values."""
_STANDING: Mapping[StatementKind, str] = {
    "no approved line": "every image must have an approved line",
    "dropped": "every approved path is looked at",
    "repeated": "a candidate is another path than the reference",
    "cells": "every cell ran",
    "no cell": "every cell ran",
    "no comparison": "every cell ran",
    "calibration": "no image that calibrates is evaluated",
    "no candidate": "something is compared with something else",
    "no rule": "something is compared with something else",
    "no rule where": "something is compared with something else",
    "left taps": "recorded stages",
    "tap part": "every image is recorded",
}
"""What a rule that no file writes found → the rule."""


_FORMS: Mapping[str, Callable[[float], str]] = {
    "": lambda value: str(value) if isinstance(value, int) else short(value, 6),
    "3": short,
    "4": lambda value: short(value, 4),
    "%": lambda value: f"{plain(100 * value, 1)} %",
    "limit": lambda value: f"{short(100 * value)} %",
    "hundredths": lambda value: plain(100 * value, 2),
    "churn": lambda value: percent(value, 2),
    "part": percent,
    "images": lambda value: count(int(value), "image"),
}
"""How a template writes a number: ``{share:%}``."""


class _Written:
    """A value of a statement in a template."""

    def __init__(self, value: StatementValue) -> None:
        self.value = value

    def __format__(self, form: str) -> str:
        if isinstance(self.value, tuple):
            names = [*map(str, self.value)]
            joined = " nor ".join(names) if form == "nor" else ", ".join(names)
            return listed(names) if form == "and" else joined
        if isinstance(self.value, str):
            return repr(self.value) if form == "quoted" else self.value
        return _FORMS[form](self.value)


def filled(words: str, found: Statement, **more: str) -> str:
    """Fill a template in with the values of a statement, and with ``more``."""
    return words.format_map(
        {name: _Written(value) for name, value in {**found.values, **more}.items()}
    )


def statement_words(found: Statement) -> str:
    """Say what was observed of an outcome, or what causes it."""
    return filled(WORDS[found.kind], found)


def said(outcome: RuleOutcome, style: Style) -> str:
    """Say an outcome, or a part of it; empty for a part that it has not."""
    if style == "rule":
        return _rule(outcome)
    if style == "value":
        return _observed(outcome)
    if style == "brief":
        return _brief(outcome)
    if style == "remark":
        return _remark(outcome)
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
    if outcome.rule == UNCHECKED:
        return "a rule looks at all that differs"
    first = outcome.observed[0]
    if "allowed" in first.values:
        return filled("images without pixels: warn above 0 %, fail above {allowed:limit}", first)
    if outcome.label:
        return f"tap {outcome.evaluated_with}: {outcome.label}"
    return _STANDING.get(first.kind, "recorded stages")


def _finding(each: Statement, limits: RuleLimits | None) -> str:
    # a bound has the unit of the limits beside it
    if each.kind == "at least" and limits:
        return f"at least {_amount(each.number('value'), limits.unit)}"
    return statement_words(each)


def _observed(outcome: RuleOutcome) -> str:
    """Word a value with its interval and what stands beside it, or why there is none."""
    told = [text for each in outcome.observed if (text := _finding(each, outcome.limits))]
    if outcome.rule == UNCHECKED:
        return f"no rule looks at {'; '.join(told)}"
    found = outcome.value
    if outcome.not_run and found:
        return f"not run: {found.reason}"
    instead = any(
        each.kind in ("shapes", "not finite", "no answer", "identical", "unchanged")
        for each in outcome.observed
    )
    if found is None or instead:
        return "; ".join(told)
    if found.value is None:
        return "; ".join([*told, found.reason or "not measured"])
    # an amount is a part of the value
    amount = any(each.kind == "amount" for each in outcome.observed)
    return (", " if amount else "; ").join([_value(outcome), *told])


def _brief(outcome: RuleOutcome) -> str:
    """Word a value beside the limit that decides, ``churn 7.70 %, 2 % allowed``."""
    limits = outcome.limits
    if not outcome.told or limits is None:
        return ""
    first = outcome.observed[0] if outcome.observed else None
    if first and first.kind in ("shapes", "not finite", "no answer"):
        return f"{outcome.label}: {statement_words(first)}"
    assert limits.decides is not None
    limit = _amount(limits.decides, limits.unit)
    value = _value(outcome)
    if first and first.kind == "amount":
        value += f", {statement_words(first)}"
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
    if images is None and seeds is None:
        return ""
    if images is None:
        return f"needs about {seeds} seeds to decide; more {drawn} alone do not suffice"
    either = "" if seeds is None else f" or {seeds} seeds"
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
    if unit == "share":
        return f"{short(100 * value, 4)} %"
    if unit == "points":
        return f"{short(100 * value, 4)} pp"
    return f"{short(value, 4)} {unit}".rstrip()
