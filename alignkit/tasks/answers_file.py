"""The Parquet file of a task's answers: a row for each image, and a JSON document beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare.parquet_file import read_parquet
from alignkit.errors import DataError
from alignkit.record.stored import Stored

_KEY = b"answers"  # metadata key of the Parquet file

_About = TypeVar("_About", bound=Stored)


def write_answers(
    path: Path,
    ids: Sequence[str],
    columns: Mapping[str, Any],
    about: Stored,
    besides: Mapping[str, FloatArray],
) -> None:
    """Write ``id`` and ``columns``, (n,) each, then ``besides``, null where not finite.

    ``about`` is stored in the file's metadata.
    """
    import pyarrow as pa
    from pyarrow import parquet

    table = {"id": pa.array(ids, pa.string()), **columns}
    for name, values in besides.items():
        # null: a reader's mean leaves it out
        table[name] = pa.array(values, mask=~np.isfinite(values))
    metadata = {_KEY: about.model_dump_json()}
    parquet.write_table(pa.table(table).replace_schema_metadata(metadata), path)


def read_answers(path: Path, kind: type[_About]) -> tuple[Any, _About]:
    """Read a file of `write_answers`: its `pyarrow.Table`, and the document beside it.

    Raise `DataError` for any other file.
    """
    from pydantic import ValidationError

    table = read_parquet(path)
    stored = (table.schema.metadata or {}).get(_KEY)
    if stored is None:
        raise DataError(f"{path} holds no answers of this task: its metadata does not name them")
    try:
        return table, kind.model_validate_json(stored)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(f"{path} holds no answers of this task: {place}: {first['msg']}") from None


def bytes_of(table: Any, name: str, path: Path) -> tuple[bytes, ...]:
    """Return a column of bytes; raise `DataError` for any other column, and for a null."""
    import pyarrow as pa

    index = table.schema.get_field_index(name)
    column = table.column(index) if index >= 0 else None
    if column is None or not (
        pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    ):
        raise DataError(f"{path} has no column {name!r} of bytes")
    if column.null_count:
        raise DataError(f"{path} has rows without {name!r}")
    return tuple(column.to_pylist())
