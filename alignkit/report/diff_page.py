"""The page of `alignkit diff`, from its record alone; whole without a script or a network."""

from __future__ import annotations

from pathlib import Path


def render_diff(folder: Path) -> Path:
    """Write ``index.html`` and ``assets/`` beside a folder's ``record.json``; returns the page.

    Raises `RecordError` if the record is missing, damaged or newer than this alignkit.
    """
    from importlib.resources import files

    from alignkit.record.pixel_diff import read_diff_record
    from alignkit.report.diff_view import diff_view
    from alignkit.report.templates import html
    from alignkit.workspace import write_atomically

    record = read_diff_record(folder / "record.json")
    page = html("diff.html.j2", report=diff_view(record))
    style = files("alignkit.report").joinpath("assets", "report.css").read_bytes()
    write_atomically(folder / "assets" / "report.css", style)
    write_atomically(folder / "index.html", page)
    return folder / "index.html"
