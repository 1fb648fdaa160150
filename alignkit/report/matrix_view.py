"""The drift matrices as a page draws them: trained with x evaluated with x runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress

from alignkit.place import Column, Place
from alignkit.record import Drift, Estimate, MatrixEntry, RuleOutcome, RunRecord, VerdictState
from alignkit.record.verdict_facts import worst_first
from alignkit.report.matrix_words import churn_meaning, noise_floors, significance
from alignkit.report.table import Note, Notes
from alignkit.text.measured import type_words
from alignkit.text.names import LABELS, Names, PathName, state_words
from alignkit.text.numbers import DASH, count, grouped, listed, percent
from alignkit.text.outcome import cell_words
from alignkit.text.task_words import CHURN, OF_CLASSES, TaskWords, capital

_MANY = (6, 8)
"""More columns or rows than these are shown in an overview as well."""
EDGES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Percentage points at which the colour deepens; fixed, so that two reports can be compared. Of a
metric that is no share, percent of the value in the cell that it is compared with."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Metrics that one matrix shows, and its words."""

    id: str  # as the page's address and its style sheet name it
    metrics: tuple[str, ...]
    title: str
    caption: str


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric of a cell."""

    text: str
    name: str = ""
    """``recall``; empty in a matrix of one metric."""
    sign: str = ""
    interval: str = ""
    tone: str = ""
    """``n5`` … ``n1``, ``z``, ``p1`` … ``p5``: the diverging scale."""
    clear: bool = False
    """Whether the interval excludes equal answers: the cell is filled."""
    small: bool = False
    """Whether the change is clear, and no larger than that by another seed."""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One entry as a matrix shows it; two that read the same are equal."""

    kind: str
    """``aligned``, ``measured``, ``built``, ``skipped``, ``failed`` or ``absent``."""
    measures: tuple[Measure, ...] = ()
    words: str = ""
    """Instead of measures, for an entry without numbers."""
    mark: str = ""
    lines: tuple[str, ...] = ()
    """Remarks below."""
    reasons: tuple[tuple[VerdictState, str], ...] = ()
    """The rules that it does not pass, the worst first: ``churn 6.57 % > 2 %``."""
    index: int | None = field(default=None, compare=False)
    """Of its entry in the matrix."""
    title: str = field(default="", compare=False)
    """Its place."""


@dataclass(frozen=True, slots=True)
class Head:
    """The header of a column."""

    path: PathName
    runtime: str
    simulated: bool
    first: bool
    """Whether it is the first column of its path."""
    equal: str
    """Runtimes that it is shown for, too, since they read the same."""


@dataclass(frozen=True, slots=True)
class MatrixView:
    """The matrix of one panel."""

    panel: Panel
    heads: tuple[Head, ...]
    rows: tuple[tuple[PathName, str, tuple[MatrixCell, ...]], ...]
    """What models were trained with, how much another seed changes, and their cells."""
    significant: str
    """How many changes are, after Holm's correction; empty where that was not computed."""
    notes: tuple[Note, ...]

    @property
    def overview(self) -> bool:
        """Whether an overview of squares helps."""
        columns, rows = _MANY
        return len(self.heads) > columns or len(self.rows) > rows


def panels(words: TaskWords, *, labelled: bool) -> tuple[Panel, ...]:
    """Return the matrices of a task; of images without labels that of churn alone."""
    groups: list[tuple[str, ...]] = []
    for metric in words.task.matrices:
        # recall and precision of one average share a matrix
        before = metric.replace("precision.", "recall.", 1)
        if metric != before and groups and groups[-1] == (before,):
            groups[-1] = (before, metric)
        else:
            groups.append((metric,))
    return tuple(_panel(each, words) for each in groups if labelled or each == (CHURN,))


def _panel(metrics: tuple[str, ...], words: TaskWords) -> Panel:
    first, *others = metrics
    if first == CHURN:
        return Panel(CHURN, metrics, LABELS[CHURN], f"{churn_meaning(words)}.")
    after = words.change_unit(first)
    unit = f" in{after}" if after and words.is_signed(first) else ""
    title = capital(listed([words.in_cell(each) for each in metrics])) if others else ""
    against = "against the baseline of the row"
    if words.is_size(first):
        meaning = words.facts(first).meaning
        caption = f"{words.label(first)}{',' * bool(unit)}{unit}, {against}"
        caption += f": {meaning}." if meaning else "."
    else:
        shown = "the values" if others else "the value"
        caption = f"Change of {words.listed(metrics)}{unit} {against}, which shows {shown}."
    name = first.removesuffix(".macro") if others else first
    id_ = re.sub(r"\W+", "-", name.lower()).strip("-")
    return Panel(id_, metrics, title or words.label(first), caption)


