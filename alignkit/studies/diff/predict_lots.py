"""`PredictLots`: a lot of images → a model's predictions along all paths, a `PredictedLot`.

Images are decoded and resized in worker processes, which one of them may kill; the session runs in
the process of the engine. Batches are of 32 consecutive images of a lot, on every engine, so that
the numbers do not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from itertools import islice
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from alignkit.attribute.attributed_mixtures import Mixed, MixStages
from alignkit.attribute.mixture_records import ModelSession, TaskSession, mixture_records
from alignkit.errors import NothingCompared
from alignkit.isolation import Limits
from alignkit.isolation.worker import Begin, Encoded
from alignkit.lots import Lot
from alignkit.predict.given_model import Opened
from alignkit.predict.kept_session import GivenSession
from alignkit.preprocess import Preprocess
from alignkit.preprocess.stage_mixtures import FromCandidate, LeftOut, MixedImage
from alignkit.record import Count
from alignkit.record.diff_document import PredictionDrift
from alignkit.record.stored import STRICT
from alignkit.samples import Samples
from alignkit.studies.diff.diff_predictions import (
    REFERENCE,
    AnswersTally,
    ClassifierTally,
    MixedPair,
)
from alignkit.tasks import Record
from alignkit.version import SHARE_LAYERS, code_version

PREDICTED_TOGETHER = 32
KnownRecords: TypeAlias = dict[tuple[str, ...], Sequence[Record]]
"""Ids of a batch → the records of the reference."""


@dataclass(slots=True, eq=False)
class PredictedPair:
    """Predictions along two paths and their mixtures. It is stored as it is."""

    __pydantic_config__ = STRICT

    left_out: Count = 0
    """Images that some mixture cannot prepare."""
    reason: str = ""
    """The first of them, and why."""
    parts: list[ClassifierTally | AnswersTally] = field(default_factory=list)
    """Of the others, in their order."""

    def leave_out(self, sample: str, reason: str) -> None:
        """Count an image that some mixture cannot prepare."""
        self.left_out += 1
        self.reason = self.reason or f"{sample}: {reason}"

    def join(self, later: PredictedPair) -> None:
        """Add the tally of images that come later."""
        self.left_out += later.left_out
        self.reason = self.reason or later.reason
        self.parts += later.parts

    def summed(self) -> None:
        """Add up the parts."""
        if self.parts:
            kind: Any = type(self.parts[0])  # that of all
            self.parts = [kind.joined(self.parts)]

    def drift(
        self, pair: MixedPair, opened: Opened, samples: Samples, copies: Mapping[str, str]
    ) -> PredictionDrift:
        """Reduce it; ``samples`` are all images, and ``copies`` their `copies_among`.

        Raise `NothingCompared` if no image could be prepared by all mixtures.
        """
        self.summed()
        if not self.parts:
            first = f"; the first, {self.reason}" if self.reason else ""
            raise NothingCompared(f"no image could be prepared for the model{first}")
        left_out = {"left_out": self.left_out, "left_out_reason": self.reason}
        drift: PredictionDrift = self.parts[0].drift(pair, left_out, opened, samples, copies)
        return drift


@dataclass(slots=True, eq=False)
class PredictedLot:
    """The part of a lot."""

    of_pair: list[PredictedPair]
    """In the order of the candidates."""
    lot: Lot | None = None
    """``None`` for a part that was stored."""
    groups: int = 0
    """Batches, of each candidate, that are added."""
    known: KnownRecords = field(default_factory=dict)
    """Of the last batch."""


@dataclass(frozen=True, slots=True)
class _MixPairs:
    """Make the mixtures of the pair that an image is given with; a `Work` of `isolation`."""

    each: tuple[MixStages, ...]

    def warm_up(self, begin: Begin) -> None:
        """Run every path once."""
        for one in self.each:
            one.warm_up(begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> list[Mixed]:
        """Return the only image in every mixture, or why some mixture has none."""
        (image,) = images
        number: int = image.given
        return self.each[number](images, begin)


@dataclass(frozen=True, slots=True)
class PredictLots:
    """The `LotWork` of a model along several paths."""

    paths: tuple[Preprocess, ...]
    """Reference first."""
    pairs: tuple[MixedPair, ...]
    """One for each candidate."""
    given: GivenSession
    limits: Limits

    # its tensors may take ten megabytes
    images_a_task = 1

    @classmethod
    def of(cls, paths: Sequence[Preprocess], given: GivenSession, limits: Limits) -> PredictLots:
        """Return the work for a reference and its candidates."""
        reference, *candidates = paths
        pairs = tuple(MixedPair.of(reference, each) for each in candidates)
        return cls(tuple(paths), pairs, given, limits)

    @property
    def work(self) -> _MixPairs:
        """See `LotWork.work`."""
        return _MixPairs(tuple(MixStages(each.mixtures, each.wanted) for each in self.pairs))

    def identity(self) -> Mapping[str, Any]:
        """See `LotWork.identity`."""
        return {
            "work": "diff predictions",
            "paths": [[each.name, each.identity(), each.versions()] for each in self.paths],
            **self.given.facts,
            "batch": PREDICTED_TOGETHER,
            "limits": [self.limits.seconds, self.limits.memory],
            "max_pixels": [each.max_pixels for each in self.paths],
            "libraries": [metadata.version(name) for name in ("numpy", "pillow")],
            "code": code_version((*SHARE_LAYERS, "studies/diff")),
        }

    def only(self, lot: Lot) -> PredictLots:  # noqa: ARG002 - it needs the same for every lot
        """See `LotWork.only`."""
        return self

    def encoded(self, lot: Lot) -> Iterator[Encoded]:
        """See `LotWork.encoded`: each batch once for each candidate."""
        images = lot.images()
        while batch := list(islice(images, PREDICTED_TOGETHER)):
            for number in range(len(self.pairs)):
                yield from (replace(each, given=number) for each in batch)

    def groups(self, lot: Lot) -> Sequence[int]:
        """See `LotWork.groups`."""
        return [size for size in lot.groups_of(PREDICTED_TOGETHER) for _ in self.pairs]

    def images(self, result: list[Mixed]) -> int:
        """See `LotWork.images`."""
        return len(result)

    def empty(self, lot: Lot) -> PredictedLot:
        """See `LotWork.empty`."""
        return PredictedLot([PredictedPair() for _ in self.pairs], lot)

    def add(self, part: PredictedLot, results: Sequence[list[Mixed]]) -> PredictedLot:
        """Predict a batch for one candidate; see `LotWork.add`."""
        assert part.lot is not None
        batch, number = divmod(part.groups, len(self.pairs))
        part.groups += 1
        if number == 0:
            part.known.clear()
        tally, pair = part.of_pair[number], self.pairs[number]
        places, images = [], []
        for place, (made,) in enumerate(results, batch * PREDICTED_TOGETHER):
            if isinstance(made, LeftOut):
                tally.leave_out(part.lot.samples.ids[place], made.reason)
            else:
                places.append(place)
                images.append(made)
        if images:
            opened = self.given.opened()
            session = TaskSession(opened.session, opened.decoder)
            shown = part.lot.samples.take(places)
            found = predicted_batch(session, shown, images, pair.wanted, part.known)
            kind = _tally(opened)
            tally.parts.append(kind.of(shown, found, pair, opened))
        if part.groups == len(self.groups(part.lot)):
            for each in part.of_pair:
                each.summed()
        return part

    def text(self, part: PredictedLot) -> str:
        """See `LotWork.text`."""
        return _stored().dump_json(part.of_pair).decode()

    def parsed(self, text: str) -> PredictedLot:
        """See `LotWork.parsed`."""
        pairs = _stored().validate_json(text)
        if len(pairs) != len(self.pairs):
            raise ValueError("it is of other paths")
        return PredictedLot(pairs)


def predicted_batch(
    session: ModelSession,
    samples: Samples,
    images: Sequence[MixedImage],
    wanted: Sequence[FromCandidate],
    known: KnownRecords,
) -> list[Sequence[Record]]:
    """Predict a batch in each mixture, the reference only if its records are not ``known``.

    ``known``, which is filled, spares the next candidate the predictions on the reference.
    """
    before = known.get(samples.ids)
    if before is None:
        found = mixture_records(session, samples, images, wanted)
        known[samples.ids] = found[wanted.index(REFERENCE)]
        return found
    # mixtures of equal pixels share arrays
    new = [
        each
        for each in wanted
        if any(one.tensors[each] is not one.tensors[REFERENCE] for one in images)
    ]
    made = dict(zip(new, mixture_records(session, samples, images, new), strict=True))
    return [made.get(each, before) for each in wanted]


def _tally(opened: Opened) -> type[ClassifierTally | AnswersTally]:
    return ClassifierTally if opened.decoder.task.facts().class_scores else AnswersTally


@cache
def _stored() -> TypeAdapter[list[PredictedPair]]:
    return TypeAdapter(list[PredictedPair])
