"""Advice on an index in use: keep it, map queries into it, or build it again, as was measured.

A way is advised where it was measured to lose less of recall@1 than the margin: the lower end of
its interval, less the share of changes that so few identities may have failed to show, lies above
−margin (non-inferiority). Where neither that nor the opposite was shown, nothing is advised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignkit.compare.statistics import NORMAL, required_sample, rule_of_three
from alignkit.record import Estimate
from alignkit.text.numbers import count, estimated

_Standing = Literal["within", "beyond", "open"]


@dataclass(frozen=True, slots=True)
class IndexWay:
    """A way to search after the change, and the change of recall@1 that was measured for it."""

    change: Estimate
    """From the reference's queries in its own index."""
    queries: int
    identities: int
    """Identities of these queries: they are what is drawn for the interval."""

    def standing(self, margin: float) -> _Standing:
        """Tell whether it loses less than the margin, more, or whether that is open."""
        if self.change.low is None or self.change.high is None or not self.identities:
            return "open"
        if self.change.low - rule_of_three(self.identities) >= -margin:
            return "within"
        return "beyond" if self.change.high + rule_of_three(self.identities) < -margin else "open"

    def wanted(self, margin: float) -> int | None:
        """Compute how many identities would show that it loses less, if the change stayed.

        ``None`` if it would not, or nothing was measured.
        """
        value, low, high = self.change.value, self.change.low, self.change.high
        if value is None or low is None or high is None or not self.identities:
            return None
        return required_sample(
            value + margin,
            images_error=(high - low) / 2 / NORMAL,
            seeds_error=0.0,
            images=self.identities,
            seeds=1,
            unseen=rule_of_three(self.identities),
        ).images

    @property
    def said(self) -> str:
        """The change in words, and on how much it was measured."""
        if self.change.value is None:
            return f"not measured ({self.change.reason})"
        on = f"{count(self.queries, 'query', 'queries')} of {_identities(self.identities)}"
        why = f"; {self.change.reason}" if self.change.reason else ""
        return f"{estimated(self.change, unit=' pp')} ({on}{why})"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWays:
    """Every way that was measured."""

    kept: IndexWay
    """The candidate's queries in the reference's index."""
    rebuilt: IndexWay
    """The candidate's queries in its own index."""
    kept_in_test: IndexWay
    """As ``kept``, on the half of the identities on which a rotation is tested."""
    mapped: IndexWay
    """The candidate's queries, rotated, in the reference's index of that half."""


def index_advice(ways: IndexWays, *, margin: float, index_size: int = 0) -> tuple[str, ...]:
    """Advise in sentences, with the numbers that were measured.

    ``margin`` is a fraction. ``index_size`` is the number of rows of the index in use, 0 if it is
    not known.
    """
    limit = f"the margin of {100 * margin:g} pp"
    kept = f"With the index kept, recall@1 changes by {ways.kept.said}."
    if ways.kept.change.value is None:
        return (f"Whether the index can be kept is unknown: {ways.kept.change.reason}.",)
    standing = ways.kept.standing(margin)
    if standing == "within":
        return (f"Keep the index: recall@1 falls by less than {limit}.", kept)
    rebuilt_said = f"With the index built again, it changes by {ways.rebuilt.said}."
    measured = (kept, _of_mapped(ways), rebuilt_said)
    if ways.mapped.standing(margin) == "within":
        first = (
            "Map the queries into the index by a rotation: recall@1 then falls by less than "
            f"{limit}, which is not shown with the index kept as it is."
        )
        return (first, *measured[:2])
    rebuilt = ways.rebuilt.standing(margin)
    if standing == "open":
        first = (
            f"It is not resolved whether recall@1 falls by more than {limit} with the index kept."
        )
        first += _more(ways.kept.wanted(margin))
        if rebuilt == "within":
            first += " With an index that is built again it does not."
        return (first, *measured)
    if rebuilt == "beyond":
        first = f"The candidate loses more than {limit} also with an index that is built again."
        return (first, *measured)
    first = f"Build the index again: kept, it loses more than {limit}."
    if rebuilt == "open":
        first += " It is not resolved whether the new one loses more, too."
        first += _more(ways.rebuilt.wanted(margin))
    return (first, *measured, _cost(index_size))


def _of_mapped(ways: IndexWays) -> str:
    if ways.mapped.change.value is None:
        return f"A rotation of the queries was not tested: {ways.mapped.change.reason}."
    return (
        f"With queries rotated into it, it changes by {ways.mapped.said}; on the same queries "
        f"without a rotation, by {estimated(ways.kept_in_test.change, unit=' pp')}."
    )


def _more(identities: int | None) -> str:
    if identities is None:
        return ""
    return f" {_identities(identities)} would show that it does not, if the change stays the same."


def _cost(index_size: int) -> str:
    if not index_size:
        return "Give the rows of the index in use as 'index_size' of the task to see the cost."
    return (
        f"A new index means to embed {count(index_size, 'image')}; how long that takes was not "
        "measured."
    )


def _identities(number: int) -> str:
    return count(number, "identity", "identities")
