"""Parquet and Arrow files with a column of images, as Hugging Face ``datasets`` writes them.

An image is a struct of ``bytes`` and ``path``, or binary. Row groups are read one at a time, and
names of classes are those of the ``ClassLabel`` in the file's metadata.
"""

from __future__ import annotations

import io
import os
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from alignkit.datasets.arrow_stream import ArrowStream
from alignkit.datasets.byte_store import ByteStore, FolderStore, StoredFile, StoreFile
from alignkit.datasets.identity_images import in_order
from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import ChangedImage, DataError, UnreadableImage
from alignkit.limits import LABEL_CHARACTERS, LISTED_FILES, ROW_GROUP_BYTES, OverLimit, parsed_json
from alignkit.samples import ImageReads

IMAGE_COLUMNS = ("image", "img", "bytes", "jpg", "jpeg", "png", "webp")
"""Names by which a column of images is found."""
LABEL_COLUMNS = ("label", "labels", "cls", "class", "fine_label")
"""Names by which a column of classes is found."""

_ROWS_AT_ONCE = 1024
_reading = threading.Lock()
if hasattr(os, "register_at_fork"):  # another thread may hold it when a process is forked
    os.register_at_fork(after_in_child=lambda: globals().update(_reading=threading.Lock()))


@dataclass(frozen=True, slots=True)
class ParquetReads:
    """Images by file, row group and row."""

    store: ByteStore
    files: tuple[str, ...]
    column: str
    of: array[int]
    groups: array[int]
    rows: array[int]

    def __call__(self, index: int, /) -> bytes:
        """Return the bytes of an image; its row group is kept for the next ones."""
        file = self.files[self.of[index]]
        with _reading:  # threads of one row group wait for the first of them
            found = _group(self.store, file, self.column, self.groups[index])
        row = self.rows[index]
        data = found[row].as_py() if row < len(found) else None
        if data is None:
            raise ChangedImage(Path(self.store.name) / file, "changed after it was listed")
        return bytes(data)

    def only(self, indices: Sequence[int], /) -> Self:
        """Select images, in that order."""
        of, groups, rows = (
            array("q", [each[index] for index in indices])
            for each in (self.of, self.groups, self.rows)
        )
        used = sorted({*of})
        place = {each: new for new, each in enumerate(used)}
        files = tuple(self.files[each] for each in used)
        moved = array("q", [place[each] for each in of])
        return type(self)(self.store, files, self.column, moved, groups, rows)


@dataclass(frozen=True, slots=True)
class ParquetImages:
    """`ImageSource` of Parquet files."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    classes: tuple[str, ...]
    stamps: tuple[str, ...]
    faults: dict[int, str]
    places: ParquetReads

    def reads(self) -> ImageReads:
        """Return the bytes of rows."""
        return self.places


def parquet_images(store: ByteStore, found: Mapping[str, StoredFile]) -> ParquetImages:
    """Find the images of Parquet files; raise `DataError` if their columns or classes differ.

    Names are the paths of the images if each has one of its own, else the file and the row.
    """
    with _reading:  # a file may have changed
        _group.cache_clear()
        _reopened.cache_clear()
    rows: list[tuple[str, str | None, str, str, tuple[int, int, int]]] = []
    column, classes, longest = "", tuple[str, ...](), LABEL_CHARACTERS()
    files = tuple(found)
    for number, (file, status) in enumerate(found.items()):
        where = f"{store.name}/{file}"
        opened = _opened(store, file, status.size)
        schema = opened.schema_arrow
        leaf, path = _image_column(where, schema)
        label = next((each for each in LABEL_COLUMNS if each in schema.names), None)
        names = _class_names(schema, label)
        if number and (leaf, names) != (column, classes):
            raise DataError(
                f"{store.name}: {files[0]} and {file} differ in the column of images or in the "
                "names of classes; write them alike, or name one alone"
            )
        column, classes = leaf, names
        row = 0
        for group in range(opened.num_row_groups):
            count = _rows(opened, group)
            LISTED_FILES.require(len(rows) + count, f"{where}, with those before it, has")
            paths = _column(where, opened, group, path).to_pylist() if path else []
            labels = _column(where, opened, group, label).to_pylist() if label else []
            empty = _nulls(where, opened, group, leaf, count)
            for at in range(count):
                name = paths[at] if paths and paths[at] else ""
                known = _class(labels[at], classes, longest) if labels else None
                fault = "the row has no image" if empty[at] else ""
                stamp = f"{status.stamp} {row}" if status.stamp else ""
                fallback = f"{file}:{row:07d}"
                rows.append((name or fallback, known, fault, stamp, (number, group, at)))
                row += 1
    if len({each[0] for each in rows}) < len(rows):
        rows = [
            (f"{files[place[0]]}:{stamp_row:07d}", known, fault, stamp, place)
            for stamp_row, (_, known, fault, stamp, place) in _numbered(rows)
        ]
    rows.sort(key=lambda each: each[0])
    known_labels = [each[1] for each in rows if each[1] is not None]
    if known_labels and len(known_labels) < len(rows):
        raise DataError(
            f"{len(rows) - len(known_labels)} of {len(rows)} rows of {store.name} have no label; "
            "label all or none"
        )
    of, groups, at_row = zip(*(each[4] for each in rows), strict=True) if rows else ((), (), ())
    return ParquetImages(
        names=tuple(each[0] for each in rows),
        labels=tuple(known_labels),
        classes=classes or in_order({*known_labels}),
        stamps=tuple(each[3] for each in rows),
        faults={index: each[2] for index, each in enumerate(rows) if each[2]},
        places=ParquetReads(
            store, files, column, array("q", of), array("q", groups), array("q", at_row)
        ),
    )


def _numbered(rows: Sequence[Any]) -> list[tuple[int, Any]]:
    counts: dict[int, int] = {}
    found = []
    for each in rows:
        number = counts.get(each[4][0], 0)
        counts[each[4][0]] = number + 1
        found.append((number, each))
    return found


def _image_column(where: str, schema: Any) -> tuple[str, str]:
    """Return the leaves of an image's bytes and of its path, which may be empty."""
    import pyarrow as pa

    def binary(kind: Any) -> bool:
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    def order(name: str) -> int:
        return IMAGE_COLUMNS.index(name) if name in IMAGE_COLUMNS else len(IMAGE_COLUMNS)

    for name in sorted(schema.names, key=order):
        kind = schema.field(name).type
        if binary(kind):
            return name, ""
        if pa.types.is_struct(kind):
            inner = {each.name: each.type for each in kind}
            if binary(inner.get("bytes", pa.null())):
                return f"{name}.bytes", f"{name}.path" if "path" in inner else ""
    raise DataError(
        f"{where} has no column of images: binary, or a struct with 'bytes'; its columns are "
        f"{escaped_name(', '.join(schema.names))}"
    )


