"""The HTML page and the summary of a run, from its record alone.

``record.json`` → views (plain text and coordinates, computed first) → templates (which see views
only). The page is whole without a script and opens from ``file://`` without a network.
"""

from __future__ import annotations

from pathlib import Path


def render(folder: Path) -> Path:
    """Write ``index.html``, ``summary.md`` and ``assets/`` into a run's folder; returns the page.

    Raises `RecordError` if ``record.json`` is missing, damaged or newer than this alignkit, and
    `WorkspaceError` if the folder cannot be written.
    """
    from importlib.resources import files

    from alignkit.record import read_record
    from alignkit.report.summary_view import summary_view
    from alignkit.report.templates import html, markdown
    from alignkit.report.view import report_view
    from alignkit.workspace import write_atomically

    record = read_record(folder)
    page = html("index.html.j2", report=report_view(record))
    summary = markdown("summary.md.j2", summary=summary_view(record))
    style = files("alignkit.report").joinpath("assets", "report.css").read_text()
    write_atomically(folder / "assets" / "report.css", style)
    write_atomically(folder / "summary.md", summary)
    write_atomically(folder / "index.html", page)
    return folder / "index.html"
