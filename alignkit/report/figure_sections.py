"""Views of figures, tables, remarks and neighbours that a task gives, by the cells they compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from alignkit.record import (
    FactTable,
    Figure,
    MatrixEntry,
    Neighbour,
    Neighbours,
    RunRecord,
    Thumbnail,
)
from alignkit.report.axis import Axis
from alignkit.report.marks import Line, PlotMark, RuleLine
from alignkit.report.page import (
    Beside,
    Details,
    Graphic,
    Heading,
    PagePart,
    Paragraph,
    Section,
    Strong,
)
from alignkit.report.plot import Plot
from alignkit.report.shown_view import leading_entry
from alignkit.report.table import Header, Notes, RowCells, Table, numbers
from alignkit.text.names import Names
from alignkit.text.numbers import count, significant, written
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
_ROWS = 21
"""Most rows of a figure's table."""
_TONES = {"reference": "t0", "candidate": "t1", "": "t2"}
"""Side → the colour and dashes of its lines."""


def answers_section(
    record: RunRecord, names: Names, *, single_file: bool = False
) -> Section | None:
    """Return each comparison of which the task gives anything, the headline's first.

    In a ``single_file`` the queries in sight of the first comparison alone have pictures.
    """
    chosen = entries_with_facts(record)
    if not chosen:
        return None
    folds = [
        Details(names.title(record.matrix[index]), [*_facts(index, record, names, seen, folded)])
        for place, index in enumerate(chosen[:_MOST])
        for seen, folded in [(not (single_file and place), not single_file)]
    ]
    parts: list[PagePart] = [Paragraph("Each cell against the baseline of its row.", "lead")]
    parts += [Heading(folds[0].summary), *folds[0].parts, *folds[1:]]
    if len(chosen) > _MOST:
        left = count(len(chosen) - _MOST, "more comparison")
        parts.append(Paragraph(f"{left}, with smaller changes: in record.json only."))
    return Section("answers", "Answers in figures", parts, nav="Figures")


def _facts(
    index: int, record: RunRecord, names: Names, seen: bool, folded: bool
) -> Iterator[PagePart]:
    """Yield what a task gives of a cell; neighbours ``seen`` or ``folded`` may have pictures."""
    entry, drift = record.matrix[index], record.matrix[index].drift
    assert drift is not None
    title, sides = names.title(entry), _sides(entry, record.matrix, names)
    path = _baseline(entry, record.matrix).evaluated_with
    pictures = {each.id: each for each in record.thumbnails if each.path == path}
    if drift.remarks:
        yield Paragraph((Strong("Advice."), f" {' '.join(drift.remarks)}"))
    figures: list[list[PagePart]] = [
        [
            figure_plot(each, sides, title),
            Details("In numbers", [figure_table(each, sides, title)]),
        ]
        for each in drift.figures
        if any(series.x for series in each.series)
    ]
    if figures:
        yield Beside(figures)
    tables: list[list[PagePart]] = [
        [fact_table(each, title), *([Paragraph(each.note, "notes")] if each.note else [])]
        for each in drift.tables
    ]
    if tables:
        yield Beside(tables, "facts-tables")
    if drift.neighbours:
        near = near_cards(drift.neighbours[:_SEEN], sides, pictures if seen else {})
        more = near_cards(drift.neighbours[_SEEN:], sides, pictures if folded else {})
        of = f" Pictures: as {names.short(path)} gives them." if pictures and seen else ""
        lead = (
            "Images of which the nearest one is another, those that lose most first, with the "
            "similarity of each neighbour. ✓ and a solid frame: it shows the same as the query; "
            f"✕ and a dashed one: it does not.{of}"
        )
        yield Heading("Nearest images before and after", 4)
        yield Paragraph(lead, "lead")
        yield Graphic("near_cards", near)
        if more:
            yield Details(f"{len(more)} more", [Graphic("near_cards", more)])


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


def figure_plot(figure: Figure, sides: tuple[str, str], of: str = "") -> Plot:
    """Draw a figure; ``sides`` name the reference and the candidate, ``of`` what is compared."""
    labels = _labels(figure, sides)
    names = [each.name for each in figure.series]
    kinds = {*names}
    marks: list[PlotMark] = [
        RuleLine(x=each.x, dashed=True, label=f"{each.label}: {significant(each.x)}")
        for each in figure.marks
    ]
    for each, key in zip(figure.series, labels, strict=True):
        # of several kinds the first line has its name; of one the legend says enough
        name = each.name if each.name in kinds and len({*names}) > 1 else ""
        kinds.discard(each.name)
        tone = _TONES[each.side] + " thin" * (each.name != names[0])
        marks.append(Line([*zip(each.x, each.y, strict=True)], tone, key, name))
    return Plot(
        title=f"{figure.title}{', ' * bool(of)}{of}",
        caption=figure.title,
        x=Axis(name=figure.x_label, kind=figure.x_scale),
        y=Axis(name=figure.y_label),
        marks=marks,
        words="The table below contains numbers of the lines.",
        note=figure.note,
    )


def _labels(figure: Figure, sides: tuple[str, str]) -> list[str]:
    names = {"reference": sides[0], "candidate": sides[1], "": ""}
    return [", ".join(filter(None, (each.name, names[each.side]))) for each in figure.series]


def figure_table(figure: Figure, sides: tuple[str, str], of: str = "") -> Table:
    """Return values of all lines at some of their places, from the first to the last."""
    every = sorted({x for each in figure.series for x in each.x})
    steps = min(_ROWS, len(every)) - 1
    chosen = [every[round(at * (len(every) - 1) / max(steps, 1))] for at in range(steps + 1)]
    values = [dict(zip(each.x, each.y, strict=True)) for each in figure.series]
    notes = Notes()
    rows: list[RowCells] = [
        (
            significant(x, 4),
            *(notes.number(at.get(x), significant, "the line has no point here") for at in values),
        )
        for x in chosen
    ]
    some = f", {len(chosen)} of {len(every)} places" if len(chosen) < len(every) else ""
    caption = f"{figure.title}{', ' * bool(of)}{of}: {figure.y_label}{some}"
    columns = numbers(figure.x_label, *_labels(figure, sides))
    return Table.of(caption, columns, rows, notes=notes)
