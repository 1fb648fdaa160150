"""View of the drift matrices, one a metric: trained with x evaluated with x runtime."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from alignkit.judge.verdict_words import SEVERITY
from alignkit.place import Place, Row
from alignkit.record import Drift, Estimate, MatrixEntry, RunRecord
from alignkit.report.engine_view import engine_words, type_words
from alignkit.report.table import Note, Notes
from alignkit.report.verdict_view import ICONS, Icon
from alignkit.text.names import LABELS, MATRIX_METRICS, Names, PathName, state_words
from alignkit.text.numbers import DASH, count, grouped, interval, listed, percent, points, unsigned

AGAINST_ALIGNED = "the aligned cell"
EDGES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Percentage points at which the colour deepens; fixed, so that two reports can be compared."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One entry as a matrix shows it."""

    kind: str
    """``aligned``, ``measured``, ``built``, ``skipped``, ``failed`` or ``absent``."""
    main: str
    symbol: str = ""
    words: str = ""
    """The symbol in words."""
    interval: str = ""
    lost: str = ""
    gained: str = ""
    tone: str = ""
    """``n5`` … ``n1``, ``z``, ``p1`` … ``p5``: the diverging scale."""
    in_noise: bool = False
    gate: Icon | None = None
    """A rule on this metric that this entry did not pass."""
    mark: str = ""
    types: str = ""
    """Types of the layers of an engine that was built and not run."""
    engine: str = ""
    """The engine in words: layers, size, hash."""
    entry: str = ""
    """Id of the row with all its numbers."""
    simulation: str = ""
    """How its number was simulated."""


@dataclass(frozen=True, slots=True)
class Head:
    """A header over one or more columns."""

    name: str
    span: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """All cells of the models trained with one path."""

    path: PathName
    floor: str
    detectable: str
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True, slots=True)
class MatrixView:
    """One metric's matrix."""

    id: str
    title: str
    caption: str
    reference: str
    """Name of the cells with which the others of their rows are compared."""
    simulations: tuple[str, ...]
    """The labels of simulated columns, each said once."""
    paths: tuple[Head, ...]
    backends: tuple[Head, ...]
    precisions: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    significant: str
    """How many changes are, after Holm's correction; empty where that was not computed."""
    notes: tuple[Note, ...]


_CAPTIONS = {
    "churn": "share of images whose predicted class is another than in {cell} of the row",
    "": "change in percentage points against {cell} of the row, which shows the value itself",
}


def entry_id(index: int) -> str:
    """Id of an entry's row in the table of all comparisons."""
    return f"entry-{index}"


def matrix_views(
    record: RunRecord, names: Names, against: str = AGAINST_ALIGNED
) -> tuple[MatrixView, ...]:
    """Return a matrix for each metric of `MATRIX_METRICS`; none for a run without a model.

    ``against`` names the cells without a drift.
    """
    if not record.matrix:
        return ()
    # images without labels have no other; the tables beside it are of logits
    metrics = MATRIX_METRICS if record.labelled else ("churn",)
    return tuple(_Builder(record, names, metric, against).view() for metric in metrics)


def significance(entries: Iterable[MatrixEntry], metric: str) -> str:
    """``2 of 14 changes are significant at the 5 % level …``; empty where nothing was tested."""
    tested = [entry.drift.is_significant(metric) for entry in entries if entry.drift]
    known = [each for each in tested if each is not None]
    if not known:
        return ""
    number = sum(known)
    if len(known) == 1:
        is_it = "is" if number else "is not"
        return f"The change of {LABELS[metric].lower()} {is_it} significant at the 5 % level."
    return (
        f"{number or 'None'} of {count(len(known), 'change')} of {LABELS[metric].lower()} "
        f"{'is' if number == 1 else 'are'} significant at the 5 % level after Holm’s correction "
        "for their number."
    )


