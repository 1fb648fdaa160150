"""The outcome that a verdict speaks of: the worst of the models of the reference path.

Shares, kinds of images and mechanisms are measured of those models, so that their
worst failure comes first and the worst of all other models is named beside it. If none of theirs
ended so, it is the worst over all rows; where pixels alone are compared, the worst over all paths.
Worst is the greatest multiple of the limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.judge.cause_words import RUNTIME_FACTORS, adds_nothing, attribution
from alignkit.judge.verdict_words import SEVERITY
from alignkit.place import Column
from alignkit.record import MatrixEntry, Measurements, RuleOutcome, RunRecord, VerdictState


@dataclass(frozen=True, slots=True)
class Headline:
    """Outcomes in one state at one place."""

    state: VerdictState
    outcomes: tuple[RuleOutcome, ...]
    """At its place, the worst first."""
    entry: MatrixEntry | None
    """The place in the matrix; ``None`` where pixels alone are compared, or time or memory."""
    elsewhere: RuleOutcome | None
    """A worse outcome of models of another row."""
    in_reference_runtime: bool
    """Whether it is served in the runtime of its row's aligned entry."""

    @property
    def first(self) -> RuleOutcome:
        """The outcome that decides."""
        return self.outcomes[0]


def headline(
    outcomes: Sequence[RuleOutcome], state: VerdictState, record: Measurements
) -> Headline | None:
    """Choose among the outcomes in a state; ``None`` if there is none."""
    every = [each for each in outcomes if each.state == state]
    if not every:
        return None
    found = [each for each in every if not (each.left_to_gate or each.not_run)] or every
    of_models = [each for each in found if each.backend and each.brief]
    pool = of_models if of_models and state != "error" else found
    own_row = record.own_row  # a search of the matrix
    own = [each for each in pool if each.row == own_row] if of_models else []
    first = max(own or pool, key=_badness)  # of equal ones the first
    entry = next((each for each in record.matrix if each.place == first.place), None)
    base = without_runtime(entry, record) if entry else None
    same = [each for each in found if base and each.place == base.place and each.brief]
    if same:
        entry, first = base, max(same, key=_badness)
    worst = max(pool, key=_badness)
    pair = first.trained_with, first.evaluated_with
    other = (worst.trained_with, worst.evaluated_with) != pair
    return Headline(
        state,
        tuple(
            sorted(
                (each for each in found if each.place == first.place), key=_badness, reverse=True
            )
        ),
        entry,
        worst if other and own and _badness(worst) > _badness(first) else None,
        entry is not None and _aligned_runtime(entry, record) == entry.column.runtime,
    )


def _aligned_runtime(entry: MatrixEntry, record: Measurements) -> str:
    found = (e.column.runtime for e in record.matrix if e.aligned and e.row == entry.row)
    return next(found, "")


def headline_of(outcomes: Sequence[RuleOutcome], record: Measurements) -> Headline | None:
    """Choose in the most severe state that any outcome has; ``None`` without outcomes."""
    found = (headline(outcomes, state, record) for state in SEVERITY)
    return next(filter(None, found), None)


def headline_index(record: RunRecord) -> int | None:
    """Return the index of the entry that the verdict speaks of; ``None`` if it has no drift."""
    chosen = headline_of(record.verdict.rules, record.own_part)
    if chosen is None or chosen.entry is None or chosen.entry.drift is None:
        return None
    place = chosen.entry.place
    return next(index for index, each in enumerate(record.matrix) if each.place == place)


def _badness(outcome: RuleOutcome) -> float:
    if outcome.excess is not None:
        return outcome.excess
    # above a limit of 0, and of another shape, is worse than any multiple
    return math.inf if outcome.state in ("error", "fail") else -math.inf


def without_runtime(entry: MatrixEntry, record: Measurements) -> MatrixEntry | None:
    """Find the entry of the same models and path in the reference runtime, if that is innocent.

    Innocent is a runtime that changes no prediction on the same tensors, or whose share of an
    attributed drift rounds to zero. ``None`` for an entry that only the runtime changes, too.
    """
    aligned = next((e for e in record.matrix if e.aligned and e.row == entry.row), None)
    if aligned is None or entry.row.preprocesses == (entry.evaluated_with,):
        return None
    column = Column(entry.evaluated_with, aligned.backend, aligned.precision)
    base = next((e for e in record.matrix if e.row == entry.row and e.column == column), None)
    if base is None or base is entry or base.drift is None:
        return None
    unchanged = entry.numeric is not None and entry.numeric.flips == 0
    return base if unchanged or _runtime_share_is_zero(entry, record) else None


def _runtime_share_is_zero(entry: MatrixEntry, record: Measurements) -> bool:
    found = attribution(entry, record.task.matrices[0], record)
    if found is None:
        return False
    shares = [each for each in found.shares if each.factor in RUNTIME_FACTORS]
    # an unknown share is not zero
    return bool(shares) and all(adds_nothing(each, found) for each in shares)
