"""A bisection as a terminal shows it."""

from __future__ import annotations

from collections import Counter

from alignkit.record.bisection import Bisection, LayerDrift
from alignkit.text.columns import columns
from alignkit.text.numbers import count, significant

HEAD = ("", "layer", "operator", "shape", "max |Δ|", "mean |Δ|", "relative", "alone", "non-finite")


def as_text(found: Bisection) -> str:
    """The table of layers, and the first one past the tolerance."""
    rows = [HEAD, *map(_row, found.layers)]
    reasons = [f"{each.name}: {each.reason}" for each in found.layers if each.reason]
    reasons += _alone(found)
    unmatched = (
        [f"{count(len(found.unmatched), 'layer')} only one side has: {_some(found.unmatched)}"]
        if found.unmatched
        else []
    )
    sides = f"{found.reference} against {found.candidate}"
    head = f"{found.model}, {count(found.images, 'image')}: {sides}"
    lines = [head, "", columns(rows), "", *reasons, *unmatched, _sentence(found)]
    return "\n".join(lines)


def _row(each: LayerDrift) -> tuple[str, ...]:
    def number(value: float | None) -> str:
        return "–" if value is None else significant(value)

    return (
        ">" if each.past else "",
        each.name,
        each.operator,
        "x".join(map(str, each.shape)),
        number(each.max_abs),
        number(each.mean_abs),
        number(each.relative),
        number(each.own_relative),
        str(each.non_finite or ""),
    )


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _alone(found: Bisection) -> list[str]:
    """Why layers have no number alone, each reason once."""
    missing = Counter(each.own_reason for each in found.layers if each.own_reason)
    return [f"alone, {count(number, 'layer')}: {why}" for why, number in missing.items()]


def _sentence(found: Bisection) -> str:
    if found.first is None:
        return f"no layer differs by more than {found.tolerance:g} of its greatest value"
    first = next(each for each in found.layers if each.name == found.first)
    start = f"it starts at {first.name} ({first.operator}): {_told(first)}"
    return f"{start} (tolerance {found.tolerance:g})\n{_blamed(first, found)}"


def _told(first: LayerDrift) -> str:
    if first.max_abs is None or (first.non_finite and not first.relative):
        return first.reason or "values that are not finite"
    share = (
        "" if first.relative is None else f", {significant(first.relative)} of its greatest value"
    )
    lost = f", {count(first.non_finite, 'value')} not finite" if first.non_finite else ""
    return f"max |Δ| {significant(first.max_abs)}{share}{lost}"


def _blamed(first: LayerDrift, found: Bisection) -> str:
    """Whether the layer is to blame, or what came in."""
    if first.own_relative is None:
        return f"alone: {first.own_reason}" if first.own_reason else "alone: not measured"
    alone = (
        f"fed the reference's values, this layer alone differs by {significant(first.own_relative)}"
    )
    if first.own_relative > found.tolerance:
        return f"{alone}: the layer itself is to blame"
    worst = max(found.layers, key=lambda each: each.own_relative or 0)
    most = f"; most alone: {worst.name}, {significant(worst.own_relative or 0)}"
    return (
        f"{alone}: what came in, summed up over the layers before, or what the runtime fuses with "
        f"it is to blame{most}"
    )
