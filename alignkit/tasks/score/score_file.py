"""The Parquet file of scores: a row for each image, with its outputs where these are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.compare.parquet_file import ids_of, numbers_of
from alignkit.errors import DataError
from alignkit.limits import parsed_json
from alignkit.record.stored import Stored
from alignkit.tasks.answers_file import bytes_of, read_answers, write_answers
from alignkit.tasks.score.score_tallies import ScoreTallies

_Array = npt.NDArray[np.float32]
Kept = tuple[tuple[_Array, ...], ...]
"""The outputs of each image; empty where nothing compares them."""


class AboutScores(Stored):
    """Facts of the scores beside the rows."""

    task: Literal["score"] = "score"
    names: tuple[str, ...]
    output_names: tuple[str, ...]
    tolerance: float
    better: Literal["more", "less"]
    changed_by: str


def write_scores(
    path: Path,
    ids: Sequence[str],
    scores: ScoreTallies,
    kept: Kept,
    whole: npt.NDArray[np.bool_],
    read: npt.NDArray[np.bool_],
    about: AboutScores,
    besides: Mapping[str, FloatArray],
) -> None:
    """Write ``id, score_0, defined_0, …, whole, read``, and ``outputs`` as bytes of float32.

    A score is null where the function gave none.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for at in range(len(scores.names)):
        columns[f"score_{at}"] = pa.array(scores.values[:, at], mask=~scores.defined[:, at])
        columns[f"defined_{at}"] = scores.defined[:, at].astype(np.int8)
    columns |= {"whole": whole.astype(np.int8), "read": read.astype(np.int8)}
    if kept:
        shapes = [json.dumps([each.shape for each in one]).encode() for one in kept]
        columns["outputs"] = pa.array([output_bytes(one) for one in kept], pa.large_binary())
        columns["shapes"] = pa.array(shapes, pa.large_binary())
    write_answers(path, ids, columns, about, besides)


def read_scores(
    path: Path,
) -> tuple[
    tuple[str, ...], ScoreTallies, Kept, npt.NDArray[np.bool_], npt.NDArray[np.bool_], AboutScores
]:
    """Read a file of `write_scores`, without its further columns.

    Raise `DataError` for any other file.
    """
    table, about = read_answers(path, AboutScores)
    values, defined = (
        np.zeros((table.num_rows, len(about.names)), kind) for kind in (np.float64, np.bool_)
    )
    for at in range(len(about.names)):
        values[:, at] = numbers_of(table, f"score_{at}", path)
        defined[:, at] = numbers_of(table, f"defined_{at}", path)
    kept: Kept = ()
    if about.changed_by:
        rows = zip(bytes_of(table, "outputs", path), bytes_of(table, "shapes", path), strict=True)
        kept = tuple(_arrays(*row, path) for row in rows)
    whole, read = (numbers_of(table, name, path).astype(np.bool_) for name in ("whole", "read"))
    tallies = ScoreTallies(about.names, values, defined)
    return ids_of(table, path), tallies, kept, whole, read, about


def output_bytes(outputs: Sequence[_Array]) -> bytes:
    """Return an image's outputs as little-endian float32, one after the other."""
    return b"".join(each.astype("<f4").tobytes() for each in outputs)


def _arrays(data: bytes, shapes: bytes, path: Path) -> tuple[_Array, ...]:
    """Read the outputs of an image."""
    try:
        sides = [tuple(each) for each in parsed_json(shapes)]
        values = np.frombuffer(data, "<f4").astype(np.float32)
        ends = np.cumsum([prod(each) for each in sides])
        # a part that is too short does not take its shape
        parts = np.split(values, ends[:-1])
        return tuple(part.reshape(each) for part, each in zip(parts, sides, strict=True))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: the outputs of an image cannot be read ({error})") from None
