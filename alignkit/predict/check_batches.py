"""The effect of the batch size: the first images one at a time, compared with those in a batch.

Kernels of another batch size add in another order, which moves fp32 outputs by some 1e-6 of the
greatest. A model that normalises over its batch, or drops units as in training, moves them by far
more: its answer for an image is not of that image alone.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from alignkit.compare.logit_sums import logit_distance
from alignkit.errors import ConfigError
from alignkit.predict.session_inputs import KEPT, Inputs, Raw, batch_outputs
from alignkit.record import BatchCheck
from alignkit.text.numbers import percent

_PROBED = 4
"""Images that show whether a given model answers each by itself."""
MOST_APART = 1e-3
"""Greatest `dependence` that rounding in fp32 explains."""

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignkit.arrays import Pixels
    from alignkit.backends import Session
    from alignkit.compare.answers import Answers
    from alignkit.predict.decoder import AnswerDecoder
    from alignkit.predict.given_model import Opened
    from alignkit.preprocess import Preprocess
    from alignkit.preprocess.normalise import Normalise
    from alignkit.samples import Samples
    from alignkit.tasks import Outputs, Record


def check_batches(
    session: Session,
    inputs: Inputs,
    decoder: AnswerDecoder,
    raw: Raw,
    answers: Answers,
    samples: Samples,
    batch_size: int,
) -> BatchCheck:
    """Predict the first images one at a time; compare with ``raw``, made in batches.

    ``answers`` are those of ``raw``; images whose answer is another one count as flips.
    """
    batch = min(batch_size, len(inputs))
    if batch == 1:
        return BatchCheck(reason="a batch holds one image: there is no other size to compare with")
    # the first batch holds fewer images where the path's size varies
    images = min(batch, KEPT, *map(len, raw.first))
    if images == 1:
        reason = "the first batch held one image, as no other beside it has its size"
        return BatchCheck(reason=reason)
    alone = [batch_outputs(session, inputs, index, index + 1) for index in range(images)]
    apart, reason = _distance(raw.first, alone)
    records: list[Record] = []
    for index, each in enumerate(alone):
        decoded = decoder.records(each, inputs.places(index, index + 1))
        records.extend(decoder.kept(decoded, samples.take([int(inputs.indices[index])])))
    singly = decoder.answers(answers.ids[:images], records, samples)
    flips = int(answers.rows(np.arange(images)).changed(singly).sum())
    return BatchCheck(
        images=images,
        batch=batch,
        max_abs=apart,
        relative=dependence(raw.first, alone),
        flips=flips,
        reason=reason,
    )


def dependence(together: Outputs, alone: Sequence[Outputs]) -> float | None:
    """Return how far outputs in a batch are from those alone, of the greatest output.

    Of scores it is that of the farthest image. Lists and maps are compared in the order of their
    values, as objects of nearly equal scores change places, and by the median over images. ``None``
    if nothing can be compared.
    """
    found = []
    for index, batch in enumerate(together):
        singly = [each[index] for each in alone]
        pairs = [
            (row.astype(np.float64).ravel(), one.astype(np.float64).ravel())
            for row, (one,) in zip(batch, singly, strict=False)
            if row.shape == one.shape and np.isfinite(row).all() and np.isfinite(one).all()
        ]
        if not (scale := max((np.abs(each).max(initial=0.0) for each, _ in pairs), default=0.0)):
            continue
        if batch.ndim > 2:
            pairs = [(np.sort(row), np.sort(one)) for row, one in pairs]
        apart = [float(np.abs(row - one).max(initial=0.0)) / float(scale) for row, one in pairs]
        found.append(float(np.median(apart)) if batch.ndim > 2 else max(apart))
    return max(found, default=None)


def pixels_of(
    path: Preprocess, samples: Samples, rows: Sequence[int] | None = None
) -> Iterator[Pixels]:
    """Yield the pixels of the images that a path prepares, by default of all."""
    from alignkit.preprocess.image_taps import encoded_images, take_pixels

    for (each,) in take_pixels([path], encoded_images(samples, rows, changed="fail"), processes=1):
        if each.pixels is not None:
            yield each.pixels


def require_independent(opened: Opened, images: Iterator[Pixels], normalise: Normalise) -> None:
    """Raise `ConfigError` if a model's answer for an image is not of that image alone.

    The first ``images`` that have one size are predicted together twice, and one at a time.
    """
    first = next(images, None)
    if first is None:
        return  # the comparison itself says so
    others = (each for each in images if each.shape == first.shape)
    alike = [first, *islice(others, _PROBED - 1)]
    batch = normalise(cast("Pixels", np.stack(alike)))
    predict = opened.session.predict
    together, again = predict(batch), predict(batch)
    name = f"--model {opened.name}"
    repeated = [tuple(each[at : at + 1] for each in again) for at in range(len(alike))]
    if (apart := dependence(together, repeated) or 0.0) > MOST_APART:
        raise ConfigError(
            f"{name}: the same images twice give outputs that differ by {percent(apart)} of the "
            "greatest, so that a change of the pixels cannot be told from chance; export it in "
            "evaluation mode (model.eval()), without dropout or sampling"
        )
    alone = [predict(batch[at : at + 1]) for at in range(len(alike))] if len(alike) > 1 else []
    if (apart := dependence(together, alone) or 0.0) > MOST_APART:
        raise ConfigError(
            f"{name}: an image alone and in a batch of {len(alike)} gives outputs that differ by "
            f"{percent(apart)} of the greatest, so that its answer depends on the images beside "
            "it; export it in evaluation mode (model.eval()), or for a batch of exactly one image"
        )


def _distance(together: Outputs, alone: list[Outputs]) -> tuple[float | None, str]:
    """Return the greatest distance of any output; ``None`` and the reason if none is finite."""
    reason, found = "", []
    for index, batch in enumerate(together):
        singly = [each[index] for each in alone]
        if batch.ndim == 2 and {each.shape[1:] for each in singly} == {batch.shape[1:]}:
            # a row of scores: an image with a score that is not finite is left out
            distance = logit_distance(batch, np.concatenate(singly))
            apart, reason = distance.max_abs, reason or distance.reason
        else:
            apart = _greatest(batch, singly)
            reason = reason or "no output is finite on both sides" * (apart is None)
        found += [] if apart is None else [apart]
    return (max(found), "") if found else (None, reason)


def _greatest(
    together: npt.NDArray[np.float32], alone: list[npt.NDArray[np.float32]]
) -> float | None:
    """Return the greatest |Δ| of the values that both have; lists of objects differ in length."""
    greatest = None
    for row, (single,) in zip(together, alone, strict=True):
        both = tuple(map(slice, map(min, row.shape, single.shape)))
        apart = np.abs(row[both] - single[both])
        finite = apart[np.isfinite(apart)]
        if finite.size:
            greatest = max(float(finite.max()), greatest or 0.0)
    return greatest
