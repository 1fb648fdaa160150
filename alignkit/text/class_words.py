"""Words of classes: the one that a drift hits hardest, and why a margin is not known."""

from __future__ import annotations

from typing import NamedTuple

from alignkit.record import Drift, Estimate, MovedImage
from alignkit.text.numbers import estimated
from alignkit.text.task_words import OF_CLASSES, TaskWords, in_sentence

FAR = 2.0
"""A class's change by which it is far stronger than the change of its mean over classes."""
_TIED = "the greatest output is tied with another, so that there is no margin to lose"
NOT_FINITE = "an output is not finite"
_WORDS = {
    ("recall", False): "Class {} is missed more often",
    ("recall", True): "Class {} is found more often",
    ("precision", False): "Other images are now called {}",
    ("precision", True): "Fewer other images are called {}",
}


class ClassFact(NamedTuple):
    """A change of one class whose interval lies on one side of zero."""

    name: str
    metric: str
    """``recall``, ``precision``, or another of the task."""
    change: Estimate
    among: int
    """Changes of classes that were looked at."""
    label: str
    """Of the metric, in a sentence."""
    said: str
    """What the change means in words; empty for a task whose answers are no classes."""

    @property
    def words(self) -> str:
        """``Other images are now called 1: precision −19.1 pp [−23.0, −15.2] (…)``."""
        value = estimated(self.change, 1, unit=" pp")
        said = self.said or f"Class {self.name}"
        return f"{said}: {self.label} {value} (largest of {self.among} changes by class)"


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
    sure = [each for each in found if _is_shown(each[2])]
    if not sure:
        return None
    name, metric, change = max(sure, key=lambda each: abs(each[2].value or 0.0))
    labels = {each.name: in_sentence(each.label) for each in words.task.class_metrics}
    said = _WORDS[metric, (change.value or 0.0) > 0] if words.task.class_scores else ""
    label = labels.get(metric, metric)
    return ClassFact(name, metric, change, len(found), label, said.replace("{}", name))


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
