"""Margins of predictions: how near each image is to another class, and which images move most.

A margin is taken in logits: that of the class that the reference predicts less the greatest other
one. It needs no labels. The candidate's margin is that of the same class, so that it is below 0
where the prediction changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels, Logits
from alignkit.compare.class_answers import ClassAnswers, class_name
from alignkit.record import MarginDrift, MovedImage

_ROWS = 4096
MOST_MOVED = 20
"""Images that are kept of a comparison."""
_QUANTILES = (0.5, 0.99)
_Pairs = Sequence[tuple[ClassAnswers, ClassAnswers]]
RankedChange = tuple[tuple[bool, float], MovedImage]
"""Whether an image changed its class and the share of its margin that it lost, and the image."""


def margins_of(logits: Logits, predicted: Labels) -> FloatArray:
    """Subtract the greatest other logit from that of ``predicted``: (n, outputs) → (n,).

    NaN where a logit is not finite, or there is no other output.
    """
    n, outputs = logits.shape
    margins = np.full(n, np.nan)
    for part in _parts(n) if outputs > 1 else ():
        others = logits[part].astype(np.float64)
        unknown = ~np.isfinite(others).all(axis=1)
        rows = np.arange(len(others))
        own = others[rows, predicted[part]].copy()
        others[rows, predicted[part]] = -np.inf
        margins[part] = own - np.where(unknown, np.nan, others.max(axis=1))
    return margins


def _parts(images: int) -> Iterator[slice]:
    """Cut images into few at a time: a copy of all logits in float64 would take gigabytes."""
    return (slice(start, start + _ROWS) for start in range(0, images, _ROWS))


def margins_lost(pair: tuple[ClassAnswers, ClassAnswers]) -> tuple[FloatArray, FloatArray]:
    """Return the reference's margins, and the share of each that the candidate loses, (n,) each.

    The share is NaN without a margin above 0 on finite logits.
    """
    before, after = (each.margins_for(pair[0].predicted) for each in pair)
    lost = np.full(len(before), np.nan)
    np.divide(before - after, before, out=lost, where=before > 0)
    return before, lost


def margin_drift(pairs: _Pairs) -> MarginDrift:
    """Measure how much of their margins images lose, over all pairs (reference, candidate)."""
    if len(pairs[0][0].outputs) == 1:
        return no_margins("there is no other output that a margin could be to")
    finite = np.concatenate([a.finite() & b.finite() for a, b in pairs])
    lost = np.concatenate([margins_lost(pair)[1] for pair in pairs])
    kept = np.concatenate([a.predicted == b.predicted for a, b in pairs])
    return drift_of_lost(lost[finite], kept[finite])


def drift_of_lost(lost: FloatArray, kept: npt.NDArray[np.bool_]) -> MarginDrift:
    """Reduce the shares of `margins_lost`, (n,), of images that may have ``kept`` their class.

    They are those whose logits are finite on both sides.
    """
    known = np.isfinite(lost)
    if not known.any():
        tied = "the greatest output of every image is tied with another: none has a margin to lose"
        return no_margins(tied if len(lost) else "no image has finite logits on both sides")
    p50, p99 = np.quantile(lost[known], _QUANTILES).tolist()
    halved = int((known & kept & (lost >= 0.5)).sum())
    return MarginDrift(int(known.sum()), halved, p50, p99)


def no_margins(reason: str) -> MarginDrift:
    """Return that no margin is known, and why."""
    return MarginDrift(0, 0, None, None, reason)


def moved_most(pairs: _Pairs) -> tuple[MovedImage, ...]:
    """List the images that changed their class or lose most of their margin, the worst first.

    The pairs are of the same images, one a seed. An image whose class changed stands before one
    that keeps it; images whose logits are equal are left out.
    """
    found: dict[str, RankedChange] = {}
    for pair in pairs:
        for rank, change in changes(pair):
            if change.id not in found or rank > found[change.id][0]:
                found[change.id] = rank, change
    return tuple(change for _, change in worst(found.values()))


def worst(found: Iterable[RankedChange]) -> list[RankedChange]:
    """Keep the worst changes of different images, the worst first."""
    # stable: equal ones stay in the order of the data
    return sorted(found, key=lambda each: each[0], reverse=True)[:MOST_MOVED]


def changes(pair: tuple[ClassAnswers, ClassAnswers]) -> list[RankedChange]:
    """List the images of one pair of answers that moved most, the worst first."""
    a, b = pair
    margins, lost = margins_lost(pair)
    changed = a.predicted != b.predicted
    apart, moved = a.moved_beside(b)
    moved |= changed
    # an unknown share is none to sort by
    share = np.where(np.isnan(lost), 0.0, lost)
    order = np.lexsort((-share, ~changed))
    return [
        (
            (bool(changed[i]), float(share[i])),
            MovedImage(
                a.ids[i],
                class_name(a.outputs, int(a.predicted[i])),
                class_name(b.outputs, int(b.predicted[i])),
                max_abs=_finite(apart[i]),
                margin=_finite(margins[i]),
                lost=_finite(lost[i]),
            ),
        )
        for i in order[moved[order]][:MOST_MOVED]
    ]


def moves_of(before: Logits, after: Logits) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Compute each image's greatest |Δ logit|, (n,), NaN if unknown, and whether a logit differs.

    Both are (n, outputs).
    """
    apart, moved = np.full(len(before), np.nan), np.zeros(len(before), np.bool_)
    for part in _parts(len(before)):
        left, right = before[part], after[part]
        with np.errstate(invalid="ignore"):  # infinite on both sides
            apart[part] = np.abs(right.astype(np.float64) - left).max(axis=1)
        # not ``apart``, which infinite logits leave unknown on equal rows too
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        moved[part] = ~same.all(axis=1)
    return apart, moved


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
