"""Numbers and names as text, and rows of it in aligned columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.datasets.regular_file import UNPRINTABLE, written_out

_IN_LINES = re.compile(f"(?![\t\n])[{UNPRINTABLE}]")


def printable(text: str) -> str:
    r"""Write out whatever would steer a terminal: control characters, and changes of direction.

    Tabs and line ends stay. The spelling is that of `escaped_name`.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return _IN_LINES.sub(written_out, text)


def columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Rows as lines, each column as wide as its widest cell; nothing is cut off.

    >>> print(columns([("a", "1"), ("long", "2")]))
    a     1
    long  2
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = []
    for row in shown:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append((indent + "  ".join(padded)).rstrip())
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text, before a terminal or a page shows it."""

    heads: tuple[str, ...]
    """Of the columns. The first column names the rows; its head may say what the table shows."""
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    """Sentences below it."""
    caption: str = ""
    missing: str = ""
    """Why a number is not known, where a dash stands."""

    def lines(self) -> list[str]:
        """Return the lines of a terminal."""
        table = [columns([self.heads, *self.rows], indent="  ")] if self.rows else []
        return [*filter(None, [self.caption]), *table, *(f"  {each}" for each in self.notes)]
