"""The report of two runs: ``index.html``, ``summary.md``, ``comparison.json`` and ``assets/``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignkit.record.artifacts import write_inside
from alignkit.record.study_documents import (
    Change,
    EntryChange,
    PixelChange,
    RunComparison,
    StageChange,
)
from alignkit.report.table import PLACE, Notes, RowCells, Shown, Table, numbers
from alignkit.report.templates import PAGE_ASSETS, asset, html, markdown
from alignkit.text.names import Names, quick_words, surrogate_notes
from alignkit.text.numbers import DASH, NBSP, count, grouped, listed, p_value, percent, significant

_CHANGES: dict[Change, Shown] = {
    "new": Shown("▼ new", tone="bad"),
    "worse": Shown("▼ worse", tone="bad"),
    "fixed": Shown("▲ fixed"),
    "better": Shown("▲ better"),
    "unchanged": Shown(f"○{NBSP}unchanged"),
    "not compared": Shown(DASH, tone="muted"),
}
"""In the order of a page: bad news first."""
_ORDER = list(_CHANGES)
_IMAGES = 50
"""Images a cell shows; ``comparison.json`` has all."""
_CELLS = 12
"""Cells whose images are shown."""


@dataclass(frozen=True, slots=True)
class ImagesSection:
    """The images of one cell, or of one pair of paths."""

    title: str
    words: str
    table: Table


def render_comparison(made: RunComparison, folder: Path) -> Path:
    """Write the whole report into ``folder``; returns the page, which needs no script.

    Raises `WorkspaceError` if the folder cannot be written.
    """
    page = _page(made)
    tables = [page[name] for name in ("cells", "models", "stages", "differences") if page[name]]
    for name in PAGE_ASSETS:
        write_inside(folder, f"assets/{name}", asset(name))
    write_inside(folder, "comparison.json", made.model_dump_json(indent=1) + "\n")
    write_inside(folder, "summary.md", markdown("compare.md.j2", report=page, tables=tables))
    write_inside(folder, "index.html", html("compare.html.j2", report=page))
    return folder / "index.html"


def _page(made: RunComparison) -> dict[str, Any]:
    """Return everything that the templates read."""
    moved = sorted(
        (each for each in made.entries if each.images),
        # then by how many flips appeared or went
        key=lambda each: (_ORDER.index(each.change), -each.appeared - each.gone),
    )
    left = len(moved) - _CELLS
    before, after = made.before, made.after
    names = Names((*before.paths, *after.paths))  # of two paths with one name, the later counts
    aligned = [each for each in made.entries if each.aligned]
    others = [each for each in made.entries if not each.aligned]
    return {
        "alignkit": made.alignkit,
        "title": f"{before.name} {before.folder} → {after.name} {after.folder}",
        "sentence": sentence(made),
        "labels": labels(made),
        "forced": made.forced,
        "sides": _sides(made),
        "differences": _differences(made),
        "models": _entries(
            "Models: wrong predictions of the aligned cells", aligned, "Wrong", names
        ),
        "cells": _entries(
            "Cells: flips against the aligned cell of the row", others, "Flips", names
        ),
        "images": [_images(each, names) for each in moved[:_CELLS]],
        "omitted": f"{count(left, 'more cell')} changed; comparison.json lists the images of all."
        if left > 0
        else "",
        "stages": _stages(made.stages, names),
        "pixels": _pixels(made.pixels, names),
        "pixel_images": [_pixel_images(each, names) for each in made.pixels if each.greatest],
        "command": made.command,
    }


def sentence(made: RunComparison) -> str:
    """Count new, fixed, worse and unchanged, of cells and of stages, in words."""
    parts = []
    cells = [each for each in made.entries if not each.aligned]
    for noun, changes in (("cell", cells), ("stage", made.stages)):
        if changes:
            tally = _tally(each.change for each in changes)
            parts.append(f"{count(len(changes), noun)}: {tally}.")
    if cells:
        images = [image for each in cells for image in each.images]
        appeared, gone = (
            {image.id for image in images if image.change == kind} for kind in ("new", "fixed")
        )
        parts.append(
            f"{count(len(appeared), 'image')} "
            f"{'flips' if len(appeared) == 1 else 'flip'} somewhere as never before, "
            f"{grouped(len(gone))} no more."
        )
    return " ".join(parts)


def labels(made: RunComparison) -> tuple[str, ...]:
    """Return a sentence for each quick run, surrogate and simulation of one run or of both."""
    sides = made.before, made.after
    surrogates = [
        {name: f"is a {note}" for name, note in surrogate_notes(side.paths, brief=True).items()}
        for side in sides
    ]
    simulated = [
        {name: f"is {label}" for name, label in side.simulations.items()} for side in sides
    ]
    quick = [
        f"The {name} run: {quick_words(side.quick)}"
        for name, side in zip(("earlier", "later"), sides, strict=True)
        if side.quick
    ]
    return (*quick, *_of_one_or_both(*surrogates), *_of_one_or_both(*simulated))


def _of_one_or_both(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Say of each name in which run it has its label."""
    for name in dict.fromkeys([*before, *after]):
        was, now = before.get(name, ""), after.get(name, "")
        if was and now and was != now:
            yield f"{name} {was}, in the earlier run, and {now}, in the later one."
        elif was and now:
            yield f"{name} {now}."
        else:
            yield f"{name} {was or now}, in the {'earlier' if was else 'later'} run alone."


