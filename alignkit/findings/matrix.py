"""Cells → drift matrix: each compared with the aligned cell of its row, and by runtimes alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from alignkit.backends import QUANTISED_GRAPH
from alignkit.compare import drift
from alignkit.compare.answers import Answers, mean_metrics, noise_floor, plain_metrics
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.idle_answers import not_finite
from alignkit.compare.statistics import holm
from alignkit.findings.provenance import state_of
from alignkit.outcome import Measured
from alignkit.predict.predict_cells import Built
from alignkit.record import (
    Artifact,
    BatchCheck,
    BuildSpread,
    Cell,
    ClassCounts,
    Drift,
    MatrixEntry,
    NoiseFloor,
    NumericDrift,
    QuantisedDrift,
    State,
)
from alignkit.record.cell_facts import OWN_GRAPH, REFERENCE_ENDED
from alignkit.stored_file import file_sha256

if TYPE_CHECKING:
    from alignkit.arrays import FloatArray
    from alignkit.place import Place, Row
    from alignkit.predict.predict_cells import Predicted

_Check = TypeVar("_Check", BatchCheck, BuildSpread)


def predictions_of(predicted: Predicted) -> Answers | None:
    """Return a cell's predictions; ``None`` if it did not run."""
    return predicted.ended.value.predictions if isinstance(predicted.ended, Measured) else None


def cell_facts(predicted: Sequence[Predicted], folder: Path, draws: SharedDraws) -> Iterator[Cell]:
    """Yield the record's cells; write their predictions into ``folder`` as Parquet."""
    rows, bases = _aligned_cells(predicted), _reference_runtimes(predicted)
    unfused = unfused_cells(predicted)
    for each in predicted:
        base = bases.get(_on(each))
        cell = _cell(each, rows[_row(each), each.seed], base, folder, draws)
        yield cell.model_copy(update={"quantised": quantised_facts([(base, each)], unfused)})


def matrix_facts(
    predicted: Sequence[Predicted], cells: Sequence[Cell], draws: SharedDraws
) -> tuple[MatrixEntry, ...]:
    """Join all seeds of a cell into one entry; seeds and images are resampled together.

    ``cells`` are the `cell_facts` of ``predicted``: an entry of one seed has its cell's drift.
    """
    groups: dict[Place, list[Predicted]] = {}
    for each in predicted:
        groups.setdefault(each.evaluation.place, []).append(each)
    drifts = {
        (each.evaluation.place, each.seed): cell.drift
        for each, cell in zip(predicted, cells, strict=True)
    }
    references, bases = _aligned_cells(predicted), _reference_runtimes(predicted)
    unfused = unfused_cells(predicted)
    return corrected(
        [
            _matrix_entry(
                members,
                [references[_row(each), each.seed] for each in members],
                [bases.get(_on(each)) for each in members],
                unfused,
                {each.seed: drifts[place, each.seed] for each in members},
                draws,
            )
            for place, members in groups.items()
        ]
    )


def corrected(entries: Sequence[MatrixEntry]) -> tuple[MatrixEntry, ...]:
    """Correct each metric's p-values for the number of entries that were compared."""
    adjusted_by_entry: list[dict[str, float]] = [{} for _ in entries]
    # of one task all entries have the same metrics
    for metric in next((entry.drift.metrics for entry in entries if entry.drift), ()):
        tested = [
            (index, entry.drift.p_values[metric])
            for index, entry in enumerate(entries)
            if entry.drift and metric in entry.drift.p_values
        ]
        adjusted = holm([p for _, p in tested])  # each metric answers a question of its own
        for (index, _), p in zip(tested, adjusted, strict=True):
            adjusted_by_entry[index][metric] = p
    return tuple(
        entry.model_copy(update={"drift": replace(entry.drift, holm=p_values)})
        if entry.drift
        else entry
        for entry, p_values in zip(entries, adjusted_by_entry, strict=True)
    )


