"""The data of the page's list and viewer: ``data/run.js``, a classic script.

Read from the record and the files it names. Numbers are those of the files, packed; everything the
list derives from them (flips, order, filters) is derived in the browser.

Answers that are no classes are listed in their words. Two in the same words may differ, as one box
for another, and two in other words may not, as masks below the task's limit: so the task says which
changed, and the page does not compare words.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alignkit.compare.answers import Answers, aligned
from alignkit.compare.class_answers import ClassAnswers
from alignkit.compare.image_table import read_image_table
from alignkit.compare.predictions import read_class_answers
from alignkit.place import Place
from alignkit.record import RunRecord, ShownImage, ShownStage
from alignkit.record.diff_document import DiffRecord
from alignkit.record.document import artifact_file
from alignkit.record.picture_facts import pack, script
from alignkit.report.drawn_view import drawn_data
from alignkit.report.image_order import Both, ImageOrder
from alignkit.report.shown_view import leading_entry
from alignkit.task_facts import TaskFacts
from alignkit.tasks import stored_answers
from alignkit.text import printable
from alignkit.text.names import Names
from alignkit.text.part_commands import cell_command, image_command, pair_name
from alignkit.text.task_words import capital

CHANGE_KINDS = ("", "worse", "better", "neither", "changed")
"""What a change is, by its number in `turned`; the last where the truth is not known."""


def said_answers(order: ImageOrder, read: Mapping[str, Answers], task: TaskFacts) -> dict[str, Any]:
    """Return the words of each image's truth and of each cell's answers, as numbers in one list."""
    words: dict[str, int] = {}
    truth: dict[str, str] = {}
    said = {}
    for key, each in read.items():
        listed_at = [(place, name) for place, name in enumerate(each.ids) if name in order.places]
        truth |= {name: each.truth_said(place) for place, name in listed_at if name not in truth}
        names = tuple(name for _, name in listed_at)
        said[key] = names, _coded(words, [each.said(place) for place, _ in listed_at])
    true = _coded(words, list(truth.values())) if any(truth.values()) else None
    # "no prediction" is a number of classes alone, and the last that a type has means no image
    dtype = np.min_scalar_type(len(words) + 1)
    missing = int(np.iinfo(dtype).max)

    def packed(ids: Sequence[str], numbers: npt.NDArray[Any]) -> dict[str, str]:
        return pack(order.spread(tuple(ids), numbers.astype(dtype), missing))

    listed = "\n".join(printable(each).replace("\n", " ") for each in words)
    return {
        "labels": None if true is None else packed(tuple(truth), true),
        "predictions": {key: packed(*each) for key, each in said.items()},
        "words": pack(np.frombuffer(listed.encode(), np.uint8)),
        "kinds": CHANGE_KINDS,
        # a column without a head is left out
        "heads": {
            "label": "" if true is None else "Truth",
            "before": capital(task.answer),
            "seeds": "Change",
            "margin": "",
        },
    }


def _coded(words: dict[str, int], said: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.array([words.setdefault(each, len(words)) for each in said], np.int64)


def packed_turns(order: ImageOrder, seeds: Sequence[Both]) -> list[dict[str, str]]:
    """Return each seed's `turned` of all images, 0 for those that were not compared."""
    found = []
    for both in seeds:
        turns = np.zeros(len(order.ids), np.uint8)
        if not set(both[0].ids).isdisjoint(both[1].ids):
            before, after = aligned(*both)
            turns = order.spread(before.ids, turned(before, after), 0)
        found.append(pack(turns))
    return found


def turned(before: Answers, after: Answers) -> npt.NDArray[np.uint8]:
    """Tell, (n,), how each image's answer changed: a place in `CHANGE_KINDS`."""
    gain = after.quality() - before.quality()
    kinds = np.select([gain < 0, gain > 0, gain == 0], [1, 2, 3], 4)
    return np.where(before.changed(after), kinds, 0).astype(np.uint8)


def viewer_script(record: RunRecord | DiffRecord, folder: Path) -> str:
    """``self.alignkitRun = {…}``; empty where the record names nothing a viewer could show.

    Raises `RecordError` if a file that the record names is missing or damaged.
    """
    if isinstance(record, DiffRecord):  # of pixels alone
        return shown_script([(record.command, record.shown)], Names(record.paths))
    if not (has_list(record) or any(image.pixels for image in record.shown)):
        return ""
    return script("self.alignkitRun", _visible(_content(record, folder)))


