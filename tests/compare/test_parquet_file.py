"""Parquet files of strangers: their columns are read as ours, or refused before they fill memory."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from alignkit.compare.parquet_file import ids_of, numbers_of, read_parquet
from alignkit.errors import DataError


def written(path, columns):
    parquet.write_table(pa.table(columns), path)
    return path


def test_text_is_read_as_it_was_written(tmp_path):
    ids = ["a", "b", "a", "\u732b" * 300, ""] * 50
    path = written(tmp_path / "x.parquet", {"id": ids, "n": list(range(250))})
    table = read_parquet(path)
    assert table["id"].type == pa.string()
    assert ids_of(table, path) == tuple(ids)
    assert table["n"].to_pylist() == list(range(250))


@pytest.mark.parametrize("name", ["id", "other"])
def test_a_small_file_of_long_equal_texts_is_refused(tmp_path, name):
    path = tmp_path / "x.parquet"
    schema = pa.schema([(name, pa.string())])
    with parquet.ParquetWriter(path, schema, store_schema=False) as writer:
        for _ in range(2):
            part = pa.table({name: ["x" * 200_000] * 1000}, schema=schema)
            writer.write_table(part)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match="would unpack to 400000000 bytes"):
        read_parquet(path)


def test_a_small_file_of_long_values_of_one_length_is_refused(tmp_path):
    values = pa.array([b"x" * 200_000] * 2000, pa.binary(200_000))
    path = written(tmp_path / "x.parquet", {"x": values})
    with pytest.raises(DataError, match="too many for its size"):
        read_parquet(path)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "int64", "uint8"])
@pytest.mark.parametrize("values", [[], [1, 2, 3], [1, None, 3], [None, None]])
def test_numbers_are_those_of_pyarrow_itself_without_pandas(tmp_path, kind, values):
    column = pa.array(values, pa.int64()).cast(getattr(pa, kind)())
    path = written(tmp_path / "x.parquet", {"n": column})
    found, expected = numbers_of(read_parquet(path), "n", path), column.to_numpy(False)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=True)


def test_a_column_that_stands_twice_is_refused(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["n", "n"])
    parquet.write_table(twice, tmp_path / "x.parquet")
    table = read_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match="no column 'n'"):
        numbers_of(table, "n", tmp_path / "x.parquet")
