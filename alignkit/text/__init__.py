"""Numbers and names as text, and rows of it in aligned columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
