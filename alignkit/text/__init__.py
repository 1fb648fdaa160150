"""Numbers and names as text, and rows of it in aligned columns."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Rows as lines, each column as wide as its widest cell; nothing is cut off.

    >>> print(columns([("a", "1"), ("long", "2")]))
    a     1
    long  2
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append((indent + "  ".join(padded)).rstrip())
    return "\n".join(lines)
