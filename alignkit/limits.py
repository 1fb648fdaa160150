"""Limits of what comes from elsewhere: bytes, seconds, counts and depth.

Images, labels, listings, answers and models may be made by anybody. Each limit lies far above what
honest ones need, and below what ends a machine; ``ALIGNKIT_<NAME>=NUMBER`` sets another one.
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from alignkit.errors import ConfigError, DataError

_DIGITS = sys.get_int_max_str_digits()


class OverLimit(DataError):  # noqa: N818 - the field's word
    """Something from elsewhere that is beyond a limit; its message names the limit."""


@dataclass(frozen=True, slots=True)
class InputLimit:
    """One limit, by the name of its variable."""

    name: str
    default: int
    unit: str
    what: str
    """That which is limited; it follows *bytes of*, *seconds of* and the like."""

    @property
    def variable(self) -> str:
        """The environment variable that sets another limit."""
        return f"ALIGNKIT_{self.name}"

    def __call__(self) -> float:
        """Return the limit in force; raise `ConfigError` if the variable holds no number."""
        text = os.environ.get(self.variable)
        try:
            value = self.default if text is None else float(text)
        except ValueError:
            value = 0
        if 0 < value < math.inf:
            return int(value) if value == int(value) else value
        raise ConfigError(f"{self.variable}: a number of {self.unit}, e.g. {self.default}")

    def exceeded(self) -> str:
        """Say that something is beyond the limit, and how to set another."""
        return f"more than {self():,} {self.unit}; {self.variable} sets another limit"

    def fault(self, amount: float) -> str:
        """Say that an amount is beyond the limit, as `exceeded` does; empty if it is not."""
        return self.exceeded() if amount > self() else ""

    def require(self, amount: float, what: str = "it has") -> None:
        """Raise `OverLimit` for a greater amount.

        The limit is read from the environment each time: a loop over records reads it once, and
        calls this for what is beyond it.
        """
        if fault := self.fault(amount):
            raise OverLimit(f"{what} {fault}")


READ_SECONDS = InputLimit("READ_SECONDS", 60, "seconds", "one request to a store")
LISTING_SECONDS = InputLimit("LISTING_SECONDS", 600, "seconds", "the whole listing of a URL")
LISTING_BYTES = InputLimit("LISTING_BYTES", 32 << 20, "bytes", "one page of a web server's listing")
LISTED_FILES = InputLimit(
    "LISTED_FILES", 5_000_000, "files", "a URL; members of a tar shard, rows of tables"
)
LISTED_DEPTH = InputLimit("LISTED_DEPTH", 32, "levels", "folders of a URL")
OBJECT_BYTES = InputLimit(
    "OBJECT_BYTES", 128 << 20, "bytes", "an object whose size its store does not tell"
)
# an image of 180 megapixels without compression, 16 bits a value, has half of it
IMAGE_BYTES = InputLimit("IMAGE_BYTES", 2 << 30, "bytes", "an image's file")
TEXT_BYTES = InputLimit("TEXT_BYTES", 1 << 20, "bytes", "a text file, such as a configuration")
ANNOTATION_BYTES = InputLimit("ANNOTATION_BYTES", 4 << 20, "bytes", "an XML file of VOC")
TABLE_BYTES = InputLimit(
    "TABLE_BYTES", 1 << 28, "bytes", "a CSV file of labels, a list of images, boxes of YOLO"
)
LIST_BYTES = InputLimit("LIST_BYTES", 1 << 30, "bytes", "a list of identities; one line of Base64")
LABEL_BYTES = InputLimit("LABEL_BYTES", 1 << 20, "bytes", "a `.cls` or `.json` in a tar shard")
LABEL_CHARACTERS = InputLimit("LABEL_CHARACTERS", 200, "characters", "a class's or identity's name")
TAR_NAME_BYTES = InputLimit(
    "TAR_NAME_BYTES", 1 << 20, "bytes", "a member's long name or PAX header in a tar shard"
)
ROW_GROUP_BYTES = InputLimit(
    "ROW_GROUP_BYTES", 512 << 20, "bytes", "a row group of Parquet, a batch of Arrow, unpacked"
)
TENSOR_BYTES = InputLimit("TENSOR_BYTES", 1 << 30, "bytes", "a recorded tensor or file of pixels")
WEIGHTS_BYTES = InputLimit(
    "WEIGHTS_BYTES", 64 << 20, "bytes", "the names in a file of `torch.save`"
)
DOCUMENT_BYTES = InputLimit("DOCUMENT_BYTES", 1 << 29, "bytes", "a COCO file, a record, a baseline")
ARRAY_BYTES = InputLimit("ARRAY_BYTES", 8 << 30, "bytes", "an array beside a record")
PICTURE_BYTES = InputLimit("PICTURE_BYTES", 1 << 28, "bytes", "a picture beside a record")
ANSWER_BYTES = InputLimit("ANSWER_BYTES", 64 << 20, "bytes", "one answer of an endpoint")
MODEL_OUTPUTS = InputLimit("MODEL_OUTPUTS", 1_000_000, "outputs", "a model")
MODEL_SECONDS = InputLimit(
    "MODEL_SECONDS", 60, "seconds", "loading an ONNX graph, and of running it, for each image"
)
MODEL_BYTES = InputLimit(
    "MODEL_BYTES", 8 << 30, "bytes", "the memory of an ONNX graph on one image"
)

INPUT_LIMITS = tuple(each for each in globals().values() if isinstance(each, InputLimit))
"""In the order of the table in docs/limits.md."""


def parsed_json(text: str | bytes) -> Any:
    """Parse JSON; raise `ValueError` for any text that cannot be: deep nesting, long numbers."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        if isinstance(error, UnicodeError):
            raise
        # Python's text advises to call a function
        raise ValueError(f"it has a number of more than {_DIGITS:,} digits") from None


def read_member(archive: ZipFile, member: ZipInfo, limit: InputLimit) -> bytes:
    """Unpack a member of an archive, no more than the limit, whatever size it declares.

    Raise `OverLimit` for a larger one, and `ValueError` as `require_deflate`.
    """
    limit.require(member.file_size, f"{member.filename!r} has")
    require_deflate(member)
    opened: IO[bytes]
    with archive.open(member) as opened:
        return opened.read(member.file_size)


def require_deflate(member: ZipInfo) -> None:
    """Raise `ValueError` for a compression that Python unpacks without a limit."""
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError("it is compressed by another method than deflate")


@cache
def bounded_response(limit: InputLimit) -> Any:
    """Return the class of an answer of aiohttp that is read no further than to the limit.

    An answer to a request for a range of bytes is given up once it is longer than the range.
    """
    import aiohttp

    class Bounded(aiohttp.ClientResponse):  # type: ignore[misc]  # it may not be installed
        _body: bytes | None

        async def read(self) -> bytes:
            if self._body is None:
                first, _, last = self.request_info.headers.get("Range", "")[6:].partition("-")
                asked = int(last) - int(first) + 1 if first and last else None
                whole, ended = bytearray(), False
                try:
                    async for part in self.content.iter_any():
                        whole += part
                        if asked is None:
                            limit.require(len(whole), "the answer has")
                        elif len(whole) > asked:
                            break
                    else:
                        ended = True
                finally:
                    if not ended:
                        self.close()
                self._body = bytes(whole)
            return self._body

    # fsspec tells its file systems apart by the text of their options
    Bounded.__qualname__ = f"Bounded by {limit.name}"
    return Bounded
