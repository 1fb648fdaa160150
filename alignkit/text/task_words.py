"""`TaskWords`: names of a task's metrics, and their values and changes in the unit of each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from alignkit.record.drift_facts import CellUnit
from alignkit.record.stored import Estimate
from alignkit.samples import UNLABELLED
from alignkit.task_facts import CLASSIFICATION, MetricFacts, TaskFacts, Unit
from alignkit.text.names import LABELS
from alignkit.text.numbers import (
    DASH,
    estimated,
    interval,
    listed,
    percent,
    plain,
    points,
    signed,
    unsigned,
    written_interval,
)

CHURN = "churn"
_AFTER: dict[Unit, str] = {"share": " pp", "points": " pp", "px": " px", "value": ""}
"""Unit after a change."""
_INSIDE = ".decode"
"""End of the name of a metric whose drift is divided inside the decoder."""
_AVERAGES = (".macro", ".micro")


@dataclass(frozen=True, slots=True)
class TaskWords:
    """The words of a task; metrics that it does not name are shares with the names of `LABELS`."""

    task: TaskFacts = CLASSIFICATION

    @property
    def headline(self) -> str:
        """Return the metric that is shown first, and alone where there is room for one."""
        return self.task.matrices[0]

    @property
    def cell_metrics(self) -> tuple[str, ...]:
        """Return the metrics that have a matrix and are values of one cell."""
        return tuple(each for each in self.task.matrices if not self.is_size(each))

    @property
    def own_metrics(self) -> tuple[str, ...]:
        """Return the metrics that have columns: the `cell_metrics`, then a task's others.

        Of classes there are many averages, which the record has.
        """
        others = () if self.task.class_scores else (each.name for each in self.task.metrics)
        return tuple(dict.fromkeys((*self.cell_metrics, *others)))

    @property
    def drawn(self) -> tuple[str, ...]:
        """Return the metrics that charts and comparisons show: of averages the macro ones."""
        return (*(each for each in self.cell_metrics if self._leads(each)), CHURN)

    def _leads(self, metric: str) -> bool:
        # an average over all answers follows from the rest where classes are balanced
        return metric == self.headline or metric.endswith(_AVERAGES[0])

    def facts(self, metric: str) -> MetricFacts:
        """Return the metric's facts; those of a share with its plain name if it has none."""
        every = (*self.task.metrics, *self.task.measures)
        found = next((each for each in every if each.name == metric), None)
        label = LABELS.get(metric, metric).replace("logit", self.task.output)
        return found or MetricFacts(name=metric, label=label)

    def label(self, metric: str) -> str:
        """Return ``Macro recall``, or ``mAP50, inside decode``."""
        whole = metric.removesuffix(_INSIDE)
        return self.facts(whole).label + (", inside decode" if whole != metric else "")

    def phrase(self, metric: str) -> str:
        """Return the label within a sentence: ``macro recall``, ``mAP50``."""
        return in_sentence(self.label(metric))

    def brief(self, metric: str) -> str:
        """Return the label where there is little room: ``macro recall``, ``top-1``."""
        return in_sentence(self.facts(metric).short or self.label(metric))

    def in_cell(self, metric: str) -> str:
        """Return the name in a cell of a matrix: ``recall``, ``top-1``."""
        if metric == CHURN:
            return CHURN
        if any(each.name == metric for each in self.task.measures):
            return self.brief(metric)
        if metric not in self.task.matrices:
            return metric
        whole = metric.removesuffix(_AVERAGES[0])
        return whole if whole != metric else self.brief(metric)

    def listed(self, metrics: Iterable[str]) -> str:
        """List metrics of a panel: ``macro recall and macro precision``."""
        return " and ".join(map(self.phrase, metrics))

    def unit(self, metric: str) -> Unit:
        """Return the unit of a value: a share for churn."""
        return self.facts(metric).unit

    def is_share(self, metric: str) -> bool:
        """Tell whether values are fractions, so that changes are in percentage points."""
        return self.unit(metric) in ("share", "points")

    def lower_is_better(self, metric: str) -> bool:
        """Tell whether a rise is for the worse."""
        return metric == CHURN or self.facts(metric).better == "less"

    def goodness(self, metric: str, change: float) -> float:
        """Turn a change so that less than zero is worse: of a metric without a side any change."""
        better = "less" if metric == CHURN else self.facts(metric).better
        return {"more": change, "less": -change, "": -abs(change)}[better]

    def value(self, metric: str, value: float) -> str:
        """Write a value: ``97.31 %``, ``1.24 px``, ``0.0312``."""
        return in_unit(value, self.unit(metric))

    def change(self, metric: str, change: float, near: Estimate | None = None) -> str:
        """Write a change without its unit: points of a share, else digits that fit ``near``."""
        if self.is_share(metric):
            return points(change)
        return signed(change, digits(near or Estimate(change, None, None)))

    def change_unit(self, metric: str) -> str:
        """Return the unit after a change, with a space before it: `` pp``."""
        return _AFTER[self.unit(metric)]

    def interval(self, metric: str, estimate: Estimate) -> str:
        """Write the interval of a change or, of churn and measures, of a value."""
        return interval_in(estimate, self.unit(metric), size=self.is_size(metric))

    def is_size(self, metric: str) -> bool:
        """Tell whether it compares two cells by itself, so that it is not a change of a value."""
        return metric == CHURN or any(each.name == metric for each in self.task.measures)

    def is_signed(self, metric: str) -> bool:
        """Tell whether it falls and rises: a change of a metric, or a measure that is one."""
        return not self.is_size(metric) or self.unit(metric) == "points"

    def best(self, metric: str) -> float:
        """Return the value of two cells that are equal: 1 for a likeness, else 0."""
        return float(not self.is_signed(metric) and self.facts(metric).better == "more"
                     and metric != CHURN)  # fmt: skip

    def estimated(self, metric: str, estimate: Estimate, *, unit: bool = False) -> str:
        """Write a change, or a value of churn and measures, with its interval or its reason."""
        if self.is_signed(metric):
            # the head of a measure names no unit
            return self.changed(metric, estimate, unit=unit or self.unit(metric) == "points")
        return sized(estimate, self.unit(metric), 2 if metric == CHURN else None)

    def changed(self, metric: str, change: Estimate, *, unit: bool = False) -> str:
        """Write a change of a drift, or of a measure, with its interval or its reason."""
        after = self.change_unit(metric) if unit else ""
        if change.value is None or self.is_share(metric):
            return estimated(change, unit=after)
        text = signed(change.value, digits(change)) + after
        return f"{text} {interval_in(change, self.unit(metric), size=False)}".strip()

    def header(self, metric: str) -> str:
        """Head a column of changes or, of churn and measures, of values: ``Δ macro recall, pp``."""
        if self.is_size(metric):
            return self.label(metric)
        unit = _AFTER[self.unit(metric)]
        return f"Δ {self.brief(metric)}{',' * bool(unit)}{unit}"

    def size(self, metric: str, *sizes: float) -> str:
        """Write a size without a sign, or the range of several: ``0.42 pp``, ``0.3–0.5 px``."""
        return size_in(self.unit(metric), *sizes)

    @property
    def answer_changed(self) -> str:
        """Say of an image that its answer changed: ``predicted class changes``."""
        return f"{self.task.compared or self.task.answer} changed"

    def changed_share(self, share: str, answers: str = "predictions") -> str:
        """Say of how many images the answer changes: one has many boxes, and one prediction."""
        if self.task.class_scores:
            return f"{share} of {answers}"
        return f"the {self.task.compared or self.task.answer} of {share} of images"

    @property
    def turns(self) -> str:
        """Return the verb for an image whose answer changes: a class flips."""
        return "flip" if self.task.class_scores else "change"

    @property
    def class_metrics(self) -> str:
        """List the metrics by class: ``recall or precision``."""
        names = [in_sentence(each.label) for each in self.task.class_metrics]
        return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names)

    @property
    def sides(self) -> str:
        """Say, for a legend, which images count for the worse and for the better."""
        worse, better = self.task.sides
        return self.task.sides_meaning or (
            f"{worse}, {better}: images whose {self.task.answer} changed and whose quality "
            f"({self.task.quality}) fell or rose"
        )


