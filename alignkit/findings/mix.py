"""Cells → whether training on a mix of paths removes the drift between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alignkit.findings.entry_change import drift_of, entry_change
from alignkit.place import Place, Row
from alignkit.record import MatrixEntry, MixFacts
from alignkit.record.cell import DRIFT_METRICS

if TYPE_CHECKING:
    from alignkit.predict.cells import Predicted


def mix_facts(
    predicted: Sequence[Predicted], matrix: Sequence[MatrixEntry], *, resamples: int
) -> tuple[MixFacts, ...]:
    """Each mix served with each other path than its first, in the reference runtime.

    Beside it the models of the first path alone, trained on as many images.
    """
    by_place = {entry.place: entry for entry in matrix}
    runtimes = {(entry.backend, entry.precision) for entry in matrix if entry.aligned}
    found = []
    for mixed in matrix:
        row = mixed.row
        alone = Row(row.preprocesses[:1], row.fraction)
        single = by_place.get(Place(alone, mixed.column))
        if len(row.preprocesses) == 1 or (mixed.backend, mixed.precision) not in runtimes:
            continue
        if single is None or single.drift is None or mixed.drift is None:
            continue
        changes = entry_change(predicted, single, mixed, DRIFT_METRICS, resamples=resamples)
        found += [
            MixFacts(
                metric=metric,
                mix=mixed.trained_with,
                alone=single.trained_with,
                evaluated_with=mixed.evaluated_with,
                in_mix=mixed.evaluated_with in row.preprocesses,
                backend=mixed.backend,
                precision=mixed.precision,
                mixed=drift_of(mixed, metric),
                single=drift_of(single, metric),
                change=changes[metric],
            )
            for metric in DRIFT_METRICS
        ]
    return tuple(found)
