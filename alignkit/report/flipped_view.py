"""Views of the images that flip: the kinds that do more, or less, than others, and the classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

from alignkit.compare.answers import aligned
from alignkit.compare.class_answers import class_name
from alignkit.compare.predictions import read_class_answers
from alignkit.record import ClassDrift, Estimate, FlippedFacts, MatrixEntry, RunRecord
from alignkit.record.blame_facts import Subgroup
from alignkit.record.document import artifact_file
from alignkit.report.axis import Axis, drawn, signed_mark
from alignkit.report.entries_view import served_elsewhere
from alignkit.report.page import (
    Beside,
    Details,
    Heading,
    Lines,
    Link,
    PagePart,
    Paragraph,
    Piece,
    Section,
    Strong,
    sentence,
)
from alignkit.report.plot import dot_rows
from alignkit.report.table import Shown, Table
from alignkit.text.class_words import kind_words, said_kinds, strongest_class
from alignkit.text.column import Fact
from alignkit.text.measured import of_first_models
from alignkit.text.names import Names
from alignkit.text.numbers import MOST_NAME, count, shorten_middle
from alignkit.text.run_columns import UNMEASURED
from alignkit.text.task_words import TaskWords, in_sentence

MOST_FLOWS = 10
"""Flows of one comparison that are shown."""
_KINDS = 24
"""Kinds a table shows, besides those that are significant."""
_COMPARISONS = 12
"""Comparisons shown class by class."""
_CLASSES = 40
"""Classes of a chart: one of a thousand would not be read."""
_KIND_COLUMNS: tuple[Fact[Subgroup], ...] = (
    Fact("Property", lambda kind: kind.dimension),
    Fact("Value", lambda kind: Shown(kind.kind, tag="significant" * kind.significant)),
    Fact("Images", lambda kind: kind.images, "count"),
    Fact("Churn", lambda kind: kind.churn, "share"),
    Fact("Elsewhere", lambda kind: kind.elsewhere, "share"),
    Fact("Difference, pp", lambda kind: kind.difference, "points", 1),
    Fact("p", lambda kind: kind.p_adjusted, "p"),
)


def kinds_section(
    record: RunRecord, names: Names, distributions: Sequence[PagePart]
) -> Section | None:
    """Return what images share whose predictions change, and how far images differ."""
    parts = [part for each in record.flipped for part in _kinds(each, record, names)]
    if parts:
        lead = (
            "Common properties of the images whose predictions change with another path. A "
            "sentence appears only if the property is significant after correction for all "
            "comparisons in the table."
        )
        share = f"What {'flipped' if record.task.class_scores else 'changed'} images share"
        return Section("kinds", share, [Paragraph(lead, "lead"), *parts, *distributions])
    if not distributions:
        return None
    return Section("kinds", "How far images differ", distributions, "Distributions")


def _kinds(each: FlippedFacts, record: RunRecord, names: Names) -> list[PagePart]:
    """Return the kinds of images between two paths."""
    models = of_first_models(record, each.reference, names)
    sides = ("Trained with ", names.of(each.reference), ", served with ", names.of(each.candidate))
    significant = [kind for kind in each.subgroups if kind.significant]  # all are shown
    others = [kind for kind in each.subgroups if not kind.significant]
    rows = (*significant, *others[:_KINDS])
    seeds = " with at least one seed" if each.seeds > 1 else ""
    compared = f"; {count(len(each.subgroups), 'property', 'properties')} compared"
    outcome = f": {each.reason}" if each.reason else compared
    parts: list[PagePart] = [
        Heading((*sides, f", {each.backend} {each.precision}{models}")),
        Paragraph(
            f"The prediction of {each.flipped} of {count(each.images, 'image')} changes"
            f"{seeds}{outcome}."
        ),
    ]
    turns = TaskWords(record.task).turns
    if significant:
        parts.append(Lines([kind_words(kind, turns) for kind in said_kinds(significant)]))
    elif not each.reason:
        parts.append(
            Lines(["No kind of image changes more or less often than the others beyond chance."])
        )
    if rows:
        caption = "Churn of the images of each kind, and of all others"
        table = Table.made(f"{caption}; p: Fisher’s exact test, after Holm", _KIND_COLUMNS, rows)
        left = count(len(each.subgroups) - len(rows), "more kind")
        omitted = [Paragraph(f"{left}, not significant, in record.json.")]
        cut = len(rows) < len(each.subgroups)
        parts.append(Details("All properties compared", [table, *omitted * cut]))
    return parts


def classes_section(
    record: RunRecord, names: Names, folder: Path, *, viewer: bool
) -> Section | None:
    """Return comparisons across paths in the reference runtime, by falling churn.

    Flows lead to the viewer's list where there is one. Raises `RecordError` if a file that the
    record names is missing.
    """
    words = TaskWords(record.task)
    places = {entry.place: index for index, entry in enumerate(record.matrix)}
    across = served_elsewhere(record.matrix, record)
    entries = [entry for entry in across if entry.drift and entry.drift.classes]
    entries.sort(key=lambda entry: -entry.churn)  # stable: equal ones stay in the record's order
    folds: list[Details] = []
    for entry in entries[:_COMPARISONS]:
        # without a viewer there is no list to lead to
        found = flows(record, folder, places[entry.place])
        moved = [each if viewer else each.text for each in found]
        folds.append(replace(_class_fold(entry, names, words, moved), open=not folds))
    if not folds:
        return None
    lead = (
        f"The class with the greatest loss of {words.class_metrics} comes first; of the "
        "comparisons, in the reference runtime, the one with the most changed predictions."
    )
    return Section("classes", "Classes", [Paragraph(lead, "lead"), *folds])


def _class_fold(
    entry: MatrixEntry, names: Names, words: TaskWords, moved: Sequence[Link | str]
) -> Details:
    assert entry.drift is not None

    def changes(drift: ClassDrift) -> list[float]:
        ratios = (drift.recall, drift.precision, *drift.others.values())
        return [each.value or 0.0 for each in ratios]

    classes = entry.drift.classes
    # those that moved most, whichever way; then the greatest loss of either metric first
    most = sorted(classes, key=lambda each: -max(map(abs, changes(each))))[:_CLASSES]
    kept = sorted(most, key=lambda each: min(changes(each)))
    title = f"trained with {entry.trained_with}, evaluated with {entry.evaluated_with}"
    chart = dot_rows(
        [(each.name, drawn(each.recall), drawn(each.precision)) for each in kept],
        ("Δ recall", "Δ precision"),
        title=f"Change of recall and precision by class, {title}, {entry.column.runtime}",
        x=Axis(name="percentage points, with 95 % intervals", text=signed_mark),
    )
    parts: list[PagePart] = []
    if strongest := strongest_class(entry.drift, words):
        parts.append(Paragraph(Strong(sentence(strongest.words))))
    if moved:
        pieces: Sequence[Piece] = [piece for each in moved for piece in (", ", each)][1:]
        parts.append(Paragraph(["Now called another class, summed over the seeds: ", *pieces, "."]))
    parts.append(Beside([[chart], [_class_table(kept, title, words)]]))
    if left := len(classes) - len(kept):
        omitted = count(left, "class", "classes")
        parts.append(Paragraph(f"{omitted} with smaller changes: in record.json only."))
    sides = names.of(entry.trained_with), ", served with ", names.of(entry.evaluated_with)
    return Details(("Trained with ", *sides, f", {entry.column.runtime}"), parts)


def _class_table(kept: Sequence[ClassDrift], title: str, words: TaskWords) -> Table:
    columns: list[Fact[ClassDrift]] = [
        Fact("Class", lambda each: each.name),
        Fact(words.task.counted.capitalize(), lambda each: each.support, "count"),
    ]
    # a metric that no class has here is no column
    known = {"recall", "precision", *(name for each in kept for name in each.others)}
    columns += [
        Fact(f"Δ {in_sentence(each.label)}, pp", partial(_change, each.name), "points", 1)
        for each in words.task.class_metrics
        if each.name in known
    ]
    return Table.made(f"Drift by class, {title}, with 95 % intervals", columns, kept)


def _change(metric: str, each: ClassDrift) -> Estimate:
    ratios = {"recall": each.recall, "precision": each.precision, **each.others}
    return ratios.get(metric, UNMEASURED)


def flows(record: RunRecord, folder: Path, index: int) -> list[Link]:
    """Return images of one class that are now called another, in the matrix entry at ``index``.

    They are summed over seeds, largest first, and lead to the list of these images. Answers that
    are no classes have none. Raises `RecordError` if a file that the record names is missing.
    """
    entry = record.matrix[index]
    files = {
        (cell.seed, cell.aligned): cell.predictions
        for cell in record.cells
        if cell.predictions
        and cell.row == entry.row
        and (cell.aligned or cell.place == entry.place)
    }
    found: Counter[tuple[str, str]] = Counter()
    # the files of both are read again: no record keeps a confusion matrix
    for seed in entry.seeds if record.task.class_scores else ():
        both = [files[seed, own] for own in (True, False) if (seed, own) in files]
        read = [read_class_answers(artifact_file(folder, each)) for each in both]
        if len(read) < 2 or set(read[0].ids).isdisjoint(read[1].ids):
            continue
        before, after = aligned(read[0], read[1])
        # an image that is right now has flowed nowhere
        moved = (before.predicted != after.predicted) & (after.predicted != after.labels)
        for label, now in zip(after.labels[moved], after.predicted[moved], strict=True):
            found[after.classes[label], class_name(after.outputs, int(now))] += 1
    return [
        _flow(index, label, now, number) for (label, now), number in found.most_common(MOST_FLOWS)
    ]


def _flow(index: int, label: str, now: str, number: int) -> Link:
    query = quote(f'class:"{label}" predicted:"{now}" flip:yes', safe="")
    was, called = (shorten_middle(each, MOST_NAME) for each in (label, now))
    words = f"{number} of class {was} are now called {called}"
    return Link(words, f"#/images?cell={index}&q={query}")
