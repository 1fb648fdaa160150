"""The drift of a `Match`: share of a model's predictions that each finalist changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from alignkit.backends import Session
from alignkit.compare.bootstrap import mean_estimate
from alignkit.compare.metrics import predicted_classes
from alignkit.errors import NothingCompared
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.samples import Samples
from alignkit.search.match_result import Match
from alignkit.search.target import Target

_BATCH = 32


def with_churn(
    match: Match, target: Target, samples: Samples, rows: Sequence[int], session: Session
) -> Match:
    """Add every finalist's churn against the target's own pixels; the ranking stays.

    Raises `NothingCompared` if no image has pixels on all sides.
    """
    blocks = []
    images = _images(match.preprocesses, target, samples, rows)
    for _ in range(0, len(rows), _BATCH):
        some = [each for each in islice(images, _BATCH) if each is not None]
        if some:
            batches = [target.normalise(np.stack(side)) for side in zip(*some, strict=True)]
            reference, *candidates = (predicted_classes(session.predict(each)) for each in batches)
            blocks.append(np.stack([each != reference for each in candidates], axis=1))
    if not blocks:
        raise NothingCompared(f"{target.name} and the finalists share no image to predict on")
    changed = np.concatenate(blocks).astype(np.float64)
    ranking = tuple(
        replace(each, churn=mean_estimate(column))
        for each, column in zip(match.ranking, changed.T, strict=True)
    )
    return replace(match, ranking=ranking)


def _images(
    preprocesses: Sequence[Preprocess], target: Target, samples: Samples, rows: Sequence[int]
) -> Iterator[list[Any] | None]:
    """Yield each row's pixels, the target's first; ``None`` unless all sides have some."""
    own = () if target.preprocess is None else (target.preprocess,)
    taken = take_pixels((*own, *preprocesses), encoded_images(samples, rows))
    for row, found in zip(rows, taken, strict=True):
        wanted = [target.levels(row)] if target.levels else []
        pixels = [*wanted, *(each.pixels for each in found)]
        # words instead of pixels: why the target gives none
        yield None if any(each is None or isinstance(each, str) for each in pixels) else pixels