def _tally(changes: Iterable[Change]) -> str:
    counts = Counter(changes)
    return listed([f"{grouped(counts[each])} {each}" for each in _ORDER if counts[each]])


def _sides(made: RunComparison) -> Table:
    before, after = made.before, made.after
    rows = (
        ("Experiment", before.name, after.name),
        ("Run", before.folder, after.folder),
        ("Started (UTC)", before.started, after.started),
        ("Plan", before.key[:12], after.key[:12]),  # enough to see whether they are equal
        ("Verdict", before.verdict, after.verdict),
        ("In words", before.sentence, after.sentence),
    )
    return Table.of("The two runs", ("Fact", "Before", "After"), rows)


def _differences(made: RunComparison) -> Table | None:
    rows = [(each.what, each.before, each.after) for each in made.differences]
    caption = "Differences between the runs: the possible causes"
    return Table.of(caption, ("Fact", "Before", "After"), rows) if rows else None


def _entries(caption: str, entries: Sequence[EntryChange], what: str, names: Names) -> Table | None:
    if not entries:
        return None
    notes = Notes()
    ordered = sorted(entries, key=lambda each: _ORDER.index(each.change))
    rows: list[RowCells] = [(*names.cells(each), *_numbers(each, notes)) for each in ordered]
    sides = numbers("Predictions", f"{what} before", f"{what} after", "Appeared", "Gone", "p")
    return Table.of(caption, (*PLACE, "Change", *sides), rows, notes=notes)


def _numbers(each: EntryChange, notes: Notes) -> RowCells:
    if each.change == "not compared":
        missing = notes.missing(each.reason)
        return (notes.missing(each.reason, f"not{NBSP}compared"), *(missing,) * 6)
    return (
        _CHANGES[each.change],
        grouped(each.n),
        f"{grouped(each.before)} ({percent(each.before / each.n, 2)})",
        f"{grouped(each.after)} ({percent(each.after / each.n, 2)})",
        grouped(each.appeared),
        grouped(each.gone),
        notes.number(each.p, p_value),
    )


def _images(each: EntryChange, names: Names) -> ImagesSection:
    title = names.title(each)
    words = f"{count(len(each.images), 'image')} changed"
    words += f"; the first {_IMAGES} are shown." if len(each.images) > _IMAGES else "."
    change = {"new": "▼ flips now", "fixed": "▲ flips no more", "other class": "other class"}
    rows = [
        (image.id, image.label, change[image.change], image.before, image.after, str(image.seeds))
        for image in each.images[:_IMAGES]
    ]
    columns = ("Image", "Label", "Change", "Before", "After", *numbers("Seeds"))
    return ImagesSection(title, words, Table.of(f"Images of {title}", columns, rows))


def _pair(each: StageChange | PixelChange, names: Names) -> str:
    return f"{names.short(each.candidate)} against {names.short(each.reference)}"


def _stages(stages: Sequence[StageChange], names: Names) -> Table | None:
    if not stages:
        return None
    notes = Notes()
    rows: list[RowCells] = [
        (
            _pair(each, names),
            each.stage,
            notes.missing(each.reason) if each.change == "not compared" else _CHANGES[each.change],
            notes.number(each.before, significant, each.reason),
            notes.number(each.after, significant, each.reason),
        )
        for each in stages
    ]
    columns = ("Paths", "Stage", "Change", *numbers("Before", "After"))
    caption = "Mean absolute difference of each stage on the same input, grey levels"
    return Table.of(caption, columns, rows, notes=notes)


def _pixels(pixels: Sequence[PixelChange], names: Names) -> Table | None:
    if not pixels:
        return None
    kinds = ("images", "new", "worse", "fixed", "better", "unchanged", "not_compared")
    rows = [
        (
            _pair(each, names),
            *(grouped(getattr(each, kind)) for kind in kinds),
        )
        for each in pixels
    ]
    columns = ("Paths", *numbers(*(kind.capitalize().replace("_", " ") for kind in kinds)))
    caption = "Images by how the mean difference of their last pixels changed"
    return Table.of(caption, columns, rows)


def _pixel_images(each: PixelChange, names: Names) -> ImagesSection:
    title = _pair(each, names)
    rows: list[RowCells] = [
        (image.id, _CHANGES[image.change], significant(image.before), significant(image.after))
        for image in each.greatest
    ]
    columns = ("Image", "Change", *numbers("Before", "After"))
    caption = f"Mean difference in grey levels, {title}"
    words = f"The {count(len(rows), 'greatest change', 'greatest changes')}."
    return ImagesSection(title, words, Table.of(caption, columns, rows))
