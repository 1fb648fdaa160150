"""The data of the page's list and viewer: ``data/run.js``, a classic script.

Read from the record and the files it names. Numbers are those of the files, packed; everything the
list derives from them (flips, order, filters) is derived in the browser.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import RecordError
from alignkit.place import Place, Row
from alignkit.record import Artifact, Cell, RunRecord
from alignkit.record.pictures import pack, script
from alignkit.report.image_order import ImageOrder
from alignkit.report.reproduce import cell_command, image_command
from alignkit.text.names import Names

if TYPE_CHECKING:
    from alignkit.compare.image_table import ImageTable
    from alignkit.compare.predictions import Predictions


def viewer_script(record: RunRecord, folder: Path) -> str:
    """``self.alignkitRun = {…}``; empty where the record names nothing a viewer could show.

    Raises `RecordError` if a file that the record names is missing or damaged.
    """
    if not (record.images or any(image.pixels for image in record.worst)):
        return ""
    return script("self.alignkitRun", _content(record, folder))


def _content(record: RunRecord, folder: Path) -> dict[str, Any]:
    tables = {pair_name(each.reference, each.candidate): _table(each.table, folder)
              for each in record.images}  # fmt: skip
    read = {cell.key: _predictions(cell.predictions, folder)
            for cell in record.cells if cell.predictions}  # fmt: skip
    order = ImageOrder.of(tables, read, record)
    aligned = {(cell.row, cell.seed): cell for cell in record.cells if cell.aligned}
    labels = order.labels(read)
    names = Names(record.paths)
    return {
        "ids": order.ids,
        "classes": record.data.classes,
        "labels": None if labels is None else pack(labels),
        "pixels": {name: order.measures(table) for name, table in tables.items()},
        "predictions": {key: pack(order.predicted(each)) for key, each in read.items()},
        "margins": {
            cell.key: pack(order.margins(read[cell.key]))
            for cell in aligned.values()
            if cell.key in read
        },
        "comparisons": _comparisons(record, names, read, aligned),
        "cells": _cells(record, names, read),
        "stored": _stored(record, names),
        "commands": _image_commands(record),
    }


def pair_name(reference: str, candidate: str) -> str:
    """How a link names a pair of paths."""
    return f"{reference}>{candidate}"


def _cells(record: RunRecord, names: Names, read: dict[str, Predictions]) -> list[dict[str, Any]]:
    """Every matrix entry with predictions, so that any two of a row make a comparison."""
    keys: dict[Place, dict[str, str]] = {}
    for cell in record.cells:
        if cell.key in read:
            keys.setdefault(cell.place, {})[str(cell.seed)] = cell.key
    return [
        {
            "entry": index,
            "row": names.short(entry.trained_with),
            "path": entry.evaluated_with,
            "backend": entry.backend,
            "precision": entry.precision,
            "column": str(entry.column),
            "title": f"{names.short(entry.evaluated_with)}, {entry.column.runtime}",
            "keys": keys[entry.place],
        }
        for index, entry in enumerate(record.matrix)
        if entry.place in keys
    ]


def _comparisons(
    record: RunRecord,
    names: Names,
    read: dict[str, Predictions],
    aligned: dict[tuple[Row, int], Cell],
) -> list[dict[str, Any]]:
    cells: dict[Place, list[list[str]]] = {}
    for cell in record.cells:
        reference = aligned.get((cell.row, cell.seed))
        if cell.key in read and reference and reference.key in read:
            cells.setdefault(cell.place, []).append([reference.key, cell.key])
    measured = {pair_name(each.reference, each.candidate) for each in record.images}
    return [
        _comparison(record, names, measured, index) | {"seeds": cells[entry.place]}
        for index, entry in enumerate(record.matrix)
        if not entry.aligned and entry.place in cells
    ]


def _comparison(record: RunRecord, names: Names, measured: set[str], index: int) -> dict[str, Any]:
    entry = record.matrix[index]
    preprocesses = entry.row.preprocesses
    return {
        "entry": index,
        "trained": names.short(entry.trained_with),
        "title": names.title(entry),
        "backend": entry.backend,
        "precision": entry.precision,
        "pair": _pair(preprocesses[0], entry.evaluated_with, measured),
        "paths": list(dict.fromkeys([*preprocesses, entry.evaluated_with])),
        "command": cell_command(record.command, entry),
    }


def _pair(trained: str, evaluated: str, measured: set[str]) -> str:
    """The pair whose pixels were compared, whichever of the two came first; empty if none was."""
    both = (pair_name(trained, evaluated), pair_name(evaluated, trained))
    return next((name for name in both if name in measured), "")


def _stored(record: RunRecord, names: Names) -> list[dict[str, Any]]:
    return [
        {
            "pair": pair_name(image.reference, image.candidate),
            "reference": names.short(image.reference),
            "candidate": names.short(image.candidate),
            "id": image.id,
            "stage": image.stage,
            "script": image.pixels.path,
            "mean": image.mean_abs,
            "amplification": image.amplification,
            "flipped": image.flipped,
        }
        for image in record.worst
        if image.pixels
    ]


def _image_commands(record: RunRecord) -> dict[str, str]:
    """Pair of paths → the command for one image, up to the image's name."""
    pairs = [(each.reference, each.candidate) for each in record.images]
    pairs += [(each.reference, each.candidate) for each in record.worst]
    return {pair_name(*pair): image_command(record.command, *pair) for pair in pairs}


def _table(artifact: Artifact, folder: Path) -> ImageTable:
    from alignkit.compare.image_table import read_image_table

    return read_image_table(existing(artifact, folder))


def _predictions(artifact: Artifact, folder: Path) -> Predictions:
    from alignkit.compare.predictions import Predictions

    return Predictions.from_parquet(existing(artifact, folder))


def existing(artifact: Artifact, folder: Path) -> Path:
    """Where a file that the record names lies; raises `RecordError` if it does not."""
    path = folder / artifact.path
    if not path.is_file():
        raise RecordError(
            f"{path} is missing, which record.json names; copy the whole folder of the run"
        )
    return path
