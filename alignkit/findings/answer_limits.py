"""The greatest size of a difference within a budget of changed answers, from sizes or points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal
from decimal import Context as DecimalContext

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare.statistics import greatest_share, images_for_none, most_within
from alignkit.record.tolerance_facts import CurvePoint, Limit
from alignkit.text.numbers import count, grouped

_DIGITS = 3


def limit_of(turns: FloatArray, budget: float, most: float = math.inf) -> Limit:
    """Find the greatest size within the budget, of sizes (n,) at which each image's answer changes.

    It is the size of the (k + 1)-th image in order, for the greatest k whose one-sided 95 % bound
    is within the budget: a distribution-free tolerance limit, whose confidence holds although the
    size is chosen by the same images (Wilks, Annals of Mathematical Statistics 12, 1941). Sizes are
    looked at up to ``most``.
    """
    n = len(turns)
    changed = most_within(budget, n) if n else None
    if changed is None:
        return Limit(None, None, None, reason=too_few(n, budget))
    # changed < n, as the bound of n of n is 1
    value = float(np.partition(turns, changed)[changed])
    bound = greatest_share(changed, n)
    if value <= most and math.isfinite(value):
        return Limit(value, changed, bound)
    if math.isfinite(most):
        return Limit(most, changed, bound, more=True)
    return Limit(None, changed, bound, more=True, reason="no change of the outputs changes more")


def too_few(n: int, budget: float) -> str:
    """Say how many images the budget needs if n are too few; empty if they suffice."""
    needed = images_for_none(budget)
    if n >= needed:
        return ""
    return (
        f"inconclusive: a budget of {100 * budget:g} % needs {count(needed, 'image')}, and "
        f"{count(n, 'image')} were compared"
    )


def rounded_down(value: float) -> float:
    """Round a positive number down to three digits, and below itself.

    >>> rounded_down(0.0123987), rounded_down(2.5), rounded_down(0.0)
    (0.0123, 2.49, 0.0)
    """
    if value <= 0:
        return 0.0
    # an answer may change at the limit itself
    below = Decimal(float(np.nextafter(value, 0.0)))
    return float(DecimalContext(prec=_DIGITS, rounding=ROUND_DOWN).create_decimal(below))


def measured_limit(points: Sequence[CurvePoint], budget: float) -> Limit:
    """Find the last measured point, in order, before the first that exceeds the budget.

    Points are tested in a fixed order and the first failure ends it, so that the confidence of each
    is that of the result (Maurer, Hothorn and Lehmacher, 1995).
    """
    first = points[0]
    reason = (
        f"at {first.factor:g} of the difference {grouped(first.changed)} of "
        f"{count(first.images, 'image')} changed, which does not show a share within the budget"
    )
    limit = Limit(None, None, None, reason=too_few(first.images, budget) or reason)
    for each in points:
        bound = greatest_share(each.changed, each.images)
        if bound > budget:
            return limit
        limit = Limit(each.factor, each.changed, bound)
    return replace(limit, more=True)
