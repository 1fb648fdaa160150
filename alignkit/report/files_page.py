"""The files of one `alignkit run`: a table for the terminal, and a page that leads to all pages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from alignkit.errors import ExitCode
from alignkit.record import RunRecord, VerdictState
from alignkit.report.page import Page, PageVerdict, page_html, reproduce
from alignkit.report.table import Shown, Table
from alignkit.report.terminal_view import record_word
from alignkit.stored_file import explained, write_atomically
from alignkit.text.column import Fact
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, percent, shorten
from alignkit.text.outcome import said
from alignkit.version import __version__
from alignkit.workspace import Workspace

_WIDEST = 100
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
    def state(self) -> VerdictState:
        """The state of its verdict; that of an error for a file without a record."""
        return self.record.verdict.state if self.record else "error"

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
            entry = record.at(first.place)
            told = said(first, "brief")
        else:
            moved = [entry for entry in record.matrix if entry.drift]
            entry = max(moved, key=lambda entry: entry.churn, default=None)
            told = f"churn {percent(entry.churn)}" if entry else DASH
        # a value alone does not say of which model, served how
        return f"{told}: {' → '.join(Names(record.paths).cells(entry)[:2])}" if entry else told


_FILE: Fact[FileRun] = Fact("File", lambda each: str(each.file))
_VERDICT: Fact[FileRun] = Fact("Verdict", lambda each: Shown(each.verdict, tone=each.state))
_HEADLINE: Fact[FileRun] = Fact("Headline", lambda each: each.headline)
_SHORT = replace(_HEADLINE, value=lambda each: shorten(each.headline, _WIDEST))
_QUESTION: Fact[FileRun] = Fact(
    "Question", lambda each: each.record.question if each.record else ""
)
_TIME: Fact[FileRun] = Fact(
    "Time", lambda each: DASH if each.seconds is None else f"{each.seconds:,.1f} s", "value"
)
_PAGE: Fact[FileRun] = Fact("Page", lambda each: str(each.page or DASH))


def files_text(runs: Sequence[FileRun]) -> str:
    """Return the table for a terminal, a file a row."""
    return "\n".join(Table.made("", (_FILE, _VERDICT, _SHORT, _TIME, _PAGE), runs).text())


def write_files_page(runs: Sequence[FileRun], workspace: Workspace, command: str) -> Path:
    """Write ``index.html`` below the folder of all runs; return it.

    Raise `WorkspaceError` if it cannot be written.
    """
    root, title = workspace.root, f"{len(runs)} experiments"

    def experiment(each: FileRun) -> Shown | str:
        if each.record is None or each.page is None:
            return str(each.file)
        return Shown(each.record.name, link=os.path.relpath(each.page, root))

    columns = (Fact("Experiment", experiment), _VERDICT, _HEADLINE, _QUESTION, _TIME)
    caption = (
        "The value that decides each verdict; the time is that of this command, without stored work"
    )
    page = Page(
        f"{title} · alignkit run",
        "run of several files",
        __version__,
        PageVerdict((title,), [Table.made(caption, columns, runs)]),
        [reproduce(command)],
        f"Written by alignkit {__version__}; each page has its record beside it.",
    )
    with explained(root):
        workspace.keep_out_of_git()
        write_atomically(root / "index.html", page_html(page, style=True))
    return root / "index.html"
