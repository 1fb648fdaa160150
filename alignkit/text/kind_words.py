"""Kinds of images whose answers change more or less often than others, in words."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.record import Subgroup
from alignkit.text.numbers import interval, p_value, percent

_MARGIN = "margin of the reference"
_THIRDS = (" third",)


def said_kinds(found: Sequence[Subgroup]) -> list[Subgroup]:
    """Choose the significant kinds that a reader is told: classes and files first, margin last.

    Of a dimension in thirds only the one that differs most: the other two follow from it.
    """
    chosen: dict[tuple[str, str], Subgroup] = {}
    for each in found:
        key = (each.dimension, "" if each.kind.endswith(_THIRDS) else each.kind)
        if key not in chosen or _difference(each) > _difference(chosen[key]):
            chosen[key] = each

    def order(each: Subgroup) -> tuple[bool, bool]:
        return each.dimension == _MARGIN, each.kind.endswith(_THIRDS)

    return sorted(chosen.values(), key=order)  # stable: the least p first


def kind_words(each: Subgroup, change: str = "flip") -> str:
    """``Class 4 flips 2.1 times as often: 14.3 % against 6.9 % (…)``; ``change``: the verb."""
    rates = f"{percent(each.churn)} against {percent(each.elsewhere)}"
    if each.dimension == _MARGIN and each.kind.startswith(
        "lowest" if each.churn > each.elsewhere else "highest"
    ):
        return f"Unsure images {change} most: margin in the {each.kind} {rates}."
    name = each.kind if each.dimension == "class" else f"{each.dimension} {each.kind}"
    who = f"Class {name}" if each.dimension == "class" else f"{name[:1].upper()}{name[1:]}"
    ends = interval(each.difference, 1)
    tested = f"difference {ends} pp, " if ends else ""
    p = p_value(each.p_adjusted, "= ")
    return f"{who} {_often(each, change)}: {rates} ({tested}p {p} after Holm)."


def _often(each: Subgroup, change: str) -> str:
    if not each.churn:
        return f"never {change}s"
    if not each.elsewhere:
        return f"alone {change}s"
    times = each.churn / each.elsewhere
    if times < 1:
        return f"{change}s less often"
    often = "twice" if round(times, 1) == 2 else f"{times:.1f} times"
    return f"{change}s {often} as often"


def _difference(each: Subgroup) -> float:
    return abs(each.churn - each.elsewhere)
