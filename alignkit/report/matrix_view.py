"""View of the drift matrices: trained with x evaluated with x runtime."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from alignkit.place import Column, Place, Row
from alignkit.record import MatrixEntry, RunRecord
from alignkit.report.matrix_cells import (
    MatrixCell,
    MatrixPanel,
    absent_cell,
    matrix_cell,
    panels,
)
from alignkit.report.matrix_fold import Agreement, agreements
from alignkit.report.table import Note, Notes
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import count, grouped, listed, percent
from alignkit.text.task_words import CHURN, TaskWords, size_in

MANY_COLUMNS = 6
"""More columns than these, or rows than `MANY_ROWS`, are shown in an overview as well."""
MANY_ROWS = 8


@dataclass(frozen=True, slots=True)
class Head:
    """The header of a column."""

    path: PathName
    runtime: str
    note: str = ""
    """How a simulated runtime is labelled."""
    first: bool = False
    """Whether it is the first column of its path that is not folded."""
    folded: bool = False
    """Whether another column of its path is shown for it."""
    agree: str = ""
    """How near the runtimes are that it is shown for: ``±0.03 pp over 3 runtimes``."""
    runtimes: str = ""
    """Names of these runtimes."""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """All cells of the models trained with one path."""

    path: PathName
    floor: str
    """How much another seed changes."""
    detectable: str
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True, slots=True)
class MatrixView:
    """The matrix of one metric, or of recall and precision."""

    id: str
    title: str
    caption: str
    simulations: tuple[str, ...]
    """The labels of simulated columns, each said once."""
    heads: tuple[Head, ...]
    rows: tuple[MatrixRow, ...]
    significant: str
    """How many changes are, after Holm's correction; empty where that was not computed."""
    notes: tuple[Note, ...]
    sides: tuple[str, str]
    """Images whose answer changed for the worse and for the better, after their numbers."""
    rated: str
    """Of which a row's detectable change is."""

    @property
    def overview(self) -> str:
        """``always``, ``unfolded`` or empty: when an overview of squares helps."""
        shown = sum(not head.folded for head in self.heads)
        if shown > MANY_COLUMNS or len(self.rows) > MANY_ROWS:
            return "always"
        return "unfolded" if len(self.heads) > 2 * MANY_COLUMNS else ""


def entry_id(index: int) -> str:
    """Id of an entry's row in the table of all comparisons."""
    return f"entry-{index}"


def matrix_views(record: RunRecord, names: Names) -> tuple[MatrixView, ...]:
    """Return the matrices of a run, the first with recall and precision; none without a model."""
    if not record.matrix:
        return ()
    # images without labels have no other; the tables beside it are of logits
    words, labelled = TaskWords(record.task), record.labelled
    known = agreements(record.matrix, record.verdict.rules, words, labelled=labelled)
    found = panels(words, labelled=labelled)
    return tuple(
        _Builder(record, names, panel, known, first=panel is found[0]).view() for panel in found
    )


def significance(entries: Iterable[MatrixEntry], words: TaskWords, *metrics: str) -> str:
    """``2 of 14 changes are significant at the 5 % level …``; empty where nothing was tested."""
    found = []
    for metric in metrics:
        tested = [entry.drift.is_significant(metric) for entry in entries if entry.drift]
        known = [each for each in tested if each is not None]
        if known:
            found.append((sum(known), len(known), words.phrase(metric)))
    if not found:
        return ""
    number, total, name = found[0]
    if len(found) == total == 1:
        is_it = "is" if number else "is not"
        return f"The change of {name} {is_it} significant at the 5 % level."
    more = "".join(f" and {n or 'none'} of {of} of {metric}" for n, of, metric in found[1:])
    return (
        f"{number or 'None'} of {count(total, 'change')} of {name}{more} "
        f"{'are' if number > 1 or more else 'is'} significant at the 5 % level after Holm’s "
        "correction for their number."
    )


def simulations(entries: Iterable[MatrixEntry]) -> list[str]:
    """List the runtimes whose numbers are simulated, by the label that says how."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        if entry.simulation:
            found.setdefault(entry.simulation, []).append(entry.column.runtime)
    return [f"{listed([*dict.fromkeys(runtimes)])}: {label}" for label, runtimes in found.items()]


def warnings(entries: Iterable[MatrixEntry]) -> list[str]:
    """List runtimes whose logits hold on this machine alone, and places with NaN or infinity."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        if entry.warning:
            found.setdefault(entry.column.runtime, []).append(entry.warning)
        if entry.drift and entry.drift.non_finite:
            place = f"{entry.evaluated_with} in {entry.column.runtime}"
            found.setdefault(place, []).append(
                f"{grouped(entry.drift.non_finite)} of {count(entry.drift.n, 'image')} with a NaN "
                "or infinite output"
            )
    return [
        f"{runtime}, {count(len(reasons), 'entry', 'entries')}: {reasons[0]}"
        for runtime, reasons in found.items()
    ]


