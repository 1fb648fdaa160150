"""The data of the page's list and viewer: ``data/run.js``, a classic script.

Read from the record and the files it names. Numbers are those of the files, packed; everything the
list derives from them (flips, order, filters) is derived in the browser.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alignkit.compare.image_table import LAST, ImageTable, read_image_table
from alignkit.compare.metrics import NO_PREDICTION
from alignkit.compare.predictions import Predictions
from alignkit.errors import RecordError
from alignkit.place import Place, Row
from alignkit.record import Cell, RunRecord
from alignkit.record.artifacts import artifact_file
from alignkit.record.picture_facts import pack, script
from alignkit.report.worst_view import cell_command, image_command, pair_name
from alignkit.text.names import Names


def viewer_script(record: RunRecord, folder: Path) -> str:
    """``self.alignkitRun = {…}``; empty where the record names nothing a viewer could show.

    Raises `RecordError` if a file that the record names is missing or damaged.
    """
    shown = record.images or any(image.pixels for image in record.worst)
    if not (shown or any(cell.predictions for cell in record.cells)):
        return ""
    return script("self.alignkitRun", _content(record, folder))


def _content(record: RunRecord, folder: Path) -> dict[str, Any]:
    tables = {
        pair_name(each.reference, each.candidate): read_image_table(
            artifact_file(folder, each.table)
        )
        for each in record.images
    }
    read = {
        cell.key: Predictions.from_parquet(artifact_file(folder, cell.predictions))
        for cell in record.cells
        if cell.predictions
    }
    order = ImageOrder.of(tables, read, record)
    aligned = {(cell.row, cell.seed): cell for cell in record.cells if cell.aligned}
    labels = order.labels(read)
    names = Names(record.paths)
    return {
        "ids": order.ids,
        "classes": [*order.classes],
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
        "commands": _image_commands(record),  # the script appends the image's name
    }


def _cells(record: RunRecord, names: Names, read: dict[str, Predictions]) -> list[dict[str, Any]]:
    """List matrix entries with predictions, so that any two of a row make a comparison."""
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
            "keys": keys[entry.place],  # by seed: comparisons pair equal seeds
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
        {
            "entry": index,
            "trained": names.short(entry.trained_with),
            "title": names.title(entry),
            "backend": entry.backend,
            "precision": entry.precision,
            "pair": _pair(entry.row.preprocesses[0], entry.evaluated_with, measured),
            # a mix has several
            "paths": list(dict.fromkeys([*entry.row.preprocesses, entry.evaluated_with])),
            "command": cell_command(record.command, entry),
            "seeds": cells[entry.place],
        }
        for index, entry in enumerate(record.matrix)
        if not entry.aligned and entry.place in cells
    ]


def _pair(trained: str, evaluated: str, measured: set[str]) -> str:
    """Name the pair whose pixels were compared, whichever came first; empty if none was."""
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
    """Return pair of paths → the command for one image, up to the image's name."""
    pairs = [(each.reference, each.candidate) for each in record.images]
    pairs += [(each.reference, each.candidate) for each in record.worst]
    return {pair_name(*pair): image_command(record.command, *pair) for pair in pairs}


def _indices(names: Iterable[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class ImageOrder:
    """One order of the images for every array."""

    ids: tuple[str, ...]
    places: dict[str, int]
    classes: dict[str, int]
    """Name of a class → its index: the data's classes, then further outputs of the models."""

    @classmethod
    def of(
        cls, tables: dict[str, ImageTable], read: dict[str, Predictions], record: RunRecord
    ) -> ImageOrder:
        """Order images as they first occur in any file."""
        names = [each.ids for each in tables.values()] + [each.ids for each in read.values()]
        names.append(tuple(image.id for image in record.worst))
        ids = tuple(dict.fromkeys(name for each in names for name in each))
        outputs = (name for each in read.values() for name in each.outputs)
        classes = dict.fromkeys([*record.data.classes, *outputs])
        return cls(ids, _indices(ids), _indices(classes))

    def _spread(
        self, ids: tuple[str, ...], values: npt.NDArray[Any], missing: float
    ) -> npt.NDArray[Any]:
        """Return values of some images as those of all, ``missing`` for the others."""
        spread = np.full(len(self.ids), missing, values.dtype)
        spread[[self.places[name] for name in ids]] = values
        return spread

    def _small(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
        """Return class indices, and the value of an image that was not asked about.

        That is the greatest value of the least type that leaves two; the one below it means an
        answer that is no class. ``rows.js`` reads them so.
        """
        if len(self.classes) > 65_534:
            raise RecordError(f"the viewer holds at most 65534 classes, not {len(self.classes)}")
        dtype = np.uint8 if len(self.classes) < 255 else np.uint16
        missing = int(np.iinfo(dtype).max)
        return np.where(values == NO_PREDICTION, missing - 1, values).astype(dtype), missing

    def labels(self, read: dict[str, Predictions]) -> npt.NDArray[Any] | None:
        """Return each image's label from any file that has it; ``None`` if no file has labels."""
        spread = None
        for each in (predictions for predictions in read.values() if predictions.labelled):
            labels, missing = self._small(each.labels)
            if spread is None:
                spread = self._spread(each.ids, labels, missing)
            spread[[self.places[name] for name in each.ids]] = labels
        return spread

    def predicted(self, predictions: Predictions) -> npt.NDArray[Any]:
        """Return the predicted class of each image."""
        # two models may have other outputs; the last entry is that of NO_PREDICTION, -1
        shown = np.array([*(self.classes[name] for name in predictions.outputs), NO_PREDICTION])
        values, missing = self._small(shown[predictions.predicted])
        return self._spread(predictions.ids, values, missing)

    def margins(self, predictions: Predictions) -> npt.NDArray[Any]:
        """Return the greatest logit less the second greatest."""
        if len(predictions.outputs) < 2:
            return np.full(len(self.ids), np.nan, np.float32)  # a single class has no second logit
        top = np.sort(predictions.logits, axis=1)[:, -2:]
        return self._spread(predictions.ids, top[:, 1] - top[:, 0], np.nan)

    def measures(self, table: ImageTable) -> dict[str, Any]:
        """Return max, mean and SSIM of the last pixels; max and mean of every stage."""

        def packed(values: npt.NDArray[Any]) -> dict[str, str]:
            return pack(self._spread(table.ids, values, np.nan))

        stages = {
            stage: {"stage": stage, "max": packed(values), "mean": packed(table.mean_abs[stage])}
            for stage, values in table.max_abs.items()
        }
        last = stages[LAST]
        return {
            "max": last["max"],
            "mean": last["mean"],
            "ssim": packed(table.ssim),
            "stages": list(stages.values()),
        }
