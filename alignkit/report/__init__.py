"""Reports: a record as an HTML page of views, tables, charts and a viewer, a summary, results.json.

``record.json`` → a `Page`: a verdict and a list of sections, each declared by one function →
one layout of HTML, Markdown or terminal text. The page is whole without a script and opens from
``file://`` without a network; the script beside it adds the list of all images, the viewer and copy
buttons.
"""

from __future__ import annotations

from pathlib import Path


def render(folder: Path) -> Path:
    """Write page, summary, ``results.json`` and ``assets/`` into a run's folder; returns the page.

    Raises `RecordError` if ``record.json`` is missing, damaged or newer than this alignkit, and
    `WorkspaceError` if the folder cannot be written.
    """
    from alignkit.report.write_report import ReportOptions, write_report

    return write_report(folder, ReportOptions()).page
