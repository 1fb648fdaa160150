"""Parquet files of a run, read as if a stranger had written them: a run's folder may be foreign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

_SMALL = 1 << 28
_RATIO = 100
"""Bytes in memory for a byte in the file: logits hardly compress, but a kilobyte of a hostile file
may hold a billion equal rows."""


def read_parquet(path: Path) -> Any:
    """Read a table (`pyarrow.Table`); raises `DataError` for a file that cannot be one of ours."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        described = parquet.read_metadata(path)
        size = 4 * described.num_rows * described.num_columns
        if size > max(_SMALL, _RATIO * path.stat().st_size):
            raise DataError(f"{path} would unpack to {size} bytes, too many for its size")
        return parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({error})") from error


def ids_of(table: Any, path: Path) -> tuple[str, ...]:
    """Return the column ``id``; raises `DataError` if it is not text."""
    import pyarrow as pa

    if "id" not in table.column_names or table.schema.field("id").type != pa.string():
        raise DataError(f"{path} has no column 'id' of text")
    if table["id"].null_count:
        raise DataError(f"{path} has rows without an id")
    return tuple(table["id"].to_pylist())


def numbers_of(table: Any, name: str, path: Path) -> npt.NDArray[Any]:
    """Return a column (n,) of numbers, NaN where null; raises `DataError` for any other column."""
    import pyarrow as pa

    kind = table.schema.field(name).type if name in table.column_names else None
    if kind is None or not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise DataError(f"{path} has no column {name!r} of numbers")
    column: npt.NDArray[Any] = table[name].to_numpy()
    return column
