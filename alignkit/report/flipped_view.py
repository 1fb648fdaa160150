"""Views of the images that flip: the kinds that do more, or less, than others, and the classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from alignkit.compare.answers import aligned
from alignkit.compare.class_answers import ClassAnswers, class_name
from alignkit.compare.predictions import read_class_answers
from alignkit.place import Place, Row
from alignkit.record import Cell, ClassDrift, Estimate, FlippedFacts, MatrixEntry, RunRecord
from alignkit.record.artifacts import artifact_file
from alignkit.report.charts import DotPlot, dot_plot, drawn
from alignkit.report.entries_view import UNMEASURED, served_elsewhere
from alignkit.report.table import Notes, RowCells, Shown, Table, numbers
from alignkit.text.class_words import strongest_class
from alignkit.text.kind_words import kind_words, said_kinds
from alignkit.text.measured import of_first_models
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import (
    MOST_NAME,
    count,
    estimated,
    grouped,
    p_value,
    percent,
    shorten_middle,
)
from alignkit.text.task_words import TaskWords, in_sentence

MOST_FLOWS = 10
"""Flows of one comparison that are shown."""
_KINDS = 24
"""Kinds a table shows, besides those that are significant."""
_COMPARISONS = 12
"""Comparisons shown class by class."""
_CLASSES = 40
"""Classes of a chart: one of a thousand would not be read."""


@dataclass(frozen=True, slots=True)
class FlippedSection:
    """The kinds of images between two paths."""

    reference: PathName
    candidate: PathName
    runtime: str
    words: str
    sentences: tuple[str, ...]
    table: Table | None
    omitted: str


@dataclass(frozen=True, slots=True)
class ClassSection:
    """One comparison, class by class."""

    trained: PathName
    evaluated: PathName
    runtime: str
    index: int
    """Of its entry in the matrix."""
    strongest: str
    """The class that it hits hardest, in words; empty if no change of a class is shown."""
    omitted: str
    """The classes that the page leaves out, in words."""
    chart: DotPlot
    table: Table


def flipped_sections(record: RunRecord, names: Names) -> tuple[FlippedSection, ...]:
    """Return a section for each path that served the models, in the record's order."""
    words = TaskWords(record.task)
    return tuple(
        _flipped_section(each, names, words, of_first_models(record, each.reference, names))
        for each in record.flipped
    )


def _flipped_section(
    each: FlippedFacts, names: Names, words: TaskWords, models: str
) -> FlippedSection:
    significant = [kind for kind in each.subgroups if kind.sentence]  # all are shown
    others = [kind for kind in each.subgroups if not kind.sentence]
    rows: list[RowCells] = [
        (
            kind.dimension,
            Shown(kind.kind, tag="significant" if kind.sentence else ""),
            str(kind.images),
            percent(kind.churn),
            percent(kind.elsewhere),
            estimated(kind.difference, 1),
            p_value(kind.p_adjusted),
        )
        for kind in (*significant, *others[:_KINDS])
    ]
    caption = (
        "Churn of the images of each kind, and of all others; p: Fisher’s exact test, after Holm"
    )
    columns = ("Property", "Value", *numbers("Images", "Churn", "Elsewhere", "Difference, pp", "p"))
    left = len(each.subgroups) - len(rows)
    seeds = " with at least one seed" if each.seeds > 1 else ""
    outcome = f"; {count(len(each.subgroups), 'property', 'properties')} compared"
    if each.reason:
        outcome = f": {each.reason}"
    return FlippedSection(
        reference=names.of(each.reference),
        candidate=names.of(each.candidate),
        runtime=f"{each.backend} {each.precision}{models}",
        words=f"The prediction of {each.flipped} of {count(each.images, 'image')} changes"
        f"{seeds}{outcome}.",
        sentences=flipped_sentences(each, words),
        table=Table.of(caption, columns, rows) if rows else None,
        omitted=f"{count(left, 'more kind')}, not significant, in record.json." if left else "",
    )


def flipped_sentences(each: FlippedFacts, words: TaskWords) -> tuple[str, ...]:
    """Say which kinds are significant, or that none is."""
    found = [kind for kind in each.subgroups if kind.sentence]
    if found:
        return tuple(kind_words(kind, words.turns) for kind in said_kinds(found))
    if each.reason:
        return ()
    return ("No kind of image changes more or less often than the others beyond chance.",)


def class_sections(record: RunRecord, names: Names) -> tuple[ClassSection, ...]:
    """Return comparisons across paths in the reference runtime, by falling churn."""
    places = {entry.place: index for index, entry in enumerate(record.matrix)}
    across = served_elsewhere(record.matrix, record)
    entries = [entry for entry in across if entry.drift and entry.drift.classes]
    entries.sort(key=lambda entry: -entry.churn)  # stable: equal ones stay in the record's order
    return tuple(
        _class_section(places[entry.place], entry, names, TaskWords(record.task))
        for entry in entries[:_COMPARISONS]
    )


