"""Hooks of mkdocs: pages that the navigation does not name, and files outside docs/."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = re.compile(r"\]\(\.\./([^)#]+)")
"""A link from a page in docs/ to another file of the repository."""
TEXT = ".txt"
"""A suffix that every browser shows; `.yaml` and `.py` would be saved."""


def on_config(config: Any) -> Any:
    """Add each page that the navigation does not name to its last section."""
    named = str(config.nav)
    pages = sorted(page.name for page in (ROOT / "docs").glob("*.md"))
    (section,) = config.nav[-1].values()
    section += [page for page in pages if f"'{page}'" not in named]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add each file that a page links to, below ``repository/``."""
    linked = {
        path
        for page in files.documentation_pages()
        for path in OUTSIDE.findall(page.content_string)
    }
    for path in sorted(linked):
        file = ROOT / path
        if not file.is_file():
            message = f"docs/ links to {path}, which is no file of the repository"
            raise FileNotFoundError(message)
        files.append(File.generated(config, _inside(path), content=file.read_bytes()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead the links there."""
    return OUTSIDE.sub(lambda found: f"]({_inside(found[1])}", markdown)


def _inside(path: str) -> str:
    # a name that begins with a dot would be left out of the site
    return f"repository/{path.lstrip('.')}{TEXT}"
