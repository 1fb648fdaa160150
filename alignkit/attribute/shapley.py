"""Shares of a total among factors, from the values of mixtures: pure array functions.

`shapley` divides every interaction evenly among its factors (Shapley 1953, *A value for n-person
games*); it needs every subset. `alone` gives each factor its own effect and leaves the rest as an
interaction; it needs a mixture for each factor, and the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import factorial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.preprocess.stage_mixtures import FACTORIAL_LIMIT, FromCandidate, all_mixtures

Values: TypeAlias = npt.NDArray[np.float64]
"""A mixture's value, (), or its value in each of many resamples, (resamples,)."""


def shares(factors: Sequence[str], values: Mapping[FromCandidate, Values]) -> dict[str, Values]:
    """Compute each factor's share: by Shapley for few factors, else its effect alone."""
    if len(factors) <= FACTORIAL_LIMIT:
        return {factor: shapley(factor, factors, values) for factor in factors}
    return {factor: alone(factor, values) for factor in factors}


def shapley(factor: str, factors: Sequence[str], values: Mapping[FromCandidate, Values]) -> Values:
    """Compute a factor's mean marginal contribution over all orders of swapping.

    A factor that changes nothing in any mixture gets exactly 0.
    """
    count = len(factors)
    total = np.zeros(())
    for taken in all_mixtures(each for each in factors if each != factor):
        orders = factorial(len(taken)) * factorial(count - len(taken) - 1)
        total = total + orders * (values[taken | {factor}] - values[taken])
    return total / factorial(count)


def alone(factor: str, values: Mapping[FromCandidate, Values]) -> Values:
    """Compute the effect of swapping one factor while all others are the reference's."""
    return values[frozenset({factor})] - values[frozenset()]


def interaction(factors: Sequence[str], values: Mapping[FromCandidate, Values]) -> Values:
    """Compute the effect of all factors together less the sum of their effects alone."""
    whole = values[frozenset(factors)] - values[frozenset()]
    return whole - sum((alone(factor, values) for factor in factors), np.zeros(()))
