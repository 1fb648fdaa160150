"""Any text as terminals and Markdown show it: names, reasons and commands may be a stranger's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from alignkit.datasets.regular_file import UNPRINTABLE, written_out

_IN_LINES = re.compile(f"(?![\t\n])[{UNPRINTABLE}]")
_SPECIAL = re.compile(r"[\\`*<>|]")
_LINK = re.compile(r"\](?=[(\[:])")
"""The middle of a link, or of the definition of one."""
_MENTION = re.compile(r"(?<![0-9A-Za-z_])@(?=[0-9A-Za-z])")
_NO_SPACE = "\N{ZERO WIDTH SPACE}"


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


class Written(str):
    """Text that is Markdown already, not to be escaped again."""

    __slots__ = ()


def markdown_text(value: Any) -> str:
    r"""Escape a value so that Markdown shows it as it is, on one line, and notifies nobody.

    >>> markdown_text("a|b <i> [x](y)")
    'a\\|b \\<i\\> [x]\\(y)'
    """
    if isinstance(value, Written):
        return value
    line = _SPECIAL.sub(r"\\\g<0>", printable(" ".join(str(value).split())))
    # a site that shows Markdown mails whoever is mentioned; it knows no escape for that
    return _MENTION.sub(f"@{_NO_SPACE}", _LINK.sub(r"]\\", line))


def fenced(text: str, language: str = "") -> Written:
    """Return a code block whose fence is longer than any in the text, so that none ends it."""
    fence = "`" * max(3, _longest(text) + 1)
    return Written(f"{fence}{language}\n{printable(text.rstrip())}\n{fence}")


def code(text: str) -> Written:
    """Return a text as code inside a line, also of a table."""
    line = printable(" ".join(text.split())).replace("|", r"\|")
    fence = "`" * (_longest(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return Written(f"{fence}{space}{line}{space}{fence}")


def _longest(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
