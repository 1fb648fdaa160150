"""Any text as Markdown that shows it: names, reasons and commands may be a stranger's."""

from __future__ import annotations

import re
from typing import Any

from alignkit.text import printable

_SPECIAL = re.compile(r"[\\`*<>|]")
_LINK = re.compile(r"\](?=[(\[:])")
"""The middle of a link, or of the definition of one."""
_MENTION = re.compile(r"(?<![0-9A-Za-z_])@(?=[0-9A-Za-z])")
_NO_SPACE = "\N{ZERO WIDTH SPACE}"


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
