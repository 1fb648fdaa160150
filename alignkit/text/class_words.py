"""Words of classes and other kinds of images: those that a drift hits hardest, and lost margins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from alignkit.record import Drift, Estimate, MovedImage, Subgroup
from alignkit.text.numbers import estimated, interval, p_value, percent
from alignkit.text.task_words import OF_CLASSES, TaskWords, in_sentence

FAR = 2.0
"""A class's change by which it is far stronger than the change of its mean over classes."""
_TIED = "the greatest output is tied with another, so that there is no margin to lose"
NOT_FINITE = "an output is not finite"
_MARGIN = "margin of the reference"


class ClassFact(NamedTuple):
    """A change of one class whose interval lies on one side of zero."""

    name: str
    metric: str
    """``recall``, ``precision``, or another of the task."""
    change: Estimate
    words: str
    """``class 1, precision −19.1 pp [−23.0, −15.2] (largest of 20 changes by class)``."""


def strongest_class(drift: Drift, words: TaskWords = OF_CLASSES) -> ClassFact | None:
    """Find the largest change of a class; ``None`` if every interval contains zero."""
    found = [
        (each.name, metric, change)
        for each in drift.classes
        for metric, change in {
            "recall": each.recall,
            "precision": each.precision,
            **each.others,
        }.items()
        if change.value is not None
    ]
    # the largest of many changes by chance alone would be large
    sure = [each for each in found if _is_shown(each[2])]
    if not sure:
        return None
    name, metric, change = max(sure, key=lambda each: abs(each[2].value or 0.0))
    labels = {each.name: in_sentence(each.label) for each in words.task.class_metrics}
    value = estimated(change, 1, unit=" pp")
    among = f"(largest of {len(found)} changes by class)"
    said = f"class {name}, {labels.get(metric, metric)} {value} {among}"
    return ClassFact(name, metric, change, said)


def far_stronger_class(drift: Drift, words: TaskWords = OF_CLASSES) -> ClassFact | None:
    """Find the largest change of a class if it is `FAR` times that of its mean over classes."""
    fact = strongest_class(drift, words)
    if fact is None:
        return None
    whole = drift.metrics.get(f"{fact.metric}.macro", drift.metrics.get(words.headline))
    mean = abs(whole.value or 0.0) if whole else 0.0
    return fact if abs(fact.change.value or 0.0) >= FAR * mean else None


def _is_shown(change: Estimate) -> bool:
    if change.low is None or change.high is None:
        return False
    return change.low > 0 or change.high < 0


def unknown_margin(image: MovedImage) -> str:
    """Say why the share that an image loses of its margin is not known."""
    return NOT_FINITE if image.margin is None or image.max_abs is None else _TIED


def said_kinds(found: Sequence[Subgroup]) -> list[Subgroup]:
    """Choose the significant kinds that a reader is told: classes and files first, margin last.

    Of a dimension in thirds only the one that differs most: the other two follow from it.
    """
    chosen: dict[tuple[str, str], Subgroup] = {}
    for each in found:
        key = (each.dimension, "" if each.kind.endswith(" third") else each.kind)
        other = chosen.get(key)
        if other is None or _apart(each) > _apart(other):
            chosen[key] = each
    # stable: the least p first
    return sorted(
        chosen.values(), key=lambda e: (e.dimension == _MARGIN, e.kind.endswith(" third"))
    )


def _apart(each: Subgroup) -> float:
    return abs(each.churn - each.elsewhere)


def kind_words(each: Subgroup, change: str = "flip") -> str:
    """``Class 4 flips more often: 14.3 % against 6.9 % (…)``; ``change``: the verb."""
    who = f"{each.dimension[:1].upper()}{each.dimension[1:]} {each.kind}"
    often = "more" if each.churn > each.elsewhere else "less"
    ends = interval(each.difference, 1)
    tested = f"difference {ends} pp, " if ends else ""
    return (
        f"{who} {change}s {often} often: {percent(each.churn)} against {percent(each.elsewhere)} "
        f"({tested}p {p_value(each.p_adjusted, '= ')} after Holm)."
    )
