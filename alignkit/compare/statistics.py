"""What a measured difference may mean: exact tests, intervals, and the smallest effect visible.

Pure functions. Shares are fractions: 0.01 is one percentage point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.record.cell import ALPHA

POWER = 0.80
LEVEL = 0.95
NORMAL = 1.959963984540054  # the 97.5 % quantile of the normal distribution
MOST = 10**9  # images or seeds; more is no advice


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


def freedom(
    images_error: FloatArray, seeds_error: FloatArray, *, images: int, seeds: int
) -> FloatArray:
    """Degrees of freedom of a variance summed from two estimates, those of images and of seeds.

    Welch and Satterthwaite's (Satterthwaite, Biometrics Bulletin 2(6), 1946); that of the images
    where both errors are zero.
    """
    by_images, by_seeds = np.asarray(images_error) ** 2, np.asarray(seeds_error) ** 2
    each = by_images**2 / max(images - 1, 1) + by_seeds**2 / max(seeds - 1, 1)
    known = np.full_like(each, float(max(images - 1, 1)))
    return np.divide((by_images + by_seeds) ** 2, each, out=known, where=each > 0)


def stretch(free: FloatArray) -> FloatArray:
    """Student's 97.5 % quantile over the normal one: 2.19 at 2 degrees of freedom, 1 at many."""
    from scipy.special import ndtri, stdtrit

    tail = 1 - (1 - LEVEL) / 2
    found: FloatArray = stdtrit(free, tail) / ndtri(tail)
    return found


def change_p(
    change: float, *, images_error: float, seeds_error: float, images: int, seeds: int, flipped: int
) -> float:
    """Two-sided p-value of a change being zero: Student's test on both standard errors.

    Never below 2 · ½ᶠ, what an exact test gives if all of the ``flipped`` images, f, went one way:
    the errors are too small where few flipped.
    """
    from scipy.special import stdtr

    if change == 0:
        return 1.0
    error = math.hypot(images_error, seeds_error)
    free = freedom(np.array(images_error), np.array(seeds_error), images=images, seeds=seeds)
    normal = 2 * float(stdtr(float(free), -abs(change) / error)) if error else 0.0
    return min(1.0, max(normal, 2 * 0.5**flipped))


@dataclass(frozen=True, slots=True)
class Settling:
    """What would make an interval narrow enough, either alone; ``None`` where no number would."""

    images: int | None
    seeds: int | None


def settling(
    gap: float,
    *,
    images_error: float,
    seeds_error: float,
    images: int,
    seeds: int,
    unseen: float = 0.0,
) -> Settling:
    """How many images, or how many seeds, bring half an interval's width down to ``gap``.

    The errors shrink as 1/√n, each with its own number, and what is ``unseen`` as 1/n. One seed
    says nothing about others, so its answer is images alone.
    """

    def half(n: float, s: float) -> float:
        by_images = images_error * math.sqrt(images / n)
        by_seeds = seeds_error * math.sqrt(seeds / s)
        free = freedom(np.array(by_images), np.array(by_seeds), images=int(n), seeds=int(s))
        half_width = math.hypot(by_images, by_seeds) * NORMAL * float(stretch(free))
        return half_width + unseen * images / n

    if gap <= 0:
        return Settling(None, None)
    return Settling(
        images=_least(lambda n: half(n, seeds) <= gap, images + 1),
        seeds=_least(lambda s: half(images, s) <= gap, seeds + 1) if seeds > 1 else None,
    )


def _least(enough: Callable[[int], bool], low: int) -> int | None:
    """The least number from ``low`` that is enough, where more always is; ``None`` above 10⁹."""
    high = low
    while not enough(high):
        high *= 2
        if high > MOST:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def unseen_share(n: int) -> float:
    """3.69 / n: of a share that flips, n images show none in at most 1 case of 40.

    The rule of three (Hanley and Lippman-Hand, JAMA 249, 1983) for one end of a 95 % interval,
    where e⁻ⁿˢ ≥ (1 - s)ⁿ is 0.025; above 1, so few images show nothing. A bootstrap interval does
    not hold it: what was not seen is in no resample.

    >>> round(unseen_share(300), 4)
    0.0123
    """
    return -math.log((1 - LEVEL) / 2) / n


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


def _quantiles(power: float, alpha: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(1 - alpha / 2) + ndtri(power))