def matrix_views(record: RunRecord, names: Names) -> tuple[MatrixView, ...]:
    """Return the matrices of a run, the first with recall and precision; none without a model."""
    words = TaskWords(record.task)
    columns = [*dict.fromkeys(entry.column for entry in record.matrix)]
    found = panels(words, labelled=record.labelled) if columns else ()
    notes = [Notes() for _ in found]
    # the first matrix says of every rule why a cell does not pass it
    rows = [
        _rows(record, names, panel, marks, every_rule=panel is found[0])
        for panel, marks in zip(found, notes, strict=True)
    ]
    # of each column, its cells in every row of every matrix
    grid = [cells for *_, cells in chain.from_iterable(rows)]
    read = dict(zip(columns, zip(*grid, strict=True), strict=True))
    simulated = {entry.column for entry in record.matrix if entry.simulation}
    shown = _shared(read, simulated)
    firsts = {each.preprocess: each for each in reversed(shown)}.values()
    heads = tuple(
        Head(
            names.of(column.preprocess),
            column.runtime,
            column in simulated,
            column in firsts,
            listed([each.runtime for each in others]),
        )
        for column, others in shown.items()
    )
    kept = [column in shown for column in columns]
    return tuple(
        MatrixView(
            panel,
            heads,
            tuple((path, floor, tuple(compress(cells, kept))) for path, floor, cells in own),
            significance(record.matrix, words, *panel.metrics),
            marks.all(),
        )
        for panel, own, marks in zip(found, rows, notes, strict=True)
    )


def _rows(
    record: RunRecord, names: Names, panel: Panel, notes: Notes, *, every_rule: bool
) -> tuple[tuple[PathName, str, tuple[MatrixCell, ...]], ...]:
    """Return the names of a matrix's rows, their noise floors in words, and their cells."""
    words, floors = TaskWords(record.task), noise_floors(record.noise_floor)
    known = {entry.place: (index, entry) for index, entry in enumerate(record.matrix)}
    rules = [each for each in record.verdict.rules if every_rule or each.metric in panel.metrics]

    def cell(place: Place) -> MatrixCell:
        if place not in known:
            return MatrixCell("absent", words="not run", mark=notes.mark("not part of this run"))
        index, entry = known[place]
        outcomes = [rule for rule in rules if rule.place == place]
        own = floors.get(entry.trained_with, {})
        made = matrix_cell(entry, panel.metrics, outcomes, own, notes, words)
        return replace(made, index=index, title=names.title(entry))

    columns = dict.fromkeys(entry.column for entry in record.matrix)
    return tuple(
        (
            names.of(str(row)),
            _floor_words(floors.get(str(row), {}), panel, words),
            tuple(cell(Place(row, column)) for column in columns),
        )
        for row in dict.fromkeys(entry.row for entry in record.matrix)
    )


# Columns are shared and never cells, so that a reader never asks which rows a column speaks for.
# The table of all comparisons has every runtime.
def _shared(
    read: Mapping[Column, Sequence[MatrixCell]], simulated: set[Column]
) -> dict[Column, list[Column]]:
    """Return each shown column with the later runtimes of its path that read the same."""
    found: dict[Column, list[Column]] = {}
    for column, cells in read.items():
        same = (
            each
            for each in found
            if each.preprocess == column.preprocess
            and not {each, column} & simulated
            and all(map(_same, read[each], cells))
        )
        shown = next(same, None)
        found.setdefault(shown or column, []).extend([column] * (shown is not None))
    return found


def _same(shown: MatrixCell, other: MatrixCell) -> bool:
    """Tell whether a cell needs no place of its own beside another; a baseline always does."""
    if shown.kind == "aligned":
        still = all(each.sign == "=" and not each.mark for each in other.measures)
        return other.kind == "measured" and still and not other.reasons and not other.mark
    return shown.kind == "measured" and shown == other


def _floor_words(floors: Mapping[str, float], panel: Panel, words: TaskWords) -> str:
    """Say how much another seed alone changes; empty without several seeds."""
    if not (known := [metric for metric in panel.metrics if metric in floors]):
        return ""
    if CHURN in known:
        return f"retraining changes {words.changed_share(percent(floors[CHURN]))}"
    sizes = [f"{words.in_cell(each)} by {words.size(each, floors[each])}" for each in known]
    return f"retraining changes {listed(sizes)}"


