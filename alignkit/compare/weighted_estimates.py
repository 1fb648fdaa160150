"""Estimates of numbers of two sides that are no metrics, from the draws that all share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Weighted
from alignkit.compare.bootstrap import RESAMPLES, drawn_units, image_weights, mean_over_seeds
from alignkit.record import Estimate


def weighted_estimates(
    seeds: Sequence[Mapping[str, Weighted]],
    images: int,
    groups: Labels | None,
    *,
    resamples: int = RESAMPLES,
) -> dict[str, Estimate]:
    """Estimate the mean over seeds of each number, by name; each seed has the same names.

    Intervals are those of `alignkit.compare.drift`: over ``images``, or over their ``groups``,
    (images,), and seeds. A number that a seed does not define has neither value nor reason.
    """
    whole = np.ones((images, 1), np.float32)
    draws: dict[str, list[FloatArray]] = {name: [] for name in seeds[0]}
    # one pass: all draws of many images are not kept
    for weights in image_weights(images, groups, resamples, seed=0):
        for name, found in draws.items():
            found.append(np.stack([each[name].of(weights) for each in seeds]))
    units = drawn_units(images, groups)
    estimates = {}
    for name, found in draws.items():
        observed = np.stack([each[name].of(whole)[0] for each in seeds])
        mean = mean_over_seeds(observed, np.concatenate(found, axis=-1), images=units)
        estimates[name] = mean.estimate("")
    return estimates
