"""A bisection as a terminal shows it."""

from __future__ import annotations

from collections import Counter

from alignkit.record.study_documents import Bisection, LayerDrift
from alignkit.text import columns
from alignkit.text.numbers import count, significant

_HEAD = ("", "layer", "operator", "shape", "max |Δ|", "mean |Δ|", "relative", "alone", "non-finite")


def as_text(found: Bisection) -> str:
    """Return the table of layers, and a sentence on the first that exceeds the tolerance."""
    rows = [_HEAD, *map(_row, found.layers)]
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
        ">" if each.exceeds_tolerance else "",
        each.name,
        each.operator,
        "x".join(map(str, each.shape)),
        number(each.max_abs),
        number(each.mean_abs),
        number(each.relative),
        number(each.isolated_relative),
        str(each.non_finite or ""),
    )


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _alone(found: Bisection) -> list[str]:
    """Return why isolated layers have no number, each reason once."""
    missing = Counter(each.isolated_reason for each in found.layers if each.isolated_reason)
    return [f"alone, {count(number, 'layer')}: {why}" for why, number in missing.items()]


def _sentence(found: Bisection) -> str:
    if found.first is None:
        return f"no layer differs by more than {found.tolerance:g} of its greatest value"
    first = next(each for each in found.layers if each.name == found.first)
    start = f"it starts at {first.name} ({first.operator}): {_difference(first)}"
    return f"{start} (tolerance {found.tolerance:g})\n{_blamed(first, found)}"


def _difference(first: LayerDrift) -> str:
    if first.max_abs is None or (first.non_finite and not first.relative):
        return first.reason or "values that are not finite"
    share = (
        "" if first.relative is None else f", {significant(first.relative)} of its greatest value"
    )
    lost = f", {count(first.non_finite, 'value')} not finite" if first.non_finite else ""
    return f"max |Δ| {significant(first.max_abs)}{share}{lost}"


def _blamed(first: LayerDrift, found: Bisection) -> str:
    """Say whether the layer or its inputs cause the difference."""
    if first.isolated_relative is None:
        return f"alone: {first.isolated_reason}" if first.isolated_reason else "alone: not measured"
    error = significant(first.isolated_relative)
    isolated = f"fed the reference's values, this layer alone differs by {error}"
    if first.isolated_relative > found.tolerance:
        return f"{isolated}: the layer itself is to blame"
    worst = max(found.layers, key=lambda each: each.isolated_relative or 0)
    most = f"; most alone: {worst.name}, {significant(worst.isolated_relative or 0)}"
    return (
        f"{isolated}: what came in, summed up over the layers before, or what the runtime fuses "
        f"with it is to blame{most}"
    )
