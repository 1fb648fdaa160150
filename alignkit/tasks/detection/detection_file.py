"""The Parquet file of found boxes: lists of boxes, one row an image, with the objects it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.parquet_file import ids_of, numbers_of
from alignkit.errors import DataError
from alignkit.record.stored import Real, Stored
from alignkit.tasks.answers_file import read_answers, write_answers
from alignkit.tasks.detection.box_tables import FoundBoxes, TrueBoxes, no_objects

_CORNERS = ("left", "top", "right", "bottom")
_UNUSABLE = ("not_finite", "no_area")


class _About(Stored):
    task: Literal["detection"] = "detection"
    classes: tuple[str, ...]
    outside: tuple[str, ...]
    score: Real


def write_detections(
    path: Path,
    ids: Sequence[str],
    found: FoundBoxes,
    truth: TrueBoxes,
    unusable: Labels,
    *,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    score: float,
    besides: Mapping[str, FloatArray],
) -> None:
    """Write ``id, left, top, right, bottom, score, class, not_finite, no_area``.

    With labels also ``true_left``, … ``true_class`` and ``true_crowd``. The first six and those of
    the truth are lists of a number for each box.
    """
    columns = _corner_columns("", found.starts, found.corners)
    columns["score"] = _lists(found.starts, found.scores)
    columns["class"] = _lists(found.starts, found.classes)
    columns |= dict(zip(_UNUSABLE, unusable.T, strict=True))
    if names[0]:
        columns |= _corner_columns("true_", truth.starts, truth.corners)
        columns["true_class"] = _lists(truth.starts, truth.classes)
        columns["true_crowd"] = _lists(truth.starts, truth.crowd.astype(np.int8))
    about = _About(classes=names[0], outside=names[1], score=score)
    write_answers(path, ids, columns, about, besides)


def _corner_columns(
    prefix: str, starts: Labels, corners: npt.NDArray[np.floating]
) -> dict[str, Any]:
    sides = zip(_CORNERS, corners.T, strict=True)
    return {f"{prefix}{name}": _lists(starts, side) for name, side in sides}


def _lists(starts: Labels, values: npt.NDArray[Any]) -> Any:
    import pyarrow as pa

    return pa.LargeListArray.from_arrays(pa.array(starts), pa.array(np.ascontiguousarray(values)))


def read_detections(
    path: Path,
) -> tuple[tuple[str, ...], FoundBoxes, TrueBoxes, Labels, tuple[str, ...], tuple[str, ...], float]:
    """Read a file of `write_detections`: the fields of `DetectionAnswers`, in their order.

    Raise `DataError` for any other file.
    """
    table, about = read_answers(path, _About)
    starts, sides = _columns_of(table, [*_CORNERS, "score", "class"], path)
    found = FoundBoxes(
        starts,
        np.stack(sides[:4], axis=1).astype(np.float32, copy=False),
        sides[4].astype(np.float32, copy=False),
        sides[5].astype(np.int64, copy=False),
    )
    truth = _truth(table, path) if about.classes else no_objects(table.num_rows)
    unusable = np.stack([numbers_of(table, name, path) for name in _UNUSABLE], axis=1)
    if unusable.dtype.kind != "i" or (unusable < 0).any():
        raise DataError(f"{path}: {' and '.join(_UNUSABLE)} are no counts of boxes")
    names = about.classes, about.outside
    return ids_of(table, path), found, truth, unusable.astype(np.int64), *names, about.score


def _truth(table: Any, path: Path) -> TrueBoxes:
    corners = [f"true_{name}" for name in _CORNERS]
    starts, sides = _columns_of(table, [*corners, "true_class", "true_crowd"], path)
    return TrueBoxes(
        starts,
        np.stack(sides[:4], axis=1).astype(np.float64, copy=False),
        sides[4].astype(np.int64, copy=False),
        sides[5] != 0,
    )


def _columns_of(
    table: Any, names: Sequence[str], path: Path
) -> tuple[Labels, list[npt.NDArray[Any]]]:
    """Return the starts of the lists of some columns, which all agree, and their numbers."""
    found = [_numbers_of_lists(table, name, path) for name in names]
    starts = found[0][0]
    if any(not np.array_equal(each, starts) for each, _ in found):
        raise DataError(f"{path}: lists of {', '.join(names)} are not of the same lengths")
    return starts, [numbers for _, numbers in found]


def _numbers_of_lists(table: Any, name: str, path: Path) -> tuple[Labels, npt.NDArray[Any]]:
    import pyarrow as pa

    index = table.schema.get_field_index(name)
    kind = table.schema.field(index).type if index >= 0 else pa.null()
    if not pa.types.is_large_list(kind) or not (
        pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)
    ):
        raise DataError(f"{path} has no column {name!r} of lists of numbers")
    column = table.column(index).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no row
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], kind)
    numbers = column.flatten()
    if column.null_count or numbers.null_count:
        raise DataError(f"{path} has rows without {name!r}")
    starts = np.from_dlpack(column.offsets).astype(np.int64)
    values: npt.NDArray[Any] = np.from_dlpack(numbers)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DataError(f"{path}: {name!r} has a number that is not finite")
    return starts - starts[0], values
