"""Columns of the drift matrix that need not all be shown: runtimes of one path that agree."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from alignkit.place import Column, Place, Row
from alignkit.record import Drift, Estimate, MatrixEntry, RunRecord
from alignkit.text.outcome import said
from alignkit.text.task_words import CHURN, TaskWords

AGREE = 0.001
"""Most by which a runtime differs from the one shown for it: the first edge of the colours. Of a
metric that is no share, a part of its value."""
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
def agreements(record: RunRecord) -> dict[Column, Agreement]:
    """Return, by the shown column, the runtimes of each path that agree with it in every row.

    They were all measured, are within `AGREE` in every metric, are as clear of zero, and pass or
    fail the same rules, or are waived alike. A runtime that differs, did not run, was simulated,
    has a remark or holds the reference of a row is never among the folded ones.
    """
    known = _Known(record)
    columns = dict.fromkeys(entry.column for entry in record.matrix)
    found = {}
    for _, path in groupby(columns, lambda column: column.preprocess):
        whole = [column for column in path if known.is_whole(column)]
        # the reference of a row is shown in any case
        whole.sort(key=lambda column: not known.has_reference(column))
        agreement = known.agreement(whole)
        if agreement.folded:
            found[agreement.shown] = agreement
    return found


class _Known:
    """The entries, rows and rules of a record by their place."""

    def __init__(self, record: RunRecord) -> None:
        self.entries = {entry.place: entry for entry in record.matrix}
        self.rows = list(dict.fromkeys(entry.row for entry in record.matrix))
        self.words = TaskWords(record.task)
        self.metrics = record.task.matrices if record.labelled else (CHURN,)
        self.rules: dict[Place, dict[tuple[str, str], tuple[str, bool]]] = {}
        for rule in record.verdict.rules:
            outcome = rule.state, bool(rule.waived)
            self.rules.setdefault(rule.place, {})[rule.metric, said(rule, "rule")] = outcome

    def at(self, row: Row, column: Column) -> MatrixEntry | None:
        return self.entries.get(Place(row, column))

    def is_whole(self, column: Column) -> bool:
        """Return whether each row was measured there, without a remark."""
        found = [self.at(row, column) for row in self.rows]
        return all(
            entry and entry.state == "measured" and not (entry.warning or entry.non_finite)
            for entry in found
        )

    def has_reference(self, column: Column) -> bool:
        return any(entry and entry.drift is None for entry in self._of(column))

    def agreement(self, columns: list[Column]) -> Agreement:
        shown, *others = columns or [Column("", "", "")]
        spread = dict.fromkeys(self.metrics, 0.0)
        folded = []
        for column in others:
            apart = None if self.has_reference(column) else self._apart(shown, column)
            if apart is not None:
                folded.append(column)
                spread = {metric: max(spread[metric], apart[metric]) for metric in spread}
        return Agreement(shown, tuple(folded), spread)

    def _of(self, column: Column) -> list[MatrixEntry | None]:
        return [self.at(row, column) for row in self.rows]

    def _apart(self, shown: Column, column: Column) -> dict[str, float] | None:
        """Return how far two columns are apart in each metric; ``None`` if they do not agree."""
        apart = dict.fromkeys(self.metrics, 0.0)
        for row in self.rows:
            own, other = self.at(row, shown), self.at(row, column)
            if not own or not other or not self._same_outcomes(own, other):
                return None
            for metric in self.metrics:
                # one changed prediction makes churn clear of zero
                size = _difference(own.drift, other.drift, metric, tested=metric != CHURN)
                if size is None or size > AGREE * self._whole(own, metric) + 1e-9:
                    return None
                apart[metric] = max(apart[metric], size)
        return apart

    def _whole(self, own: MatrixEntry, metric: str) -> float:
        if self.words.is_share(metric) or self.words.is_size(metric):
            return 1.0
        return abs(own.metrics.get(metric) or 0.0)

    def _same_outcomes(self, own: MatrixEntry, other: MatrixEntry) -> bool:
        judged = self.rules.get(other.place, {})
        if own.drift is None:  # no rule applies to a reference
            return set(judged.values()) <= {("pass", False)}
        return self.rules.get(own.place, {}) == judged


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
