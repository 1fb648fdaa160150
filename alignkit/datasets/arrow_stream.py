"""`ArrowStream`: a file of ``Dataset.save_to_disk`` (Hugging Face), read as a Parquet file is."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from alignkit.errors import DataError
from alignkit.limits import ROW_GROUP_BYTES

_CONTINUES = 0xFFFFFFFF
_LONGEST_HEAD = 1 << 24
"""Bytes that tell of a schema or a batch; those of a thousand columns have a hundredth."""
_SCHEMA, _BATCH = 1, 3
"""Kinds of messages, as Arrow numbers them."""


class _Message(NamedTuple):
    """A message of a stream, by its place in the file."""

    kind: int
    start: int
    length: int
    """Bytes of its head and its body."""


class ArrowStream:
    """A stream of record batches, with the methods of `pyarrow.parquet.ParquetFile` that are used.

    A record batch is a row group. Opening reads the heads of the messages, and no image. Raise
    `DataError` for a file that is cut off, is no stream, or has dictionaries.
    """

    def __init__(self, where: str, file: Any, size: int) -> None:
        import pyarrow as pa

        self._file = file
        self._last: tuple[int, Any] = (-1, None)
        try:
            messages = self._messages(where, size)
        except struct.error:
            raise DataError(f"{where} is no stream of Arrow, or is damaged") from None
        first, *self._batches = messages
        if first.kind != _SCHEMA or any(each.kind != _BATCH for each in self._batches):
            raise DataError(f"{where} has dictionaries; write it with Dataset.to_parquet")
        self.schema_arrow = pa.ipc.read_schema(pa.py_buffer(self._bytes(first)))
        self.num_row_groups = len(self._batches)

    def read_row_group(self, group: int, columns: Sequence[str]) -> Any:
        """Read the columns of a batch as a table; of a leaf, the whole column.

        The last batch is kept.
        """
        import pyarrow as pa

        if self._last[0] != group:
            message = pa.ipc.read_message(pa.py_buffer(self._bytes(self._batches[group])))
            self._last = group, pa.ipc.read_record_batch(message, self.schema_arrow)
        tops = dict.fromkeys(each.partition(".")[0] for each in columns)
        return pa.Table.from_batches([self._last[1]]).select([*tops])

    def _bytes(self, message: _Message) -> bytes:
        self._file.seek(message.start)
        data: bytes = self._file.read(message.length)
        return data

    def _messages(self, where: str, size: int) -> list[_Message]:
        found: list[_Message] = []
        at = 0
        while True:
            self._file.seek(at)
            mark, length = struct.unpack("<Ii", self._file.read(8))
            if mark != _CONTINUES or length < 0 or (not length and not found):
                raise DataError(
                    f"{where} is no stream of Arrow, as Dataset.save_to_disk writes; write it with "
                    "Dataset.to_parquet"
                )
            if not length:
                return found
            if length > _LONGEST_HEAD:
                raise DataError(f"{where}: the head of a batch has {length:,} bytes")
            kind, body, packed = _facts(self._file.read(length))
            if packed or body < 0:
                raise DataError(f"{where} has packed batches; write it with Dataset.to_parquet")
            ROW_GROUP_BYTES.require(body, f"{where}: a batch has")
            found.append(_Message(kind, at, 8 + length + body))
            at += 8 + length + body
            # a stream ends with a mark; without it, batches may be missing
            if at + 8 > size:
                raise DataError(f"{where} is cut off after {size:,} bytes; copy it again")


def _facts(head: bytes) -> tuple[int, int, bool]:
    """Read the kind of a message, the length of its body and whether it is packed."""
    (table,) = struct.unpack_from("<I", head)
    (back,) = struct.unpack_from("<i", head, table)
    # fields of a message: version, kind, header, length of the body
    fields = struct.unpack_from("<6H", head, table - back)
    (kind,) = struct.unpack_from("<B", head, table + fields[3])
    if fields[0] <= 10 or not fields[5]:
        return kind, 0, False
    (body,) = struct.unpack_from("<q", head, table + fields[5])
    return kind, body, kind == _BATCH and _packed(head, table + fields[4])


def _packed(head: bytes, place: int) -> bool:
    """Tell whether a batch has the field of a compression, its fourth."""
    batch = place + struct.unpack_from("<I", head, place)[0]
    known = batch - struct.unpack_from("<i", head, batch)[0]
    (size,) = struct.unpack_from("<H", head, known)
    return size > 10 and bool(struct.unpack_from("<H", head, known + 10)[0])
