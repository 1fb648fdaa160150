"""Columns of the drift matrix that need not all be shown: runtimes of one path that agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from alignkit.place import Column, Place
from alignkit.record import Drift, Estimate, MatrixEntry, RuleOutcome
from alignkit.text.outcome import said
from alignkit.text.task_words import CHURN, TaskWords

AGREE = 0.001
"""Most by which a runtime differs from the one shown for it: the first edge of the colours. Of a
metric that is no share, a part of its value."""
_Judged: TypeAlias = dict[tuple[str, str], tuple[str, bool]]
"""Metric and limit of a rule → its state, and whether it is waived."""
_NO_CHANGE = Estimate(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Runtimes of a path that one column shows."""

    shown: Column
    folded: tuple[Column, ...]
    spread: dict[str, float]
    """Metric → the greatest difference from the shown column, over rows and folded columns."""


# Columns are folded and never cells, so that a reader never asks which rows a column speaks for.
# All are in the page's table: CSS hides some, and a copied table has them all.
def agreements(
    matrix: Sequence[MatrixEntry], rules: Sequence[RuleOutcome], words: TaskWords, *, labelled: bool
) -> dict[Column, Agreement]:
    """Return, by the shown column, the runtimes of each path that agree with it in every row.

    They were all measured, are within `AGREE` in every metric, are as clear of zero, and pass or
    fail the same rules, or are waived alike. A runtime that differs, did not run, was simulated,
    has a remark or holds the reference of a row is never among the folded ones.
    """
    metrics = words.task.matrices if labelled else (CHURN,)
    rows = dict.fromkeys(entry.row for entry in matrix)
    entries = {entry.place: entry for entry in matrix}
    columns = {
        column: [entries.get(Place(row, column)) for row in rows]
        for column in dict.fromkeys(entry.column for entry in matrix)
    }
    judged: dict[Place, _Judged] = {}
    for rule in rules:
        judged.setdefault(rule.place, {})[rule.metric, said(rule, "rule")] = (
            rule.state,
            bool(rule.waived),
        )
    found = {}
    for _, path in groupby(columns, lambda column: column.preprocess):
        whole = {each: known for each in path if (known := _whole(columns[each]))}
        # the reference of a row is shown in any case
        ordered = sorted(whole, key=lambda each: not _has_reference(whole[each]))
        spread, folded = dict.fromkeys(metrics, 0.0), []
        for column in ordered[1:]:
            apart = {
                metric: _apart(whole[ordered[0]], whole[column], metric, judged, words)
                for metric in metrics
            }
            sizes = {metric: size for metric, size in apart.items() if size is not None}
            if len(sizes) == len(metrics) and not _has_reference(whole[column]):
                folded.append(column)
                spread = {metric: max(spread[metric], size) for metric, size in sizes.items()}
        if folded:
            found[ordered[0]] = Agreement(ordered[0], tuple(folded), spread)
    return found


def _whole(entries: Sequence[MatrixEntry | None]) -> list[MatrixEntry]:
    """Return the entries of a column if each row was measured, without a remark; else none."""
    clean = [
        each
        for each in entries
        if each and each.state == "measured" and not (each.warning or each.non_finite)
    ]
    return clean if len(clean) == len(entries) else []


def _has_reference(entries: Sequence[MatrixEntry]) -> bool:
    return any(each.drift is None for each in entries)


def _apart(
    shown: Sequence[MatrixEntry],
    others: Sequence[MatrixEntry],
    metric: str,
    judged: Mapping[Place, _Judged],
    words: TaskWords,
) -> float | None:
    """Return how far two columns are apart in a metric; ``None`` if they do not agree."""
    greatest = 0.0
    for own, other in zip(shown, others, strict=True):
        rules = judged.get(other.place, {})
        # no rule applies to a reference
        same = set(rules.values()) <= {("pass", False)}
        if not (same if own.drift is None else judged.get(own.place, {}) == rules):
            return None
        # one changed prediction makes churn clear of zero
        size = _difference(own.drift, other.drift, metric, tested=metric != CHURN)
        of = words.is_share(metric) or words.is_size(metric)
        whole = 1.0 if of else abs(own.metrics.get(metric) or 0.0)
        if size is None or size > AGREE * whole + 1e-9:
            return None
        greatest = max(greatest, size)
    return greatest


def _difference(
    own: Drift | None, other: Drift | None, metric: str, *, tested: bool
) -> float | None:
    """Return how far two drifts are apart; ``None`` if one is unknown, or only one is clear."""
    one = own.of(metric) if own else _NO_CHANGE
    two = other.of(metric) if other else _NO_CHANGE
    if one.value is None or two.value is None:
        return None
    if tested:
        clear = clear_of_zero(one), own and own.is_significant(metric)
        if (clear_of_zero(two), other and other.is_significant(metric)) != clear and (
            own is not None or clear_of_zero(two)
        ):
            return None
    return abs(two.value - one.value)


def clear_of_zero(estimate: Estimate) -> bool:
    """Return whether the interval of a change excludes zero."""
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and (low > 0 or high < 0)
