"""Matrices, dumbbells and numbers of two runs: before, after, and the change."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from alignkit.place import Column, Row
from alignkit.record import Drift, DriftChange, Estimate, LogitDistance, MatrixEntry, RunRecord
from alignkit.record.study_documents import EntryChange, RunComparison
from alignkit.report.charts import DotPlot, dot_plot, drawn
from alignkit.report.comparison.compare_words import largest, words_of
from alignkit.report.matrix_cells import AGAINST_EARLIER, MatrixCell
from alignkit.report.matrix_view import MatrixView, entry_id, matrix_views
from alignkit.report.table import PLACE, Group, Notes, RowCells, Shown, Table, numbers
from alignkit.text.names import Names
from alignkit.text.numbers import grouped, p_value
from alignkit.text.task_words import CHURN, TaskWords

_NO_LOGITS = LogitDistance(max_abs=None, mean_abs=None, cosine=None, reason="no matrix shows it")
_OWN = Estimate(None, None, None, "the others of its row are compared with it")


@dataclass(frozen=True, slots=True)
class ChangePanel:
    """The matrix of one metric, or of recall and precision, of two runs."""

    id: str
    """As the style sheet names it."""
    title: str
    change: MatrixView
    before: MatrixView
    after: MatrixView
    charts: tuple[DotPlot, ...]
    """One for each metric in which some cell drifts."""


def change_panels(
    made: RunComparison, before: RunRecord, after: RunRecord, names: Names
) -> tuple[ChangePanel, ...]:
    """Return a panel for each matrix of `TaskWords.drawn`; none for runs without a model.

    Rows and columns are the same in all matrices, and so are the links to the table.
    """
    if not any(each.metrics for each in made.entries):
        return ()
    shown = words_of(made).drawn
    before, after = _without_measures(before), _without_measures(after)
    listed = {entry_id(i) for i, each in enumerate(made.entries) if each.change != "unchanged"}
    views = (
        matrix_views(_changes(made, after), names, against=AGAINST_EARLIER),
        matrix_views(_ordered(made, before, "earlier"), Names(before.paths)),
        matrix_views(_ordered(made, after, "later"), Names(after.paths)),
    )
    return tuple(
        ChangePanel(
            change.id,
            change.title,
            _with_ids(change, "", listed),
            _with_ids(was, "earlier-", listed),
            _with_ids(now, "later-", listed),
            tuple(each for metric in change.metrics if (each := _chart(made, metric, names))),
        )
        for change, was, now in zip(*views, strict=True)
        if {*change.metrics} <= {*shown}
    )


def _with_ids(view: MatrixView, run: str, listed: Container[str]) -> MatrixView:
    """Give the cells ids of their own, and links to those rows alone that the table has.

    A page has three matrices of these entries.
    """
    rows = (
        replace(row, cells=tuple(_linked(each, run, listed) for each in row.cells))
        for row in view.rows
    )
    return replace(view, rows=tuple(rows))


def _linked(cell: MatrixCell, run: str, listed: Container[str]) -> MatrixCell:
    entry = cell.entry if cell.entry in listed else ""
    return replace(cell, id=run + cell.id if cell.id else "", entry=entry)


def _without_measures(record: RunRecord) -> RunRecord:
    """Leave the matrices of measures out: two runs are compared by metrics and churn."""
    words = TaskWords(record.task)
    kept = tuple(each for each in record.task.matrices if each == CHURN or not words.is_size(each))
    return record.model_copy(update={"task": replace(record.task, matrices=kept)})


def _ordered(made: RunComparison, record: RunRecord, which: str) -> RunRecord:
    """Return the run with every place of either run, in the order of the comparison."""
    known = {each.place: each for each in record.matrix}
    reason = f"the {which} run has no such cell"
    entries = (
        known.get(each.place)
        or MatrixEntry(**each.place.fields, aligned=each.aligned, state="skipped", reason=reason)
        for each in made.entries
    )
    return record.model_copy(update={"matrix": tuple(entries)})


def _changes(made: RunComparison, after: RunRecord) -> RunRecord:
    """Return a record whose drifts are the changes between the two runs."""
    entries = tuple(_changed(each) for each in made.entries)
    verdict = after.verdict.model_copy(update={"rules": ()})  # rules are about one run
    return after.model_copy(update={"matrix": entries, "verdict": verdict, "noise_floor": ()})


def _changed(each: EntryChange) -> MatrixEntry:
    if not each.metrics:
        state = {"aligned": each.aligned, "state": "skipped", "reason": each.reason}
        return MatrixEntry(**each.place.fields, **state)
    drift = Drift(
        n=each.n,
        metrics={name: found.change for name, found in each.metrics.items()},
        churn=each.metrics["churn"].change if "churn" in each.metrics else _OWN,
        right_to_wrong=None,
        wrong_to_right=None,
        wrong_to_wrong=None,
        detectable=None,
        mcnemar_p=None,
        logits=_NO_LOGITS,
        holm={name: found.p for name, found in each.metrics.items() if found.p is not None},
    )
    return MatrixEntry(**each.place.fields, aligned=each.aligned, state="measured", drift=drift)


def leading(entries: Sequence[EntryChange], metrics: Sequence[str]) -> list[EntryChange]:
    """Return one entry of each pair of paths: in the runtime whose drift changed most."""
    groups: dict[tuple[Row, str], list[EntryChange]] = {}
    for each in entries:
        if not each.aligned:
            groups.setdefault((each.place.row, each.evaluated_with), []).append(each)
    found = (largest(group, metrics) for group in groups.values())
    return [each.entry for each in found if each]


def _chart(made: RunComparison, metric: str, names: Names) -> DotPlot | None:
    """Draw each drift before and after on one axis, a row a pair of paths."""
    words = words_of(made)
    share = words.is_share(metric)
    scale = 100 if share else 1
    rows = [
        (
            _pair(each, names),
            drawn(each.metrics[metric].before, scale),
            drawn(each.metrics[metric].after, scale),
        )
        for each in leading(made.entries, (metric,))
        # two zeros are no dumbbell
        if any(side.value for side in (each.metrics[metric].before, each.metrics[metric].after))
    ]
    if not rows:
        return None
    of = "Churn" if metric == CHURN else f"Drift of {words.phrase(metric)}"
    unit = (
        "percentage points, with" if share else f"{words.unit(metric)}, with".replace("value, ", "")
    )
    return dot_plot(
        rows,
        id=f"change-{metric.split('.', maxsplit=1)[0]}",
        title=f"{of}, earlier → later run",
        series=("earlier run", "later run"),
        unit=f"{unit} 95 % intervals",
        wide=True,
    )


def _pair(each: EntryChange, names: Names) -> str:
    return f"{names.short(each.trained_with)} → {names.short(each.evaluated_with)}"


def runtimes_words(made: RunComparison) -> str:
    """Say which runtimes a chart leaves out; empty if it leaves out none."""
    columns: dict[tuple[Row, str], set[Column]] = {}
    for each in made.entries:
        if not each.aligned:
            columns.setdefault((each.place.row, each.evaluated_with), set()).add(each.column)
    if all(len(each) == 1 for each in columns.values()):
        return ""
    return (
        "One row for each pair of paths that drifts, in the runtime whose drift changed most; the "
        "matrix has every runtime."
    )


def changes_table(made: RunComparison, names: Names) -> Table | None:
    """Return every cell with its drift before, after, and the change; greatest changes first."""
    entries = [(i, each) for i, each in enumerate(made.entries) if each.change != "unchanged"]
    if not entries:
        return None
    words = words_of(made)
    metrics = [m for m in words.drawn if any(_known(each, m) for _, each in entries)]
    ordered = sorted(entries, key=lambda each: _rank(each[1], words))
    notes = Notes()
    rows: list[RowCells] = [
        (*names.cells(each), *_row(each, metrics, words, notes)) for _, each in ordered
    ]
    groups = (
        Group("", 4),
        *(Group(f"{words.label(m)}{'' if m == CHURN else ', drift'}", 2) for m in metrics),
        Group("Flips", 2),
    )
    columns = (
        *PLACE,
        *numbers("Images × seeds"),
        *numbers(*(head for m in metrics for head in ("Before → after", _change_head(m, words)))),
        *numbers("Appeared", "Gone"),
    )
    caption = "Drift in both runs and its change, p after Holm’s correction; as trained: the value"
    ids = [entry_id(index) for index, _ in ordered]
    return Table.of(caption, columns, rows, groups, notes=notes, ids=ids)


def _change_head(metric: str, words: TaskWords) -> str:
    unit = words.change_unit(metric).strip()
    return f"Change, {unit}" if unit else "Change"


def _known(entry: EntryChange, metric: str) -> bool:
    return metric in entry.metrics and entry.metrics[metric].change.value is not None


def _rank(entry: EntryChange, words: TaskWords) -> tuple[bool, bool, float]:
    found = largest([entry], words.drawn)
    if found is None:
        return True, True, 0.0
    return False, not found.change.is_shown, -abs(found.change.change.value or 0)


def _row(each: EntryChange, metrics: Sequence[str], words: TaskWords, notes: Notes) -> RowCells:
    if not each.metrics:
        return (notes.missing(each.reason),) * (1 + 2 * len(metrics) + 2)
    cells: list[Shown | str] = [grouped(each.n)]
    for metric in metrics:
        found = each.metrics.get(metric)
        if found is None or found.change.value is None:
            reason = found.change.reason if found else _OWN.reason
            cells += [notes.missing(reason)] * 2
            continue
        cells += [
            _sides(found, metric, words, value=each.aligned or metric == CHURN),
            _tested(found, metric, words),
        ]
    return (*cells, grouped(each.appeared), grouped(each.gone))


def _sides(found: DriftChange, metric: str, words: TaskWords, *, value: bool) -> str:
    write = words.value if value else words.change
    values = (side.value for side in (found.before, found.after))
    return " → ".join(write(metric, each) for each in values if each is not None)


def _tested(found: DriftChange, metric: str, words: TaskWords) -> Shown:
    said = words.changed(metric, found.change)
    p = "" if found.p is None else f"p {p_value(found.p)}"
    if not found.is_shown:
        return Shown(said, tag=f"{p}, no change shown".removeprefix(", "))
    worse = words.goodness(metric, found.change.value or 0) <= 0
    sign, word = ("▼", "worse") if worse else ("▲", "better")
    tag = f"{p}, {word}".removeprefix(", ")
    return Shown(f"{sign} {said}", tag=tag, tone="bad" if worse else "")
