"""Cells → drift matrix: every cell against the aligned cell of its row, then all seeds joined."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.cell import Measured
from alignkit.compare import Drift, drift
from alignkit.compare.noise_floor import noise_floor
from alignkit.facts import state_of
from alignkit.metrics import METRICS
from alignkit.record import (
    Artifact,
    Cell,
    ClassCounts,
    ClassDrift,
    DriftFacts,
    ErrorFacts,
    Estimate,
    LogitDistance,
    MatrixEntry,
    NoiseFloor,
    State,
)
from alignkit.statistics import holm
from alignkit.workspace import file_sha256

if TYPE_CHECKING:
    from alignkit.execute import Predicted
    from alignkit.predictions import Predictions
    from alignkit.statistics import Estimate as Interval


def predictions_of(predicted: Predicted) -> Predictions | None:
    """What a cell predicted; ``None`` if it did not run."""
    return predicted.ended.value[0] if isinstance(predicted.ended, Measured) else None


def cell_facts(predicted: Sequence[Predicted], folder: Path, *, resamples: int) -> tuple[Cell, ...]:
    """Every evaluation as the record holds it; predictions are written beside as Parquet."""
    rows = _aligned_cells(predicted)
    return tuple(_cell(each, rows[_row(each), each.seed], folder, resamples) for each in predicted)


def matrix_facts(predicted: Sequence[Predicted], *, resamples: int) -> tuple[MatrixEntry, ...]:
    """One entry for all seeds of a cell; seeds and images are resampled together."""
    groups: dict[tuple[str, str, str, str], list[Predicted]] = {}
    for each in predicted:
        groups.setdefault(_entry(each), []).append(each)
    references = _aligned_cells(predicted)
    return _corrected(
        [
            _matrix_entry(
                members, [references[_row(each), each.seed] for each in members], resamples
            )
            for members in groups.values()
        ]
    )


def _corrected(entries: Sequence[MatrixEntry]) -> tuple[MatrixEntry, ...]:
    """Each metric's p-values corrected for the entries that were compared."""
    found: list[dict[str, float]] = [{} for _ in entries]
    for metric in METRICS:
        tested = [
            (index, entry.drift.p_values[metric])
            for index, entry in enumerate(entries)
            if entry.drift and metric in entry.drift.p_values
        ]
        adjusted = holm([p for _, p in tested])
        for (index, _), p in zip(tested, adjusted, strict=True):
            found[index][metric] = p
    return tuple(
        entry.model_copy(update={"drift": entry.drift.model_copy(update={"holm": p_values})})
        if entry.drift
        else entry
        for entry, p_values in zip(entries, found, strict=True)
    )


def floor_facts(predicted: Sequence[Predicted]) -> tuple[NoiseFloor, ...]:
    """What another seed alone does to each row's aligned cell; needs two seeds."""
    rows: dict[str, list[Predicted]] = {}
    for each in predicted:
        if each.evaluation.aligned and predictions_of(each) is not None:
            rows.setdefault(_row(each), []).append(each)
    return tuple(_floor(name, members) for name, members in rows.items() if len(members) > 1)


def _row(predicted: Predicted) -> str:
    return predicted.evaluation.training.row


def _aligned_cells(predicted: Sequence[Predicted]) -> dict[tuple[str, int], Predicted]:
    return {(_row(each), each.seed): each for each in predicted if each.evaluation.aligned}


def _entry(predicted: Predicted) -> tuple[str, str, str, str]:
    evaluation = predicted.evaluation
    return (
        evaluation.training.row,
        evaluation.evaluated_with,
        evaluation.runtime.name,
        evaluation.runtime.precision,
    )


def _cell(predicted: Predicted, reference: Predicted, folder: Path, resamples: int) -> Cell:
    trained_with, evaluated_with, backend, precision = _entry(predicted)
    state, reason, trace = state_of(predicted.ended)
    facts = {
        "trained_with": trained_with,
        "evaluated_with": evaluated_with,
        "backend": backend,
        "precision": precision,
        "seed": predicted.seed,
        "aligned": predicted.evaluation.aligned,
        "key": predicted.evaluation.key,
        "state": state,
        "reason": reason,
        "traceback": trace,
        "fraction": predicted.evaluation.training.fraction,
    }
    if not isinstance(predicted.ended, Measured):
        return Cell(**facts)
    predictions, effective = predicted.ended.value
    against = None if predicted.evaluation.aligned else predictions_of(reference)
    return Cell(
        **facts,
        n=len(predictions),
        metrics=dict(predictions.counts().metrics()),
        counts=_class_counts(predictions),
        effective=effective,
        predictions=_artifact(predictions, folder, predicted),
        drift=None if against is None else drift_facts([against], [predictions], resamples),
    )


