"""A drift matrix's metrics, and one cell as it is shown: values, colour, why it fails a rule."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from alignkit.record import Drift, Estimate, MatrixEntry, RuleOutcome, VerdictState
from alignkit.record.verdict_facts import worst_first
from alignkit.report.matrix_fold import clear_of_zero
from alignkit.report.table import Notes
from alignkit.task_facts import Unit
from alignkit.text.measured import engine_words, type_words
from alignkit.text.names import LABELS, state_words
from alignkit.text.numbers import DASH, count, grouped, percent
from alignkit.text.outcome import cell_words, said
from alignkit.text.task_words import CHURN, OF_CLASSES, TaskWords, capital, interval_in

SIGNS: dict[VerdictState, str] = {"error": "!", "fail": "✕", "inconclusive": "?", "warn": "!"}
"""Sign of each state of a rule that did not pass, beside words or in a square."""


@dataclass(frozen=True, slots=True)
class CellReason:
    """A rule that a cell does not pass."""

    state: VerdictState
    sign: str
    text: str
    """``churn 6.57 % > 2 %``."""
    title: str
    """The cause, what would settle it, and the waiver, as far as they are known."""


@dataclass(frozen=True, slots=True)
class MatrixPanel:
    """Metrics that one matrix shows, and its words."""

    id: str  # as the page's address and its style sheet name it
    metrics: tuple[str, ...]
    title: str
    caption: str


_UNITS: dict[Unit, str] = {
    "share": " in percentage points",
    "points": " in percentage points",
    "px": " in pixels",
    "value": "",
}
"""Unit of a change, in a caption."""
_PAIR = "recall.", "precision."
"""Metrics of one average that share a matrix."""
EDGES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Percentage points at which the colour deepens; fixed, so that two reports can be compared. Of a
metric that is no share, percent of the value in the cell that it is compared with."""


def panels(words: TaskWords, *, labelled: bool) -> tuple[MatrixPanel, ...]:
    """Return the matrices of a task; of images without labels that of churn alone."""
    return tuple(
        _panel(metrics, words)
        for metrics in _grouped(words.task.matrices)
        if labelled or metrics == (CHURN,)
    )


def _grouped(metrics: Sequence[str]) -> list[tuple[str, ...]]:
    """Put recall and precision of one average together where they follow one another."""
    found: list[tuple[str, ...]] = []
    for metric in metrics:
        before = found[-1] if found else ()
        if before == (metric.replace(_PAIR[1], _PAIR[0], 1),) and metric.startswith(_PAIR[1]):
            found[-1] = (*before, metric)
        else:
            found.append((metric,))
    return found


