"""Comparison with a stored file: of a page its structure, without its sentences and markup."""

import os
from pathlib import Path

import html5lib
import pytest

GOLD = Path(__file__).resolve().parents[1] / "gold" / "report"
XHTML = "{http://www.w3.org/1999/xhtml}"


def structure(page):
    """The headings, ids, folds, charts, pictures and cells of a page, a line each."""
    tree = html5lib.HTMLParser(namespaceHTMLElements=True).parse(page)
    lines = []

    def visit(element):
        name = str(element.tag).removeprefix(XHTML)
        words = " ".join("".join(element.itertext()).split())
        anchor = f" #{element.get('id')}" if element.get("id") else ""
        if name in ("head", "script", "style"):
            return
        if name in ("h1", "h2", "h3", "h4", "summary", "caption"):
            lines.append(f"{name}{anchor} {words}")
        elif name == "tr":
            lines.append(f"row{anchor} {' | '.join(map(shown, element))}")
        elif name == "img" or name.endswith("}svg"):
            label = element.get("aria-labelledby") or element.get("aria-label") or ""
            lines.append(f"{name.rpartition('}')[2]} {element.get('alt') or label}".rstrip())
            return
        elif anchor:
            lines.append(f"{name}{anchor}")
        for child in element:
            visit(child)

    def shown(cell):
        return " ".join("".join(cell.itertext()).split())

    visit(tree)
    return "\n".join(lines) + "\n"


def compare_gold(name, text):
    """Fail unless ``text`` is the stored file; ``ALIGNKIT_UPDATE_GOLD=1`` stores it instead."""
    expected = GOLD / name
    if os.environ.get("ALIGNKIT_UPDATE_GOLD") == "1":
        GOLD.mkdir(parents=True, exist_ok=True)
        expected.write_text(text)
        return
    if expected.exists() and expected.read_text() == text:
        return
    actual = expected.with_name(f"{expected.stem}.actual{expected.suffix}")
    actual.write_text(text)
    pytest.fail(
        f"{name} changed: compare {actual} with {expected}; "
        "if the change is meant, run again with ALIGNKIT_UPDATE_GOLD=1"
    )