def _artifact(predictions: Predictions, folder: Path, predicted: Predicted) -> Artifact:
    # a row's name has spaces and a percent sign, which links do not take
    entry = re.sub(r"[^\w.+=-]+", "_", "-".join(_entry(predicted)))
    name = f"predictions/{entry}-seed{predicted.seed}.parquet"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    predictions.to_parquet(folder / name)
    return Artifact(path=name, sha256=file_sha256(folder / name))


def _class_counts(predictions: Predictions) -> tuple[ClassCounts, ...]:
    counts = predictions.counts()
    return tuple(
        ClassCounts(
            name=name,
            true_positive=hits,
            false_positive=predicted - hits,
            false_negative=support - hits,
        )
        for name, hits, predicted, support in zip(
            predictions.classes, counts.true_positive, counts.predicted, counts.support, strict=True
        )
    )


def drift_facts(
    reference: Sequence[Predictions], candidate: Sequence[Predictions], resamples: int
) -> DriftFacts:
    """`alignkit.compare.drift` as the record holds it."""
    found = drift(reference=reference, candidate=candidate, resamples=resamples)
    return DriftFacts(
        n=found.n * found.seeds,
        metrics={name: _estimate(value) for name, value in found.metrics.items()},
        churn=_estimate(found.churn),
        right_to_wrong=found.flips.right_to_wrong,
        wrong_to_right=found.flips.wrong_to_right,
        wrong_to_wrong=found.flips.wrong_to_wrong,
        mcnemar_p=found.mcnemar_p,
        detectable=found.detectable,
        logits=LogitDistance(
            max_abs=found.logits.max_abs,
            mean_abs=found.logits.mean_abs,
            cosine=found.logits.cosine,
            reason=found.logits.reason,
        ),
        classes=_class_drifts(found),
        non_finite=found.logits.non_finite,
        errors={
            name: ErrorFacts(images=each.images, seeds=each.seeds)
            for name, each in found.errors.items()
        },
        p_values=found.p_values,
    )


def _class_drifts(found: Drift) -> tuple[ClassDrift, ...]:
    return tuple(
        ClassDrift(
            name=each.name,
            support=each.support,
            recall=_estimate(each.recall),
            precision=_estimate(each.precision),
        )
        for each in found.classes
    )


def _estimate(value: Interval) -> Estimate:
    return Estimate(value=value.value, low=value.low, high=value.high, reason=value.reason)


def _matrix_entry(
    members: Sequence[Predicted], references: Sequence[Predicted], resamples: int
) -> MatrixEntry:
    trained_with, evaluated_with, backend, precision = _entry(members[0])
    pairs = [
        (reference, each)
        for reference, each in zip(references, members, strict=True)
        if predictions_of(reference) is not None and predictions_of(each) is not None
    ]
    ran = [each for _, each in pairs]
    state, reason = _joined_state(members, references, ran)
    is_aligned = members[0].evaluation.aligned
    return MatrixEntry(
        trained_with=trained_with,
        evaluated_with=evaluated_with,
        backend=backend,
        precision=precision,
        aligned=is_aligned,
        state=state,
        reason=reason,
        seeds=tuple(each.seed for each in ran),
        metrics=_means(ran),
        drift=None if is_aligned or not ran else drift_facts(*_sides(pairs), resamples),
        fraction=members[0].evaluation.training.fraction,
    )


def _joined_state(
    members: Sequence[Predicted], references: Sequence[Predicted], ran: Sequence[Predicted]
) -> tuple[State, str]:
    """(state, reason) of an entry whose seeds may have ended differently."""
    absent = [each for each in members if each not in ran]
    if not absent:
        return "measured", ""
    state, reason, _ = state_of(absent[0].ended)
    if state == "measured":
        state, why, _ = state_of(references[members.index(absent[0])].ended)
        reason = f"the cell it is compared with did not run: {why}"
    if ran:
        return "measured", f"without seed {', '.join(str(each.seed) for each in absent)}: {reason}"
    return state, reason


def _sides(
    pairs: Iterable[tuple[Predicted, Predicted]],
) -> tuple[list[Predictions], list[Predictions]]:
    both = [(predictions_of(left), predictions_of(right)) for left, right in pairs]
    return [left for left, _ in both if left], [right for _, right in both if right]


def _means(ran: Sequence[Predicted]) -> dict[str, float | None]:
    found = [
        dict(predictions.counts().metrics())
        for each in ran
        if (predictions := predictions_of(each)) is not None
    ]
    return {name: _mean([each[name] for each in found]) for name in (found[0] if found else ())}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if values and len(known) == len(values) else None


def _floor(name: str, members: Sequence[Predicted]) -> NoiseFloor:
    found = noise_floor([each for each in map(predictions_of, members) if each is not None])
    assert found.churn is not None  # two seeds or more, each with predictions
    return NoiseFloor(
        preprocess=name,
        seeds=tuple(each.seed for each in members),
        metrics={metric: spread.range for metric, spread in found.metrics.items()},
        churn=found.churn,
    )