def matrix_cell(
    entry: MatrixEntry,
    metrics: Sequence[str],
    outcomes: Sequence[RuleOutcome],
    floors: Mapping[str, float],
    notes: Notes,
    words: TaskWords = OF_CLASSES,
) -> MatrixCell:
    """Return the cell of an entry; ``floors`` are the changes that another seed makes."""
    reasons = tuple(
        (each.state, cell_words(each, words))
        for each in worst_first(outcomes)
        if each.state != "pass"
    )
    if not entry.ran:
        mark = notes.mark(entry.reason or "no reason was recorded")
        # engines of several seeds have the same layers
        types = [f"layers in {type_words(each)}" for each in entry.engines[:1]]
        said = state_words(entry.state)
        return MatrixCell(entry.state, (), said, mark, lines=tuple(types), reasons=reasons)
    several = len(metrics) > 1
    measures = tuple(
        replace(_measure(entry, each, floors, notes, words), name=words.in_cell(each) * several)
        for each in metrics
    )
    remark = entry.warning
    if entry.non_finite:
        remark = f"{count(entry.non_finite, 'output')} NaN or infinite: counted as wrong"
    lines = ["baseline, served as trained"] if entry.drift is None else []
    lines += ["simulated"] * bool(entry.simulation)
    drift = entry.drift
    if drift and not several and drift.right_to_wrong is not None:
        (worse, better), gained = words.task.sides, drift.wrong_to_right or 0
        lines.append(f"{grouped(drift.right_to_wrong)} {worse}, {grouped(gained)} {better}")
    small = [f"{each.name}: " * several for each in measures if each.small]
    lines += [f"{name}less than retraining changes" for name in small]
    return MatrixCell(
        "measured" if drift else "aligned",
        measures,
        mark=notes.mark(remark) if remark else "",
        lines=tuple(lines),
        reasons=reasons,
    )


def _measure(
    entry: MatrixEntry, metric: str, floors: Mapping[str, float], notes: Notes, words: TaskWords
) -> Measure:
    if (drift := entry.drift) is None:
        own = entry.metrics.get(metric)
        if words.is_size(metric):  # it compares two cells
            return Measure("")
        if own is None:
            return Measure(DASH, mark=notes.mark("the metric has no value for this cell"))
        return Measure(words.value(metric, own))
    estimate = {**drift.metrics, **drift.measures, CHURN: drift.churn}.get(metric)
    if estimate is None or estimate.value is None:
        reason = estimate.reason if estimate else "the metric was not measured"
        return Measure(DASH, mark=notes.mark(reason or "not measured"))
    value, best = estimate.value, words.best(metric)
    # the value stays: only its interval is missing
    unsure = "" if estimate.low is not None else estimate.reason or "no interval"
    clear = _clear(estimate, best) and value != best
    signed = words.is_signed(metric)
    return Measure(
        words.change(metric, value, estimate) if signed else words.value(metric, value),
        sign=_sign(estimate, drift, metric, words),
        interval=words.interval(metric, estimate),
        tone=_tone(entry, metric, value - best, words),
        clear=clear,
        small=clear and abs(value) <= floors.get(metric, -1.0),
        mark=notes.mark(unsure) if unsure else "",
    )


def _clear(estimate: Estimate, of: float = 0.0) -> bool:
    """Return whether the interval excludes a value."""
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and (low > of or high < of)


def _sign(estimate: Estimate, drift: Drift, metric: str, words: TaskWords) -> str:
    """Return the sign of a change, which the page's legend explains."""
    # without churn a metric that is unchanged stays so, whatever its interval
    if drift.churn.value == estimate.value == 0:
        return "="
    # a size has no sign, and of some metrics neither side is the worse one
    if not words.is_signed(metric) or not words.facts(metric).better:
        return ""
    if not _clear(estimate):
        return "○"
    better = words.goodness(metric, estimate.low or 0.0) > 0
    return ("▲△" if better else "▼▽")[drift.is_significant(metric) is False]


def _tone(entry: MatrixEntry, metric: str, change: float, words: TaskWords) -> str:
    """Return the colour of a change by its points; by percent of the value before if no share."""
    size = words.goodness(metric, change)
    if not words.is_share(metric) and not words.best(metric):
        now = entry.metrics.get(metric)
        before = 0.0 if now is None else abs(now - change)
        size = size / before if before else 0.0
    depth = sum(100 * abs(size) >= edge for edge in EDGES)
    return f"{'p' if size > 0 else 'n'}{depth}" if depth else "z"
