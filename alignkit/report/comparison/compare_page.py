"""The report of two runs: page, ``summary.md``, ``comparison.json``, and files of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from alignkit.record.document import read_record, write_inside
from alignkit.record.study_documents import ComparedRun, RunComparison
from alignkit.report.comparison.compare_images import Pictures, images_section
from alignkit.report.comparison.compare_tables import (
    change_words,
    changes_table,
    differing_table,
    largest,
    tally,
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
from alignkit.text.names import Names, quick_words, surrogate_notes
from alignkit.text.numbers import count, grouped
from alignkit.text.task_words import TaskWords

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
    # the first is the largest change, and stands out
    largest_first = enumerate(remarks(made))
    parts += [Paragraph(each, "remark" if n else "sentence") for n, each in largest_first]
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


def names_of(made: RunComparison) -> Names:
    """Return the names of both runs' paths; of two paths with one name, the later counts."""
    return Names((*made.before.paths, *made.after.paths))


def unchanged_words(made: RunComparison) -> str:
    """Say that no number and no verdict changed; empty if one did, or nothing was compared."""
    changes = {each.change for each in made.entries} | {each.change for each in made.stages}
    moved = (each.change.value for entry in made.entries for each in entry.metrics.values())
    same = made.before.verdict == made.after.verdict and not any(moved)
    same &= all(each.unchanged + each.not_compared == each.images for each in made.pixels)
    if not same or changes - {"not compared"} != {"unchanged"}:
        return ""
    return "No change" if len(changes) == 1 else "No change in what both runs measured"


def remarks(made: RunComparison) -> list[str]:
    """Say the largest change of a drift and of the models themselves, then what changed."""
    words, names = TaskWords(made.after.task), names_of(made)
    # a cell served as trained has no drift: its own change is that of the models
    served = [each for each in made.entries if not each.aligned]
    as_trained = [each for each in made.entries if each.aligned and each.metrics]
    drifts, models = largest(served, words.drawn), largest(as_trained, [words.headline])
    found = (
        change_words("Largest change of a drift", drifts, words, names),
        change_words("Of the models themselves, served as trained", models, words, names),
        tally((each.change for each in served), "cell"),
        _images(made),
        tally((each.change for each in made.stages), "pixel stage"),
        _restricted(made),
    )
    return [*filter(None, found)]


def _images(made: RunComparison) -> str:
    images = [image for each in made.entries if not each.aligned for image in each.images]
    new, fixed = ({e.id for e in images if e.change == kind} for kind in ("new", "fixed"))
    if not images:
        return ""
    return (
        f"Images with a flip in a cell where the earlier run had none: {grouped(len(new))}; "
        f"without one where it had: {grouped(len(fixed))}."
    )


def _restricted(made: RunComparison) -> str:
    """Say on which images the runs are compared, if they have not the same."""
    sides = made.before.images, made.after.images
    shared = max((each.n // each.seeds for each in made.entries if each.seeds), default=0)
    if not shared or shared >= max(sides):
        return ""
    a, b = map(grouped, sides)
    return f"Compared on the {count(shared, 'image')} that both runs predicted, of {a} and {b}."


def labels(made: RunComparison) -> list[str]:
    """Return a sentence for each quick run, surrogate and simulation; of one run alone it says."""
    # one that both runs have needs to be read once
    before, after = ([*_labels(each)] for each in (made.before, made.after))
    return [
        f"{each}."
        if each in before and each in after
        else f"{each}, in the {'earlier' if each in before else 'later'} run alone."
        for each in dict.fromkeys([*before, *after])
    ]


def _labels(run: ComparedRun) -> Iterator[str]:
    if run.quick:
        yield quick_words(run.quick).removesuffix(".")
    yield from (f"{name} is a {e}" for name, e in surrogate_notes(run.paths, brief=True).items())
    yield from (f"{name} is {label}" for name, label in run.simulations.items())


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