OF_CLASSES = TaskWords()
"""The words of classification."""


def in_sentence(label: str) -> str:
    """Return a label as it stands within a sentence: ``mAP50`` and ``IoU`` keep their letters."""
    first = label.split(" ", 1)[0]
    symbol = first.startswith("Δ")
    return label if symbol or first[1:] != first[1:].lower() else f"{label[:1].lower()}{label[1:]}"


def capital(words: str) -> str:
    """Return words as a sentence begins; ``mAP50`` keeps its letters."""
    return words if words[1:2].isupper() else f"{words[:1].upper()}{words[1:]}"


def unlabelled(words: TaskWords) -> str:
    """Say which metrics a run on images without labels lacks, on every surface."""
    if words.task.class_scores:
        return UNLABELLED
    names = listed([words.phrase(each) for each in words.cell_metrics])
    return f"the images have no {words.task.labels}: {names} not known"


def in_unit(value: float, unit: Unit, decimals: int | None = None) -> str:
    """Write a value in its unit: ``97.31 %``, ``1.24 px``, ``0.0312``."""
    if unit == "share":
        return percent(value, 2)
    if unit == "points":
        return f"{points(value)} pp"
    text = plain(value, digits(Estimate(value, None, None)) if decimals is None else decimals)
    return f"{text} px" if unit == "px" else text