def _class_names(schema: Any, label: str | None) -> tuple[str, ...]:
    """Return the names of a ``ClassLabel``, in their order; empty if the file states none."""
    stated = (schema.metadata or {}).get(b"huggingface")
    if not stated or label is None:
        return ()
    try:
        feature = parsed_json(stated)["info"]["features"][label]
        return tuple(map(str, feature.get("names") or ()))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def _class(value: Any, classes: tuple[str, ...], longest: float) -> str | None:
    if value is None:
        return None
    if classes and isinstance(value, int):
        if not 0 <= value < len(classes):
            raise DataError(f"label {value} of {len(classes)} classes of the ClassLabel")
        return classes[value]
    if len(text := str(value)) > longest:
        LABEL_CHARACTERS.require(len(text), "a label has")
    return text


def _rows(opened: Any, group: int) -> int:
    if isinstance(opened, ArrowStream):
        return int(opened.read_row_group(group, opened.schema_arrow.names).num_rows)
    return int(opened.metadata.row_group(group).num_rows)


def _nulls(where: str, opened: Any, group: int, leaf: str, count: int) -> list[bool]:
    if not isinstance(opened, ArrowStream):
        statistics = next(
            column.statistics
            for each in range(opened.metadata.num_columns)
            if (column := opened.metadata.row_group(group).column(each)).path_in_schema == leaf
        )
        if statistics is not None and statistics.has_null_count and not statistics.null_count:
            return [False] * count
    found: list[bool] = _column(where, opened, group, leaf).is_null().to_pylist()
    return found


def _column(where: str, opened: Any, group: int, leaf: str) -> Any:
    """Read a column of a row group; raise `OverLimit` if it is larger than a row group may be."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts, size = [], 0
    for part in _parts(where, opened, group, leaf):
        parts.append(part)
        size += part.nbytes
        ROW_GROUP_BYTES.require(size, f"{where}: row group {group} has")
    if not parts:
        return pa.array([], pa.null())
    column = pa.concat_arrays(parts)
    # `field` of the array would take no notice of rows that are null as a whole
    return pc.struct_field(column, leaf.rpartition(".")[2]) if "." in leaf else column


def _parts(where: str, opened: Any, group: int, leaf: str) -> Iterator[Any]:
    """Yield a column of a row group in parts that memory holds.

    In a file of a kilobyte, a thousand rows may name the same value of a megabyte.
    """
    if isinstance(opened, ArrowStream):
        yield from opened.read_row_group(group, columns=[leaf]).column(0).chunks
        return
    about = opened.metadata.row_group(group)
    unpacked = sum(
        column.total_uncompressed_size
        for each in range(about.num_columns)
        if (column := about.column(each)).path_in_schema == leaf
    )
    ROW_GROUP_BYTES.require(unpacked, f"{where}: row group {group} has")
    # no value is larger than all of them packed as a dictionary
    rows = max(1, min(_ROWS_AT_ONCE, int(ROW_GROUP_BYTES()) // max(1, unpacked)))
    for batch in opened.iter_batches(rows, row_groups=[group], columns=[leaf]):
        yield batch.column(0)


@lru_cache(maxsize=4)
def _group(store: ByteStore, file: str, leaf: str, group: int) -> Any:
    """Read the images of a row group; the last ones are kept."""
    import pyarrow as pa

    try:
        return _column(file, _reopened(store, file), group, leaf)
    except UnreadableImage:
        raise
    except OverLimit as error:
        raise UnreadableImage(
            Path(store.name) / file, f"{error}, or write smaller ones (row_group_size)"
        ) from None
    except (DataError, pa.ArrowException, OSError) as error:
        raise ChangedImage(
            Path(store.name) / file, f"changed after it was listed: {error}"
        ) from None


@lru_cache(maxsize=16)
def _reopened(store: ByteStore, file: str) -> Any:
    """Open a file to read images of several of its row groups; its directory is read once."""
    return _opened(store, file, store.status(file).size)


def _opened(store: ByteStore, file: str, size: int | None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = f"{store.name}/{file}"
    if size is None:
        raise DataError(f"{where}: the store does not tell its size, so no part of it can be read")
    if file.endswith(".arrow"):
        return ArrowStream(where, io.BufferedReader(StoreFile(store, file, size), 1 << 16), size)
    try:
        return pq.ParquetFile(_file(store, file, size))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{where} is no Parquet file, or is damaged: {error}") from None


def _file(store: ByteStore, file: str, size: int) -> Any:
    if isinstance(store, FolderStore):
        return str(Path(store.name) / file)
    return io.BufferedReader(StoreFile(store, file, size), 1 << 16)
