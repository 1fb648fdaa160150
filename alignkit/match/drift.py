"""The drift of a `Match`: share of a model's predictions that each finalist changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alignkit.compare.bootstrap import RESAMPLES, resample_weights
from alignkit.compare.metrics import predicted_classes
from alignkit.compare.statistics import percentile_interval
from alignkit.errors import NothingCompared
from alignkit.match import Match
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.record import Estimate

if TYPE_CHECKING:
    from alignkit.arrays import FloatArray, Pixels
    from alignkit.backends import Session
    from alignkit.match.target import Target
    from alignkit.preprocess import Preprocess
    from alignkit.samples import Samples

BATCH = 32


def with_churn(
    match: Match, target: Target, samples: Samples, rows: Sequence[int], session: Session
) -> Match:
    """Add every finalist's churn against the target's own pixels; the ranking stays.

    Raises `NothingCompared` if no image has pixels on all sides.
    """
    blocks = []
    images = _images(match.preprocesses, target, samples, rows)
    for _ in range(0, len(rows), BATCH):
        some = [each for each in islice(images, BATCH) if each is not None]
        if some:
            batches = [target.normalise(np.stack(side)) for side in zip(*some, strict=True)]
            reference, *candidates = (predicted_classes(session.predict(each)) for each in batches)
            blocks.append(np.stack([each != reference for each in candidates], axis=1))
    if not blocks:
        raise NothingCompared(f"{target.name} and the finalists share no image to predict on")
    changed = np.concatenate(blocks).astype(np.float64)
    weights = np.concatenate([*resample_weights(len(changed), RESAMPLES, 0)], axis=1)
    ranking = tuple(
        replace(each, churn=_churn(changed[:, place], weights))
        for place, each in enumerate(match.ranking)
    )
    return replace(match, ranking=ranking)


def _churn(changed: FloatArray, weights: FloatArray) -> Estimate:
    low, high = percentile_interval((changed @ weights / len(changed))[None])[:, 0]
    return Estimate(float(changed.mean()), float(low), float(high))


def _images(
    preprocesses: Sequence[Preprocess], target: Target, samples: Samples, rows: Sequence[int]
) -> Iterator[list[Pixels] | None]:
    """Yield each row's pixels, the target's first; ``None`` unless all sides have some."""
    own = () if target.preprocess is None else (target.preprocess,)
    taken = take_pixels((*own, *preprocesses), encoded_images(samples, rows))
    for row, found in zip(rows, taken, strict=True):
        pixels = [each.pixels for each in found if each.pixels is not None]
        whole = len(pixels) == len(found)
        if target.levels:
            wanted = target.levels(row)
            yield None if isinstance(wanted, str) or not whole else [wanted, *pixels]
        else:
            yield pixels if whole else None


@contextmanager
def onnx_session(file: Path, size: tuple[int, int]) -> Iterator[Session]:
    """Open an ONNX file in ONNX Runtime, CPU, fp32; ``size`` is its input's (height, width)."""
    from alignkit.backends.onnxruntime import ONNXRuntimeBackend
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.workspace import file_sha256

    checkpoint = Checkpoint(file.stem, 0, *size, weights=file, key=file_sha256(file))
    session = ONNXRuntimeBackend().open(checkpoint, file, "fp32")
    try:
        yield session
    finally:
        session.close()
