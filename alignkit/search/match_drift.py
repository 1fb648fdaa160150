"""The drift of a `Match`: share of a model's predictions that each finalist changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from alignkit.arrays import Pixels
from alignkit.backends import Session
from alignkit.compare.bootstrap import joined_groups
from alignkit.compare.idle_answers import NO_COMPARISON, changed_share
from alignkit.errors import NothingCompared
from alignkit.predict.check_batches import pixels_of
from alignkit.predict.decoder import AnswerDecoder
from alignkit.preprocess import Preprocess
from alignkit.preprocess.geometry import Geometry
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.samples import Samples, copies_among
from alignkit.search.match_result import Match
from alignkit.search.target import Target
from alignkit.tasks import Record

_BATCH = 32


class _Side(NamedTuple):
    """An image as the target or a finalist prepares it."""

    pixels: Pixels
    place: Geometry
    digest: str
    """`alignkit.decoders.Decoded.digest` of the image."""


def with_churn(
    match: Match,
    target: Target,
    samples: Samples,
    rows: Sequence[int],
    session: Session,
    decoder: AnswerDecoder,
) -> Match:
    """Add every finalist's churn against the target's own pixels; the ranking stays.

    Raises `NothingCompared` if no image has pixels on all sides, or outputs cannot be read.
    """
    ids: list[str] = []
    digests: list[str] = []
    records: list[list[Record]] = [[] for _ in (target, *match.ranking)]
    images = _images(match.preprocesses, target, samples, rows)
    for start in range(0, len(rows), _BATCH):
        some = [
            (row, each)
            for row, each in zip(rows[start : start + _BATCH], images, strict=False)
            if each is not None
        ]
        shown = samples.take([row for row, _ in some])
        ids += shown.ids
        digests += (each[0].digest for _, each in some)
        for index in range(len(records) if some else 0):
            sides = [each[index] for _, each in some]
            batch = target.normalise(cast("Pixels", np.stack([each.pixels for each in sides])))
            places = [each.place for each in sides]
            found = decoder.records(session.predict(batch), places)
            records[index].extend(decoder.kept(found, shown))
    if not ids:
        raise NothingCompared(f"{target.name} and the finalists share no image to predict on")
    reference, *candidates = (decoder.unlabelled(ids, each, samples) for each in records)
    if reason := reference.misread(*candidates):
        raise NothingCompared(f"{NO_COMPARISON}: {reason}")
    groups = joined_groups(ids, reference.groups(), copies_among(ids, digests))
    unit = "different image" if reference.groups() is None else "group of images"
    ranking = tuple(
        replace(each, churn=changed_share(reference.changed(found), groups, unit))
        for each, found in zip(match.ranking, candidates, strict=True)
    )
    return replace(match, ranking=ranking)


def own_pixels(target: Target, samples: Samples, rows: Sequence[int]) -> Iterator[Pixels]:
    """Yield the target's own pixels of the images that have some."""
    if target.preprocess:
        yield from pixels_of(target.preprocess, samples, rows)
    if target.levels:
        levels = map(target.levels, rows)
        # words instead of pixels: why there are none
        yield from (each for each in levels if not isinstance(each, str))


def _images(
    preprocesses: Sequence[Preprocess], target: Target, samples: Samples, rows: Sequence[int]
) -> Iterator[list[_Side] | None]:
    """Yield each row's sides, the target's first; ``None`` unless all have pixels."""
    own = () if target.preprocess is None else (target.preprocess,)
    paths = (*own, *preprocesses)
    taken = take_pixels(paths, encoded_images(samples, rows))
    for row, found in zip(rows, taken, strict=True):
        sides = [
            _Side(each.pixels, path.geometry(*each.source), each.digest)
            for path, each in zip(paths, found, strict=True)
            if each.pixels is not None and each.source is not None
        ]
        if target.levels and sides:
            levels = target.levels(row)
            # words instead of pixels: why there are none; the finalists frame images as it does
            if not isinstance(levels, str):
                sides.insert(0, sides[0]._replace(pixels=levels))
        yield sides if len(sides) == 1 + len(preprocesses) else None
