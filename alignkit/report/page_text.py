"""A page as text: lines of a terminal, and a short Markdown version.

What is folded, drawn or copied belongs to the page; its verdict and its tables are printed here as
they stand there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from alignkit.report.page import (
    Alert,
    Beside,
    Code,
    Details,
    Graphic,
    Heading,
    Lines,
    Link,
    Mono,
    Page,
    PagePart,
    PageVerdict,
    Paragraph,
    Section,
    Strong,
    Term,
    Terms,
    Words,
)
from alignkit.report.plot import Plot
from alignkit.report.table import Table
from alignkit.report.verdict_view import Icon
from alignkit.text import columns, fenced, markdown_text, printable

MOST_ROWS = 100
"""Rows of one table in Markdown: a comment on a pull request holds 65,536 characters."""


def page_text(page: Page, *sections: str) -> str:
    """Return the verdict and the named sections as text without colour, as wide as it needs."""
    lines = headline_lines(page.verdict)
    for section in _chosen(page, sections):
        lines += ["", section.title, *_lines(section.parts)]
    return "\n".join(map(printable, lines))


def headline_lines(verdict: PageVerdict) -> list[str]:
    """Return the verdict in lines, with a note on each surrogate."""
    words = " ".join(map(plain_words, verdict.words))
    lines = [words, *_lines(verdict.parts), plain_words(verdict.meta)]
    lines += [f"{each.name}: {each.note}" for each in verdict.paths if each.note]
    return [printable(each) for each in lines if each]


def page_markdown(page: Page, *sections: str) -> str:
    """Return the verdict and the named sections as Markdown, in which any text stays text."""
    verdict, title = page.verdict, page.title.partition(" · ")[0]
    words = " ".join(map(plain_words, verdict.words))
    blocks = [f"# {markdown_text(title)}"]
    blocks += [] if title.startswith(words) else [f"**{markdown_text(words)}**"]
    blocks += chain.from_iterable(map(_markdown, verdict.parts))
    facts = [verdict.question, plain_words(verdict.meta)]
    facts += [f"{each.name} is a {each.evidence}." for each in verdict.paths if each.note]
    blocks += [markdown_text(each) for each in facts if each]
    for section in _chosen(page, sections):
        blocks += [f"## {markdown_text(section.title)}"]
        # what failed stands in a table of the section
        shown = [each for each in section.parts if not isinstance(each, Alert)]
        blocks += chain.from_iterable(map(_markdown, shown))
    return "\n\n".join([*blocks, markdown_text(plain_words(page.footer))]) + "\n"


def _chosen(page: Page, names: Sequence[str]) -> list[Section]:
    return [each for each in page.sections if each.id in names]


def plain_words(said: Words) -> str:
    """Write a sentence without its links; a surrogate is called so."""
    pieces = said if isinstance(said, list | tuple) else (said,)
    return "".join(map(_piece, pieces))


def _piece(piece: object) -> str:
    if isinstance(piece, Link | Strong | Mono):
        return piece.text
    if isinstance(piece, Icon):
        return piece.word
    return piece if isinstance(piece, str) else getattr(piece, "short", "")


def _lines(parts: Sequence[PagePart]) -> Iterator[str]:
    heading = ""
    for part in parts:
        match part:
            case Heading():
                heading = plain_words(part.words)
                continue
            case Beside() | Details() | Graphic() | Plot():
                continue  # on the page alone
        if heading:  # of what is printed, not of what is drawn
            yield from ("", heading)
            heading = ""
        match part:
            case Paragraph():
                yield plain_words(part.words)
            case Code():
                yield from (f"  {each}" for each in part.text.splitlines())
            case Lines():
                yield from (f"  {plain_words(each)}" for each in part.lines)
            case Alert():
                yield f"{part.label}:"
                yield from _lines(part.parts)
            case Table():
                yield from ("", *_table(part))


def _table(table: Table) -> Iterator[str]:
    rows = [[cell.said for cell in row.cells] for row in table.rows]
    yield table.caption
    yield columns([table.heads, *rows], indent="  ")
    yield from (f"  ({note.mark}) {note.text}" for note in table.notes)


def _markdown(part: PagePart) -> Iterator[str]:
    match part:
        case Paragraph():
            said = markdown_text(plain_words(part.words))
            yield f"**{said}**" if part.style == "sentence" else said
        case Terms():
            yield from chain.from_iterable(map(_term, part.terms))
        case Heading():
            yield f"### {markdown_text(plain_words(part.words))}"
        case Lines():
            yield "\n".join(f"- {markdown_text(plain_words(each))}" for each in part.lines)
        case Code():
            yield fenced(part.text, "sh" if part.command else "")
        case Alert():
            yield markdown_text(part.label)
            yield from chain.from_iterable(map(_markdown, part.parts))
        case Beside():
            yield from chain.from_iterable(map(_markdown, chain.from_iterable(part.columns)))
        case Graphic():
            yield from chain.from_iterable(map(_markdown, part.tables))
        case Table():
            shown, left = part.first(MOST_ROWS, " in index.html")
            yield from filter(None, (markdown_text(part.caption), shown.markdown(), left))


def _term(term: Term) -> Iterator[str]:
    mark = f" ({term.mark})" if term.mark else ""
    yield f"**{markdown_text(term.name)}:** {markdown_text(term.words + mark)}"
    if term.given:
        yield fenced(term.given, "sh" if term.given.startswith("alignkit ") else "yaml")
