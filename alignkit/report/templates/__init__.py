"""Templates → HTML of a page. All that a view holds is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from alignkit.text import printable
from alignkit.text.numbers import shorten_middle, written

PAGE_ASSETS = ("report.css", "viewer.css", "report.js", "report.js.LICENSES")
"""Files that a page with a script loads."""


def html(template: str, **views: Any) -> str:
    """Render an HTML template; every value is escaped, and shows characters that are not seen."""
    return _environment().get_template(template).render(**views)


def asset(name: str) -> bytes:
    """Return a file that pages load: a style sheet, the script, its licences."""
    return files("alignkit.report").joinpath("assets", name).read_bytes()


def trusted(text: str) -> Markup:
    """Mark alignkit's own style or script, which goes into a page as it is.

    Raises `ValueError` for a text that would end the element it stands in.
    """
    if re.search(r"</(script|style)|<!--", text, re.IGNORECASE):
        raise ValueError("an asset holds the end of a script, a style or the start of a comment")
    return Markup(text)  # noqa: S704 - no word of a record is in it


def _kind(part: object) -> str:
    """Name the class of a part, by which the layout draws it."""
    return type(part).__name__


def _pieces(words: Any) -> Sequence[Any]:
    """Return the pieces of a sentence, of which a text or a name alone is one."""
    return words if isinstance(words, list | tuple) else (words,)


def _visible(value: Any) -> Any:
    """Write out what would turn the direction of a page's text; `Markup` is alignkit's own."""
    return printable(value) if type(value) is str else value


# made once: a page renders dozens of parts
@cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        finalize=_visible,
        loader=PackageLoader("alignkit.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"middle": shorten_middle, "written": written}
    environment.filters |= {"kind": _kind, "pieces": _pieces}
    return environment
