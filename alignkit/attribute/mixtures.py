"""What every mixture of two paths gives on a set of images, reduced to numbers an image.

The tensors and logits of all mixtures are never held together: images are taken a batch at a time,
and of each only its distances, its predicted class and its logit distance are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.backends import Session
from alignkit.compare.metrics import predicted_classes
from alignkit.errors import NothingCompared
from alignkit.preprocess.stage_mixtures import FromCandidate, LeftOut, StageMixtures

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Labels, Logits
    from alignkit.preprocess import Normalise
    from alignkit.samples import Samples

IMAGES = 16
"""Images whose mixtures are in memory together."""

Sessions: TypeAlias = Mapping[FromCandidate, Session]
"""One model in its runtimes: the runtime factors taken from the candidate → the session that has
them. ``{frozenset(): s}`` for one runtime; with ``{frozenset({"precision"}): t}`` besides for two.
All subsets of the runtime factors must be there."""


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """The mixtures of two paths on the images that all of them could prepare."""

    wanted: tuple[FromCandidate, ...]
    """The second axis of every array below; the reference first."""
    rows: npt.NDArray[np.int64]
    """(images,): which of the samples."""
    left_out: tuple[tuple[str, str], ...]
    """(id, reason) of every other sample."""
    distance: FloatArray
    """(images, mixtures): mean |Δ| of the tensor from the reference's, in grey levels 0..255."""
    predicted: npt.NDArray[np.int64]
    """(images, mixtures, models): the class of the greatest logit."""
    logit_distance: FloatArray
    """(images, mixtures, models): mean |Δ logit| from the reference; NaN where a logit is not
    finite."""


def observe(
    samples: Samples,
    mixed: StageMixtures,
    normalise: Normalise,
    wanted: Sequence[FromCandidate],
    models: Sequence[Sessions] = (),
    *,
    threads: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Observed:
    """Run every wanted mixture on every sample.

    ``normalise`` is the reference's; its ``std`` turns differences of tensors back into grey
    levels. Raises `NothingCompared` if no image can be prepared by all mixtures.
    """
    stages = frozenset(mixed.factors)
    levels = 255.0 * np.asarray(normalise.std)[:, None, None]
    parts: list[_Part] = []
    left_out: list[tuple[str, str]] = []
    kept: list[int] = []
    for made in _prepared(samples, mixed, {taken & stages for taken in wanted}, threads):
        whole = {index: each for index, each in made.items() if not isinstance(each, LeftOut)}
        if whole:
            parts.append(_reduced(list(whole.values()), wanted, stages, models, levels))
        kept += whole
        left_out += [
            (samples.ids[index], each.reason)
            for index, each in made.items()
            if isinstance(each, LeftOut)
        ]
        if progress:
            progress(max(made) + 1, len(samples))
    if not parts:
        first = f"; the first, {left_out[0][0]}: {left_out[0][1]}" if left_out else ""
        raise NothingCompared(f"no image could be prepared by every mixture of the paths{first}")
    return Observed(
        tuple(wanted),
        np.asarray(kept, np.int64),
        tuple(left_out),
        *(np.concatenate(arrays) for arrays in zip(*parts, strict=True)),
    )


def _prepared(
    samples: Samples, mixed: StageMixtures, pixels: Collection[FromCandidate], threads: int
) -> Iterator[dict[int, dict[FromCandidate, Batch] | LeftOut]]:
    """`IMAGES` at a time: index of the sample → its tensor of every mixture."""
    with ThreadPoolExecutor(threads, "attribute") as pool:
        for start in range(0, len(samples), IMAGES):
            chunk = range(start, min(start + IMAGES, len(samples)))
            made = pool.map(lambda index: mixed.tensors(samples.read(index), pixels), chunk)
            yield dict(zip(chunk, made, strict=True))


_Part: TypeAlias = tuple[FloatArray, npt.NDArray[np.int64], FloatArray]


def _reduced(
    tensors: Sequence[Mapping[FromCandidate, Batch]],
    wanted: Sequence[FromCandidate],
    stages: FromCandidate,
    models: Sequence[Sessions],
    levels: FloatArray,
) -> _Part:
    distance = np.zeros((len(tensors), len(wanted)))
    for row, image in enumerate(tensors):
        known: dict[int, float] = {}
        reference = image[frozenset()]
        for column, taken in enumerate(wanted):
            candidate = image[taken & stages]
            if id(candidate) not in known:
                change = np.abs(candidate.astype(np.float64) - reference) * levels
                known[id(candidate)] = float(change.mean())
            distance[row, column] = known[id(candidate)]
    predicted = np.zeros((len(tensors), len(wanted), len(models)), np.int64)
    apart = np.zeros(predicted.shape)
    for number, model in enumerate(models):
        logits = _logits(tensors, wanted, stages, model)
        for column, found in enumerate(logits):
            predicted[:, column, number] = predicted_classes(found)
            apart[:, column, number] = _mean_apart(logits[0], found)
    return distance, predicted, apart


def _logits(
    tensors: Sequence[Mapping[FromCandidate, Batch]],
    wanted: Sequence[FromCandidate],
    stages: FromCandidate,
    model: Sessions,
) -> list[Logits]:
    """Per mixture; batches of the same arrays in the same runtime are predicted once."""
    known: dict[tuple[int, ...], Logits] = {}
    found = []
    for taken in wanted:
        arrays = [image[taken & stages] for image in tensors]
        session = model[taken - stages]
        same = (id(session), *(id(array) for array in arrays))
        if same not in known:
            known[same] = session.predict(np.stack(arrays))
        found.append(known[same])
    return found


def _mean_apart(reference: Logits, candidate: Logits) -> FloatArray:
    """(samples,) mean |Δ|; NaN where either side is not finite."""
    finite = np.isfinite(reference).all(axis=1) & np.isfinite(candidate).all(axis=1)
    apart = np.full(len(reference), np.nan)
    change = candidate[finite].astype(np.float64) - reference[finite]
    apart[finite] = np.abs(change).mean(axis=1)
    return apart


def labels_of(samples: Samples, rows: npt.NDArray[np.int64]) -> Labels | None:
    """(images,) labels of the observed samples; ``None`` if they have none."""
    return np.asarray(samples.labels, np.int64)[rows] if samples.labels else None