def _panel(metrics: tuple[str, ...], words: TaskWords) -> MatrixPanel:
    if metrics == (CHURN,):
        part = words.task.compared
        than = "is another than in the baseline" if part else "changed against the baseline"
        caption = f"Churn: share of images whose {part or words.task.answer} {than} of the row."
        return MatrixPanel(CHURN, metrics, LABELS[CHURN], caption)
    unit = _UNITS[words.unit(metrics[0])] if words.is_signed(metrics[0]) else ""
    several = len(metrics) > 1
    if words.is_size(metrics[0]):
        meaning = words.facts(metrics[0]).meaning
        label = words.label(metrics[0])
        caption = f"{label}{',' * bool(unit)}{unit}, against the baseline of the row"
        caption += f": {meaning}." if meaning else "."
    else:
        caption = (
            f"Change of {words.listed(metrics)}{unit} against the baseline of the row, which shows "
            f"{'the values' if several else 'the value'}."
        )
    # of several averages the macro one needs no name
    macro = "Recall and precision" if metrics[0] == "recall.macro" else ""
    title = (macro or capital(words.listed(metrics))) if several else words.label(metrics[0])
    name = metrics[0].removesuffix(".macro") if several else metrics[0]
    return MatrixPanel(re.sub(r"\W+", "-", name.lower()).strip("-"), metrics, title, caption)


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric of a cell."""

    name: str
    """``recall``; empty in a matrix of one metric."""
    main: str
    symbol: str = ""
    interval: str = ""
    tone: str = ""
    """``n5`` … ``n1``, ``z``, ``p1`` … ``p5``: the diverging scale."""
    clear: bool = False
    """Whether the interval excludes zero: the cell is filled."""
    significant: bool = False
    """Whether the change remains significant among all comparisons."""
    small: bool = False
    """Whether the change is clear, and no larger than that by another seed."""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One entry as a matrix shows it."""

    kind: str
    """``aligned``, ``measured``, ``built``, ``skipped``, ``failed`` or ``absent``."""
    measures: tuple[Measure, ...] = ()
    words: str = ""
    """Instead of measures, for an entry without numbers."""
    id: str = ""
    """Of the cell on the page."""
    title: str = ""
    """Place and values in one line."""
    lost: str = ""
    gained: str = ""
    small: str = ""
    """That the change is smaller than retraining makes."""
    reasons: tuple[CellReason, ...] = ()
    """The rules that it does not pass."""
    mark: str = ""
    types: str = ""
    """Types of the layers of an engine that was built and not run."""
    engine: str = ""
    """The engine in words: layers, size, hash."""
    entry: str = ""
    """Id of the row with all its numbers."""
    simulation: str = ""
    """How its number was simulated."""


def absent_cell(notes: Notes) -> MatrixCell:
    """Return the cell of a place that the run does not have."""
    return MatrixCell("absent", words="not run", mark=notes.mark("not part of this run"))


def matrix_cell(
    entry: MatrixEntry,
    metrics: Sequence[str],
    outcomes: Sequence[RuleOutcome],
    floors: Mapping[str, float],
    notes: Notes,
    words: TaskWords = OF_CLASSES,
) -> MatrixCell:
    """Return the cell of an entry; ``floors`` are the changes that another seed makes."""
    why = tuple(
        CellReason(each.state, SIGNS[each.state], cell_words(each, words), said(each, "remark"))
        for each in worst_first(outcomes)
        if each.state != "pass"
    )
    if not entry.ran:
        return MatrixCell(
            entry.state,
            words=state_words(entry.state),
            reasons=why,
            mark=notes.mark(entry.reason or "no reason was recorded"),
            types=type_words(entry.engines[0]) if entry.engines else "",
            engine=engine_words(entry.engines),
        )
    measures = tuple(_measure(entry, metric, floors, notes, words) for metric in metrics)
    if len(metrics) > 1:
        measures = tuple(
            replace(each, name=words.in_cell(metric))
            for each, metric in zip(measures, metrics, strict=True)
        )
    remark = entry.warning
    if entry.non_finite:
        remark = f"{count(entry.non_finite, 'output')} NaN or infinite: counted as wrong"
    cell = MatrixCell(
        "measured" if entry.drift else "aligned",
        measures,
        reasons=why,
        mark=notes.mark(remark) if remark else "",
        simulation=entry.simulation,
    )
    if entry.drift is None or len(metrics) > 1:
        return replace(cell, small=_small(measures))
    lost, gained = entry.drift.right_to_wrong, entry.drift.wrong_to_right
    return replace(
        cell,
        lost="" if lost is None else grouped(lost),
        gained="" if gained is None else grouped(gained),
        small=_small(measures, _floor(metrics[0], floors, words)),
    )