def simulations(entries: Iterable[MatrixEntry]) -> list[str]:
    """List the runtimes whose numbers are simulated, by the label that says how."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        if entry.simulation:
            found.setdefault(entry.simulation, []).append(entry.column.runtime)
    return [f"{listed([*dict.fromkeys(runtimes)])}: {label}" for label, runtimes in found.items()]


def warnings(entries: Iterable[MatrixEntry]) -> list[str]:
    """List each runtime whose logits hold on this machine alone, with the first reason."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        if entry.warning:
            found.setdefault(entry.column.runtime, []).append(entry.warning)
    return [
        f"{runtime}, {count(len(reasons), 'entry', 'entries')}: {reasons[0]}"
        for runtime, reasons in found.items()
    ]


class _Builder:
    def __init__(self, record: RunRecord, names: Names, metric: str, against: str) -> None:
        self.names, self.metric, self.against, self.notes = names, metric, against, Notes()
        self.entries = {entry.place: (index, entry) for index, entry in enumerate(record.matrix)}
        self.rows = list(dict.fromkeys(entry.row for entry in record.matrix))
        self.columns = list(dict.fromkeys(entry.column for entry in record.matrix))
        floors = noise_floors(record, metric)
        self.floors = {Row.parse(name): floor for name, floor in floors.items()}
        self.rules = [rule for rule in record.verdict.rules if rule.metric == metric]

    def view(self) -> MatrixView:
        caption = _CAPTIONS.get(self.metric, _CAPTIONS[""])
        return MatrixView(
            id=self.metric.split(".")[0],  # as the page's address and its style sheet name it
            title=LABELS[self.metric],
            caption=f"{LABELS[self.metric]}: {caption.format(cell=self.against)}.",
            reference="aligned" if self.against == AGAINST_ALIGNED else "reference",
            simulations=tuple(simulations(entry for _, entry in self.entries.values())),
            paths=tuple(
                Head(name, span, self.names.of(name).note)
                for name, span in _runs([column.names[:1] for column in self.columns])
            ),
            backends=tuple(
                Head(name, span, self._simulated(name))
                for name, span in _runs([column.names[:2] for column in self.columns])
            ),
            precisions=tuple(column.precision for column in self.columns),
            rows=tuple(self._row(row) for row in self.rows),
            significant=significance([entry for _, entry in self.entries.values()], self.metric),
            notes=self.notes.all(),
        )

    def _simulated(self, backend: str) -> str:
        """Refer to the label of a backend's columns: it is too long to stand under each path."""
        own = (each for _, each in self.entries.values() if each.backend == backend)
        return "as labelled above" if any(each.simulation for each in own) else ""

    def _row(self, row: Row) -> MatrixRow:
        floor = self.floors.get(row)
        limits = [
            entry.drift.detectable
            for place, (_, entry) in self.entries.items()
            if place.row == row and entry.drift and entry.drift.detectable is not None
        ]
        return MatrixRow(
            path=self.names.of(str(row)),
            floor=unsigned(floor) if floor is not None else "",
            detectable=unsigned(*limits) if limits else "",
            cells=tuple(self._cell(Place(row, column), floor) for column in self.columns),
        )

    def _cell(self, place: Place, floor: float | None) -> MatrixCell:
        if place not in self.entries:
            return MatrixCell("absent", "not run", mark=self.notes.mark("not part of this run"))
        index, entry = self.entries[place]
        if not entry.ran:
            mark = self.notes.mark(entry.reason or "no reason was recorded")
            cell = MatrixCell(
                entry.state,
                state_words(entry.state),
                gate=self._gate(entry),
                mark=mark,
                types=type_words(entry.engines[0]) if entry.engines else "",
                engine=engine_words(entry.engines),
            )
            return replace(cell, entry=entry_id(index))
        drift = entry.drift
        cell = self._reference(entry) if drift is None else self._measured(entry, drift, floor)
        remark = entry.warning
        if entry.non_finite:
            remark = f"{count(entry.non_finite, 'output')} NaN or infinite: counted as wrong"
        # a cell has room for one mark, which a missing number needs more
        mark = cell.mark or (self.notes.mark(remark) if remark else "")
        return replace(cell, entry=entry_id(index), mark=mark, simulation=entry.simulation)

    def _reference(self, entry: MatrixEntry) -> MatrixCell:
        if self.metric == "churn":
            return MatrixCell("aligned", "reference")
        value = entry.metrics.get(self.metric)
        if value is None:
            mark = self.notes.mark("the metric has no value for this cell")
            return MatrixCell("aligned", DASH, mark=mark)
        return MatrixCell("aligned", percent(value, 2))

    def _measured(self, entry: MatrixEntry, drift: Drift, floor: float | None) -> MatrixCell:
        churn = self.metric == "churn"
        estimate = drift.churn if churn else drift.metrics.get(self.metric)
        if estimate is None or estimate.value is None:
            reason = estimate.reason if estimate else "the metric was not measured"
            return MatrixCell("measured", DASH, mark=self.notes.mark(reason or "not measured"))
        value = estimate.value
        symbol, words = _symbol(estimate, drift, self.metric)
        unsure = "" if estimate.low is not None else estimate.reason or "no interval"
        return MatrixCell(
            kind="measured",
            main=percent(value, 2) if churn else points(value),
            symbol=symbol,
            words=words,
            interval=interval(estimate, share=churn),
            lost="" if drift.right_to_wrong is None else grouped(drift.right_to_wrong),
            gained="" if drift.wrong_to_right is None else grouped(drift.wrong_to_right),
            tone=_tone(-value if churn else value),  # any changed prediction counts as worse
            # zero is no effect of any seed
            in_noise=value != 0 and floor is not None and abs(value) <= floor,
            gate=self._gate(entry),
            mark=self.notes.mark(unsure) if unsure else "",
        )

    def _gate(self, entry: MatrixEntry) -> Icon | None:
        states = {rule.state for rule in self.rules if rule.place == entry.place} - {"pass"}
        return ICONS[min(states, key=SEVERITY.index)] if states else None


