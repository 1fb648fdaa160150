"""Results of every mixture of two paths on a set of images, reduced to what metrics need of them.

Memory never holds the tensors and answers of all images: they are made a batch at a time. Of each
mixture and model stay the tallies of its answers, which images changed, and how far they moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Batch, FloatArray
from alignkit.attribute.mixture_records import (
    CellSession,
    ModelSession,
    checked_in,
    mixture_records,
)
from alignkit.compare.answers import RatioOfSums, Weighted
from alignkit.compare.bootstrap import joined_groups
from alignkit.errors import NothingCompared
from alignkit.isolation.worker import EVERYTHING, Begin, Encoded
from alignkit.preprocess.image_taps import encoded_images, run_isolated, warm_up
from alignkit.preprocess.normalise import Normalise
from alignkit.preprocess.stage_mixtures import FromCandidate, LeftOut, MixedImage, StageMixtures
from alignkit.samples import Samples, copies_among
from alignkit.task_facts import CLASSIFICATION, TaskFacts

if TYPE_CHECKING:
    from alignkit.compare.answers import Answers, Tallies

Mixed: TypeAlias = MixedImage | LeftOut
_BATCH = 128
"""Number of tensors that are predicted together by a session without stored cells."""
_BYTES = 1 << 29
"""Greatest size of a group's tensors in memory, in bytes; a single image may exceed it."""
_PROCESSES = 2  # the models run in this process at the same time

Sessions: TypeAlias = Mapping[FromCandidate, ModelSession]
"""One model in its runtimes: runtime factors taken from the candidate → session. One runtime is
``{frozenset(): s}``; a second adds ``{frozenset({"precision"}): t}``. All subsets of the runtime
factors must be keys."""


def task_of(models: Sequence[Sessions]) -> TaskFacts:
    """Describe the task that the models solve; without a model, that of records that name none."""
    return models[0][frozenset()].decoder.task.facts() if models else CLASSIFICATION


@dataclass(frozen=True, slots=True, eq=False)
class MixtureAnswers:
    """The answers of one model to images in one mixture, beside those in the reference."""

    changed: npt.NDArray[np.bool_]
    """(images,), whether each answer is another one."""
    apart: FloatArray
    """(images,), how far it moved; NaN where that is unknown."""
    quality: FloatArray
    """(images,), how good it is; NaN without labels."""
    measures: Mapping[str, Weighted]
    """The task's measures and ``churn``, from the reference to the mixture."""
    tallies: Tallies

    @classmethod
    def of(cls, reference: Answers, mixture: Answers) -> MixtureAnswers:
        """Compare the answers to the same images."""
        return cls(
            reference.changed(mixture),
            reference.apart(mixture),
            mixture.quality(),
            {"churn": reference.churn(mixture), **reference.measures_of(mixture)},
            mixture.tallies(),
        )

    @classmethod
    def joined(cls, parts: Sequence[MixtureAnswers]) -> MixtureAnswers:
        """Join those of different images, in the order given."""
        tallies = [part.tallies for part in parts]
        measures: Any = [part.measures for part in parts]  # ratios, where parts are compared
        return cls(
            np.concatenate([part.changed for part in parts]),
            np.concatenate([part.apart for part in parts]),
            np.concatenate([part.quality for part in parts]),
            {name: RatioOfSums.joined([each[name] for each in measures]) for name in measures[0]},
            type(tallies[0]).joined(tallies),
        )


_Parts: TypeAlias = "list[list[MixtureAnswers]] | list[list[Answers]]"
"""Of each mixture, those of each model; not compared yet where answers depend on other images."""