def floor_facts(predicted: Sequence[Predicted]) -> tuple[NoiseFloor, ...]:
    """Compute the noise floor of each row: the range over the seeds of its aligned cell (≥ 2)."""
    rows: dict[Row, dict[int, Answers]] = {}
    for each in predicted:
        if each.evaluation.aligned and (made := predictions_of(each)) is not None:
            rows.setdefault(_row(each), {})[each.seed] = made
    return tuple(noise_floor(str(row), seeds) for row, seeds in rows.items() if len(seeds) > 1)


def _row(predicted: Predicted) -> Row:
    return predicted.evaluation.training.row


def _aligned_cells(predicted: Sequence[Predicted]) -> dict[tuple[Row, int], Predicted]:
    return {(_row(each), each.seed): each for each in predicted if each.evaluation.aligned}


def _on(predicted: Predicted) -> tuple[Row, int, str]:
    """Return row, seed and path: cells that share them have the same model and tensors."""
    return _row(predicted), predicted.seed, predicted.evaluation.preprocess.name


def _reference_runtimes(predicted: Sequence[Predicted]) -> dict[tuple[Row, int, str], Predicted]:
    """Find the cell of each model and path in the runtime of its row's aligned cell."""
    aligned = _aligned_cells(predicted)
    return {
        _on(each): each
        for each in predicted
        if each.evaluation.runtime == aligned[_row(each), each.seed].evaluation.runtime
    }


def _cell(
    predicted: Predicted,
    reference: Predicted,
    base: Predicted | None,
    folder: Path,
    draws: SharedDraws,
) -> Cell:
    facts = _of_any_end(predicted)
    if not isinstance(predicted.ended, Measured):
        return Cell(**facts)
    answer = predicted.ended.value
    predictions = answer.predictions
    # a cell is not compared with itself
    against = None if predicted.evaluation.aligned else predictions_of(reference)
    return Cell(
        **facts,
        n=len(predictions),
        metrics=plain_metrics(predictions),
        class_values=_class_values(predictions),
        counts=_class_counts(predictions),
        effective={**answer.effective, **_own_graph(predicted)},
        inputs=answer.inputs,
        non_finite=int((~predictions.finite()).sum()),
        batch=answer.batch,
        numeric=numeric_facts([(base, predicted)]),
        builds=predicted.builds,
        predictions=_artifact(predictions, folder, predicted, base),
        drift=None if against is None else drift([against], [predictions], draws=draws),
    )


def _own_graph(predicted: Predicted) -> dict[str, str]:
    """Name the user's own ONNX file that a cell ran beside the model's weights."""
    # here and not with the stored predictions: these depend on the content, not on the name
    given = predicted.evaluation.training.given
    beside = given and given.beside
    if beside is None or not predicted.evaluation.runtime.backend.needs_onnx:
        return {}
    return {OWN_GRAPH: f"{beside.name}, as given"}


def _of_any_end(predicted: Predicted) -> dict[str, Any]:
    """Return the fields that a `Cell` has whether or not it ran."""
    ended, reason, trace = state_of(predicted.ended)
    state, simulation = _called(ended, predicted)
    return {
        **predicted.evaluation.place.fields,
        "seed": predicted.seed,
        "aligned": predicted.evaluation.aligned,
        "key": predicted.evaluation.key,
        "state": state,
        "reason": reason,
        "simulation": simulation,
        "traceback": trace,
        "fraction": predicted.evaluation.training.fraction,
        "engine": predicted.ended.engine if isinstance(predicted.ended, Built) else None,
        "unsuited": predicted.evaluation.unsuited,
    }


def _called(state: State, predicted: Predicted) -> tuple[State, str]:
    """Call a cell that ran simulated if its runtime simulates; return its state and its label."""
    label = predicted.evaluation.runtime.simulation if state == "measured" else ""
    return ("simulated", label) if label else (state, "")


