"""The drift of a `Match`: share of a model's predictions that each finalist changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from alignkit.backends import Session
from alignkit.compare.bootstrap import RESAMPLES
from alignkit.compare.metrics import predicted_classes
from alignkit.errors import ConfigError, NothingCompared
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.samples import Samples
from alignkit.search import mean_estimate
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
        replace(each, churn=mean_estimate(column, RESAMPLES))
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


@contextmanager
def onnx_session(file: Path, size: tuple[int, int]) -> Iterator[Session]:
    """Open an ONNX file in ONNX Runtime, CPU, fp32; ``size`` is its input's (height, width).

    Raises `ConfigError` if its output for one image is not (1, classes).
    """
    from alignkit.backends.onnxruntime import ONNXRuntimeBackend
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.stored_file import file_sha256

    checkpoint = Checkpoint(file.stem, 0, *size, weights=file, key=file_sha256(file))
    with closing(ONNXRuntimeBackend().open(checkpoint, file, "fp32")) as session:
        shape = session.predict(np.zeros((1, 3, *size), np.float32)).shape
        if len(shape) != 2 or shape[0] != 1 or not shape[1]:
            raise ConfigError(
                f"{file}: its output for one image has the shape {shape}, expected (1, classes); "
                "export the model with one value for each class"
            )
        yield session
