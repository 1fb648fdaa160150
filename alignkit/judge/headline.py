"""The outcome that a verdict speaks of, the worst of the reference's models, and its first line.

Shares, kinds of images and mechanisms are measured of those models, so that their
worst failure comes first and the worst of all other models is named beside it. If none of theirs
ended so, it is the worst over all rows; where pixels alone are compared, the worst over all paths.
Worst is the greatest multiple of the limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from alignkit.judge.causes import RUNTIME_FACTORS, attribution
from alignkit.judge.differences import stages_that_differ, stages_unshown
from alignkit.judge.standing_rules import CALIBRATED, NO_PIXELS_RULE, RECORDED
from alignkit.place import Column, Place
from alignkit.record import Control, MatrixEntry, Measurements, RuleOutcome, VerdictState
from alignkit.record.verdict_facts import (
    BASELINE,
    SEVERITY,
    UNCHECKED,
    Statement,
    StatementKind,
    StatementValue,
    stated,
)
from alignkit.text.measured import measured_part
from alignkit.text.shares import adds_nothing

_JUDGED = ("data", "evaluate", "gate", "models", "preprocess", "train")
"""Keys of a file that decide what is judged, and by which rules."""


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

    @property
    def first(self) -> RuleOutcome:
        """The outcome that decides."""
        return self.outcomes[0]


def headline(
    outcomes: Sequence[RuleOutcome], state: VerdictState, record: Measurements
) -> Headline | None:
    """Choose among the outcomes in a state; ``None`` if there is none."""
    every = [each for each in outcomes if each.state == state]
    found = [each for each in every if not (each.left_to_gate or each.not_run)] or every
    if not found:
        return None
    of_models = [each for each in found if each.backend and each.told]
    pool = of_models if of_models and state != "error" else found
    own_row = record.own_row  # a search of the matrix
    own = [each for each in pool if each.row == own_row] if of_models else []
    first = max(own or pool, key=_badness)  # of equal ones the first
    entry = record.at(first.place)
    base = without_runtime(entry, record) if entry else None
    if same := [each for each in found if base and each.place == base.place and each.told]:
        entry, first = base, max(same, key=_badness)
    here = [each for each in found if each.place == first.place]
    worst = max(pool, key=_badness)
    pair = first.trained_with, first.evaluated_with
    other = own and (worst.trained_with, worst.evaluated_with) != pair
    return Headline(
        state,
        tuple(sorted(here, key=_badness, reverse=True)),
        entry,
        worst if other and _badness(worst) > _badness(first) else None,
    )


def headline_of(outcomes: Sequence[RuleOutcome], record: Measurements) -> Headline | None:
    """Choose in the most severe state that any outcome has; ``None`` without outcomes."""
    found = (headline(outcomes, state, record) for state in SEVERITY)
    return next(filter(None, found), None)


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
    aligned = record.aligned(entry.row)
    if aligned is None or entry.row.preprocesses == (entry.evaluated_with,):
        return None
    column = Column(entry.evaluated_with, aligned.backend, aligned.precision)
    base = record.at(Place(entry.row, column))
    if base is None or base is entry or base.drift is None:
        return None
    found = attribution(entry, record.task.matrices[0], record)
    shares = [each for each in found.shares if each.factor in RUNTIME_FACTORS] if found else []
    # an unknown share is not zero
    nothing = found and shares and all(adds_nothing(each, found) for each in shares)
    unchanged = entry.numeric is not None and entry.numeric.flips == 0
    return base if unchanged or nothing else None


def sentence(
    found: Headline | None,
    outcomes: Sequence[RuleOutcome],
    broken: Sequence[Control],
    doubts: Sequence[Control],
    record: Measurements,
) -> Iterator[Statement]:
    """State what decides; before it, what every number of it rests on, and after it what it lacks.

    ``broken`` and ``doubts`` are of controls.
    """
    if broken:
        first = broken[0]
        yield stated(
            "distrust", control=first.name, expected=first.expected, observed=first.observed
        )
        return
    yield from _lost(found, record)
    if record.quick:
        yield stated("quick")
    if measured_part(record.cells):
        yield stated("part")
    if any(each.loose for each in outcomes):
        yield stated("loose")
    if doubts:
        yield stated("doubt", observed=doubts[0].observed)
    if found is None or found.state == "pass":
        yield _passed(found, outcomes, record)
    elif found.state == "error":
        tally = sum(each.state == "error" for each in outcomes)
        first_rule = _index(found.first, outcomes)
        yield stated("error", checks=tally, of=len(outcomes), rule=first_rule)
        if ran := headline(outcomes, "fail", record):
            yield _failed("measured", ran, outcomes)
    else:
        yield _failed("failed", found, outcomes)
    yield from _beside(found, outcomes)
    yield from _baseline_alone(outcomes, record)
    yield from _left_out(record)


def _beside(found: Headline | None, outcomes: Sequence[RuleOutcome]) -> Iterator[Statement]:
    """Name the warnings that hold for every number, unless the verdict itself is one of them."""
    for index, each in enumerate(outcomes):
        standing = each.rule in (NO_PIXELS_RULE, UNCHECKED, CALIBRATED, RECORDED)
        if standing and each.state == "warn" and not (found and each is found.first):
            yield stated("beside", rule=index)


def _index(outcome: RuleOutcome, outcomes: Sequence[RuleOutcome]) -> int:
    return next(index for index, each in enumerate(outcomes) if each is outcome)


def _lost(found: Headline | None, record: Measurements) -> Iterator[Statement]:
    """State the outputs that are not finite: at the place that decides, else where most are."""
    own = found.entry if found else None
    decides = own is not None and own.drift is not None and own.drift.non_finite > 0
    lost = [each for each in record.compared if each.drift and each.drift.non_finite]
    if not decides:
        own = max(lost, key=lambda e: e.drift.non_finite if e.drift else 0, default=None)
    if own is not None and own.drift is not None:
        drift, aligned = own.drift, record.aligned(own.row)
        values = {"lost": drift.non_finite, "images": drift.n, "as_served": own.non_finite}
        if aligned is not None:
            values["as_trained"] = aligned.non_finite
        yield stated("lost", **values, **({} if decides else own.place.fields))


def _failed(kind: StatementKind, found: Headline, outcomes: Sequence[RuleOutcome]) -> Statement:
    values: dict[str, StatementValue] = {
        "rules": tuple(_index(e, outcomes) for e in found.outcomes)
    }
    if found.elsewhere is not None:
        values["elsewhere"] = _index(found.elsewhere, outcomes)
    return stated(kind, **values)


def _passed(
    found: Headline | None, outcomes: Sequence[RuleOutcome], record: Measurements
) -> Statement:
    compared = record.compared
    if record.matrix and not compared:
        return stated("no cell")
    if compared and not any(entry.churn for entry in compared):
        return stated("nothing changed", comparisons=len(compared))
    held = [each for each in outcomes if not (each.instead and each.instead.kind == "unchanged")]
    if not held:
        return stated("none held", checks=len(outcomes))
    if record.matrix and found is not None and found.first.told:
        return stated("held", checks=len(held), nearest=_index(found.first, outcomes))
    # what a recorded stage holds was compared with a rule, not with the training's pixels
    taps = {"taps": 1} if any(each.label and not each.limits for each in held) else {}
    return stated("held", checks=len(held), **taps)


def _baseline_alone(outcomes: Sequence[RuleOutcome], record: Measurements) -> Iterator[Statement]:
    """State which stages differ from the reference's, where rules look at the baseline alone."""
    if outcomes and all(each.trained_with == BASELINE for each in outcomes):
        others: dict[str, list[str]] = {}
        for each in stages_that_differ(record):
            others.setdefault(each.candidate, []).append(each.stage)
        for path, stages in others.items():
            yield stated("baseline alone", path=path, own=record.reference, stages=tuple(stages))


def _left_out(record: Measurements) -> Iterator[Statement]:
    """State which paths did not run, which images are copies, and which values are others."""
    for path, stages in stages_unshown(record).items():
        yield stated("unshown", path=path, own=record.reference, stages=tuple(stages))
    if record.data is not None and record.data.copies:
        yield stated("copies", copies=len(record.data.copies), images=record.data.eval)
    for path, reason in record.skipped.items():
        yield stated("not run", path=path, reason=reason)
    if record.baseline is not None:
        for path in record.baseline.unchanged:
            yield stated("not run", path=path)
        for path, begin in record.baseline.begins.items():
            yield stated("not run", path=path, before=begin)
    if replaced(record.overrides):
        yield stated("overrides")


def replaced(overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the ``--set`` arguments that change what is judged, or by which rules."""
    return tuple(each for each in overrides if re.split(r"[.=]", each, maxsplit=1)[0] in _JUDGED)
