"""Images whose flips or pixels changed between two runs, with the pictures that a run kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from alignkit.errors import RecordError
from alignkit.record import RunRecord, ShownImage
from alignkit.record.document import shown_bytes, write_inside
from alignkit.record.study_documents import (
    EntryChange,
    ImageChange,
    PixelChange,
    RunComparison,
)
from alignkit.report.comparison.compare_tables import CHANGES, ORDER, leading, pair_words
from alignkit.report.page import Details, Graphic, PagePart, Paragraph, Section
from alignkit.report.shown_view import Card, RowOutcome, image_card
from alignkit.report.table import RowCells, Table, numbers
from alignkit.text.names import Names
from alignkit.text.numbers import count, significant

_IMAGES = 20
"""Images a cell shows; ``comparison.json`` has all."""
_CELLS = 6
"""Cells whose images are shown."""
_PICTURES = 12
"""Images of a cell that are shown with their pictures."""
_LEAD = (
    "A flip is a prediction that differs from the baseline’s, served as trained. Predictions are "
    "written “baseline → this cell”, for the first affected seed. Pictures are those that the "
    "later run kept, or else the earlier, as their line says."
)
_WORDS = {"new": "flips now", "fixed": "flips no more", "other class": "other class"}


class Pictures:
    """The pictures and pixels that either run kept, copied beside the page where it shows them."""

    def __init__(self, runs: Sequence[tuple[Path, RunRecord]], folder: Path) -> None:
        self._folder = folder
        self._runs = [path for path, _ in runs]
        self.shown: list[list[ShownImage]] = [[] for _ in runs]
        """Of each run, its images that were copied."""
        self._kept = {
            (each.id, frozenset((each.reference, each.candidate))): (index, each)
            # the later run's pictures replace the earlier's
            for index, (_, record) in enumerate(runs)
            for each in record.shown
        }
        self._copied: dict[str, str] = {}

    def card(self, entry: EntryChange, image: ImageChange, names: Names) -> Card | None:
        """Copy an image's files and say what changed; ``None`` if no run kept its two paths."""
        paths = frozenset((*entry.place.row.preprocesses, entry.evaluated_with))
        found = self._kept.get((image.id, paths))
        if found is None:
            return None
        index, shown = found
        run = self._runs[index]
        for each in shown.artifacts:
            # a file is named by its content, and the viewer knows its pixels by that name
            if self._copied.setdefault(each.path, each.sha256) != each.sha256:
                raise RecordError(f"{run / each.path} is not the other run's file of this name")
            write_inside(self._folder, each.path, shown_bytes(run, each))
        if shown not in self.shown[index]:
            self.shown[index].append(shown)
        card = image_card(shown, "", names)
        said = f"earlier {image.before}, later {image.after}"
        facts = [*card.facts, *["pixels of the earlier run"] * (not index)]
        outcome = RowOutcome("", _WORDS[image.change], "", said)
        return replace(card, outcomes=[outcome], facts=facts)


def images_section(made: RunComparison, names: Names, pictures: Pictures) -> Section | None:
    """Return the images whose flips or pixels changed, a pair of paths a fold; ``None`` if none."""
    moved = sorted(
        leading([each for each in made.entries if each.images], ("churn",)),
        # then by how many flips appeared or went
        key=lambda each: (ORDER.index(each.change), -each.appeared - each.gone),
    )
    flips = [_images(each, names, pictures) for each in moved[:_CELLS]]
    parts: list[PagePart] = []
    if flips:
        first = replace(flips[0], open=True)
        drawn = any(isinstance(part, Graphic) for each in flips for part in each.parts)
        parts = [Paragraph(_LEAD, "lead"), *[Graphic("switch", "")] * drawn, first, *flips[1:]]
    if (left := len(moved) - _CELLS) > 0:
        more = count(left, "more pair")
        parts.append(
            Paragraph(f"{more} of paths changed; comparison.json lists the images of all.", "notes")
        )
    parts += [_pixel_images(each, names) for each in made.pixels if each.greatest]
    return Section("images", "Images that changed", parts, nav="Images") if parts else None


def _images(each: EntryChange, names: Names, pictures: Pictures) -> Details:
    title = names.title(each)
    tally = Counter[str](image.change for image in each.images)
    words = ", ".join(f"{word}: {tally[kind]}" for kind, word in _WORDS.items() if tally[kind])
    words += f"; the first {_IMAGES} are listed" if len(each.images) > _IMAGES else ""
    rows = [
        (image.id, image.label, _WORDS[image.change], image.before, image.after, str(image.seeds))
        for image in each.images[:_IMAGES]
    ]
    columns = ("Image", "Label", "Change", "Earlier run", "Later run", *numbers("Seeds"))
    table = Table.of(f"Images of {title}", columns, rows)
    # only as many as are shown are copied
    found = (pictures.card(each, image, names) for image in each.images)
    cards = [*islice((card for card in found if card), _PICTURES)]
    drawn = [Graphic("cards", cards)] if cards else []
    return Details(f"{title}: {words}", [*drawn, table])


def _pixel_images(each: PixelChange, names: Names) -> Details:
    title = pair_words(each, names)
    rows: list[RowCells] = [
        (image.id, CHANGES[image.change], significant(image.before), significant(image.after))
        for image in each.greatest
    ]
    columns = ("Image", "Change", *numbers("Before", "After"))
    caption = f"Mean |Δ| in grey levels, {title}"
    words = f"The {count(len(rows), 'greatest change', 'greatest changes')}."
    return Details(f"Pixels, {title}: {words}", [Table.of(caption, columns, rows)])