def _artifact(
    predictions: Answers, folder: Path, predicted: Predicted, base: Predicted | None
) -> Artifact:
    """Write the predictions, with each image's greatest |Δlogit| from the reference runtime."""
    # a row's name has spaces and a percent sign, which links do not take
    entry = re.sub(r"[^\w.+=-]+", "_", "-".join(predicted.evaluation.place.names))
    name = f"predictions/{entry}-seed{predicted.seed}.parquet"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    besides: dict[str, FloatArray] = {}  # absent in the reference runtime itself
    if (sides := same_inputs(base, predicted)) is not None:
        besides = predictions.columns_beside(sides[0])
    predictions.to_parquet(folder / name, **besides)
    return Artifact(path=name, sha256=file_sha256(folder / name))


def _class_values(predictions: Answers) -> dict[str, tuple[float | None, ...]]:
    """Compute the metrics by class that do not follow from the counts."""
    found = predictions.metrics_of(np.ones((len(predictions), 1), np.float32))
    return {
        name: tuple(None if np.isnan(value) else float(value) for value in values[:, 0])
        for name, values in found.items()
        if values.ndim == 2 and name not in ("recall", "precision")
    }


def _class_counts(predictions: Answers) -> tuple[ClassCounts, ...]:
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


def _matrix_entry(
    members: Sequence[Predicted],
    references: Sequence[Predicted],
    bases: Sequence[Predicted | None],
    unfused: Sequence[Predicted],
    of_seeds: Mapping[int, Drift | None],
    draws: SharedDraws,
) -> MatrixEntry:
    pairs = [
        (reference, each)
        for reference, each in zip(references, members, strict=True)
        if predictions_of(reference) is not None and predictions_of(each) is not None
    ]
    ran = [each for _, each in pairs]
    joined, reason = _joined_state(members, references, ran)
    state, simulation = _called(joined, members[0])
    is_aligned = members[0].evaluation.aligned
    sides = _sides(pairs)
    answers = [each.ended.value for each in ran if isinstance(each.ended, Measured)]
    joined_drift = None
    if ran and not is_aligned:
        joined_drift = of_seeds[ran[0].seed] if len(ran) == 1 else drift(*sides, draws=draws)
    return MatrixEntry(
        **members[0].evaluation.place.fields,
        aligned=is_aligned,
        state=state,
        reason=reason,
        seeds=tuple(each.seed for each in ran),
        metrics=mean_metrics(sides[1]),
        drift=joined_drift,
        fraction=members[0].evaluation.training.fraction,
        engines=tuple(each.ended.engine for each in members if isinstance(each.ended, Built)),
        unsuited=all(each.evaluation.unsuited for each in members),
        simulation=simulation,
        numeric=numeric_facts([*zip(bases, members, strict=True)]),
        quantised=quantised_facts([*zip(bases, members, strict=True)], unfused),
        non_finite=sum(int((~each.finite()).sum()) for each in map(predictions_of, ran) if each),
        batch=_greatest([each.batch for each in answers]),
        # the worst case is what a user has to expect
        builds=_greatest([each.builds for each in ran if each.builds]),
        warning=next(
            (each.effective["warning"] for each in answers if "warning" in each.effective), ""
        ),
    )


def _greatest(checks: Sequence[_Check]) -> _Check | None:
    """Return the check with the greatest difference; an unknown one counts as the greatest."""
    return max(checks, key=lambda each: (each.max_abs is None, each.max_abs or 0.0), default=None)


def _joined_state(
    members: Sequence[Predicted], references: Sequence[Predicted], ran: Sequence[Predicted]
) -> tuple[State, str]:
    """Return (state, reason) of an entry whose seeds may have ended differently."""
    # for lack of its own result or of its reference's
    absent = [each for each in members if each not in ran]
    if not absent:
        return "measured", ""
    state, reason, _ = state_of(absent[0].ended)
    if state == "measured":
        state, why, _ = state_of(references[members.index(absent[0])].ended)
        reason = f"{REFERENCE_ENDED}{why}"
    if ran:
        return "measured", f"without seed {', '.join(str(each.seed) for each in absent)}: {reason}"
    return state, reason


