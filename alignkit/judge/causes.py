"""The cause of a drift: a stage or a runtime, with its shares where they were measured.

It is taken from the shares of an attribution, else from the pixels of the stages, else from the
options in which two paths differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from alignkit.judge.observe import differing
from alignkit.record import AttributionFacts, MatrixEntry, Measurements, RuleOutcome
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.record.cell_facts import OWN_GRAPH
from alignkit.record.verdict_facts import Statement, StatementKind, stated
from alignkit.text.shares import is_cause, main_shares, opposing

RUNTIME_FACTORS = {"backend", "precision", "backend+precision", "runtime", "quantisation", "kernel"}


def causes(
    entry: MatrixEntry | None, outcome: RuleOutcome, record: Measurements
) -> tuple[Statement, ...]:
    """State what causes an outcome, at its entry of the matrix; nothing where that is not known."""
    if entry is None:
        known = bool(outcome.cause) and not outcome.backend
        return (stated("stage", stage=outcome.metric.partition(".")[0]),) if known else ()
    # most outputs lost: the first line says how many have no answer
    if not entry.churn or mostly_lost(entry, record):
        return ()
    return tuple(_of_entry(entry, outcome.metric or "churn", record))


def _of_entry(entry: MatrixEntry, metric: str, record: Measurements) -> Iterator[Statement]:
    if fails_by_itself(entry):
        yield stated("lost on one side")
    if of_runtime(entry):
        own = [each.effective for each in record.cells if each.place == entry.place]
        file = " or the ONNX file" if any(OWN_GRAPH in each for each in own) else ""
        yield stated("runtime", file=file)
    elif found := attribution(entry, metric, record):
        yield _of_shares(found)
    else:
        yield from _of_pixels(entry, record)


def _of_shares(found: AttributionFacts) -> Statement:
    first, others = main_shares(found)
    kind: StatementKind = "all"
    if first is None:
        unknown = any(each.effect.value is None for each in others)
        kind = "shares unknown" if unknown else "opposed" if others else "no stage"
    elif others:
        most: StatementKind = "most" if is_cause(first, found) else "largest"
        kind = "opposed" if opposing(found) else most
    named = [first, *others] if first else others
    return stated(kind, metric=found.metric, factors=tuple(each.factor for each in named))


def _of_pixels(entry: MatrixEntry, record: Measurements) -> Iterator[Statement]:
    names = *entry.row.preprocesses, entry.evaluated_with
    of_pair = [
        stage
        for stage in record.pixels
        if stage.mode == "isolated" and {stage.reference, stage.candidate} == {*names}
    ]
    # the units of normalise are no grey levels
    means = {e.stage: e.mean_abs for e in of_pair if e.stage != "normalise" and e.mean_abs}
    if means:
        first = max(means, key=lambda stage: means[stage])
        others = any(each.stage == "normalise" and each.mean_abs for each in of_pair)
        pair = of_pair[0].reference, of_pair[0].candidate
        yield stated("pixels", stage=first, paths=pair, other_units=int(others))
        return
    known = {each.name: each for each in record.paths}
    if len(names) != 2 or not known.keys() >= set(names):
        return
    stages = differing(known[names[0]], known[names[1]])
    measured = {path for each in record.pixels for path in (each.reference, each.candidate)}
    if stages and len(measured) >= 2:
        yield stated("options", paths=names, stages=tuple(stages))


def fails_by_itself(entry: MatrixEntry) -> bool:
    """Return whether outputs that are finite on one side alone are most of what changed."""
    drift = entry.drift
    if drift is None or not drift.changed:
        return False
    return drift.non_finite_changed >= EXPLAINS_MOST * drift.changed


def mostly_lost(entry: MatrixEntry, record: Measurements) -> bool:
    """Return whether most answers of an entry are not finite, and not by its runtime alone.

    No cause and no step follows from the few others. Where the same models are finite in their
    own runtime, on the same pixels, the runtime is the cause.
    """
    drift = entry.drift
    if drift is None or not drift.n or drift.non_finite < EXPLAINS_MOST * drift.n:
        return False
    own = record.aligned(entry.row)
    by_runtime = of_runtime(entry) and own is not None and 2 * own.non_finite < entry.non_finite
    return not by_runtime


def of_runtime(entry: MatrixEntry) -> bool:
    """Tell whether models are served with the path that they were trained with."""
    return entry.row.preprocesses == (entry.evaluated_with,)


def attribution(entry: MatrixEntry, metric: str, record: Measurements) -> AttributionFacts | None:
    """Find the shares of an entry's change of a metric, else of the task's first one or churn."""
    if entry.row != record.own_row:  # of the first of several models alone
        return None
    main = record.task.matrices[0] if record.labelled else "churn"
    found = (record.attribution(entry.place, name) for name in (metric, main, "churn"))
    return next(filter(None, found), None)
