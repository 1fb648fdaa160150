"""The frontier of speed and drift: which options another one makes pointless, which price is left.

An option is *dominated* if another one is no worse in either value, throughput and churn, and is
shown to be better in one of them. It is *not separable* if the other one is better by its values
and nothing shows it. All others are the *frontier*.

"Shown" means for speed that the sign test's interval of the ratio, round by round, excludes 1; for
drift that the intervals of the two churns do not touch, which is stricter than a paired test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from alignkit.compare.order_statistics import percentile
from alignkit.record import Estimate
from alignkit.record.bench_facts import FrontierPlace
from alignkit.serve.served_facts import gain_over

_REFERENCE_CHURN = Estimate(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Contender:
    """An option whose speed and drift are known."""

    name: str
    throughput: tuple[float, ...]
    """Requests a second, of each round; options take turns in a round."""
    churn: Estimate = _REFERENCE_CHURN
    """With a value; that of the reference is 0 by definition."""

    @property
    def speed(self) -> float:
        """The median over rounds."""
        return percentile(self.throughput, 50).value


def frontier(options: Sequence[Contender]) -> dict[str, FrontierPlace]:
    """Place each of the options, which have different names, among them."""
    places = {each.name: _place(each, options) for each in options}
    kept = [each for each in options if places[each.name].standing == "frontier"]
    kept.sort(key=lambda each: (_value(each), each.speed))
    for before, after in pairwise(kept):
        update = {"since": before.name, "price": price(before, after)}
        places[after.name] = places[after.name].model_copy(update=update)
    return places


def _value(option: Contender) -> float:
    assert option.churn.value is not None
    return option.churn.value


def _place(option: Contender, options: Sequence[Contender]) -> FrontierPlace:
    better = [
        each
        for each in options
        if (each.speed >= option.speed and _value(each) <= _value(option))
        and (each.speed, _value(each)) != (option.speed, _value(option))
    ]
    # the fastest first: it is the one to take instead
    better.sort(key=lambda each: (-each.speed, _value(each)))
    for each in better:
        if shown := _shown(each, option):
            return FrontierPlace(standing="dominated", by=each.name, shown=shown)
    if better:
        return FrontierPlace(standing="not separable", by=better[0].name)
    return FrontierPlace(standing="frontier")


def _shown(better: Contender, option: Contender) -> tuple[Literal["speed", "drift"], ...]:
    low = gain_over(better.throughput, option.throughput).low
    high, least = better.churn.high, option.churn.low
    shown: tuple[Literal["speed", "drift"], ...] = ()
    if low is not None and low > 0:
        shown += ("speed",)
    if high is not None and least is not None and high < least:
        shown += ("drift",)
    return shown


def price(before: Contender, after: Contender) -> Estimate:
    """Compute the share of throughput that a point of churn buys, from an option to a faster one.

    Without an end where the sample does not show that the churns differ; without a value where they
    are equal.
    """
    gain = gain_over(after.throughput, before.throughput)
    points = 100 * (_value(after) - _value(before))
    if points <= 0 or gain.value is None:
        return Estimate(None, None, None, "the churns are equal")
    value = gain.value / points
    a, b = before.churn, after.churn
    if None in (a.low, a.high, b.low, b.high, gain.low, gain.high):
        return Estimate(value, None, None, "the interval of a churn or of the gain is not known")
    assert a.low is not None and a.high is not None  # noqa: PT018 - for the type checker
    assert b.low is not None and b.high is not None  # noqa: PT018
    assert gain.low is not None and gain.high is not None  # noqa: PT018
    least, most = 100 * (b.low - a.high), 100 * (b.high - a.low)
    if least <= 0:
        return Estimate(value, None, None, "the sample does not show that the churns differ")
    # a loss is greatest per point where the points are fewest
    ends = [end / some for end in (gain.low, gain.high) for some in (least, most)]
    return Estimate(value, min(ends), max(ends))
