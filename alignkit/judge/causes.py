"""The cause of a drift: a stage or a runtime, with its shares where they were measured.

It is taken from the shares of an attribution, else from the pixels of the stages, else from the
options in which two paths differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from alignkit.preprocess import STAGES
from alignkit.record import AttributionFacts, MatrixEntry, Measurements, PathFacts, RuleOutcome
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.record.cell_facts import OWN_GRAPH
from alignkit.record.verdict_facts import Statement, StatementKind, stated
from alignkit.text.shares import is_cause, main_shares, opposing
from alignkit.text.stage_changes import stage_change

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
        drift = entry.drift
        lost, changed = (drift.non_finite_changed, drift.changed) if drift else (0, 0)
        yield stated("lost on one side", lost=lost, changed=changed or 0)
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
    means = {e.stage: e.mean_abs or 0.0 for e in of_pair if e.stage != "normalise"}
    if any(means.values()):
        first = max(means, key=lambda stage: means[stage])
        others = tuple(e.stage for e in of_pair if e.mean_abs and e.stage != first)
        pair = of_pair[0].reference, of_pair[0].candidate
        yield stated("pixels", stage=first, paths=pair, mean=means[first], others=others)
        return
    known = {each.name: each for each in record.paths}
    if len(names) != 2 or not known.keys() >= set(names):
        return
    stages = differing(known[names[0]], known[names[1]])
    measured = {path for each in record.pixels for path in (each.reference, each.candidate)}
    if stages and len(measured) >= 2:
        yield stated("options", paths=names, stages=tuple(stages), own=record.reference)


def change_of(record: Measurements, path: str, stage: str, mode: str) -> tuple[Statement, ...]:
    """State the options in which a stage of two paths differs, or one before it that causes it."""
    known = {each.name: each for each in record.paths}
    if not known.keys() >= {record.reference, path}:
        return ()
    begun = stage_to_blame(record, path, stage) if mode == "cumulative" else stage
    change = stage_change(known[record.reference], known[path], begun)
    kind: StatementKind = "change" if begun == stage else "earlier change"
    return (stated(kind, stage=begun, change=change),) if change else ()


def stage_to_blame(record: Measurements, path: str, stage: str) -> str:
    """Name the stage that causes a cumulative difference.

    It is the one that differs most by itself, among the stages up to this one. Another shape counts
    as most.
    """
    sizes = {
        # the units of normalise, the last one, are no grey levels
        each.stage: (
            each.shape_mismatches,
            math.inf if each.stage == "normalise" and each.mean_abs else each.mean_abs or 0.0,
        )
        for each in record.pixels
        if (each.reference, each.candidate, each.mode) == (record.reference, path, "isolated")
        and each.stage in STAGES[: STAGES.index(stage) + 1]
    }
    return max(sizes, key=lambda each: sizes[each], default=stage)


def differing(a: PathFacts, b: PathFacts) -> list[str]:
    """List the stages of two paths that differ in name or options, and the limit of pixels."""
    pairs = zip(a.stages, b.stages, strict=True)
    stages = [one.stage for one, other in pairs if one.options != other.options]
    return stages + ["max_pixels"] * (a.max_pixels != b.max_pixels)


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