@dataclass(frozen=True, slots=True, eq=False)
class MixtureResults:
    """Results of the mixtures of two paths on the images that all of them could prepare."""

    wanted: tuple[FromCandidate, ...]
    """Mixtures along the second axis of the array below; the reference first."""
    rows: npt.NDArray[np.int64]
    """(images,): index of each image among the samples."""
    left_out: tuple[tuple[str, str], ...]
    """(id, reason) of every other sample."""
    distance: FloatArray
    """(images, mixtures): mean |Δ| of the tensor from the reference's, in grey levels 0..255; NaN
    where the two have different sizes."""
    answers: tuple[tuple[MixtureAnswers, ...], ...]
    """Of each mixture, those of each model."""
    groups: npt.NDArray[np.int64] | None = None
    """(images,): the group that a resample draws an image with; ``None`` if it draws images."""

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.answers[0])

    def of_images(self, field: Callable[[MixtureAnswers], npt.NDArray[np.generic]]) -> FloatArray:
        """Average a field over the models: (images, mixtures)."""
        by_model = [np.stack([field(each) for each in own], axis=1) for own in self.answers]
        averaged: FloatArray = np.stack(by_model, axis=1).mean(axis=2)
        return averaged


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
    distances: list[FloatArray] = []
    parts: list[Any] = []
    left_out: list[tuple[str, str]] = []
    kept: list[int] = []
    digests: list[str] = []
    needed = dict.fromkeys(taken & stages for taken in wanted)
    all_made = mix_stages(mixed, needed, encoded_images(samples), processes=_PROCESSES)
    for made in _together(all_made, models):
        whole = {index: each for index, each in made.items() if not isinstance(each, LeftOut)}
        if whole:
            images = list(whole.values())
            batch = samples.take(list(whole))
            parts.append(_answers(batch, images, wanted, stages, models))
            distances.append(_distances(images, wanted, stages, levels))
        kept += whole
        digests += (each.digest for each in whole.values())
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
    shown = samples.take(kept)
    answers, groups = _joined(parts, models, shown, copies_among(shown.ids, digests))
    return MixtureResults(
        tuple(wanted),
        np.asarray(kept, np.int64),
        tuple(left_out),
        np.concatenate(distances),
        answers,
        groups,
    )


def _joined(
    parts: Sequence[Any], models: Sequence[Sessions], samples: Samples, copies: Mapping[str, str]
) -> tuple[tuple[tuple[MixtureAnswers, ...], ...], npt.NDArray[np.int64] | None]:
    """Join the `_Parts` of all ``samples``; return the groups that resamples draw, too.

    ``copies`` are their `copies_among`.
    """
    columns = range(len(parts[0]))
    own = [[[part[at][model] for part in parts] for model in range(len(models))] for at in columns]
    groups = None
    if not models or isinstance(parts[0][0][0], MixtureAnswers):
        joined = tuple(tuple(map(MixtureAnswers.joined, each)) for each in own)
        return joined, joined_groups(samples.ids, None, copies)
    by_model = []
    for model, sessions in enumerate(models):
        decoder = sessions[frozenset()].decoder
        whole = [
            decoder.answers(
                samples.ids, np.concatenate([part.raw_rows() for part in each[model]]), samples
            )
            for each in own
        ]
        groups = joined_groups(samples.ids, whole[0].groups(), copies)
        by_model.append([MixtureAnswers.of(whole[0], each) for each in whole])
    return tuple(tuple(each[column] for each in by_model) for column in columns), groups


