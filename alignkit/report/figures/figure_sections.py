"""Views of figures, tables, remarks and neighbours that a task gives, by the cells they compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alignkit.record import FactTable, MatrixEntry, Neighbour, Neighbours, RunRecord, Thumbnail
from alignkit.report.figures.figure_view import FigureView, figure_view
from alignkit.report.shown_view import leading_entry
from alignkit.report.table import Header, Notes, RowCells, Table, numbers
from alignkit.text.names import Names
from alignkit.text.numbers import count, written
from alignkit.text.task_words import fact_words


@dataclass(frozen=True, slots=True)
class NearImage:
    """An image that is shown small."""

    id: str
    label: str
    """Empty if it is not known."""
    name: str
    """The id without the folders, where the label is one of them."""
    source: str
    """Of its picture; empty if none was kept."""
    similarity: str
    """Empty for the query itself."""
    kind: str
    """``right`` or ``wrong`` as a class of the style sheet; empty where that is not known."""
    sign: str
    """The same as a sign."""
    said: str
    """The same in words, for readers who do not see the sign."""


@dataclass(frozen=True, slots=True)
class NearCard:
    """A query with its first neighbours on both sides."""

    query: NearImage
    sides: tuple[tuple[str, tuple[NearImage, ...]], ...]
    """Name of a side, and the images nearest first."""


def near_cards(
    found: Sequence[Neighbours], sides: tuple[str, str], pictures: Mapping[str, Thumbnail]
) -> tuple[NearCard, ...]:
    """Return a card for each query; ``pictures`` by the id of the image."""
    return tuple(
        NearCard(
            _image(each.query, pictures),
            tuple(
                (name, tuple(_neighbour(near, pictures) for near in side))
                for name, side in zip(sides, (each.before, each.after), strict=True)
            ),
        )
        for each in found
    )


def _image(id: str, pictures: Mapping[str, Thumbnail], **more: str) -> NearImage:  # noqa: A002
    known = pictures.get(id)
    words = {"similarity": "", "kind": "", "sign": "", "said": ""} | more
    label = known.label if known else ""
    name = id.rpartition("/")[2] if label in id.split("/")[:-1] else id
    return NearImage(id, label, name, known.picture.path if known else "", **words)


def _neighbour(near: Neighbour, pictures: Mapping[str, Thumbnail]) -> NearImage:
    kinds = {True: ("right", "✓", "right"), False: ("wrong", "✕", "wrong"), None: ("", "", "")}
    kind, sign, said = kinds[near.right]
    similarity = written(near.similarity, ".4f")  # neighbours are often nearly as similar
    return _image(near.id, pictures, similarity=similarity, kind=kind, sign=sign, said=said)


_MOST = 12
"""Comparisons that the page shows; record.json has all."""
_SEEN = 4
"""Queries of a comparison in sight; the others are folded."""


@dataclass(frozen=True, slots=True)
class FigureSection:
    """A cell against the baseline of its row."""

    title: str
    """``trained opencv → pillow, torch fp32``, as a heading."""
    figures: tuple[FigureView, ...]
    tables: tuple[tuple[Table, str], ...]
    """Each with the note below it."""
    remarks: tuple[str, ...]
    near: tuple[NearCard, ...]
    """Queries with their nearest images before and after."""
    near_folded: tuple[NearCard, ...]
    """More of them, shown when asked for."""
    path: str
    """Whose pixels their pictures show; empty without pictures."""


@dataclass(frozen=True, slots=True)
class FigureSections:
    """All comparisons with figures, tables, remarks or neighbours, the headline's first."""

    sections: tuple[FigureSection, ...]
    omitted: str
    """How many the page leaves out, in words; empty if it shows all."""


def figure_sections(
    record: RunRecord, names: Names, *, single_file: bool = False
) -> FigureSections:
    """Return a section for each comparison of which the task gives anything.

    In a ``single_file`` the queries in sight of the first comparison alone have pictures.
    """
    chosen = entries_with_facts(record)
    left = count(len(chosen) - _MOST, "more comparison") if len(chosen) > _MOST else ""
    return FigureSections(
        tuple(
            _section(index, record, names, alone=single_file, first=not place)
            for place, index in enumerate(chosen[:_MOST])
        ),
        f"{left}, with smaller changes: in record.json only." if left else "",
    )


def _section(
    index: int, record: RunRecord, names: Names, *, alone: bool, first: bool
) -> FigureSection:
    entry, drift = record.matrix[index], record.matrix[index].drift
    assert drift is not None
    title, sides = names.title(entry), _sides(entry, record.matrix, names)
    path = _baseline(entry, record.matrix).evaluated_with
    pictures = {each.id: each for each in record.thumbnails if each.path == path}
    seen = pictures if first or not alone else {}
    near = near_cards(drift.neighbours[:_SEEN], sides, seen)
    folded = near_cards(drift.neighbours[_SEEN:], sides, {} if alone else pictures)
    return FigureSection(
        title,
        tuple(
            figure_view(each, id=f"figure-{index}-{each.name}", sides=sides, of=title)
            for each in drift.figures
            if any(series.x for series in each.series)
        ),
        tuple((fact_table(each, title), each.note) for each in drift.tables),
        drift.remarks,
        near,
        folded,
        names.short(path) if seen else "",
    )


def entries_with_facts(record: RunRecord) -> list[int]:
    """List the entries of which the task gives anything: the leading one, then by falling churn."""
    found = [
        index
        for index, each in enumerate(record.matrix)
        if (drift := each.drift)
        and (drift.figures or drift.tables or drift.remarks or drift.neighbours)
    ]
    if not found:
        return []
    first = leading_entry(record.matrix, record.headline)
    return sorted(found, key=lambda index: (index != first, -record.matrix[index].churn))


def leading_remarks(record: RunRecord) -> tuple[str, ...]:
    """Return the remarks on the comparison that the verdict speaks of; the first ones if none.

    The first begins with the comparison.
    """
    for index in entries_with_facts(record):
        entry = record.matrix[index]
        if entry.drift and entry.drift.remarks:
            first, *others = entry.drift.remarks
            return (f"{Names(record.paths).title(entry)}: {first}", *others)
    return ()


def _baseline(entry: MatrixEntry, matrix: Sequence[MatrixEntry]) -> MatrixEntry:
    return next(each for each in matrix if each.aligned and each.row == entry.row)


def _sides(entry: MatrixEntry, matrix: Sequence[MatrixEntry], names: Names) -> tuple[str, str]:
    """Name the two sides by what differs between them: the path, the runtime or both."""
    both = _baseline(entry, matrix).column, entry.column
    paths = len({each.preprocess for each in both}) > 1
    runtimes = len({each.runtime for each in both}) > 1
    first, second = (
        ", ".join([names.short(each.preprocess)] * paths + [each.runtime] * runtimes)
        for each in both
    )
    return first, second


def fact_table(table: FactTable, of: str = "") -> Table:
    """Return a task's table with each value in the unit of its row, and its interval.

    ``of`` names what is compared, in the caption.
    """
    notes = Notes()
    rows: list[RowCells] = [
        (row.label, *(notes.worded(each, fact_words(each, row.unit)) for each in row.cells))
        for row in table.rows
    ]
    caption = ", ".join(filter(None, (table.title, of)))
    return Table.of(caption, (Header(""), *numbers(*table.columns)), rows, notes=notes)