class _Builder:
    def __init__(
        self,
        record: RunRecord,
        names: Names,
        panel: MatrixPanel,
        known: dict[Column, Agreement],
        *,
        first: bool,
    ) -> None:
        self.words = TaskWords(record.task)
        self.names, self.panel, self.notes = names, panel, Notes()
        self.entries = {entry.place: (index, entry) for index, entry in enumerate(record.matrix)}
        self.rows = list(dict.fromkeys(entry.row for entry in record.matrix))
        self.columns = list(dict.fromkeys(entry.column for entry in record.matrix))
        self.known = known
        self.folded = {column for each in known.values() for column in each.folded}
        shown = [column for column in self.columns if column not in self.folded]
        self.firsts = {column.preprocess: column for column in reversed(shown)}
        self.floors: dict[Row, dict[str, float]] = {}
        for metric in panel.metrics:
            for name, floor in noise_floors(record, metric).items():
                self.floors.setdefault(Row.parse(name), {})[metric] = floor
        # the first matrix says of every rule why a cell does not pass it
        self.rules = [
            rule for rule in record.verdict.rules if first or rule.metric in panel.metrics
        ]

    def view(self) -> MatrixView:
        entries = [entry for _, entry in self.entries.values()]
        return MatrixView(
            id=self.panel.id,
            title=self.panel.title,
            caption=self.panel.caption,
            simulations=tuple(simulations(entries)),
            heads=tuple(map(self._head, self.columns)),
            rows=tuple(self._row(row) for row in self.rows),
            significant=significance(entries, self.words, *self.panel.metrics),
            notes=self.notes.all(),
            sides=self.words.task.sides,
            rated=self.words.task.rated,
        )

    def _head(self, column: Column) -> Head:
        own = [each for _, each in self.entries.values() if each.column == column]
        head = Head(
            path=self.names.of(column.preprocess),
            runtime=column.runtime,
            # too long to stand under each path
            note="as labelled above" if any(each.simulation for each in own) else "",
            first=self.firsts.get(column.preprocess) == column,
            folded=column in self.folded,
        )
        if not (agreement := self.known.get(column)):
            return head
        spread = max(agreement.spread[metric] for metric in self.panel.metrics)
        runtimes = [column.runtime, *(each.runtime for each in agreement.folded)]
        near = f"±{self.words.size(self.panel.metrics[0], spread)}" if spread else "equal"
        return replace(
            head, agree=f"{near} over {len(runtimes)} runtimes", runtimes=", ".join(runtimes)
        )

    def _row(self, row: Row) -> MatrixRow:
        limits = [
            entry.drift.detectable
            for place, (_, entry) in self.entries.items()
            if place.row == row and entry.drift and entry.drift.detectable is not None
        ]
        return MatrixRow(
            path=self.names.of(str(row)),
            floor=self._floor(row),
            detectable=size_in(self.words.task.rated_unit, *limits) if limits else "",
            cells=tuple(self._cell(Place(row, column)) for column in self.columns),
        )

    def _floor(self, row: Row) -> str:
        """Say how much another seed alone changes; empty without several seeds."""
        known = self.floors.get(row, {})
        if CHURN in known:
            return f"retraining changes {self.words.changed_share(percent(known[CHURN]))}"
        sizes = [
            f"{self.words.in_cell(metric)} by {self.words.size(metric, known[metric])}"
            for metric in self.panel.metrics
            if metric in known
        ]
        return f"retraining changes {listed(sizes)}" if sizes else ""

    def _cell(self, place: Place) -> MatrixCell:
        if place not in self.entries:
            return absent_cell(self.notes)
        index, entry = self.entries[place]
        outcomes = [rule for rule in self.rules if rule.place == place]
        floors = self.floors.get(place.row, {})
        metrics = self.panel.metrics
        cell = matrix_cell(entry, metrics, outcomes, floors, self.notes, self.words)
        return replace(
            cell,
            id=f"{self.panel.id}-{index}",
            entry=entry_id(index),
            title=f"{self.names.title(entry)}: {self._in_one_line(cell)}",
        )

    def _in_one_line(self, cell: MatrixCell) -> str:
        if not cell.measures:
            return cell.words
        values = [
            f"{self.words.in_cell(metric)} {each.main}"
            for metric, each in zip(self.panel.metrics, cell.measures, strict=True)
            if each.main
        ]
        own = ["baseline"] * (cell.kind == "aligned")
        return "; ".join([*own, *values, *(each.text for each in cell.reasons)])


def noise_floors(record: RunRecord, metric: str = "") -> dict[str, float]:
    """Return row → its noise floor in a metric, where several seeds define one.

    The metric is the task's first one unless named.
    """
    metric = metric or TaskWords(record.task).headline
    known = [floor for floor in record.noise_floor if len(floor.seeds) > 1]
    if metric == CHURN:
        return {floor.preprocess: floor.churn for floor in known}
    return {floor.preprocess: floor.metrics[metric] for floor in known if metric in floor.metrics}


def seeds_of(record: RunRecord) -> list[int]:
    """Return the seeds of the models that were measured, in ascending order."""
    return sorted({each.seed for each in record.trainings if each.state == "measured"})


def interval_words(record: RunRecord) -> str:
    """Say of what the drifts' intervals are: one seed says nothing of others."""
    if len(seeds_of(record)) > 1:
        return "The 95 % interval covers other seeds and other images."
    return "One seed: the 95 % interval covers other images and ignores retraining."
