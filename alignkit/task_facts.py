"""The stored description of a task: its metrics, their names and units, and its words.

A record carries it, so that the pages and the rules need not know the task. It lies below the
record because reading a file's rules needs it, and the other types of a record take 50 ms to load.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

_STRICT: dict[str, Any] = {
    "extra": "forbid", "allow_inf_nan": False, "revalidate_instances": "always",
}  # fmt: skip
"""Configuration of pydantic for what a record stores; without importing it."""

OutputScale = Literal["logits", "probabilities", "percent", "levels"]
"""Scale of a classifier's outputs; probabilities may be from 0 to 1, 100 or 255."""
Unit = Literal["share", "points", "px", "value"]
"""A fraction that is shown in percent, its change in points; of a measure that is itself such a
change, points; pixels; a number as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFacts:
    """A number that a task measures."""

    __pydantic_config__: ClassVar = _STRICT

    name: str
    """As a gate rule names it: ``recall.macro``, ``map50``, ``boxes.lost``."""
    label: str
    """As a page heads a column: *Macro recall*."""
    unit: Unit = "share"
    better: Literal["more", "less", ""] = "more"
    """Whether more of it is better; empty if neither is."""
    meaning: str = ""
    """Definition in one sentence, for legends and the documentation."""
    short: str = ""
    """Its label where there is little room: *Top-1*; empty if it is the label itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """The task that the models of a record solve."""

    __pydantic_config__: ClassVar = _STRICT

    name: str
    """As the experiment names it."""
    metrics: tuple[MetricFacts, ...]
    """Metrics of one cell, whose change is the drift."""
    measures: tuple[MetricFacts, ...] = ()
    """Differences between two cells that are no change of a metric."""
    matrices: tuple[str, ...]
    """The metrics that have a matrix of their own, and ``churn``, in the order of the page; the
    first is the headline."""
    class_metrics: tuple[MetricFacts, ...]
    """Metrics by class beside one another in a table; ``recall`` and ``precision`` come first."""
    answer: str = "prediction"
    """The model's answer to an image in words."""
    changed: str
    """When two answers differ, in one sentence."""
    quality: str
    """The number of an image that makes a changed answer worse or better."""
    turned: tuple[str, str, str] = ("right → wrong", "wrong → right", "wrong → wrong")
    """Names of the kinds of changes: worse, better, neither."""
    sides: tuple[str, str] = ("worse", "better")
    """An image whose answer changed for the worse, and for the better, after its number."""
    sides_meaning: str = ""
    """The same in a sentence, for legends; empty if `quality` says it."""
    compared: str = ""
    """The part of an answer that is another one where it changed, in words; empty for all of it."""
    rated: str = "quality"
    """The mean of `quality` over images, as a column names it: its detectable change is shown."""
    rated_unit: Unit = "share"
    rated_metric: str = ""
    """The one of `metrics` that is this mean; empty if none is."""
    usual_churn: float | None = 0.05
    """Share of changed images that a gate without rules allows; ``None`` for no such rule, where
    any difference of the inputs changes an answer."""
    test: str = "Sign test"
    """Name of the test whether as many answers are worse as are better."""
    class_scores: bool = False
    """Whether an answer is a score for each class, so that scores and margins are compared."""
    scores: OutputScale | Literal["scores"] = "logits"
    """Scale of the outputs of its classifiers; ``scores`` if those of its models differ."""
    labels: str = "labels"
    """The truth about the images in words: labels, boxes, masks."""
    counted: str = "images"
    """The things of a class that its table counts: images, objects, pixels."""
    needs_labels: bool = True
    """Whether its metrics have no value for images without labels."""

    @property
    def output(self) -> str:
        """A number that its models give, in words."""
        return _OUTPUTS[self.scores] if self.class_scores else "output"

    def giving(self, found: Iterable[OutputScale]) -> TaskFacts:
        """Describe the task of models whose outputs were found to be these."""
        scales = {*found}
        scores: OutputScale | Literal["scores"] = scales.pop() if scales else self.scores
        return replace(self, scores="scores" if scales else scores)

    @property
    def outputs(self) -> str:
        """These numbers in words."""
        word = self.output
        return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


_OUTPUTS = {
    "logits": "logit", "probabilities": "probability", "percent": "percentage", "levels": "level",
    "scores": "score",
}  # fmt: skip


def _averages() -> tuple[MetricFacts, ...]:
    return tuple(
        MetricFacts(name=f"{ratio}.{average}", label=f"{average.capitalize()} {label}")
        for ratio, label in (("recall", "recall"), ("precision", "precision"), ("f1", "F1"))
        for average in ("macro", "micro", "weighted")
    )


def over_classes(metric: str) -> bool:
    """Return whether a metric is a mean over classes, so that a class of few images decides it."""
    return metric.endswith(".macro") or metric in ("map50", "map", "miou")


CLASSIFICATION = TaskFacts(
    name="classification",
    metrics=(MetricFacts(name="top1", label="Top-1 accuracy", short="Top-1"), *_averages()),
    matrices=("recall.macro", "precision.macro", "top1", "churn"),
    class_metrics=(
        MetricFacts(name="recall", label="Recall"),
        MetricFacts(name="precision", label="Precision"),
    ),
    changed="The class of the greatest output is another one.",
    quality="whether its class is right",
    sides=("lost", "gained"),
    sides_meaning="lost: right before, wrong now; gained: the other way",
    compared="predicted class",
    rated="top-1",
    rated_metric="top1",
    usual_churn=0.02,
    test="McNemar",
    class_scores=True,
)
"""The task of records that name none."""

CLASS_IDS = replace(CLASSIFICATION, class_scores=False)
"""Classification by a model that gives the class itself."""