def noise_floors(record: RunRecord, metric: str = "recall.macro") -> dict[str, float]:
    """Return row → its noise floor in a metric, where several seeds define one."""
    known = [floor for floor in record.noise_floor if len(floor.seeds) > 1]
    if metric == "churn":
        return {floor.preprocess: floor.churn for floor in known}
    return {floor.preprocess: floor.metrics[metric] for floor in known if metric in floor.metrics}


def seeds_of(record: RunRecord) -> list[int]:
    """Return the seeds of the models that were measured, in ascending order."""
    return sorted({each.seed for each in record.trainings if each.state == "measured"})


def interval_words(record: RunRecord) -> str:
    """Say of what the drifts' intervals are: one seed says nothing of others."""
    if len(seeds_of(record)) > 1:
        return "Intervals cover the choice of images and the training seed."
    return "Intervals cover the choice of images, not the training seed."


def _runs(columns: list[tuple[str, ...]]) -> list[tuple[str, int]]:
    # neighbours alone share a header
    return [(key[-1], len(list(same))) for key, same in groupby(columns)]


def _symbol(estimate: Estimate, drift: Drift, metric: str) -> tuple[str, str]:
    if drift.churn.value == 0:  # then every metric is unchanged, whatever its interval
        return "=", "no prediction changed"
    if metric == "churn":
        return "", ""
    alone = drift.is_significant(metric) is False
    among = ", but that is not significant among all comparisons (Holm)" if alone else ""
    if estimate.high is not None and estimate.high < 0:
        return "▽" if alone else "▼", f"worse: the interval lies below zero{among}"
    if estimate.low is not None and estimate.low > 0:
        return "△" if alone else "▲", f"better: the interval lies above zero{among}"
    return "○", "no clear change: the interval holds zero"


def _tone(value: float) -> str:
    depth = sum(abs(100 * value) >= edge for edge in EDGES)
    if depth == 0:
        return "z"
    return f"{'p' if value > 0 else 'n'}{depth}"
