"""Why a cell of the matrix does not pass a rule, in the few words that a cell has room for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from alignkit.judge.verdict_words import remark, worst_first
from alignkit.record import Drift, Estimate, RuleOutcome, VerdictState
from alignkit.text.numbers import NBSP
from alignkit.text.task_words import CHURN, TaskWords

SIGNS: dict[VerdictState, str] = {"error": "!", "fail": "✕", "inconclusive": "?", "warn": "!"}
"""Sign of each state of a rule that did not pass, beside words or in a square."""
_MARGIN = re.compile(r"within (?P<limit>[^,]+)")
_LIMIT = re.compile(r"(?P<state>fail|warn) (?:\w+ )?(?P<side>above|below) (?P<limit>[^,]+)")


@dataclass(frozen=True, slots=True)
class CellReason:
    """A rule that a cell does not pass."""

    state: VerdictState
    sign: str
    text: str
    """``churn 6.57 % > 2 %``."""
    title: str
    """The cause, what would settle it, and the waiver, as far as they are known."""


def reasons(
    outcomes: Iterable[RuleOutcome], drift: Drift | None, words: TaskWords
) -> tuple[CellReason, ...]:
    """Return the outcomes at one place that are no pass, the worst first."""
    return tuple(
        CellReason(each.state, SIGNS[each.state], _text(each, drift, words), remark(each))
        for each in worst_first([*outcomes])
        if each.state != "pass"
    )


def _text(outcome: RuleOutcome, drift: Drift | None, words: TaskWords) -> str:
    metric = words.in_cell(outcome.metric)
    if outcome.state == "error" or outcome.not_run:
        return f"{metric} not measured"
    change = _change(outcome.metric, drift)
    waived = ", waived" if outcome.waived else ""
    limits = {found["state"]: found for found in _LIMIT.finditer(outcome.limit)}
    margin = _MARGIN.search(outcome.limit)
    if outcome.state == "inconclusive":
        return (
            f"{metric}: too few images for {_unbroken(margin)}"
            if margin
            else f"{metric}: undecided"
        )
    if margin and not limits:
        good = words.goodness(outcome.metric, (change.value if change else None) or 0.0)
        better = good > 0
        return f"{metric} {'better, but ' if better else ''}outside {_unbroken(margin)}{waived}"
    if not margin and (limit := limits.get(outcome.state) or limits.get("fail")):
        side = ">" if limit["side"] == "above" else "<"
        value = _value(outcome, change, limit["limit"], words).replace(" ", NBSP)
        return f"{metric} {value} {side}{NBSP}{_unbroken(limit)}{waived}"
    return f"{metric}: {outcome.limit.rpartition(': ')[2]}{waived}"


def _unbroken(found: re.Match[str]) -> str:
    """Keep a limit and its unit on one line."""
    return found["limit"].replace(" ", NBSP)


def _change(metric: str, drift: Drift | None) -> Estimate | None:
    if drift is None:
        return None
    if metric == CHURN:
        return drift.churn
    return drift.metrics.get(metric) or drift.measures.get(metric)


def _value(outcome: RuleOutcome, change: Estimate | None, limit: str, words: TaskWords) -> str:
    """Write the value as the cell does, unless that would hide that it is past the limit."""
    observed = re.split(r" \[|, |; ", outcome.observed)[0]
    if change is None or change.value is None:
        return observed
    metric = outcome.metric
    if words.is_size(metric):
        shown = words.value(metric, change.value)
    else:
        shown = words.change(metric, change.value, change) + words.change_unit(metric)
    digits = [re.sub(r"[^\d.]", "", each) for each in (shown, limit)]
    return observed if float(digits[0]) == float(digits[1]) else shown
