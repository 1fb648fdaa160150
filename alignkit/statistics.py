"""What a measured difference may mean: exact tests, intervals, and the smallest effect visible.

Pure functions. Shares are fractions: 0.01 is one percentage point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alignkit.metrics import FloatArray

ALPHA = 0.05
POWER = 0.80
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value with its interval."""

    value: float | None
    low: float | None
    """Lower end of the 95 % interval."""
    high: float | None
    reason: str = ""
    """Why there is no value or no interval."""


def percentile_interval(draws: FloatArray) -> FloatArray:
    """(…, resamples) → (2, …): the 2.5th and the 97.5th percentile of the last axis.

    Efron's percentile interval. A resample in which a value is undefined (NaN: it drew no sample of
    a class) is left out; NaN if all are.
    """
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    rows = draws.reshape(-1, draws.shape[-1])
    ends = np.full((2, len(rows)), np.nan)
    undefined = np.isnan(rows)
    complete = ~undefined.any(axis=1)
    ends[:, complete] = np.quantile(rows[complete], tails, axis=1)
    for index in np.flatnonzero(~complete & ~undefined.all(axis=1)):
        ends[:, index] = np.quantile(rows[index][~undefined[index]], tails)
    return ends.reshape(2, *draws.shape[:-1])


def mcnemar(right_to_wrong: int, wrong_to_right: int) -> float:
    """Exact two-sided p-value of McNemar's test; 1 if nothing flipped.

    If both paths were equally good, a flip would go either way with probability 1/2: a two-sided
    binomial test (McNemar, Psychometrika 12, 1947; Dietterich, Neural Computation 10(7), 1998).
    """
    from scipy.stats import binomtest

    flipped = right_to_wrong + wrong_to_right
    return float(binomtest(right_to_wrong, flipped).pvalue) if flipped else 1.0


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """p-values adjusted for their number, in the order given (Holm, Scand. J. Statist. 6, 1979)."""
    adjusted = [0.0] * len(p_values)
    greatest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
        greatest = max(greatest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = greatest
    return tuple(adjusted)


def discordance_bound(n: int, discordance: float) -> float:
    """The discordance to plan with: the observed one, or 3 / n if none was observed.

    The rule of three: of n images none of which flipped, at most 3 / n would, with 95 % confidence
    (Hanley and Lippman-Hand, JAMA 249, 1983).
    """
    return discordance if discordance > 0 else min(1.0, 3 / n)


def detectable_effect(
    n: int, discordance: float, *, power: float = POWER, alpha: float = ALPHA
) -> float:
    """Smallest paired difference of two shares that n images would show with this power.

    The normal approximation: a paired difference d has variance (p - d²) / n, p being the
    discordance, the share of images right on one side only (Agresti, Categorical Data Analysis,
    10.1); so the smallest d is where d² = k² (p - d²) / n, k being the sum of the two normal
    quantiles. With several seeds p is the mean over images of the squared mean difference.

    A difference cannot exceed the discordance. Where the formula asks it to, more images would have
    to flip than did, and the answer is that of flips all in one direction, d = p: k² / (k² + n), or
    7.8 images of many. It is so wherever no image flipped; see `discordance_bound`.

    >>> round(detectable_effect(6271, 0.02), 4)
    0.005
    """
    squared = _quantiles(power, alpha) ** 2
    bound = max(discordance_bound(n, discordance), squared / (squared + n))
    return math.sqrt(squared * bound / (squared + n))


def required_images(
    margin: float, discordance: float, *, power: float = POWER, alpha: float = ALPHA
) -> int:
    """Images needed to see a paired difference of ``margin``; the inverse of `detectable_effect`.

    ``discordance`` below ``margin`` is taken as ``margin``, the least that can carry it.

    >>> required_images(0.01, 0.02)
    1562
    """
    share = max(discordance, margin)
    squared = _quantiles(power, alpha) ** 2
    return max(1, math.ceil(squared * (share - margin**2) / margin**2))


def _quantiles(power: float, alpha: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(1 - alpha / 2) + ndtri(power))
