"""A difference that others published, read against the same difference here.

It is read by its direction alone: its size belongs to other data. It holds here where the paired
interval lies clear of zero on the same side, and beyond what another seed does.
"""

from __future__ import annotations

from alignkit.record import Claim, Estimate
from alignkit.record.published import Reading


def read_claim(
    words: str,
    metric: str,
    published: float,
    measured: Estimate,
    floor: float | None,
    *,
    same: bool | None = None,
) -> Claim:
    """The claim with its reading; differences are fractions, candidate less reference.

    ``floor`` is what another seed alone does, ``None`` if one seed was trained. ``same`` says
    whether the measured difference goes the way of the published one; by default, by their signs.
    """
    published = round(published, 6)  # of decimal figures, whose difference is one too
    if same is None:
        same = published * (measured.value or 0.0) > 0
    reading, why = _reading(published, measured, floor, same=same)
    return Claim(
        words=words,
        metric=metric,
        published=published,
        measured=measured,
        floor=floor,
        reading=reading,
        why=why,
    )


def unmeasured(reason: str) -> Estimate:
    """No value, and why."""
    return Estimate(value=None, low=None, high=None, reason=reason or "not measured")


def _reading(
    published: float, measured: Estimate, floor: float | None, *, same: bool
) -> tuple[Reading, str]:
    if measured.value is None:
        return "not measured", measured.reason
    nothing = measured.value == measured.low == measured.high == 0
    if nothing and published == 0:
        return "holds here", "it changes nothing here either"
    if floor is not None and abs(measured.value) <= floor:
        why = "it changes nothing here" if nothing else "another seed alone does as much"
        return "inside the noise floor", why
    if nothing:
        return "does not hold here", "it changes nothing here"
    return _by_interval(measured, same=same)


def _by_interval(measured: Estimate, *, same: bool) -> tuple[Reading, str]:
    if measured.low is None or measured.high is None:
        return "undecided", measured.reason or "there is no interval"
    if measured.low <= 0 <= measured.high:
        return "undecided", "the interval holds zero"
    side = "same" if same else "other"
    clear = f"the interval is clear of zero, on the {side} side"
    return ("holds here" if same else "does not hold here"), clear
