"""Kinds of images that flip, for each path that serves the first row's models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from alignkit.attribute.subgroups import kinds_of_images, subgroups
from alignkit.compare.predictions import aligned
from alignkit.outcome import Measured
from alignkit.record import FlippedFacts

if TYPE_CHECKING:
    from alignkit.compare.predictions import Predictions
    from alignkit.place import Column
    from alignkit.plan import Plan
    from alignkit.predict.cells import Predicted
    from alignkit.prepare import Prepared
    from alignkit.prepare.sets import Sets
    from alignkit.progress import Progress
    from alignkit.samples import Samples

NONE_FLIPPED = "no prediction changed"
ALL_FLIPPED = "every prediction changed"
TOO_FEW = "no kind, or the images outside it, has enough images to be compared"


def flipped_kinds(
    plan: Plan, predicted: Sequence[Predicted], sets: Sets, progress: Progress
) -> tuple[FlippedFacts, ...]:
    """Compare the first row's models, in their reference runtime, with every other path.

    Empty if none of those cells ran.
    """
    names = {each.name for each in plan.preprocesses}
    pairs = _pairs([each for each in predicted if each.evaluation.preprocess.name in names])
    if not pairs:
        return ()
    with progress.stage("flipped images", len(pairs), "their kinds") as stage:
        own = next(iter(pairs))[0]
        kinds = _kinds(sets.evaluated(own), sets.evaluation)
        found = []
        for (reference, column), both in pairs.items():
            found.append(_facts(reference, column, both, kinds, plan.resamples))
            stage.advance()
    return tuple(found)


_Both = list[tuple["Predictions", "Predictions"]]
"""Predictions of a model on its own path and on another; one pair for each seed."""


def _pairs(predicted: Sequence[Predicted]) -> dict[tuple[str, Column], _Both]:
    """Map the models' own path and another column to both predictions of each seed."""
    own = [each for each in predicted if each.evaluation.aligned]
    row = own[0].evaluation.training.row
    first = {each.evaluation.training.key: each for each in own}
    pairs: dict[tuple[str, Column], _Both] = {}
    for each in (each for each in predicted if each.evaluation.training.row == row):
        evaluation = each.evaluation
        before = first[evaluation.training.key]
        if (
            evaluation.runtime == before.evaluation.runtime
            and not evaluation.aligned
            and isinstance(before.ended, Measured)
            and isinstance(each.ended, Measured)
        ):
            both = aligned(before.ended.value.predictions, each.ended.value.predictions)
            entry = before.evaluation.preprocess.name, evaluation.place.column
            pairs.setdefault(entry, []).append(both)
    return pairs


def _kinds(prepared: Prepared, samples: Samples) -> Mapping[str, Mapping[str, str]]:
    """Map dimension to sample id → kind, for the images that the models' own path decodes."""
    places: list[int] = prepared.decoded.tolist()
    kinds = kinds_of_images(
        (samples.read(place) for place in places),
        (prepared.pixels[prepared.rows[place]] for place in places),
    )
    ids = [samples.ids[place] for place in places]
    return {name: dict(zip(ids, values, strict=True)) for name, values in kinds.items()}


def _facts(
    reference: str,
    column: Column,
    both: _Both,
    kinds: Mapping[str, Mapping[str, str]],
    resamples: int,
) -> FlippedFacts:
    before, after = [a for a, _ in both], [b for _, b in both]
    flips = np.stack([a.predicted != b.predicted for a, b in both], axis=1)
    images, flipped = len(flips), int(flips.any(axis=1).sum())
    listed = {name: [values[each] for each in before[0].ids] for name, values in kinds.items()}
    found = subgroups(before, after, listed, resamples=resamples)
    return FlippedFacts(
        reference=reference,
        candidate=column.preprocess,
        backend=column.backend,
        precision=column.precision,
        images=images,
        seeds=len(both),
        flipped=flipped,
        subgroups=found,
        reason="" if found else _reason(flipped, images),
    )


def _reason(flipped: int, images: int) -> str:
    if flipped == 0:
        return NONE_FLIPPED
    return ALL_FLIPPED if flipped == images else TOO_FEW
