"""What flipped images have in common, for each path that may serve its models."""

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
    from alignkit.plan import Plan
    from alignkit.plan.sets import Sets
    from alignkit.predict.cells import Predicted
    from alignkit.prepare import Prepared
    from alignkit.progress import Progress
    from alignkit.samples import Samples

NONE_FLIPPED = "no prediction changed"
ALL_FLIPPED = "every prediction changed"
TOO_FEW = "no kind, or the images outside it, has enough images to be compared"


def flipped_kinds(
    plan: Plan, predicted: Sequence[Predicted], sets: Sets, progress: Progress
) -> tuple[FlippedFacts, ...]:
    """The first row's models, in their reference runtime, served along every other path.

    Empty where none of those ran.
    """
    names = {path.name for path in plan.experiment.paths}
    pairs = _pairs([each for each in predicted if each.evaluation.preprocess.name in names])
    if not pairs:
        return ()
    with progress.stage("flipped images", len(pairs), "their kinds") as stage:
        own = next(iter(pairs))[0]
        kinds = _kinds(sets.evaluated(own), sets.evaluation)
        found = []
        for (reference, candidate, *runtime), both in pairs.items():
            found.append(_facts(reference, candidate, runtime, both, kinds, plan))
            stage.advance()
    return tuple(found)


_Entry = tuple[str, str, str, str]
_Sides = list[tuple["Predictions", "Predictions"]]


def _pairs(predicted: Sequence[Predicted]) -> dict[_Entry, _Sides]:
    """(path, other path, backend, precision) → both predictions of each seed."""
    own = [each for each in predicted if each.evaluation.aligned]
    row = own[0].evaluation.training.row
    first = {each.evaluation.training.key: each for each in own}
    pairs: dict[_Entry, _Sides] = {}
    for each in (each for each in predicted if each.evaluation.training.row == row):
        evaluation = each.evaluation
        before = first[evaluation.training.key]
        if (
            evaluation.runtime == before.evaluation.runtime
            and not evaluation.aligned
            and isinstance(before.ended, Measured)
            and isinstance(each.ended, Measured)
        ):
            paths = before.evaluation.preprocess.name, evaluation.preprocess.name
            entry = (*paths, evaluation.runtime.name, evaluation.runtime.precision)
            sides = aligned(before.ended.value.predictions, each.ended.value.predictions)
            pairs.setdefault(entry, []).append(sides)
    return pairs


def _kinds(prepared: Prepared, samples: Samples) -> Mapping[str, Mapping[str, str]]:
    """Dimension → sample id → its kind; of the images that the models' own path decodes."""
    places: list[int] = prepared.decoded.tolist()
    kinds = kinds_of_images(
        (samples.read(place) for place in places),
        (prepared.pixels[prepared.rows[place]] for place in places),
    )
    ids = [samples.ids[place] for place in places]
    return {name: dict(zip(ids, values, strict=True)) for name, values in kinds.items()}


def _facts(
    reference: str,
    candidate: str,
    runtime: Sequence[str],
    both: _Sides,
    kinds: Mapping[str, Mapping[str, str]],
    plan: Plan,
) -> FlippedFacts:
    before, after = [a for a, _ in both], [b for _, b in both]
    flips = np.stack([a.predicted != b.predicted for a, b in both], axis=1)
    images, flipped = len(flips), int(flips.any(axis=1).sum())
    listed = {name: [values[each] for each in before[0].ids] for name, values in kinds.items()}
    resamples = plan.experiment.content.evaluate.resamples
    found = subgroups(before, after, listed, resamples=resamples)
    return FlippedFacts(
        reference=reference,
        candidate=candidate,
        backend=runtime[0],
        precision=runtime[1],
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
