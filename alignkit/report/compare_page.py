"""The report of two runs: ``index.html``, ``summary.md``, ``comparison.json`` and ``assets/``."""

from __future__ import annotations

from pathlib import Path

from alignkit.record.study_documents import RunComparison

_ASSETS = ("report.css", "viewer.css", "report.js", "report.js.LICENSES")


def render_comparison(made: RunComparison, folder: Path) -> Path:
    """Write the whole report into ``folder``; returns the page, which needs no script.

    Raises `WorkspaceError` if the folder cannot be written.
    """
    from importlib.resources import files

    from alignkit.report.compare_view import compare_view
    from alignkit.report.templates import html, markdown
    from alignkit.workspace import write_atomically

    view = compare_view(made)
    tables = [each for each in (view.cells, view.models, view.stages, view.differences) if each]
    for name in _ASSETS:
        content = files("alignkit.report").joinpath("assets", name).read_bytes()
        write_atomically(folder / "assets" / name, content)
    write_atomically(folder / "comparison.json", made.model_dump_json(indent=1) + "\n")
    write_atomically(folder / "summary.md", markdown("compare.md.j2", report=view, tables=tables))
    write_atomically(folder / "index.html", html("compare.html.j2", report=view))
    return folder / "index.html"
