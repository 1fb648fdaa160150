"""Churn by kind of image, with the significance of each difference.

A kind is a value of a dimension: of the file (subsampling, quality, size, …, see
`alignkit.preprocess.image_kinds`), the class, the *margin* (softmax margin of the reference's
prediction) or the *edge energy*, the last two in thirds of the images. Each kind is compared with
all other images; p-values are Fisher's exact ones for "flipped in at least one seed", adjusted by
Holm over all comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.compare.bootstrap import RESAMPLES
from alignkit.compare.metrics import softmax_margin
from alignkit.compare.statistics import holm, percentile_interval
from alignkit.record import Estimate, Subgroup
from alignkit.record.cell import ALPHA
from alignkit.text.numbers import interval, p_value, plain

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.compare.predictions import Predictions

_FEWEST = 5
"""Least number of images of a kind, and of its complement, for a comparison."""
_THIRDS = ("lowest third", "middle third", "highest third")


def subgroups(
    reference: Sequence[Predictions],
    candidate: Sequence[Predictions],
    kinds: Mapping[str, Sequence[str]],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Subgroup, ...]:
    """Compare every kind of every dimension, least p first, with a sentence if it is significant.

    The predictions, a pair for each seed, are of the same images in the same order; ``kinds`` gives
    each dimension's kind of each image, and this function adds class and margin. Kinds with too few
    images are not compared. If no image or every image flipped, the result is empty.
    """
    pairs = list(zip(reference, candidate, strict=True))
    flips = np.stack([a.predicted != b.predicted for a, b in pairs], axis=1)
    chosen = _comparable({**_own_kinds(reference), **kinds}, len(flips))
    flipped = np.atleast_1d(flips.any(axis=1))
    if not chosen or flipped.all() or not flipped.any():
        return ()
    p_values = [_fisher(flipped, inside) for _, _, inside in chosen]
    rng = np.random.default_rng(seed)
    found = [
        Subgroup(
            dimension, kind, int(inside.sum()), *_rates(flips, inside, resamples, rng), p, adjusted
        )
        for (dimension, kind, inside), p, adjusted in zip(
            chosen, p_values, holm(p_values), strict=True
        )
    ]
    found.sort(key=lambda each: (each.p_adjusted, each.p))
    return tuple(
        replace(each, sentence=_sentence(each)) if each.p_adjusted < ALPHA else each
        for each in found
    )


def _own_kinds(reference: Sequence[Predictions]) -> dict[str, Sequence[str]]:
    first = reference[0]
    margins = np.mean([softmax_margin(each.logits) for each in reference], axis=0)
    return {
        "class": [first.classes[label] for label in first.labels],
        "margin of the reference": thirds(margins),
    }


def _comparable(
    kinds: Mapping[str, Sequence[str]], images: int
) -> list[tuple[str, str, npt.NDArray[np.bool_]]]:
    """List (dimension, kind, mask of its images) with enough images inside and outside."""
    found = [
        (dimension, kind, np.array([each == kind for each in values]))
        for dimension, values in kinds.items()
        for kind in dict.fromkeys(values)
    ]
    return [each for each in found if _FEWEST <= each[2].sum() <= images - _FEWEST]


def _rates(
    flips: npt.NDArray[np.bool_],
    inside: npt.NDArray[np.bool_],
    resamples: int,
    rng: np.random.Generator,
) -> tuple[float, float, Estimate]:
    """Compute churn inside, outside and their difference with interval; flips: (images, seeds)."""
    here, there = flips[inside], flips[~inside]
    drawn = _resampled(here, resamples, rng) - _resampled(there, resamples, rng)
    low, high = percentile_interval(drawn[None])[:, 0]
    before, after = float(here.mean()), float(there.mean())
    return before, after, Estimate(before - after, float(low), float(high))


def _resampled(
    flips: npt.NDArray[np.bool_], resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Resample (images, seeds) with replacement to churn (resamples,).

    An image counts by the number of seeds with which it flipped. The draws of each number are
    multinomial, so that the cost does not grow with the images.
    """
    images, seeds = flips.shape
    counts = np.bincount(flips.sum(axis=1), minlength=seeds + 1)
    drawn = rng.multinomial(images, counts / images, resamples)
    churn: FloatArray = drawn @ np.arange(seeds + 1) / (seeds * images)
    return churn


def _fisher(flipped: npt.NDArray[np.bool_], inside: npt.NDArray[np.bool_]) -> float:
    from scipy.stats import fisher_exact

    table = [
        [int((flipped & group).sum()), int((~flipped & group).sum())] for group in (inside, ~inside)
    ]
    return float(fisher_exact(table).pvalue)


def thirds(values: npt.ArrayLike) -> list[str]:
    """Name each value's third of all values; equal values are in the same third."""
    array = np.asarray(values, np.float64)
    cuts = np.quantile(array, (1 / 3, 2 / 3))
    return [_THIRDS[place] for place in np.searchsorted(cuts, array, side="left")]


def edge_energy(pixels: Pixels) -> float:
    """Compute the mean |Δ| of neighbouring pixels of one (height, width, 3), in grey levels."""
    levels = pixels.astype(np.float32).mean(axis=2)
    across, down = np.abs(np.diff(levels, axis=1)), np.abs(np.diff(levels, axis=0))
    return float((across.mean() + down.mean()) / 2)


def kinds_of_images(
    encoded: Iterable[bytes], pixels: Iterable[Pixels] | None = None
) -> dict[str, list[str]]:
    """Map each dimension to the kind of each image, by its file and, for edge energy, its pixels.

    Dimensions in which all images are of one kind are left out.
    """
    from alignkit.preprocess.image_header import declared_size
    from alignkit.preprocess.image_kinds import DIMENSIONS, kinds_of
    from alignkit.preprocess.jpeg_header import read_jpeg_header

    found = [kinds_of(each, read_jpeg_header(each), declared_size(each)) for each in encoded]
    kinds: dict[str, list[str]] = {
        dimension: [getattr(each, dimension) for each in found] for dimension in DIMENSIONS
    }
    if pixels is not None:
        kinds["edge energy"] = thirds([edge_energy(each) for each in pixels])
    return {dimension: values for dimension, values in kinds.items() if len({*values}) > 1}


def _sentence(each: Subgroup) -> str:
    ends = interval(each.difference, 1)
    difference = f" {ends} pp" if ends else ""
    more = "more" if each.churn > each.elsewhere else "less"
    return (
        f"{each.dimension} ({each.kind}): {plain(100 * each.churn, 1)} % of predictions change, "
        f"{more} than the {plain(100 * each.elsewhere, 1)} % elsewhere "
        f"({each.images} images; difference{difference}, "
        f"p {p_value(each.p_adjusted, '= ')} after Holm)"
    )
