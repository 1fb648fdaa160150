"""The effect of the batch size: the first images one at a time, compared with those in a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alignkit.compare.logit_sums import logit_distance
from alignkit.predict.session_inputs import KEPT, Inputs, Raw, batch_outputs
from alignkit.record import BatchCheck

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.compare.answers import Answers
    from alignkit.predict.decoder import AnswerDecoder
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
    return BatchCheck(images=images, batch=batch, max_abs=apart, flips=flips, reason=reason)


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
