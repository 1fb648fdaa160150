"""The files of one `alignkit run`: a table for the terminal, and a page that leads to all pages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alignkit.errors import ExitCode
from alignkit.record import RunRecord
from alignkit.report.terminal_view import record_word
from alignkit.report.verdict_view import ICONS, Icon
from alignkit.stored_file import explained, write_atomically
from alignkit.text import columns
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, percent, shorten
from alignkit.text.outcome import said
from alignkit.version import __version__
from alignkit.workspace import Workspace

_COLUMNS = ("file", "verdict", "headline", "time", "page")
_WIDEST = 80
"""Characters of a headline in the terminal."""


@dataclass(frozen=True, slots=True)
class FileRun:
    """How one file ended."""

    file: Path
    code: ExitCode
    seconds: float | None
    """Of this command; ``None`` for a file with mistakes, which was not begun."""
    record: RunRecord | None = None
    page: Path | None = None
    message: str = ""
    """Why there is no record."""

    @property
    def icon(self) -> Icon:
        """The state of its verdict; that of an error for a file without a record."""
        return ICONS[self.record.verdict.state if self.record else "error"]

    @property
    def verdict(self) -> str:
        """The verdict in a word, with what it does not cover."""
        if self.record is None:
            return "DID NOT RUN" if self.seconds is None else "STOPPED"
        return record_word(self.record)

    @property
    def headline(self) -> str:
        """The value that decides beside its limit, or the greatest churn where no rule is."""
        if (record := self.record) is None:
            return next(iter(self.message.splitlines()), "")
        if first := record.verdict.first:
            return said(first, "brief") or f"{first.metric} {said(first, 'value')}"
        moved = [entry for entry in record.matrix if entry.drift]
        most = max(moved, key=lambda entry: entry.churn, default=None)
        if most is None:
            return DASH
        place = " → ".join(Names(record.paths).cells(most)[:2])
        return f"churn {percent(most.churn)}, {place}"

    @property
    def time(self) -> str:
        """How long it took."""
        return DASH if self.seconds is None else f"{self.seconds:,.1f} s"


def files_table(runs: Sequence[FileRun]) -> str:
    """Return the table for a terminal, a file a row."""
    rows = [
        (
            str(each.file),
            each.verdict,
            shorten(each.headline, _WIDEST),
            each.time,
            str(each.page or DASH),
        )
        for each in runs
    ]
    return columns([_COLUMNS, *rows])


def write_files_page(runs: Sequence[FileRun], workspace: Workspace, command: str) -> Path:
    """Write ``index.html`` below the folder of all runs; return it.

    Raise `WorkspaceError` if it cannot be written.
    """
    from alignkit.report.templates import asset, html, trusted

    root = workspace.root
    page = root / "index.html"
    view = {"alignkit": __version__, "command": command, "runs": runs}
    links = [os.path.relpath(each.page, root) if each.page else "" for each in runs]
    style = trusted(asset("report.css").decode())
    with explained(root):
        workspace.keep_out_of_git()
        write_atomically(page, html("files.html.j2", report=view, links=links, style=style))
    return page