@dataclass(frozen=True, slots=True)
class MixStages:
    """Make the wanted mixtures of each image; a `Work` of `alignkit.isolation`."""

    mixtures: StageMixtures
    wanted: tuple[FromCandidate, ...]
    """In an order that decides which failure of an image is its reason, in every process."""

    def warm_up(self, begin: Begin) -> None:
        """Run both paths once."""
        warm_up(self.mixtures.paths, begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> list[Mixed]:
        """Return each image in every mixture, or why some mixture has none."""
        made: list[Mixed] = []
        for position, image in enumerate(images):
            begin(position, EVERYTHING)
            lost = [LeftOut(reason) for _, reason in image.lost]
            made.append(lost[0] if lost else self.mixtures.image(image.data, self.wanted))
        return made


def mix_stages(
    mixtures: StageMixtures,
    wanted: Iterable[FromCandidate],
    images: Iterable[Encoded],
    *,
    processes: int | None = None,
) -> Iterator[Mixed]:
    """Yield each image in every wanted mixture, or why it is left out."""
    work = MixStages(mixtures, tuple(wanted))
    # one image a task: its tensors may take ten megabytes
    parts = run_isolated(work, mixtures.paths, images, processes=processes, images_a_task=1)
    for (mixed,) in parts:
        yield mixed


def _together(all_made: Iterable[Mixed], models: Sequence[Sessions]) -> Iterator[dict[int, Mixed]]:
    """Group images, by index, until the mixtures without stored outputs fill about one batch."""
    sessions = [each for model in models for each in model.values()]
    cells = [each for each in sessions if isinstance(each, CellSession)]
    batch = max((each.size for each in cells), default=_BATCH)
    reusing = [each for each in cells if each.reuses]
    # images of a batch whose outputs are stored verify the others; without reuse each mixture is
    # a batch of its own
    room: float = batch if not cells else batch - checked_in(batch) if reusing else math.inf
    ends_stored = all(each.candidate is not None for each in reusing)
    group: dict[int, Mixed] = {}
    new = held = 0
    for index, made in enumerate(all_made):
        more, size = (
            (0, 0)
            if isinstance(made, LeftOut)
            else _new_tensors(made.tensors, ends_stored=ends_stored)
        )
        if group and (new + more > room or held + size > _BYTES or len(group) == batch):
            yield group
            group, new, held = {}, 0, 0
        group[index] = made
        new, held = new + more, held + size
    if group:
        yield group


def _new_tensors(image: Mapping[FromCandidate, Batch], *, ends_stored: bool) -> tuple[int, int]:
    """Count an image's distinct tensors without stored outputs, and the bytes of all.

    The outputs of the reference are stored; with ``ends_stored`` those of the candidate are too.
    """
    distinct = {id(each): each.nbytes for each in image.values()}
    ends = [frozenset(), max(image, key=len)] if ends_stored else [frozenset()]
    own = {id(image[taken]) for taken in ends}
    return len(distinct) - len(own), sum(distinct.values())


def _distances(
    images: Sequence[MixedImage],
    wanted: Sequence[FromCandidate],
    stages: FromCandidate,
    levels: FloatArray,
) -> FloatArray:
    """Compute (images, mixtures) mean |Δ| from the reference; ``levels`` scales the channels."""
    distance = np.zeros((len(images), len(wanted)))
    for row, image in enumerate(images):
        known: dict[int, float] = {}
        reference = image.tensors[frozenset()]
        for column, taken in enumerate(wanted):
            candidate = image.tensors[taken & stages]
            if id(candidate) not in known:  # mixtures of equal pixels share one array
                known[id(candidate)] = _distance(reference, candidate, levels)
            distance[row, column] = known[id(candidate)]
    return distance


def _distance(reference: Batch, candidate: Batch, levels: FloatArray) -> float:
    if reference.shape != candidate.shape:
        return float("nan")
    change = np.abs(candidate.astype(np.float64) - reference) * levels
    return float(change.mean())


def _answers(
    samples: Samples,
    images: Sequence[MixedImage],
    wanted: Sequence[FromCandidate],
    stages: FromCandidate,
    models: Sequence[Sessions],
) -> _Parts:
    """Return the answers of every mixture, of each model, to all of ``samples``."""
    by_model: list[Any] = []
    for model in models:
        answers = _model_answers(samples, images, wanted, stages, model)
        compared = not answers[0].together
        by_model.append([MixtureAnswers.of(answers[0], e) if compared else e for e in answers])
    return [[own[column] for own in by_model] for column in range(len(wanted))]


def _model_answers(
    samples: Samples,
    images: Sequence[MixedImage],
    wanted: Sequence[FromCandidate],
    stages: FromCandidate,
    model: Sessions,
) -> list[Answers]:
    """Predict every mixture, all of a runtime together."""
    columns: dict[FromCandidate, list[int]] = {}
    for column, taken in enumerate(wanted):
        columns.setdefault(taken - stages, []).append(column)
    found: dict[int, Answers] = {}
    for runtime, own in columns.items():
        session = model[runtime]
        mixed = [wanted[column] & stages for column in own]
        made = mixture_records(session, samples, images, mixed)
        for column, records in zip(own, made, strict=True):
            found[column] = session.decoder.answers(samples.ids, records, samples)
    return [found[column] for column in range(len(wanted))]
