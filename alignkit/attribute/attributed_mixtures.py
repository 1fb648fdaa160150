"""Results of every mixture of two paths on a set of images, reduced to a few numbers per image.

Memory never holds the tensors and logits of all images: they are made a batch at a time, and each
image keeps only its distances, its predicted class and its logit distance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Batch, FloatArray, Logits
from alignkit.attribute.mixture_logits import CellSession, checked_in, mixture_logits
from alignkit.backends import Session
from alignkit.compare.metrics import predicted_classes
from alignkit.errors import NothingCompared
from alignkit.isolation.worker import EVERYTHING, Begin, Encoded
from alignkit.preprocess import Normalise
from alignkit.preprocess.image_taps import encoded_images, run_isolated, warm_up
from alignkit.preprocess.stage_mixtures import FromCandidate, LeftOut, StageMixtures
from alignkit.samples import Samples

Mixed: TypeAlias = "dict[FromCandidate, Batch] | LeftOut"
_BATCH = 128
"""Number of tensors that are predicted together by a session without stored cells."""
_BYTES = 1 << 29
"""Greatest size of a group's tensors in memory, in bytes; a single image may exceed it."""
_PROCESSES = 2  # the models run in this process at the same time

Sessions: TypeAlias = Mapping[FromCandidate, Session | CellSession]
"""One model in its runtimes: runtime factors taken from the candidate → session. One runtime is
``{frozenset(): s}``; a second adds ``{frozenset({"precision"}): t}``. All subsets of the runtime
factors must be keys."""
_Part: TypeAlias = tuple[FloatArray, npt.NDArray[np.int64], FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class MixtureResults:
    """Results of the mixtures of two paths on the images that all of them could prepare."""

    wanted: tuple[FromCandidate, ...]
    """Mixtures along the second axis of every array below; the reference first."""
    rows: npt.NDArray[np.int64]
    """(images,): index of each image among the samples."""
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
    progress: Callable[[int, int], None] | None = None,
) -> MixtureResults:
    """Run every wanted mixture on every sample.

    ``normalise`` is the reference's; its ``std`` turns differences of tensors back into grey
    levels. Raises `NothingCompared` if no image can be prepared by all mixtures.
    """
    stages = frozenset(mixed.factors)
    levels = 255.0 * np.asarray(normalise.std)[:, None, None]
    parts: list[_Part] = []
    left_out: list[tuple[str, str]] = []
    kept: list[int] = []
    needed = {taken & stages for taken in wanted}
    all_made = mix_stages(mixed, needed, encoded_images(samples), processes=_PROCESSES)
    for made in _together(all_made, models):
        whole = {index: each for index, each in made.items() if not isinstance(each, LeftOut)}
        if whole:
            ids = [samples.ids[index] for index in whole]
            parts.append(_reduced(ids, list(whole.values()), wanted, stages, models, levels))
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
    return MixtureResults(
        tuple(wanted),
        np.asarray(kept, np.int64),
        tuple(left_out),
        *(np.concatenate(arrays) for arrays in zip(*parts, strict=True)),
    )


@dataclass(frozen=True, slots=True)
class MixStages:
    """Make the wanted mixtures of each image; a `Work` of `alignkit.isolation`."""

    mixtures: StageMixtures
    wanted: frozenset[FromCandidate]

    def warm_up(self, begin: Begin) -> None:
        """Run both paths once."""
        warm_up(self.mixtures.paths, begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> list[Mixed]:
        """Return for each image the tensor of every mixture, or why some mixture has none."""
        made: list[Mixed] = []
        for position, image in enumerate(images):
            begin(position, EVERYTHING)
            lost = [LeftOut(reason) for _, reason in image.lost]
            made.append(lost[0] if lost else self.mixtures.tensors(image.data, self.wanted))
        return made


def mix_stages(
    mixtures: StageMixtures,
    wanted: Iterable[FromCandidate],
    images: Iterable[Encoded],
    *,
    processes: int | None = None,
) -> Iterator[Mixed]:
    """Yield each image's tensors by mixture, or why it is left out."""
    work = MixStages(mixtures, frozenset(wanted))
    # one image a task: its tensors may take ten megabytes
    parts = run_isolated(work, mixtures.paths, images, processes=processes, images_a_task=1)
    for (mixed,) in parts:
        yield mixed


def _together(all_made: Iterable[Mixed], models: Sequence[Sessions]) -> Iterator[dict[int, Mixed]]:
    """Group images, by index, until the mixtures without stored logits fill about one batch."""
    sessions = [each for model in models for each in model.values()]
    cells = [each for each in sessions if isinstance(each, CellSession)]
    batch = max((each.size for each in cells), default=_BATCH)
    # images of a batch whose logits are stored verify the others
    room = batch - checked_in(batch) if cells else batch
    ends_stored = all(each.candidate is not None for each in cells)
    group: dict[int, Mixed] = {}
    new = held = 0
    for index, made in enumerate(all_made):
        more, size = (
            (0, 0) if isinstance(made, LeftOut) else _new_tensors(made, ends_stored=ends_stored)
        )
        if group and (new + more > room or held + size > _BYTES or len(group) == batch):
            yield group
            group, new, held = {}, 0, 0
        group[index] = made
        new, held = new + more, held + size
    if group:
        yield group


def _new_tensors(image: Mapping[FromCandidate, Batch], *, ends_stored: bool) -> tuple[int, int]:
    """Count an image's distinct tensors without stored logits, and the bytes of all.

    The logits of the reference are stored; with ``ends_stored`` those of the candidate are too.
    """
    distinct = {id(each): each.nbytes for each in image.values()}
    ends = [frozenset(), max(image, key=len)] if ends_stored else [frozenset()]
    own = {id(image[taken]) for taken in ends}
    return len(distinct) - len(own), sum(distinct.values())


def _reduced(
    ids: Sequence[str],
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
            if id(candidate) not in known:  # mixtures of equal pixels share one array
                change = np.abs(candidate.astype(np.float64) - reference) * levels
                known[id(candidate)] = float(change.mean())
            distance[row, column] = known[id(candidate)]
    predicted = np.zeros((len(tensors), len(wanted), len(models)), np.int64)
    apart = np.zeros(predicted.shape)
    for number, model in enumerate(models):
        logits = _logits(ids, tensors, wanted, stages, model)
        for column, found in enumerate(logits):
            predicted[:, column, number] = predicted_classes(found)
            apart[:, column, number] = _mean_apart(logits[0], found)
    return distance, predicted, apart


def _logits(
    ids: Sequence[str],
    tensors: Sequence[Mapping[FromCandidate, Batch]],
    wanted: Sequence[FromCandidate],
    stages: FromCandidate,
    model: Sessions,
) -> list[Logits]:
    """Predict every mixture, all of a runtime together."""
    columns: dict[FromCandidate, list[int]] = {}
    for column, taken in enumerate(wanted):
        columns.setdefault(taken - stages, []).append(column)
    found: dict[int, Logits] = {}
    for runtime, own in columns.items():
        mixed = [wanted[column] & stages for column in own]
        found |= zip(own, mixture_logits(model[runtime], ids, tensors, mixed), strict=True)
    return [found[column] for column in range(len(wanted))]


def _mean_apart(reference: Logits, candidate: Logits) -> FloatArray:
    """Compute (samples,) mean |Δ|; NaN where either side is not finite."""
    finite = np.isfinite(reference).all(axis=1) & np.isfinite(candidate).all(axis=1)
    apart = np.full(len(reference), np.nan)
    change = candidate[finite].astype(np.float64) - reference[finite]
    apart[finite] = np.abs(change).mean(axis=1)
    return apart
