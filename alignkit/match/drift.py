"""A `Match` by drift: how many of a model's predictions each finalist changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alignkit.compare.bootstrap import RESAMPLES, resample_weights
from alignkit.compare.metrics import predicted_classes
from alignkit.compare.statistics import percentile_interval
from alignkit.errors import NothingCompared
from alignkit.match import Match
from alignkit.record import Estimate

if TYPE_CHECKING:
    from alignkit.arrays import Batch, FloatArray, Pixels
    from alignkit.backends import Session
    from alignkit.match.target import Target
    from alignkit.preprocess import Preprocess
    from alignkit.samples import Samples

BATCH = 32


def with_churn(
    match: Match, target: Target, samples: Samples, rows: Sequence[int], session: Session
) -> Match:
    """The match with every finalist's churn against the target's own pixels; ranked as before.

    Raises `NothingCompared` if no image has pixels on all sides.
    """
    blocks = []
    for start in range(0, len(rows), BATCH):
        batches = _batches(match.paths, target, samples, rows[start : start + BATCH])
        if batches is not None:
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


def _batches(
    paths: Sequence[Preprocess], target: Target, samples: Samples, rows: Sequence[int]
) -> list[Batch] | None:
    """The target's batch and each path's, of the images that all have; ``None`` without any."""
    images: list[list[Pixels]] = []
    for row in rows:
        wanted = target.levels(row)
        taps = [path.taps(samples.read(row)).last for path in paths]
        last = [each for each in taps if each is not None]
        if not isinstance(wanted, str) and len(last) == len(paths):
            images.append([wanted, *last])
    sides = zip(*images, strict=True)
    return [target.normalise(np.stack(side)) for side in sides] if images else None


@contextmanager
def onnx_session(file: Path, size: tuple[int, int]) -> Iterator[Session]:
    """An ONNX file in ONNX Runtime on the CPU, fp32; ``size`` is its input's (height, width)."""
    from alignkit.backends.onnxruntime import ONNXRuntimeBackend
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.workspace import file_sha256

    checkpoint = Checkpoint(file.stem, 0, *size, weights=file, key=file_sha256(file))
    session = ONNXRuntimeBackend().open(checkpoint, file, "fp32")
    try:
        yield session
    finally:
        session.close()