def _changes(drift: ClassDrift) -> tuple[Estimate, ...]:
    return drift.recall, drift.precision, *drift.others.values()


def _class_section(index: int, entry: MatrixEntry, names: Names, words: TaskWords) -> ClassSection:
    assert entry.drift is not None

    def worse(drift: ClassDrift) -> float:
        return min((each.value or 0.0) for each in _changes(drift))

    def moved(drift: ClassDrift) -> float:
        return max(abs(each.value or 0.0) for each in _changes(drift))

    classes = entry.drift.classes
    # those that moved most, whichever way; then the greatest loss of either metric first
    kept = sorted(sorted(classes, key=moved, reverse=True)[:_CLASSES], key=worse)
    strongest = strongest_class(entry.drift, words)
    left = len(classes) - len(kept)
    title = f"trained with {entry.trained_with}, evaluated with {entry.evaluated_with}"
    omitted = f"{count(left, 'class', 'classes')} with smaller changes: in record.json only."
    return ClassSection(
        trained=names.of(entry.trained_with),
        evaluated=names.of(entry.evaluated_with),
        runtime=entry.column.runtime,
        index=index,
        strongest=f"{strongest.words}." if strongest else "",
        omitted=omitted if left else "",
        chart=dot_plot(
            [(each.name, drawn(each.recall), drawn(each.precision)) for each in kept],
            id=f"classes-{index}",
            title=f"Change of recall and precision by class, {title}",
            series=("Δ recall", "Δ precision"),
            unit="percentage points, with 95 % intervals",
        ),
        table=_class_table(kept, title, words),
    )


def _class_table(kept: list[ClassDrift], title: str, words: TaskWords) -> Table:
    notes = Notes()
    others = [e for e in words.task.class_metrics if any(e.name in each.others for each in kept)]
    rows: list[RowCells] = [
        (
            each.name,
            grouped(each.support),
            *notes.apart(each.recall, 1),
            *notes.apart(each.precision, 1),
            *(
                cell
                for other in others
                for cell in notes.apart(each.others.get(other.name, UNMEASURED), 1)
            ),
        )
        for each in kept
    ]
    names = ("recall", "precision", *(in_sentence(each.label) for each in others))
    changes = [head for name in names for head in (f"Δ {name}, pp", "95 % interval")]
    columns = ("Class", *numbers(words.task.counted.capitalize(), *changes))
    return Table.of(f"Drift by class, {title}", columns, rows, notes=notes)


@dataclass(frozen=True, slots=True)
class Flow:
    """Images of one class that are now called another, and were not before."""

    words: str
    href: str
    """Of the list of these images."""


def flows(record: RunRecord, folder: Path, shown: Sequence[int]) -> dict[int, tuple[Flow, ...]]:
    """Return the flows of matrix entries by their index, summed over seeds, largest first.

    Raises `RecordError` if a file that the record names is missing.
    """
    if not record.task.class_scores:  # answers that are no classes have no flows
        return dict.fromkeys(shown, ())
    cells = {(cell.seed, cell.place): cell for cell in record.cells if cell.predictions}
    home = {(cell.seed, cell.row): cell for cell in cells.values() if cell.aligned}
    return {
        index: tuple(
            Flow(_flow_words(number, label, now), _list(index, label, now))
            for (label, now), number in _counted(record.matrix[index], cells, home, folder)
        )
        for index in shown
    }


def _flow_words(number: int, label: str, now: str) -> str:
    was, now = (shorten_middle(each, MOST_NAME) for each in (label, now))
    return f"{number} of class {was} are now called {now}"


def _counted(
    entry: MatrixEntry,
    cells: dict[tuple[int, Place], Cell],
    home: dict[tuple[int, Row], Cell],
    folder: Path,
) -> list[tuple[tuple[str, str], int]]:
    found: Counter[tuple[str, str]] = Counter()
    for seed in entry.seeds:
        pair = home.get((seed, entry.row)), cells.get((seed, entry.place))
        if pair[0] is None or pair[1] is None:
            continue
        before, after = (_predictions(each, folder) for each in (pair[0], pair[1]))
        if set(before.ids).isdisjoint(after.ids):
            continue
        before, after = aligned(before, after)
        moved = (before.predicted != after.predicted) & (after.predicted != after.labels)
        for label, now in zip(after.labels[moved], after.predicted[moved], strict=True):
            found[after.classes[label], class_name(after.outputs, int(now))] += 1
    return found.most_common(MOST_FLOWS)


def _predictions(cell: Cell, folder: Path) -> ClassAnswers:
    assert cell.predictions is not None
    return read_class_answers(artifact_file(folder, cell.predictions))


def _list(index: int, label: str, now: str) -> str:
    query = f'class:"{label}" predicted:"{now}" flip:yes'
    return f"#/images?cell={index}&q={quote(query, safe='')}"
