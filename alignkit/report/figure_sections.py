"""Views of figures, tables, remarks and neighbours that a task gives, by the cells they compare."""

from __future__ import annotations

from collections.abc import Iterator

from alignkit.record import Estimate, FactRow, FactTable, Figure, MatrixEntry, RunRecord
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
from alignkit.report.table import Table
from alignkit.text.column import Fact
from alignkit.text.names import Names
from alignkit.text.numbers import count, significant
from alignkit.text.task_words import fact_words

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
    # the first one is what the verdict speaks of, so that it is in sight
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
    own = next(each for each in record.matrix if each.aligned and each.row == entry.row)
    title, sides = names.title(entry), _sides(own, entry, names)
    if drift.remarks:
        yield Paragraph((Strong("Advice."), f" {' '.join(drift.remarks)}"))
    figures: list[list[PagePart]] = [
        [figure_plot(each, sides, title), Details("In numbers", [figure_table(each, sides, title)])]
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
        # kept once, as the models' own path gives them
        path = own.evaluated_with
        pictures = {each.id: each for each in record.thumbnails if each.path == path}
        of = f" Pictures: as {names.short(path)} gives them." if pictures and seen else ""
        lead = (
            "Images of which the nearest one is another, those that lose most first, with the "
            "similarity of each neighbour. ✓ and a solid frame: it shows the same as the query; "
            f"✕ and a dashed one: it does not.{of}"
        )
        yield Heading("Nearest images before and after", 4)
        yield Paragraph(lead, "lead")
        first, more = drift.neighbours[:_SEEN], drift.neighbours[_SEEN:]
        yield Graphic("near_cards", (first, sides, pictures if seen else {}))
        if more:
            cards = Graphic("near_cards", (more, sides, pictures if folded else {}))
            yield Details(f"{len(more)} more", [cards])


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


def _sides(own: MatrixEntry, entry: MatrixEntry, names: Names) -> tuple[str, str]:
    """Name the two sides by what differs between them: the path, the runtime or both."""
    both = own.column, entry.column
    # a name that both have tells them not apart
    paths = both[0].preprocess != both[1].preprocess
    runtimes = both[0].runtime != both[1].runtime
    first, second = (
        ", ".join([names.short(each.preprocess)] * paths + [each.runtime] * runtimes)
        for each in both
    )
    return first, second


def fact_table(table: FactTable, of: str = "") -> Table:
    """Return a task's table with each value in the unit of its row, and its interval.

    ``of`` names what is compared, in the caption.
    """

    def cell(place: int, head: str) -> Fact[FactRow]:
        return Fact(head, lambda row: row.cells[place], "points", format=written)

    def written(value: Estimate, row: FactRow) -> str:
        return fact_words(value, row.unit)

    label: Fact[FactRow] = Fact("Measure", lambda row: row.label)
    columns = [label, *(cell(place, head) for place, head in enumerate(table.columns))]
    return Table.made(_titled(table.title, of), columns, table.rows)


def _titled(title: str, of: str) -> str:
    return f"{title}, {of}" if of else title


def figure_plot(figure: Figure, sides: tuple[str, str], of: str = "") -> Plot:
    """Draw a figure; ``sides`` name the reference and the candidate, ``of`` what is compared."""
    marks: list[PlotMark] = [
        RuleLine(x=each.x, dashed=True, label=f"{each.label}: {significant(each.x)}")
        for each in figure.marks
    ]
    for each, key in zip(figure.series, _labels(figure, sides), strict=True):
        # sides have their colours, so that kinds differ by their width
        tone = _TONES[each.side] + " thin" * (each.name != figure.series[0].name)
        marks.append(Line([*zip(each.x, each.y, strict=True)], tone, key))
    return Plot(
        title=_titled(figure.title, of),
        caption=figure.title,
        x=Axis(name=figure.x_label, kind=figure.x_scale),
        y=Axis(name=figure.y_label),
        marks=marks,
        note=figure.note,
    )


def _labels(figure: Figure, sides: tuple[str, str]) -> list[str]:
    names = {"reference": sides[0], "candidate": sides[1], "": ""}
    labels = [", ".join(filter(None, (each.name, names[each.side]))) for each in figure.series]
    return [each or figure.y_label for each in labels]  # a column needs a head


def figure_table(figure: Figure, sides: tuple[str, str], of: str = "") -> Table:
    """Return values of all lines at some of their places, from the first to the last."""
    every = sorted({x for each in figure.series for x in each.x})
    steps = min(_ROWS, len(every)) - 1
    chosen = [every[round(at * (len(every) - 1) / max(steps, 1))] for at in range(steps + 1)]
    why = "the line has no point here"
    columns: list[Fact[float]] = [Fact(figure.x_label, float, "value", 4)]
    for each, label in zip(figure.series, _labels(figure, sides), strict=True):
        at = dict(zip(each.x, each.y, strict=True))
        columns.append(Fact(label, at.get, "value", note=why))
    some = f", {len(chosen)} of {len(every)} places" if len(chosen) < len(every) else ""
    return Table.made(f"{_titled(figure.title, of)}: {figure.y_label}{some}", columns, chosen)