def size_in(unit: Unit, *sizes: float) -> str:
    """Write a size without a sign, or the range of several: ``0.42 pp``, ``0.3–0.5 px``."""
    if unit in ("share", "points"):
        return unsigned(*sizes)
    decimals = digits(Estimate(max(sizes), None, None))
    low, high = (plain(end, decimals) for end in (min(sizes), max(sizes)))
    words = low if low == high else f"{low}{DASH}{high}"
    return f"{words} px" if unit == "px" else words


def fact_words(estimate: Estimate, unit: CellUnit) -> str:
    """Write a cell of a task's own table with its interval: ``97.31 % [96.80, 97.77]``."""
    if unit == "points":
        return estimated(estimate, unit=" pp")
    if unit == "share" or estimate.value is None:
        return sized(estimate, unit)
    # a quantity of its own, neither a size nor a change: no end has a plus
    value, decimals = estimate.value, digits(estimate)
    both = written_interval(estimate, lambda end: plain(end, decimals))
    return f"{plain(value, decimals)} {both}".rstrip()


def sized(estimate: Estimate, unit: Unit, decimals: int | None = None) -> str:
    """Write a size with its interval or its reason; ``decimals`` are those of a share."""
    if estimate.value is None or unit == "share":
        shown = share_digits(estimate) if decimals is None else decimals
        return estimated(estimate, shown, share=True)
    value = in_unit(estimate.value, unit, digits(estimate))
    return f"{value} {interval_in(estimate, unit, size=True)}".strip()


def interval_in(estimate: Estimate, unit: Unit, *, size: bool) -> str:
    """Write an interval without its unit; a ``size`` has no sign."""
    if unit in ("share", "points"):
        return interval(estimate, share=size and unit == "share")
    write = plain if size and (estimate.low or 0) >= 0 else signed
    return written_interval(estimate, lambda end: write(end, digits(estimate)))


def share_digits(estimate: Estimate) -> int:
    """Return the decimals in percent that show two digits of small shares, and two at least."""
    ends = [abs(end) for end in (estimate.value, estimate.low, estimate.high) if end]
    return min(max(-1 - math.floor(math.log10(max(ends, default=1.0))), 2), 9)


def digits(estimate: Estimate) -> int:
    """Return the decimals that show three digits of the greatest of a value and its interval."""
    ends = [abs(end) for end in (estimate.value, estimate.low, estimate.high) if end]
    if not ends:
        return 2
    return min(max(2 - math.floor(math.log10(max(ends))), 0), 9)
