"""The HTML page and the summary of a run, from its record alone.

``record.json`` → views (plain text and coordinates, computed first) → templates (which see views
only). The page is whole without a script and opens from ``file://`` without a network; the script
beside it adds the list of all images, the viewer and copy buttons.
"""

from __future__ import annotations

from pathlib import Path

ASSETS = ("report.css", "viewer.css", "report.js", "report.js.LICENSES")


def render(folder: Path) -> Path:
    """Write page, summary, ``results.json`` and ``assets/`` into a run's folder; returns the page.

    Raises `RecordError` if ``record.json`` is missing, damaged or newer than this alignkit, and
    `WorkspaceError` if the folder cannot be written.
    """
    from importlib.resources import files

    from alignkit.record import read_record
    from alignkit.report.summary_view import summary_view
    from alignkit.report.templates import html, markdown
    from alignkit.report.view import report_view
    from alignkit.report.viewer_data import viewer_script
    from alignkit.results import results_from_record, results_text
    from alignkit.workspace import write_atomically

    record = read_record(folder)
    data = viewer_script(record, folder)
    page = html("index.html.j2", report=report_view(record), has_viewer=bool(data))
    summary = markdown("summary.md.j2", summary=summary_view(record))
    for name in ASSETS:
        content = files("alignkit.report").joinpath("assets", name).read_bytes()
        write_atomically(folder / "assets" / name, content)
    if data:
        write_atomically(folder / "data" / "run.js", data)
    write_atomically(folder / "results.json", results_text(results_from_record(record)))
    write_atomically(folder / "summary.md", summary)
    write_atomically(folder / "index.html", page)
    return folder / "index.html"
