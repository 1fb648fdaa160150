"""`Table`: columns and rows, before a page, a summary, a notebook or a terminal shows them.

A missing number is shown as a dash whose reason stands in a footnote below the table; the reason is
never only a tooltip. A table that programs read as well is made of `alignkit.text.column.Fact`.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, product, repeat, zip_longest
from typing import Self, TypeVar

from alignkit.record import Estimate
from alignkit.text import Written, markdown_text
from alignkit.text import columns as aligned
from alignkit.text.column import Fact
from alignkit.text.numbers import DASH, count
from alignkit.text.task_words import in_sentence

Made = TypeVar("Made")
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Shown:
    """The content of one cell."""

    text: str
    mark: str = ""
    """Of the footnote that explains it."""
    title: str = ""
    """More, for the pointer; never the only place of a fact."""
    tag: str = ""
    """A remark of few words beside the text."""
    tone: str = ""
    """A class of the style sheet: ``bad``, ``muted`` or a state; the text says the same."""
    link: str = ""
    """Where its text leads."""
    more: tuple[str, ...] = ()
    """Lines that a page unfolds below its text."""

    @property
    def said(self) -> str:
        """Its text with its remark and the mark of its note, where no type is small or raised."""
        return " ".join([self.text, *(f"({each})" for each in (self.tag, self.mark) if each)])


ZERO = Shown("0", tone="muted")
"""Exactly zero, unlike a number that rounds to it."""
RowCells = Sequence[Shown | str]
"""Of a row; a text is a cell without a remark."""


@dataclass(frozen=True, slots=True)
class Note:
    """A footnote of a table."""

    mark: str
    text: str


class Notes:
    """Collects the footnotes of one table: the same reason gets the same mark."""

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}
        letters = string.ascii_lowercase  # 27th and later marks have two letters
        self._unused = iter([*letters, *("".join(pair) for pair in product(letters, repeat=2))])

    def mark(self, reason: str) -> str:
        """Return the mark of a reason, new or known."""
        if reason not in self._marks:
            self._marks[reason] = next(self._unused)
        return self._marks[reason]

    def missing(self, reason: str, text: str = DASH) -> Shown:
        """Return a cell without a value, and why."""
        reason = reason or "not measured"  # a dash without a reason would hide a defect
        return Shown(text, mark=self.mark(reason), title=reason, tone="muted")

    def number(
        self, value: Given | None, written: Callable[[Given], str], reason: str = ""
    ) -> Shown:
        """Return a cell with a value, or a dash with the reason."""
        return self.missing(reason) if value is None else Shown(written(value))

    def distance(
        self, value: Given | None, written: Callable[[Given], str], reason: str = ""
    ) -> Shown:
        """Return a cell with a value as `number` does, but exactly zero without decimals."""
        return ZERO if value == 0 else self.number(value, written, reason)

    def worded(self, estimate: Estimate, text: str) -> Shown:
        """Return a cell with the text of an estimate, and the reason where a part is missing."""
        if estimate.value is None:
            return self.missing(estimate.reason)
        unknown = estimate.low is None and estimate.reason
        # the value stays: only its interval is missing
        return Shown(text, mark=self.mark(estimate.reason) if unknown else "")

    def cell(self, column: Fact[Made], row: Made) -> Shown:
        """Return the cell of a column and a row's object."""
        found = column.found(row)
        known = found.value if isinstance(found, Estimate) else found
        if known is None:
            own = found.reason if isinstance(found, Estimate) else ""
            return self.missing(own or column.reason(row))
        shown = found if isinstance(found, Shown) else Shown(column.text(row, found))
        if isinstance(found, Estimate):
            shown = self.worded(found, shown.text)
        elif column.alarm:
            shown = replace(shown, tone="bad" if known else "")
        elif known == 0 and column.unit in ("levels", "change"):
            shown = ZERO
        remark = column.remark and column.remark(column.part(row))
        return replace(shown, mark=self.mark(remark)) if remark else shown

    def all(self) -> tuple[Note, ...]:
        """Return every note, in the order of first use."""
        return tuple(Note(mark, reason) for reason, mark in self._marks.items())


@dataclass(frozen=True, slots=True)
class Header:
    """A column's header."""

    text: str
    numeric: bool = False
    """Whether its cells are right-aligned."""


@dataclass(frozen=True, slots=True)
class Group:
    """A header over several columns; an empty text spans without one."""

    text: str
    span: int


