"""The report of two runs: page, ``summary.md``, ``comparison.json``, and files of the page."""

from __future__ import annotations

from pathlib import Path

from alignkit.record.artifacts import write_inside
from alignkit.record.document import read_record
from alignkit.record.study_documents import RunComparison
from alignkit.report.comparison.compare_images import Pictures, images_section
from alignkit.report.comparison.compare_tables import changes_table, differing_table
from alignkit.report.comparison.compare_words import (
    labels,
    largest_words,
    names_of,
    remarks,
    unchanged_words,
)
from alignkit.report.page import (
    Alert,
    Lines,
    Page,
    PagePart,
    PageVerdict,
    Paragraph,
    Section,
    reproduce,
    write_page,
    written_by,
)
from alignkit.report.page_text import page_markdown
from alignkit.report.verdict_view import ICONS, Icon, favicon, shown_icon
from alignkit.report.viewer_data import shown_script
from alignkit.text.names import Names

_MATRIX = (
    "The same images and seeds in both runs; each change is paired by image and seed, with its "
    "95\N{NO-BREAK SPACE}% interval. A ▼ or ▲ is shown after correction for the number of cells "
    "(Holm); anything else shows no change."
)
_DIFFERING = (
    "A pixel has one value, so that any change of it is one. Versions and settings are possible "
    "causes."
)


def render_comparison(made: RunComparison, runs: tuple[Path, Path], folder: Path) -> Path:
    """Write the report of two ``runs``' folders, which gave ``made``; returns the page.

    The page needs no script. Raises `WorkspaceError` if ``folder`` cannot be written, `RecordError`
    for a damaged picture of a run.
    """
    names, records = names_of(made), [read_record(each) for each in runs]
    pictures = Pictures([*zip(runs, records, strict=True)], folder)
    images = images_section(made, names, pictures)
    commands = [each.command for each in records]
    data = shown_script([*zip(commands, pictures.shown, strict=True)], names)
    icons = [shown_icon(each.verdict) for each in records]
    sections = (_matrix(made, names), _differing(made, names), images, reproduce(made.command))
    page = Page(
        f"{_title(made)} · alignkit compare-runs",
        "two runs",
        made.alignkit,
        comparison_headline(made, icons),
        [each for each in sections if each],
        written_by(made.alignkit, "comparison.json"),
        favicon(icons[-1]),
        viewer=bool(data),
    )
    write_inside(folder, "comparison.json", made.model_dump_json(indent=1) + "\n")
    short = page_markdown(page, "matrix", "differing", "reproduce")
    write_inside(folder, "summary.md", short)
    return write_page(page, folder, data)


def comparison_headline(made: RunComparison, icons: list[Icon] | None = None) -> PageVerdict:
    """Return what happened to the verdict, the drift, the models, images and pixels.

    ``icons`` are those of the two verdicts, by default of their states.
    """
    before, after = icons or [ICONS[each.verdict] for each in (made.before, made.after)]
    both = (before, "→", after) if before != after else (after, "in both runs")
    unchanged, parts = unchanged_words(made), list[PagePart]()
    if unchanged:
        parts.append(Paragraph(f"{after.word} in both runs.", "remark"))
    if largest := largest_words(made, names_of(made)):
        parts.append(Paragraph(largest, "sentence"))
    parts += [Paragraph(each, "remark") for each in remarks(made)]
    if noted := labels(made):
        parts.append(Lines(noted, "notes"))
    if made.forced:
        said = "Compared with --force. These differences alone may explain the change"
        parts.append(Alert(said, [Lines(made.forced)]))
    return PageVerdict(
        (unchanged,) if unchanged else both,
        parts,
        _title(made),
        state="inconclusive" if unchanged else after.state,
    )


def _title(made: RunComparison) -> str:
    before, after = made.before, made.after
    of = f"{before.name}: " if before.name == after.name else ""
    return of + " → ".join(
        each.folder if of else f"{each.name} {each.folder}" for each in (before, after)
    )


def _matrix(made: RunComparison, names: Names) -> Section | None:
    table = changes_table(made, names)
    if table is None:
        return None
    lead = Paragraph(_MATRIX, "lead")
    return Section("matrix", "Drift before and after", [lead, table], nav="Matrix")


def _differing(made: RunComparison, names: Names) -> Section:
    table = differing_table(made, names)
    equal = (
        "The two records do not differ: pixels, machine, versions, settings, paths, data and models"
        " are equal."
    )
    parts: list[PagePart] = [Paragraph(_DIFFERING, "lead"), table] if table else [Paragraph(equal)]
    return Section("differing", "What differs", parts)
