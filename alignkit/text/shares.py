"""Shares of an attributed drift, rounded as sentences show them: which is largest, and the cause.

A share that a sentence would show as zero is called nothing, so that words and choices agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alignkit.record import AttributionFacts, Estimate, FactorShare
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.text.numbers import count, estimated, listed, points, signed, written_interval
from alignkit.text.task_words import digits

_LESS = 0.75
"""Greatest share of a change that remains where a step takes clearly some of it away."""


def main_shares(found: AttributionFacts) -> tuple[FactorShare | None, list[FactorShare]]:
    """Return the largest share, and all others but those that add nothing.

    They are rounded as sentences show them; ``None`` if the largest is zero.
    """
    sizes = {each.factor: shown_size(each.effect.value, found) for each in found.shares}
    first = max(found.shares, key=lambda each: sizes[each.factor] or 0.0)
    main = first if sizes[first.factor] else None
    return main, [e for e in found.shares if e is not main and not adds_nothing(e, found)]


def adds_nothing(share: FactorShare, found: AttributionFacts) -> bool:
    """Return whether a factor changes nothing that a sentence shows: in its share, alone, last.

    The share alone is also zero where a factor takes back what another one does.
    """
    ways = (share.effect, share.alone, share.last)
    # None is unknown, and not zero
    return all(shown_size(each.value, found) == 0 for each in ways if each is not None)


def remaining(share: FactorShare, found: AttributionFacts) -> float | None:
    """Return the change with this factor of the reference, all else of the candidate.

    ``None`` if it was not measured.
    """
    others = [each for each in found.shares if each is not share]
    if len(others) < 2:  # the other one is alone then
        return others[0].alone.value if others else 0.0
    if share.last is None or share.last.value is None or found.total.value is None:
        return None
    return found.total.value - share.last.value


def repairs(share: FactorShare, found: AttributionFacts) -> bool | None:
    """Return whether clearly less remains with this factor of the reference; ``None`` if unknown.

    Clearly less means: it shows as zero; or at most three quarters remain, and at both ends of the
    interval less remains than there was.
    """
    left, total = remaining(share, found), found.total.value
    if left is None or total is None:
        return None
    if shown_size(left, found) == 0:
        return shown_size(total, found) != 0
    gone = share.last or Estimate(total - left, None, None)
    ends = [total - each for each in (gone.low, gone.high) if each is not None]
    return abs(left) <= _LESS * abs(total) and all(abs(each) < abs(total) for each in ends)


def is_cause(share: FactorShare, found: AttributionFacts) -> bool:
    """Return whether a factor explains most of the total: by its share, and by what goes with it.

    Where no mixture shows the remainder, it is the total less the effect alone.
    """
    total, effect, alone = found.total.value, share.effect.value, share.alone.value
    if total is None or effect is None:
        return False
    left = remaining(share, found)
    if left is None and alone is not None:
        left = total - alone
    less = left is None or abs(left) <= _LESS * abs(total)
    return less and effect * total >= EXPLAINS_MOST * total * total


def opposing(found: AttributionFacts) -> bool:
    """Return whether none is the cause, and one alone changes clearly more than all together."""
    total, (first, others) = found.total.value, main_shares(found)
    if total is None or not others or (first and is_cause(first, found)):
        return False
    return abs(total) <= _LESS * greatest_alone(found.shares)


def greatest_alone(shares: Sequence[FactorShare]) -> float:
    """Return the largest size that a factor changes alone."""
    return max((abs(each.alone.value) for each in shares if each.alone.value), default=0.0)


def shown_size(value: float | None, found: AttributionFacts) -> float | None:
    """Round a share's size as sentences show it; ``None`` if it is unknown.

    To a tenth of a point; of what is no fraction, to a hundredth of the greatest share or total.
    """
    if value is None:
        return None
    if found.unit == "fraction":
        return round(100 * abs(value), 1)
    every = (found.total, *(each.effect for each in found.shares))
    greatest = max((abs(each.value) for each in every if each.value), default=1.0)
    return round(abs(value) / greatest, 2)


def share_words(value: float, found: AttributionFacts) -> str:
    """Write a share with its unit: ``−3.9 pp``, ``+1.24 px``."""
    if found.unit == "fraction":
        return f"{points(value, 1)} pp"
    unit = "" if found.unit == "value" else f" {found.unit}"
    return signed(value, digits(Estimate(value, None, None))) + unit


def share_estimated(estimate: Estimate, found: AttributionFacts) -> str:
    """Write a share with its interval, without its unit: ``−3.12 [−3.52, −2.72]``."""
    if estimate.value is None or found.unit == "fraction":
        return estimated(estimate)
    ends = written_interval(estimate, lambda end: signed(end, 2))
    return f"{signed(estimate.value, 2)} {ends}".rstrip()


def share_beside_alone(share: FactorShare, found: AttributionFacts) -> str:
    """Write a share with its unit; beside one of zero, what the factor changes alone."""
    value, alone = share.effect.value, share.alone.value
    if value is None:
        return "unknown"
    beside = not shown_size(value, found) and shown_size(alone, found)
    more = f", {share_words(alone or 0.0, found)} alone" if beside else ""
    return share_words(value, found) + more


def steps_of(found: AttributionFacts) -> list[FactorShare]:
    """List all that adds up to the total: the factors, and an interaction beside them."""
    if found.method == "shapley":  # which divides it among the factors
        return [*found.shares]
    return [*found.shares, FactorShare("interaction", found.interaction, found.interaction)]


def _by_size(steps: Iterable[FactorShare]) -> list[FactorShare]:
    return sorted(steps, key=lambda each: -abs(each.effect.value or 0.0))


def moving_steps(found: AttributionFacts) -> list[FactorShare]:
    """List the steps that add something."""
    # a hundredth of a level is shown, although it may be little of the greatest share
    return [
        each
        for each in steps_of(found)
        if not adds_nothing(each, found)
        or (found.unit == "grey levels" and round(each.effect.value or 0.0, 2))
    ]


def shares_sentence(found: AttributionFacts, of: str) -> str:
    """Write ``Cause of macro recall: resize (−3.9 pp); decode adds nothing.``, the most first."""
    steps, shown = _by_size(steps_of(found)), _by_size(moving_steps(found))
    still = [_name(each) for each in steps if each not in shown]
    moved = [f"{_name(each)} ({share_beside_alone(each, found)})" for each in shown]
    nothing = f"{listed(still)} add{'s' * (len(still) == 1)} nothing" if still else ""
    lead = "Shares that push against each other," if opposing(found) else "Cause"
    return f"{lead} {of}: {'; '.join(filter(None, (listed(moved), nothing)))}."


def _name(share: FactorShare) -> str:
    return share.factor.removeprefix("decode.")


def drawn_words(found: AttributionFacts) -> str:
    """Say on how many images the shares were measured, if on a sample; else empty."""
    drawn = f" (on {found.images} of {count(found.drawn_from, 'image')})"
    return drawn if found.drawn_from else ""


def pushing(shares: Sequence[FactorShare]) -> list[FactorShare]:
    """List the shares that change more alone than a tenth of the greatest: less pushes nothing."""
    least = 0.1 * greatest_alone(shares)
    return [each for each in shares if abs(each.alone.value or 0.0) > least]


def factor_words(share: FactorShare, found: AttributionFacts) -> str:
    """Name a factor; the precision with the number format, as a metric is called precision too."""
    parts = share.factor.split("+")
    return "+".join(f"{found.precision} precision" if e == "precision" else e for e in parts)