def has_list(record: RunRecord) -> bool:
    """Tell whether there is a comparison of predictions, whose images the page can list."""
    return any(cell.predictions and not cell.aligned for cell in record.cells)


def _visible(content: Any) -> Any:
    """Write out what would turn the direction of text, as the templates do."""
    if isinstance(content, dict):
        return {name: _visible(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_visible(value) for value in content]
    return printable(content) if isinstance(content, str) else content


def shown_script(made: Sequence[tuple[str, Sequence[ShownImage]]], names: Names) -> str:
    """Return the script of a page that shows images without a list of all; empty without any.

    ``made``: the commands of runs or diffs with the images that each kept; of a pair of paths that
    several kept, the last command counts.
    """
    commands = {
        (each.reference, each.candidate): command for command, images in made for each in images
    }
    shown = [each for _, images in made for each in images]
    if not any(image.pixels for image in shown):
        return ""
    stored = _stored(shown, names)
    content = {
        **{name: [] for name in ("ids", "classes", "comparisons")},
        **{name: {} for name in ("pixels", "predictions", "margins", "certainty", "seedOf")},
        "labels": None,
        "stored": stored,
        "commands": {pair_name(*pair): image_command(commands[pair], *pair) for pair in commands},
    }
    return script("self.alignkitRun", _visible(content))


def _content(record: RunRecord, folder: Path) -> dict[str, Any]:
    tables = {
        pair_name(each.reference, each.candidate): read_image_table(
            artifact_file(folder, each.table)
        )
        for each in record.images
    }
    files = {
        cell.key: artifact_file(folder, cell.predictions)
        for cell in record.cells
        if cell.predictions
    }
    names = Names(record.paths)
    stored = _stored(record.shown, names)
    cells = _compared(record, files)
    read: Mapping[str, Answers]
    if record.task.class_scores:
        read = classes = {key: read_class_answers(file) for key, file in files.items()}
        order = ImageOrder.of(tables, read, record, [_pairs(read, each) for each in cells.values()])
        own = _classes(order, classes, record)
    else:
        read = {key: stored_answers(record, file) for key, file in files.items()}
        order = ImageOrder.of(tables, read, record, [_pairs(read, each) for each in cells.values()])
        own = said_answers(order, read, record.task) | drawn_data(
            record.shown, stored, names, folder
        )
    return {
        "ids": [*order.ids],
        **({"choice": order.choice} if order.choice else {}),
        "classes": [],
        "labels": None,
        "pixels": {name: order.measures(table) for name, table in tables.items()},
        **{name: {} for name in ("predictions", "margins", "certainty")},
        "comparisons": _comparisons(record, names, read, order, cells),
        # the list begins with its comparison
        "leading": leading_entry(record.matrix, record.headline),
        "seedOf": {each.key: str(each.seed) for each in record.cells if each.key in files},
        "stored": stored,
        "commands": _image_commands(record),  # the script appends the image's name
    } | own


def _classes(
    order: ImageOrder, read: Mapping[str, ClassAnswers], record: RunRecord
) -> dict[str, Any]:
    labels = order.labels(read)
    aligned = [cell.key for cell in record.cells if cell.aligned and cell.key in read]
    return {
        "classes": [*order.classes],
        "labels": None if labels is None else pack(labels),
        "predictions": {key: pack(order.predicted(each)) for key, each in read.items()},
        "margins": {key: pack(order.margins(read[key])) for key in aligned},
        "certainty": certainty(record, read),
    }


def _compared(record: RunRecord, read: Container[str]) -> dict[Place, list[list[str]]]:
    """Return place → keys of the aligned cell and of its own, seed by seed, where both are read."""
    aligned = {(cell.row, cell.seed): cell for cell in record.cells if cell.aligned}
    cells: dict[Place, list[list[str]]] = {}
    for cell in record.cells:
        reference = aligned.get((cell.row, cell.seed))
        if not cell.aligned and cell.key in read and reference and reference.key in read:
            cells.setdefault(cell.place, []).append([reference.key, cell.key])
    return cells


def _comparisons(
    record: RunRecord,
    names: Names,
    read: Mapping[str, Answers],
    order: ImageOrder,
    cells: Mapping[Place, list[list[str]]],
) -> list[dict[str, Any]]:
    measured = set(_image_commands(record))
    seeds = {place: _pairs(read, keys) for place, keys in cells.items()}
    return [
        {
            "entry": index,
            "trained": names.short(entry.trained_with),
            "title": names.title(entry),
            "backend": entry.backend,
            "precision": entry.precision,
            "pair": _pair(entry.row.preprocesses[0], entry.evaluated_with, measured),
            "same": entry.row.preprocesses[0] == entry.evaluated_with,
            # a mix has several
            "paths": list(dict.fromkeys([*entry.row.preprocesses, entry.evaluated_with])),
            "command": cell_command(record.command, entry),
            "seeds": cells[entry.place],
            "shift": pack(order.shifts(seeds[entry.place])),
            **(
                {}
                if record.task.class_scores
                else {"turned": packed_turns(order, seeds[entry.place])}
            ),
        }
        for index, entry in enumerate(record.matrix)
        if entry.place in cells
    ]


def _pairs(read: Mapping[str, Answers], keys: Sequence[Sequence[str]]) -> list[Both]:
    return [(read[was], read[now]) for was, now in keys]


def _pair(trained: str, evaluated: str, measured: set[str]) -> str:
    """Name the pair whose pixels were compared, whichever came first; empty if none was."""
    both = (pair_name(trained, evaluated), pair_name(evaluated, trained))
    return next((name for name in both if name in measured), "")


def certainty(record: RunRecord, read: Mapping[str, ClassAnswers]) -> dict[str, Any]:
    """Return each cell's probability and margin of its answers to the shown images, as shown.

    In the order in which the images first occur among the stored ones; see ``rows.js``.
    """
    ids = dict.fromkeys(image.id for image in record.shown if image.pixels)
    found = {}
    for key, each in read.items():
        places = {name: place for place, name in enumerate(each.ids)}
        known = [place for place, name in enumerate(ids) if name in places]
        at = [places[name] for name in ids if name in places]
        shown = each.rows(np.array(at, np.int64))
        chances, margins = np.full((2, len(ids)), np.nan, np.float32)
        chances[known], margins[known] = shown.top_chances()[:, 0], shown.margins()
        found[key] = {"chance": _in_parts(chances, 1000), "margin": _in_parts(margins, 100)}
    return found


def _in_parts(values: npt.NDArray[np.float32], parts: int) -> dict[str, str]:
    """Pack values as whole numbers of 1/``parts``, 65535 for NaN: the page shows no more digits.

    They take half of the bytes of ``float32``, which is kept where a number is too large for them.
    """
    known = np.isfinite(values)
    if (values[known] * parts >= 65_534.5).any():
        return pack(values)
    return pack(np.where(known, np.rint(values * parts), 65_535).astype(np.uint16))


def _stored(shown: Sequence[ShownImage], names: Names) -> list[dict[str, Any]]:
    return [
        {
            "pair": pair_name(image.reference, image.candidate),
            "reference": names.short(image.reference),
            "candidate": names.short(image.candidate),
            "id": image.id,
            "script": image.pixels.path,
            "pictures": [each.path for each in image.pictures],
            "a": image.sizes[0],
            "b": image.sizes[1],
            "stages": [_stage(each) for each in image.stages],
            "max": image.max_abs,
            "mean": image.mean_abs,
        }
        # an image that is shown for two reasons has one entry here
        for image in {(e.reference, e.candidate, e.id): e for e in shown}.values()
        if image.pixels
    ]


def _stage(stage: ShownStage) -> dict[str, Any]:
    content = stage.model_dump(mode="json", exclude={"pixels", "maps"}, exclude_defaults=True)
    return content | ({"script": stage.pixels.path} if stage.pixels else {})


def _image_commands(record: RunRecord) -> dict[str, str]:
    """Return pair of paths → the command for one image, up to the image's name."""
    pairs = [(each.reference, each.candidate) for each in record.images]
    pairs += [(each.reference, each.candidate) for each in record.shown_pairs]
    pairs += [(each.reference, each.candidate) for each in record.shown]
    return {pair_name(*pair): image_command(record.command, *pair) for pair in pairs}
