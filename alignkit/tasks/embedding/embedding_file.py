"""The Parquet file of embeddings: a vector of each image, its identity and its given pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from alignkit.annotations import Pairs
from alignkit.arrays import FloatArray, Labels
from alignkit.compare.parquet_file import ids_of, numbers_of
from alignkit.errors import ConfigError, DataError
from alignkit.record.stored import Stored
from alignkit.tasks.answers_file import read_answers, write_answers
from alignkit.tasks.embedding import Embedding
from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers

_PAIRS: dict[str, Any] = {"second": np.int64, "same": np.int8, "fold": np.int8}
"""Columns that list the pairs of which an image is the first."""


class _About(Stored):
    task: Literal["embedding"] = "embedding"
    names: tuple[str, ...]
    options: dict[str, Any]
    given_pairs: bool


def write_embeddings(
    path: Path, answers: EmbeddingAnswers, besides: Mapping[str, FloatArray]
) -> None:
    """Write ``id, identity, vector``, and ``pair_second, pair_same, pair_fold`` of given pairs."""
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(answers.vectors).ravel())
    columns: dict[str, Any] = {
        "identity": answers.identities,
        "vector": pa.FixedSizeListArray.from_arrays(flat, answers.vectors.shape[1]),
    }
    if (pairs := answers.pairs) is not None:
        order = np.argsort(pairs.first, kind="stable")
        ends = np.cumsum(np.bincount(pairs.first, minlength=len(answers)))
        offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
        for name, kind in _PAIRS.items():
            values = pa.array(getattr(pairs, name)[order].astype(kind))
            columns[f"pair_{name}"] = pa.ListArray.from_arrays(offsets, values)
    about = _About(
        names=answers.names,
        options=asdict(answers.task),
        given_pairs=answers.pairs is not None,
    )
    write_answers(path, answers.ids, columns, about, besides)


def read_embeddings(path: Path) -> EmbeddingAnswers:
    """Read a file of `write_embeddings`, bit for bit; raise `DataError` for any other file."""
    table, about = read_answers(path, _About)
    try:
        options: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in about.options.items()
        }
        return EmbeddingAnswers(
            ids=ids_of(table, path),
            vectors=_vectors(table, path),
            identities=numbers_of(table, "identity", path).astype(np.int64),
            names=about.names,
            pairs=_pairs(table, path) if about.given_pairs else None,
            task=Embedding(**options),
        )
    except (DataError, ConfigError, TypeError) as error:
        raise DataError(f"{path} holds no embeddings that can be read: {error}") from None


def _vectors(table: Any, path: Path) -> npt.NDArray[np.float32]:
    import pyarrow as pa

    column = _column(table, "vector", path)
    kind = column.type
    if not pa.types.is_fixed_size_list(kind) or kind.value_type != pa.float32():
        raise DataError(f"{path} has no column 'vector' of float32 vectors")
    flat = np.concatenate(
        [np.zeros(0, np.float32), *(np.from_dlpack(each.flatten()) for each in column.chunks)]
    )
    if len(flat) != len(table) * kind.list_size:
        raise DataError(f"{path} has rows without 'vector'")
    vectors: npt.NDArray[np.float32] = flat.reshape(len(table), kind.list_size)
    return vectors


def _pairs(table: Any, path: Path) -> Pairs:
    found: dict[str, Any] = {}
    for name in _PAIRS:
        lists = _column(table, f"pair_{name}", path).combine_chunks()
        found[name] = np.from_dlpack(lists.flatten())
        lengths: Labels = np.from_dlpack(lists.value_lengths()).astype(np.int64)
        found["first"] = np.repeat(np.arange(len(table)), lengths)
    second = found["second"].astype(np.int64)
    if len(second) and not (second.min() >= 0 and second.max() < len(table)):
        raise DataError("a pair names an image that is not in the file")
    return Pairs(
        found["first"].astype(np.int64),
        second,
        found["same"].astype(np.bool_),
        found["fold"].astype(np.int64),
    )


def _column(table: Any, name: str, path: Path) -> Any:
    index = table.schema.get_field_index(name)
    if index < 0:
        raise DataError(f"{path} has no column {name!r}")
    return table.column(index)