@dataclass(frozen=True, slots=True)
class TableRow:
    """The first cell heads the row."""

    cells: tuple[Shown, ...]
    id: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with caption, headers and footnotes."""

    caption: str
    columns: tuple[Header, ...]
    rows: tuple[TableRow, ...]
    groups: tuple[Group, ...] = ()
    """Over the columns, left to right; none, or spans that add up to the columns."""
    notes: tuple[Note, ...] = field(default=())

    @classmethod
    def of(
        cls,
        caption: str,
        columns: Sequence[Header | str],
        rows: Iterable[RowCells],
        groups: Sequence[Group] = (),
        notes: Notes | None = None,
    ) -> Self:
        """Make a table of cells with the footnotes that they collected.

        A column without `Header` is one of text.
        """
        made = tuple(
            TableRow(tuple(Shown(cell) if isinstance(cell, str) else cell for cell in cells))
            for cells in rows
        )
        headers = tuple(Header(each) if isinstance(each, str) else each for each in columns)
        # the rows were made before this call, so that the notes are complete by now
        return cls(caption, headers, made, tuple(groups), notes.all() if notes else ())

    @classmethod
    def made(
        cls,
        caption: str,
        columns: Sequence[Fact[Made]],
        rows: Iterable[Made],
        ids: Iterable[str] = (),
    ) -> Self:
        """Make a table of the columns that have a head, a row for each object, with their ids."""
        notes, shown = Notes(), [each for each in columns if each.head]
        heads = tuple(Header(each.head, numeric=each.numeric) for each in shown)
        made = tuple(
            TableRow(tuple(notes.cell(each, row) for each in shown), own)
            for row, own in zip(rows, chain(ids, repeat("")), strict=False)
        )
        over = groupby(each.group for each in shown)
        groups = tuple(Group(name, len([*same])) for name, same in over)
        return cls(caption, heads, made, groups if any(e.text for e in groups) else (), notes.all())

    def first(self, most: int, rest: str = "") -> tuple[Self, str]:
        """Return the first rows, and how many are left out: ``3 more rows in index.html.``."""
        left = len(self.rows) - most
        said = f"{count(left, 'more row')}{rest}." if left > 0 else ""
        return replace(self, rows=self.rows[:most]), said

    @property
    def heads(self) -> list[str]:
        """Heads of the columns, each with that of its group before it."""
        above = [each.text for each in self.groups for _ in range(each.span)]
        pairs = zip_longest(above, (each.text for each in self.columns), fillvalue="")
        return [" ".join(filter(None, pair)) for pair in pairs]

    def html(self) -> str:
        """Return the element that every page has, with its footnotes."""
        from alignkit.report.templates import html  # late: a terminal needs no templates

        return html("table.html.j2", table=self)

    def markdown(self) -> Written:
        """Return the table as Markdown, and below it each footnote."""
        heads = map(markdown_text, self.heads)
        sides = ["---:" if each.numeric else "---" for each in self.columns]
        body = [[markdown_text(cell.said) for cell in row.cells] for row in self.rows]
        lines = [f"| {' | '.join(row)} |" for row in (heads, sides, *body)]
        # a page shows a note by its mark
        notes = [markdown_text(f"{each.mark}: {each.text}") for each in self.notes]
        return Written("\n".join([*lines, *([""] * bool(notes)), "; ".join(notes)]).rstrip())

    def text(self, most: int | None = None) -> list[str]:
        """Return the lines of a terminal: heads as in a sentence, rows, all footnotes in one."""
        heads = map(in_sentence, self.heads)
        body = [[cell.said for cell in row.cells] for row in self.rows[:most]]
        notes = "; ".join(f"{each.mark}: {each.text}" for each in self.notes)
        return [*aligned([[*heads], *body]).splitlines(), *filter(None, [notes])] if body else []

    def __post_init__(self) -> None:
        widths = {len(row.cells) for row in self.rows} | {sum(g.span for g in self.groups)}
        # a shifted row would show true numbers below false headers
        if not widths <= {len(self.columns), 0}:
            raise ValueError(f"{self.caption}: {len(self.columns)} columns, rows of {widths}")


def numbers(*names: str) -> tuple[Header | str, ...]:
    """Return headers of columns of numbers, which are right-aligned."""
    return tuple(Header(name, numeric=True) for name in names)


PLACE = ("Trained with", "Evaluated with", "Runtime")
"""Headers of `alignkit.text.names.Names.cells`."""
PIXEL_PLACE = ("Reference", "Path")
"""Headers of its first two where pixels alone are compared."""


def facts(caption: str, pairs: dict[str, str], names: tuple[str, str] = ("Fact", "Value")) -> Table:
    """Return a table of names and values."""
    return Table.of(caption, names, [(name, value or DASH) for name, value in pairs.items()])
