"""A page as data: its verdict, and a list of sections whose parts one layout draws.

Every page is a `Page`: of a run, a diff, two runs, a bench, a tolerance, several files. A section
exists in one place, the function that makes it; navigation and body follow from the list. A
terminal and a short Markdown version print the same parts (`alignkit.report.page_text`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from alignkit.record.document import write_inside
from alignkit.report.plot import Plot
from alignkit.report.table import Table
from alignkit.report.verdict_view import Icon
from alignkit.text.names import PathName


@dataclass(frozen=True, slots=True)
class Link:
    """Text that leads somewhere."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Strong:
    """Text that stands out."""

    text: str


@dataclass(frozen=True, slots=True)
class Mono:
    """A name of a program or a file, inside a sentence."""

    text: str


Piece: TypeAlias = str | PathName | Link | Strong | Mono | Icon
Words: TypeAlias = Piece | Sequence[Piece]
"""A sentence; names of paths in it are shown as names, surrogates among them with their badge."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph."""

    words: Words
    style: str = ""
    """A class of the style sheet."""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """A title inside a section."""

    words: Words
    level: int = 3
    id: str = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """A list of sentences."""

    lines: Sequence[Words]
    style: str = "sentences"


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to copy, or to read as they are."""

    text: str
    command: bool = True
    """Whether the script gives it a button that copies it."""


@dataclass(frozen=True, slots=True)
class Term:
    """A name, what is said of it, a mark, and lines to copy."""

    name: str
    words: str
    mark: str = ""
    given: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """The lines of a verdict: cause, next steps, advice."""

    terms: Sequence[Term]


@dataclass(frozen=True, slots=True)
class Graphic:
    """A matrix or pictures: a macro of the templates and the view that it draws."""

    macro: str
    view: Any
    tables: Sequence[Table] = ()
    """What a text shows instead."""


@dataclass(frozen=True, slots=True)
class Details:
    """Parts that are shown when asked for."""

    summary: Words
    parts: Sequence[PagePart]
    open: bool = False
    id: str = ""


@dataclass(frozen=True, slots=True)
class Beside:
    """Parts in columns."""

    columns: Sequence[Sequence[PagePart]]
    style: str = "beside"


@dataclass(frozen=True, slots=True)
class Alert:
    """Parts that must not be missed."""

    label: str
    parts: Sequence[PagePart]


PagePart: TypeAlias = (
    Paragraph | Heading | Lines | Code | Terms | Table | Plot | Graphic | Details | Beside | Alert
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page that navigation names."""

    id: str
    title: str
    parts: Sequence[PagePart]
    nav: str = ""
    """Its name in the navigation where that is another one."""


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One number of the verdict, with what it is of."""

    name: str
    value: str
    detail: str
    link: str = ""
    """Id on the page where it comes from."""


@dataclass(frozen=True, slots=True)
class PageVerdict:
    """The verdict of a page: what was found, in which state, and the facts of how."""

    words: Sequence[str | Icon]
    parts: Sequence[PagePart] = ()
    meta: Words = ""
    """When, how long, of what."""
    paths: Sequence[PathName] = ()
    """Those whose surrogates have a footnote here, to which every badge leads."""
    state: str = ""
    question: str = ""
    figures: Sequence[KeyFigure] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page."""

    title: str
    kind: str
    """Beside the name of alignkit, at the top."""
    alignkit: str
    """The version that wrote the record."""
    verdict: PageVerdict
    sections: Sequence[Section]
    footer: Words
    icon: str = "data:,"
    viewer: bool = False
    """Whether ``data/run.js`` lies beside it."""


def page_html(page: Page, *, style: bool = False, script: bool = False) -> str:
    """Render a page, which loads its style and script unless they are to stand in it."""
    # late, as below: a terminal that prints a page needs no templates
    from alignkit.report.templates import asset, html, trusted

    sheets = ("report.css", "viewer.css") if script else ("report.css",)
    inline = {
        "style": trusted("".join(asset(name).decode() for name in sheets)) if style else "",
        "script": trusted(asset("report.js").decode()) if script else "",
    }
    return html("page.html.j2", page=page, inline=inline)


def write_page(page: Page, folder: Path, data: str = "") -> Path:
    """Write ``index.html`` with what it loads, ``data`` for the viewer among it; return the page.

    Raise `WorkspaceError` if the folder cannot be written.
    """
    from alignkit.report.templates import PAGE_ASSETS, asset

    for name in PAGE_ASSETS:
        write_inside(folder, f"assets/{name}", asset(name))
    if data:
        write_inside(folder, "data/run.js", data)
    write_inside(folder, "index.html", page_html(page))
    return folder / "index.html"


def sentence(words: str) -> str:
    """Write a clause as a sentence, with a capital and a full stop."""
    return f"{words[:1].upper()}{words[1:]}."


def against(candidate: PathName, reference: PathName, *more: Piece, level: int = 3) -> Heading:
    """Return the title of what is said of two paths."""
    return Heading((candidate, " against ", reference, *more), level)


def day(started: str) -> str:
    """Write when something began, to the second and without the zone: the page says UTC."""
    return started.replace("T", " ").split("+")[0].split(".")[0].rstrip("Z")


def written_by(version: str, document: str, *more: Piece) -> Words:
    """Return the foot of a page that is made from one document beside it."""
    return f"Written by alignkit {version} from ", Link(document, document), *more, "."


def machine(tables: Sequence[Table]) -> Details:
    """Fold the tables of a machine and of what is installed on it."""
    return Details("Environment: machine, codec builds, installed versions", tables)


def reproduce(command: str) -> Section:
    """Return the section of a page that ends with its command."""
    return Section("reproduce", "Reproduce", [Code(command)])