def _measure(
    entry: MatrixEntry,
    metric: str,
    floors: Mapping[str, float],
    notes: Notes,
    words: TaskWords,
) -> Measure:
    if entry.drift is None:
        return _own(entry, metric, notes, words)
    drift = entry.drift
    estimate = {**drift.metrics, **drift.measures, CHURN: drift.churn}.get(metric)
    if estimate is None or estimate.value is None:
        reason = estimate.reason if estimate else "the metric was not measured"
        return Measure("", DASH, mark=notes.mark(reason or "not measured"))
    value, floor = estimate.value, floors.get(metric)
    unsure = "" if estimate.low is not None else estimate.reason or "no interval"
    apart = _from_best(estimate, metric, words)
    clear = clear_of_zero(apart) and apart.value != 0
    if not words.is_signed(metric):
        main, ends = words.value(metric, value), words.interval(metric, estimate)
    else:
        main = words.change(metric, value, estimate)
        ends = interval_in(estimate, words.unit(metric), size=False)
    return Measure(
        "",
        main=main,
        symbol=_symbol(estimate, drift, metric, words),
        interval=ends,
        tone=_tone(_depth(entry, metric, apart.value or 0.0, words)),
        clear=clear,
        significant=bool(drift.is_significant(metric)),
        small=clear and floor is not None and abs(value) <= floor,
        mark=notes.mark(unsure) if unsure else "",
    )


def _from_best(estimate: Estimate, metric: str, words: TaskWords) -> Estimate:
    """Return how far a value is from that of equal answers; of a likeness, what it lacks."""
    best = words.best(metric)
    ends = (estimate.value, estimate.low, estimate.high)
    value, low, high = (None if end is None else end - best for end in ends)
    return replace(estimate, value=value, low=low, high=high)


def _depth(entry: MatrixEntry, metric: str, change: float, words: TaskWords) -> float:
    """Return a change for the better in points; in percent of the value before if no share."""
    goodness = words.goodness(metric, change)
    if words.is_share(metric) or words.best(metric):
        return 100 * goodness
    now = entry.metrics.get(metric)
    before = 0.0 if now is None else abs(now - change)
    return 100 * goodness / before if before else 0.0


def _own(entry: MatrixEntry, metric: str, notes: Notes, words: TaskWords) -> Measure:
    """Return the value of a cell with which others are compared."""
    if words.is_size(metric):
        return Measure("", "")
    value = entry.metrics.get(metric)
    if value is None:
        return Measure("", DASH, mark=notes.mark("the metric has no value for this cell"))
    return Measure("", words.value(metric, value))


def _floor(metric: str, floors: Mapping[str, float], words: TaskWords) -> str:
    if metric not in floors:
        return ""
    # as it stands beside a change of points
    share = words.is_share(metric)
    return percent(floors[metric]) if share else words.value(metric, floors[metric])


def _small(measures: Sequence[Measure], floor: str = "") -> str:
    """Say that a change is smaller than another seed makes; empty if it is not, or not clear."""
    small = [each.name for each in measures if each.small]
    if not small:
        return ""
    which = f"{small[0]}: " if len(measures) > len(small) else ""
    return f"{which}less than retraining changes{f' ({floor})' if floor else ''}"


def _symbol(estimate: Estimate, drift: Drift, metric: str, words: TaskWords) -> str:
    """Return the sign of a change, which the page's legend explains."""
    # without churn a metric that is unchanged stays so, whatever its interval
    if drift.churn.value == estimate.value == 0:
        return "="
    if not words.is_signed(metric):
        return ""
    if words.facts(metric).better == "":
        return ""  # neither side is the worse one
    if words.lower_is_better(metric):
        low, high = (None if end is None else -end for end in (estimate.high, estimate.low))
        estimate = replace(estimate, low=low, high=high)
    return _side_of_zero(estimate, drift, metric)


def _side_of_zero(estimate: Estimate, drift: Drift, metric: str) -> str:
    alone = drift.is_significant(metric) is False
    if estimate.high is not None and estimate.high < 0:
        return "▽" if alone else "▼"
    if estimate.low is not None and estimate.low > 0:
        return "△" if alone else "▲"
    return "○"


def _tone(value: float) -> str:
    depth = sum(abs(value) >= edge for edge in EDGES)
    if depth == 0:
        return "z"
    return f"{'p' if value > 0 else 'n'}{depth}"