def _sides(
    pairs: Iterable[tuple[Predicted, Predicted]],
) -> tuple[list[Answers], list[Answers]]:
    both = [(predictions_of(left), predictions_of(right)) for left, right in pairs]
    return [left for left, _ in both if left], [right for _, right in both if right]


def numeric_facts(pairs: Sequence[tuple[Predicted | None, Predicted]]) -> NumericDrift | None:
    """Compare the reference runtime with another, seed by seed, on the same tensors.

    Returns ``None`` if they are one runtime, if one did not run, or if their tensors differ.
    """
    sides = [both for before, after in pairs if (both := same_inputs(before, after))]
    if not sides:
        return None
    return NumericDrift(
        n=sum(len(left) for left, _ in sides),
        flips=sum(int(left.changed(right).sum()) for left, right in sides),
        non_finite=not_finite(sides),
        logits=type(sides[0][0]).distance(sides),
    )


def same_inputs(before: Predicted | None, after: Predicted) -> tuple[Answers, Answers] | None:
    """Return the predictions of two cells; ``None`` unless both ran, on equal tensors."""
    if before is None or before is after:
        return None
    left, right = before.ended, after.ended
    if not isinstance(left, Measured) or not isinstance(right, Measured):
        return None
    # other tensors: the difference is not the runtime's alone
    if left.value.inputs != right.value.inputs:
        return None
    return left.value.predictions, right.value.predictions


def unfused_cells(predicted: Sequence[Predicted]) -> list[Predicted]:
    """List the cells that executed an int8 graph unfused."""
    return [each for each in predicted if _graph(each) and each.evaluation.runtime.simulation]


def quantised_facts(
    pairs: Sequence[tuple[Predicted | None, Predicted]], unfused: Sequence[Predicted]
) -> QuantisedDrift | None:
    """Divide the drift of a runtime's own int8; ``pairs`` hold reference runtime and cell by seed.

    ``unfused`` are the `unfused_cells` of the run. Returns ``None`` unless every seed that ran has
    one of the same model, graph and tensors.
    """
    ran = [(base, each) for base, each in pairs if _graph(each)]
    exact = [_unfused_of(each, unfused) for _, each in ran]
    known = [each for each in exact if each is not None]
    if not known or len(known) < len(exact):
        return None
    quantisation = numeric_facts([(base, each) for (base, _), each in zip(ran, known, strict=True)])
    kernel = numeric_facts([(each, own) for (_, own), each in zip(ran, known, strict=True)])
    if quantisation is None or kernel is None or quantisation.n != kernel.n:
        return None
    runtime = known[0].evaluation.place.column.runtime
    return QuantisedDrift(unfused=runtime, quantisation=quantisation, kernel=kernel)


def _unfused_of(predicted: Predicted, unfused: Sequence[Predicted]) -> Predicted | None:
    """Find the cell that executed the same graph of the same model unfused, on equal tensors."""
    # late: pages read this room too, and need no sessions
    from alignkit.attribute.attributed_cells import unfused_of

    own = predicted.evaluation
    beside = {
        each.evaluation.runtime: each
        for each in unfused
        if each.evaluation.training == own.training and same_inputs(each, predicted)
    }
    cells = {**beside, own.runtime: predicted}
    found = unfused_of(own.runtime, {runtime: [_graph(each)] for runtime, each in cells.items()})
    return None if found is None else beside[found]


def _graph(predicted: Predicted) -> str:
    """Name the int8 graph that a cell executed; empty if it has none or did not run."""
    ended = predicted.ended
    return ended.value.effective.get(QUANTISED_GRAPH, "") if isinstance(ended, Measured) else ""
