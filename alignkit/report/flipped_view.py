"""Views of the images that flip: the kinds that do more, or less, than others, and the classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

from alignkit.compare.answers import aligned
from alignkit.compare.class_answers import ClassAnswers, class_name
from alignkit.compare.predictions import read_class_answers
from alignkit.place import Place, Row
from alignkit.record import Cell, ClassDrift, Estimate, FlippedFacts, MatrixEntry, RunRecord
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
    Section,
    Strong,
    sentence,
)
from alignkit.report.plot import dot_rows
from alignkit.report.table import Shown, Table
from alignkit.text.class_words import kind_words, said_kinds, strongest_class
from alignkit.text.column import Fact, of_part
from alignkit.text.measured import of_first_models
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import (
    MOST_NAME,
    count,
    interval,
    shorten_middle,
)
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
    significant = [kind for kind in each.subgroups if kind.significant]  # all are shown
    others = [kind for kind in each.subgroups if not kind.significant]
    rows = (*significant, *others[:_KINDS])
    columns: tuple[Fact[Subgroup], ...] = (
        Fact("Property", lambda kind: kind.dimension),
        Fact("Value", lambda kind: Shown(kind.kind, tag="significant" * kind.significant)),
        Fact("Images", lambda kind: kind.images, "count"),
        Fact("Churn", lambda kind: kind.churn, "share"),
        Fact("Elsewhere", lambda kind: kind.elsewhere, "share"),
        Fact("Difference, pp", lambda kind: kind.difference, "points", 1),
        Fact("p", lambda kind: kind.p_adjusted, "p"),
    )
    caption = (
        "Churn of the images of each kind, and of all others; p: Fisher’s exact test, after Holm"
    )
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
        table=Table.made(caption, columns, rows) if rows else None,
        omitted=f"{count(left, 'more kind')}, not significant, in record.json." if left else "",
    )


def kinds_section(
    record: RunRecord, names: Names, distributions: Sequence[PagePart]
) -> Section | None:
    """Return what images share whose predictions change, and how far images differ."""
    found, classes = flipped_sections(record, names), record.task.class_scores
    parts: list[PagePart] = []
    if found:
        lead = (
            "Common properties of the images whose predictions change with another path. A "
            "sentence appears only if the property is significant after correction for all "
            "comparisons in the table."
        )
        parts.append(Paragraph(lead, "lead"))
    for each in found:
        sides = ("Trained with ", each.reference, ", served with ", each.candidate)
        parts += [Heading((*sides, f", {each.runtime}")), Paragraph(each.words)]
        parts += [Lines(each.sentences)] if each.sentences else []
        if each.table:
            omitted = [Paragraph(each.omitted)] if each.omitted else []
            parts.append(Details("All properties compared", [each.table, *omitted]))
    parts += distributions
    if not parts:
        return None
    share = f"What {'flipped' if classes else 'changed'} images share"
    title, nav = (share, "") if found else ("How far images differ", "Distributions")
    return Section("kinds", title, parts, nav)


def flipped_sentences(each: FlippedFacts, words: TaskWords) -> tuple[str, ...]:
    """Say which kinds are significant, or that none is."""
    found = [kind for kind in each.subgroups if kind.significant]
    if found:
        return tuple(kind_words(kind, words.turns) for kind in said_kinds(found))
    if each.reason:
        return ()
    return ("No kind of image changes more or less often than the others beyond chance.",)


def classes_section(
    record: RunRecord, names: Names, folder: Path, *, viewer: bool
) -> Section | None:
    """Return comparisons across paths in the reference runtime, by falling churn.

    Flows lead to the viewer's list where there is one. Raises `RecordError` if a file that the
    record names is missing.
    """
    places = {entry.place: index for index, entry in enumerate(record.matrix)}
    across = served_elsewhere(record.matrix, record)
    entries = [entry for entry in across if entry.drift and entry.drift.classes]
    entries.sort(key=lambda entry: -entry.churn)  # stable: equal ones stay in the record's order
    shown = {places[entry.place]: entry for entry in entries[:_COMPARISONS]}
    if not shown:
        return None
    words, moved = TaskWords(record.task), flows(record, folder, [*shown])
    lead = (
        f"The class with the greatest loss of {words.class_metrics} comes first; of the "
        "comparisons, in the reference runtime, the one with the most changed predictions."
    )
    folds = [
        _class_fold(entry, names, words, moved[index] if viewer else _unlinked(moved[index]))
        for index, entry in shown.items()
    ]
    first = replace(folds[0], open=True)
    return Section("classes", "Classes", [Paragraph(lead, "lead"), first, *folds[1:]])


def _unlinked(found: Sequence[Link]) -> list[str]:
    return [each.text for each in found]


def _changes(drift: ClassDrift) -> tuple[Estimate, ...]:
    return drift.recall, drift.precision, *drift.others.values()


def _class_fold(
    entry: MatrixEntry, names: Names, words: TaskWords, flowing: Sequence[Link | str]
) -> Details:
    assert entry.drift is not None

    def worse(drift: ClassDrift) -> float:
        return min((each.value or 0.0) for each in _changes(drift))

    def moved(drift: ClassDrift) -> float:
        return max(abs(each.value or 0.0) for each in _changes(drift))

    classes = entry.drift.classes
    # those that moved most, whichever way; then the greatest loss of either metric first
    kept = sorted(sorted(classes, key=moved, reverse=True)[:_CLASSES], key=worse)
    left = len(classes) - len(kept)
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
    if flowing:
        pieces = [piece for each in flowing for piece in (each, ", ")][:-1]
        parts.append(Paragraph(["Now called another class, summed over the seeds: ", *pieces, "."]))
    parts.append(Beside([[chart], [_class_table(kept, title, words)]]))
    if left:
        omitted = count(left, "class", "classes")
        parts.append(Paragraph(f"{omitted} with smaller changes: in record.json only."))
    trained, served = names.of(entry.trained_with), names.of(entry.evaluated_with)
    runtime = entry.column.runtime
    return Details(("Trained with ", trained, ", served with ", served, f", {runtime}"), parts)


def _class_table(kept: list[ClassDrift], title: str, words: TaskWords) -> Table:
    others = [e for e in words.task.class_metrics if any(e.name in each.others for each in kept)]
    ratios: dict[str, Callable[[ClassDrift], Estimate]] = {
        "recall": lambda each: each.recall,
        "precision": lambda each: each.precision,
        **{in_sentence(each.label): partial(_other, each.name) for each in others},
    }
    columns: list[Fact[ClassDrift]] = [
        Fact("Class", lambda each: each.name),
        Fact(words.task.counted.capitalize(), lambda each: each.support, "count"),
    ]
    for name, ratio in ratios.items():
        change: Fact[Estimate] = Fact(
            f"Δ {name}, pp", lambda found: found.value, "points", 1,
            note=lambda found: found.reason,
        )  # fmt: skip
        ends: Fact[Estimate] = Fact(
            "95 % interval", lambda found: None if found.low is None else interval(found, 1),
            "points", note=lambda found: found.reason or "no interval",
        )  # fmt: skip
        columns += of_part((change, ends), ratio)
    return Table.made(f"Drift by class, {title}", columns, kept)


def _other(name: str, each: ClassDrift) -> Estimate:
    return each.others.get(name, UNMEASURED)


def flows(record: RunRecord, folder: Path, shown: Sequence[int]) -> dict[int, tuple[Link, ...]]:
    """Return images of one class that are now called another, by the index of the entry.

    They are summed over seeds, largest first, and lead to the list of these images.

    Raises `RecordError` if a file that the record names is missing.
    """
    if not record.task.class_scores:  # answers that are no classes have no flows
        return dict.fromkeys(shown, ())
    cells = {(cell.seed, cell.place): cell for cell in record.cells if cell.predictions}
    home = {(cell.seed, cell.row): cell for cell in cells.values() if cell.aligned}
    return {
        index: tuple(
            Link(_flow_words(number, label, now), _list(index, label, now))
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
