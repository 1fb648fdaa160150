"""What the page of two runs shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from alignkit.record.study_documents import (
    Change,
    ComparedRun,
    EntryChange,
    PixelChange,
    RunComparison,
    StageChange,
)
from alignkit.report.table import PLACE, Notes, RowCells, Shown, Table, number_columns, text_columns
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, count, grouped, listed, p_value, percent, significant

_WORDS: dict[Change, str] = {
    "new": "▼ new", "worse": "▼ worse", "fixed": "▲ fixed", "better": "▲ better",
    "unchanged": "○ unchanged", "not compared": DASH,
}  # fmt: skip
IMAGE_WORDS = {"new": "▼ flips now", "fixed": "▲ flips no more"}
_TONES: dict[Change, str] = {"new": "bad", "worse": "bad", "not compared": "muted"}
_ORDER: tuple[Change, ...] = ("new", "worse", "fixed", "better", "unchanged", "not compared")
IMAGES = 50
"""Images a cell shows; ``comparison.json`` has all."""
CELLS = 12
"""RowCells whose images are shown."""


@dataclass(frozen=True, slots=True)
class ImagesSection:
    """The images of one cell."""

    title: str
    words: str
    table: Table


@dataclass(frozen=True, slots=True)
class CompareView:
    """The page."""

    alignkit: str
    title: str
    sentence: str
    forced: tuple[str, ...]
    sides: Table
    differences: Table | None
    models: Table | None
    cells: Table | None
    images: tuple[ImagesSection, ...]
    omitted: str
    stages: Table | None
    pixels: Table | None
    pixel_images: tuple[ImagesSection, ...]
    command: str


def compare_view(made: RunComparison) -> CompareView:
    """The page of two runs."""
    moved = sorted(
        (each for each in made.entries if each.images),
        key=lambda each: (_ORDER.index(each.change), -each.appeared - each.gone),
    )
    left = len(moved) - CELLS
    return CompareView(
        alignkit=made.alignkit,
        title=f"{made.before.name} {made.before.folder} → {made.after.name} {made.after.folder}",
        sentence=sentence(made),
        forced=made.forced,
        sides=_sides(made.before, made.after),
        differences=_differences(made),
        models=_entries("Models: wrong predictions of the aligned cells",
                        [each for each in made.entries if each.aligned], "Wrong"),
        cells=_entries("RowCells: flips against the aligned cell of the row",
                       [each for each in made.entries if not each.aligned], "Flips"),
        images=tuple(_images(each) for each in moved[:CELLS]),
        omitted=f"{count(left, 'more cell')} changed; comparison.json lists the images of all."
        if left > 0
        else "",
        stages=_stages(made.stages),
        pixels=_pixels(made.pixels),
        pixel_images=tuple(_pixel_images(each) for each in made.pixels if each.greatest),
        command=made.command,
    )  # fmt: skip


def sentence(made: RunComparison) -> str:
    """New, fixed, worse and unchanged, of cells and of stages, in words."""
    parts = []
    cells = [each.change for each in made.entries if not each.aligned]
    for noun, changes in (("cell", cells), ("stage", [each.change for each in made.stages])):
        if changes:
            parts.append(f"{count(len(changes), noun)}: {_tally(changes)}.")
    appeared, gone = (
        {image.id for each in made.entries if not each.aligned
         for image in each.images if image.change == kind}
        for kind in ("new", "fixed")
    )  # fmt: skip
    if cells:
        parts.append(
            f"{count(len(appeared), 'image')} "
            f"{'flips' if len(appeared) == 1 else 'flip'} somewhere as never before, "
            f"{grouped(len(gone))} no more."
        )
    return " ".join(parts)


def _tally(changes: Iterable[Change]) -> str:
    counts = Counter(changes)
    return listed([f"{grouped(counts[each])} {each}" for each in _ORDER if counts[each]])


def _sides(before: ComparedRun, after: ComparedRun) -> Table:
    rows = (
        ("Experiment", before.name, after.name),
        ("Run", before.folder, after.folder),
        ("Started (UTC)", before.started, after.started),
        ("Plan", before.key[:12], after.key[:12]),
        ("Verdict", before.verdict, after.verdict),
        ("In words", before.sentence, after.sentence),
    )
    return Table.of("The two runs", text_columns("Fact", "Before", "After"), rows)


def _differences(made: RunComparison) -> Table | None:
    rows: list[RowCells] = [(each.what, each.before, each.after) for each in made.differences]
    caption = "Differences between the runs: the possible causes"
    return Table.of(caption, text_columns("Fact", "Before", "After"), rows) if rows else None


def _entries(caption: str, entries: Sequence[EntryChange], what: str) -> Table | None:
    if not entries:
        return None
    notes = Notes()
    ordered = sorted(entries, key=lambda each: _ORDER.index(each.change))
    rows: list[RowCells] = [(*Names(()).cells(each), *_numbers(each, notes)) for each in ordered]
    columns = (
        *PLACE,
        *text_columns("Change"),
        *number_columns("Predictions", f"{what} before", f"{what} after", "Appeared", "Gone", "p"),
    )
    return Table.of(caption, columns, rows, notes=notes)


def _change(change: Change) -> Shown:
    return Shown(_WORDS[change], tone=_TONES.get(change, ""))


def _numbers(each: EntryChange, notes: Notes) -> tuple[Shown, ...]:
    if each.change == "not compared":
        return (notes.missing(each.reason),) * 7
    return (
        _change(each.change),
        Shown(grouped(each.n)),
        Shown(f"{grouped(each.before)} ({percent(each.before / each.n, 2)})"),
        Shown(f"{grouped(each.after)} ({percent(each.after / each.n, 2)})"),
        Shown(grouped(each.appeared)),
        Shown(grouped(each.gone)),
        notes.number(each.p, p_value),
    )


def _images(each: EntryChange) -> ImagesSection:
    shown = each.images[:IMAGES]
    left = len(each.images) - len(shown)
    title = Names(()).title(each)
    words = f"{count(len(each.images), 'image')} changed" + (
        f"; the first {len(shown)} are shown." if left else "."
    )
    columns = (
        *text_columns("Image", "Label", "Change", "Before", "After"), *number_columns("Seeds"),
    )  # fmt: skip
    rows: list[RowCells] = [
        (
            image.id,
            image.label,
            IMAGE_WORDS.get(image.change, image.change),
            image.before,
            image.after,
            str(image.seeds),
        )
        for image in shown
    ]
    return ImagesSection(title, words, Table.of(f"Images of {title}", columns, rows))


def _stages(stages: Sequence[StageChange]) -> Table | None:
    if not stages:
        return None
    notes = Notes()
    rows: list[RowCells] = [
        (
            f"{each.candidate} against {each.reference}",
            each.stage,
            notes.missing(each.reason) if each.change == "not compared" else _change(each.change),
            notes.number(each.before, significant, each.reason),
            notes.number(each.after, significant, each.reason),
        )
        for each in stages
    ]
    columns = (*text_columns("Paths", "Stage", "Change"), *number_columns("Before", "After"))
    caption = "Mean absolute difference of each stage on the same input, grey levels"
    return Table.of(caption, columns, rows, notes=notes)


def _pixels(pixels: Sequence[PixelChange]) -> Table | None:
    rows: list[RowCells] = [
        (
            f"{each.candidate} against {each.reference}",
            *(
                Shown(grouped(number))
                for number in (
                    each.images,
                    each.new,
                    each.worse,
                    each.fixed,
                    each.better,
                    each.unchanged,
                    each.not_compared,
                )
            ),
        )
        for each in pixels
    ]
    columns = (
        *text_columns("Paths"),
        *number_columns("Images", "New", "Worse", "Fixed", "Better", "Unchanged", "Not compared"),
    )
    caption = "Images by how the mean difference of their last pixels changed"
    return Table.of(caption, columns, rows) if rows else None


def _pixel_images(each: PixelChange) -> ImagesSection:
    title = f"{each.candidate} against {each.reference}"
    rows: list[RowCells] = [
        (image.id, _change(image.change), significant(image.before), significant(image.after))
        for image in each.greatest
    ]
    columns = (*text_columns("Image", "Change"), *number_columns("Before", "After"))
    caption = f"Mean difference in grey levels, {title}"
    words = f"The {count(len(rows), 'greatest change', 'greatest changes')}."
    return ImagesSection(title, words, Table.of(caption, columns, rows))
