"""The report of two runs: page, ``summary.md``, ``comparison.json``, and files of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alignkit.record.artifacts import write_inside
from alignkit.record.document import read_record
from alignkit.record.study_documents import RunComparison
from alignkit.report.comparison.compare_images import (
    Pictures,
    image_sections,
    pixel_sections,
)
from alignkit.report.comparison.compare_tables import changes_table, differing_table
from alignkit.report.comparison.compare_words import (
    labels,
    largest_words,
    names_of,
    remarks,
    unchanged_words,
    verdict_words,
)
from alignkit.report.templates import PAGE_ASSETS, asset, html, markdown
from alignkit.report.verdict_view import verdict_view
from alignkit.report.viewer_data import shown_script
from alignkit.text.numbers import count


def render_comparison(made: RunComparison, runs: tuple[Path, Path], folder: Path) -> Path:
    """Write the report of two ``runs``' folders, which gave ``made``; returns the page.

    The page needs no script. Raises `WorkspaceError` if ``folder`` cannot be written, `RecordError`
    for a damaged picture of a run.
    """
    page = _page(made, runs, folder)
    tables = [page[name] for name in ("changes", "differing") if page[name]]
    for name in PAGE_ASSETS:
        write_inside(folder, f"assets/{name}", asset(name))
    write_inside(folder, "comparison.json", made.model_dump_json(indent=1) + "\n")
    write_inside(folder, "summary.md", markdown("compare.md.j2", report=page, tables=tables))
    if page["viewer"]:
        write_inside(folder, "data/run.js", page["viewer"])
    made_page = html("compare.html.j2", report=page, has_viewer=bool(page["viewer"]))
    write_inside(folder, "index.html", made_page)
    return folder / "index.html"


def _page(made: RunComparison, runs: tuple[Path, Path], folder: Path) -> dict[str, Any]:
    """Return everything that the templates read."""
    names = names_of(made)
    records = tuple(read_record(each) for each in runs)
    pictures = Pictures([*zip(runs, records, strict=True)], folder)
    sections, left = image_sections(made, names, pictures)
    commands = [each.command for each in records]
    viewer = shown_script([*zip(commands, pictures.shown, strict=True)], names)
    verdicts = [verdict_view(each) for each in records]
    icons = [each.icon for each in verdicts]
    return {
        "alignkit": made.alignkit,
        "title": _title(made),
        "viewer": viewer,
        "icons": icons if icons[0] != icons[1] else icons[1:],
        "favicon": verdicts[1].favicon,
        "unchanged": unchanged_words(made).removesuffix("."),
        "verdict": verdict_words(made),
        "largest": largest_words(made, names),
        "remarks": remarks(made),
        "labels": labels(made),
        "forced": made.forced,
        "changes": changes_table(made, names),
        "differing": differing_table(made, names),
        "images": sections,
        "omitted": f"{count(left, 'more pair')} of paths changed; comparison.json lists the images "
        "of all."
        if left
        else "",
        "pixel_images": pixel_sections(made.pixels, names),
        "command": made.command,
    }


def _title(made: RunComparison) -> str:
    before, after = made.before, made.after
    of = f"{before.name}: " if before.name == after.name else ""
    return of + " → ".join(
        each.folder if of else f"{each.name} {each.folder}" for each in (before, after)
    )
