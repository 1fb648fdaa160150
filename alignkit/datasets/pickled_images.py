"""Pickled lists of images, read without unpickling: no name that a file asks for is ever called.

A pickle is a program. This reader follows the instructions that lists of bytes, of truth values and
of NumPy's arrays of bytes consist of, whichever Python and protocol wrote them, and refuses all
others, so that a hostile file can neither run anything nor make anything large: images stay in the
file, and only their places are kept.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple, NoReturn

from alignkit.errors import DataError
from alignkit.limits import IMAGE_BYTES

_MOST = 2_000_000
"""Instructions of the longest pickle that is read; 400,000 pairs of images have as many."""
_ANY = 100_000
"""Instructions of which the size of the file is not asked."""
_BYTES_EACH = 50
"""Bytes of the file for each further one: an image has thousands, and 2 to 20 instructions."""
_PART = 1 << 16
"""Bytes of a line that are read at a time."""
_SHORT = 256
"""Bytes of the longest text that an instruction other than an image may hold."""
_FORMATS = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}
_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
_NUMERIC = ("numpy.core.numeric", "numpy._core.numeric")
_KNOWN = {
    ("_codecs", "encode"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    *((each, name) for each in _MULTIARRAY for name in ("_reconstruct", "scalar")),
    *((each, "_frombuffer") for each in _NUMERIC),
}
"""Names that pickles of bytes and of arrays hold; they are recognised and never looked up."""


class PickledBytes(NamedTuple):
    """The place of bytes or text in a pickle."""

    start: int
    length: int
    form: str = "raw"
    """``raw``; ``text``, UTF-8; ``latin-1``, UTF-8 of characters that are bytes each; ``quoted``, a
    literal of Python 2."""


@dataclass(slots=True)
class PickledArray:
    """A NumPy array."""

    dtype: str = ""
    data: PickledBytes | None = None


_MARK = object()
"""The place on the stack to which `since_mark` goes back."""


class _Name(NamedTuple):
    module: str
    name: str


class _Type(NamedTuple):
    """A dtype."""

    name: str


@dataclass(slots=True)
class PickledReader:
    """Follows the instructions of one pickle; its lists hold places, numbers and truth values."""

    file: BinaryIO
    size: int
    """Bytes of the file."""
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def read(self) -> Any:
        """Return the pickled value; raise `DataError` without a file name for any other pickle."""
        most = min(_MOST, _ANY + self.size // _BYTES_EACH)
        for _ in range(most):
            code = self.take(1)
            if code == b".":
                if len(self.stack) != 1:
                    self._refuse("it ends in the midst of a value")
                return self.stack[0]
            follow = _INSTRUCTIONS.get(code)
            if follow is None:
                self._refuse(f"instruction {code!r} makes no list of images")
            follow(self)
        return self._refuse(
            f"it has more than {most:,} instructions, which no {self.size:,} bytes of images need"
        )

    def bytes_at(self, place: PickledBytes) -> bytes:
        """Read the bytes of a place."""
        self.file.seek(place.start)
        data = self.file.read(place.length)
        if place.form == "latin-1":
            return data.decode("utf-8", "surrogatepass").encode("latin-1")
        if place.form == "quoted":
            found: bytes = codecs.escape_decode(data[1:-1])[0]
            return found
        return data

    def _refuse(self, reason: str) -> NoReturn:
        raise DataError(f"{reason}, at byte {self.file.tell():,}; nothing in it was run")

    def take(self, count: int) -> bytes:
        """Read the next bytes."""
        data = self.file.read(count)
        if len(data) < count:
            self._refuse("it is cut off")
        return data

    def number(self, width: int) -> int:
        """Read a number of 1, 2, 4 or 8 bytes."""
        return int(struct.unpack(_FORMATS[width], self.take(width))[0])

    def line(self) -> bytes:
        """Read a short line."""
        line = self.file.readline(_SHORT)
        if not line.endswith(b"\n"):
            self._refuse("a line of it does not end")
        return line[:-1]

    def pop(self) -> Any:
        """Take the value from the stack."""
        if not self.stack:
            self._refuse("an instruction lacks its value")
        return self.stack.pop()

    def since_mark(self) -> list[Any]:
        """Take all values since the last mark."""
        items: list[Any] = []
        while (each := self.pop()) is not _MARK:
            items.append(each)
        return items[::-1]

    def text(self, value: Any) -> str:
        """Return a short text; refuse anything else."""
        if not isinstance(value, PickledBytes) or value.length > _SHORT:
            self._refuse("it has another value where a name is expected")
        after = self.file.tell()
        data = self.bytes_at(value)
        self.file.seek(after)
        return data.decode("ascii", "replace")

    def blob(self, length: int, form: str = "raw") -> None:
        """Push the place of the bytes that follow, and pass over them."""
        start = self.file.tell()
        if length > self.size - start:
            self._refuse(f"it claims {length:,} bytes, and {self.size - start:,} follow; cut off")
        if fault := IMAGE_BYTES.fault(length):
            self._refuse(f"an image of it has {fault}")
        self.stack.append(PickledBytes(start, length, form))
        self.file.seek(start + length)

    def quoted(self) -> None:
        """Push the place of a literal of Python 2 in one line."""
        start = self.file.tell()
        quote, last, ended = self.file.read(1), b"", False
        while not ended and (part := self.file.readline(_PART)):
            ended = part.endswith(b"\n")
            last = part.rstrip(b"\n")[-1:] or last
        length = self.file.tell() - start - ended
        if not ended or quote not in (b"'", b'"') or last != quote:
            self._refuse("a text of it does not end")
        if fault := IMAGE_BYTES.fault(length):
            self._refuse(f"an image of it has {fault}")
        self.stack.append(PickledBytes(start, length, "quoted"))

    def name(self, module: str, name: str) -> None:
        """Push a known name; refuse all others."""
        if (module, name) not in _KNOWN:
            self._refuse(f"it asks for {module}.{name}, which no list of images needs")
        self.stack.append(_Name(module, name))

    def global_line(self) -> None:
        """Push the name in the next two lines."""
        module, name = (self.line().decode("ascii", "replace") for _ in range(2))
        self.name(module, name)

    def stack_global(self) -> None:
        """Push the name on the stack."""
        name, module = self.text(self.pop()), self.text(self.pop())
        self.name(module, name)

    def append(self, items: list[Any]) -> None:
        """Append to the list below."""
        if not self.stack or not isinstance(self.stack[-1], list):
            self._refuse("it appends to no list")
        self.stack[-1].extend(items)

    def remember(self, index: int) -> None:
        """Keep the value on the stack in the memo."""
        if not self.stack:
            self._refuse("an instruction lacks its value")
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        """Push a value of the memo."""
        if index not in self.memo:
            self._refuse("it refers to a value that it has not")
        self.stack.append(self.memo[index])

    def integer(self) -> None:
        """Push a number, or a truth value of protocol 0 and 1, in one line."""
        line = self.line()
        if line in (b"00", b"01"):
            self.stack.append(line == b"01")
            return
        if not line.rstrip(b"L").lstrip(b"-").isdigit():
            self._refuse("it has a number that is none")
        self.stack.append(int(line.rstrip(b"L")))

    def reduced(self) -> None:
        """Replace a name and its arguments by the array, type or bytes that they describe."""
        given, name = self.pop(), self.pop()
        if not isinstance(name, _Name) or not isinstance(given, tuple):
            self._refuse("it calls a value")
        match name.name, given:
            case "encode", (PickledBytes() as text, encoding) if text.form == "text":
                if self.text(encoding) not in ("latin1", "latin-1"):
                    self._refuse("it encodes a text")
                self.stack.append(text._replace(form="latin-1"))
            case "_reconstruct", (_Name(name="ndarray"), _, _):
                self.stack.append(PickledArray())
            case "dtype", (kind, *_):
                self.stack.append(_Type(self.text(kind)))
            case "scalar", (_Type(name="b1" | "|b1" | "?"), PickledBytes(length=1) as place):
                after = self.file.tell()
                self.stack.append(self.bytes_at(place) != b"\0")
                self.file.seek(after)
            case "_frombuffer", (PickledBytes() as data, _Type() as kind, *_):
                self.stack.append(PickledArray(kind.name, data))
            case _:
                self._refuse(f"it calls {name.module}.{name.name} on other values")

    def built(self) -> None:
        """Fill an array with its state."""
        state = self.pop()
        match self.stack[-1:], state:
            case [PickledArray() as array], (
                _,
                tuple(),
                _Type() as kind,
                _,
                PickledBytes() as data,
            ):
                array.dtype, array.data = kind.name, data
            case [_Type()], tuple():
                pass  # byte order and the like, which single bytes do not have
            case _:
                self._refuse("it changes a value")


def _push(value: Any) -> Callable[[PickledReader], None]:
    return lambda reader: reader.stack.append(value)


def _tuple_of(count: int) -> Callable[[PickledReader], None]:
    def follow(reader: PickledReader) -> None:
        reader.stack.append(tuple([reader.pop() for _ in range(count)][::-1]))

    return follow


def _blob(width: int, form: str = "raw") -> Callable[[PickledReader], None]:
    return lambda reader: reader.blob(reader.number(width), form)


def _skip(count: int) -> Callable[[PickledReader], None]:
    def follow(reader: PickledReader) -> None:
        reader.take(count)

    return follow


def _long(reader: PickledReader) -> None:
    data = reader.take(reader.number(1))
    reader.stack.append(int.from_bytes(data, "little", signed=True))


_INSTRUCTIONS: dict[bytes, Callable[[PickledReader], None]] = {
    b"\x80": _skip(1),  # protocol
    b"\x95": _skip(8),  # frame
    b"(": _push(_MARK),
    b"]": lambda reader: reader.stack.append([]),
    b"l": lambda reader: reader.stack.append(reader.since_mark()),
    b"a": lambda reader: reader.append([reader.pop()]),
    b"e": lambda reader: reader.append(reader.since_mark()),
    b")": _push(()),
    b"t": lambda reader: reader.stack.append(tuple(reader.since_mark())),
    b"\x85": _tuple_of(1),
    b"\x86": _tuple_of(2),
    b"\x87": _tuple_of(3),
    b"N": _push(None),
    b"\x88": _push(True),
    b"\x89": _push(False),
    b"I": lambda reader: reader.integer(),
    b"L": lambda reader: reader.integer(),
    b"J": lambda reader: reader.stack.append(struct.unpack("<i", reader.take(4))[0]),
    b"K": lambda reader: reader.stack.append(reader.number(1)),
    b"M": lambda reader: reader.stack.append(reader.number(2)),
    b"\x8a": _long,
    b"S": lambda reader: reader.quoted(),
    b"U": _blob(1),
    b"T": _blob(4),
    b"C": _blob(1),
    b"B": _blob(4),
    b"\x8e": _blob(8),
    b"\x96": _blob(8),
    b"X": _blob(4, "text"),
    b"\x8c": _blob(1, "text"),
    b"\x8d": _blob(8, "text"),
    b"c": lambda reader: reader.global_line(),
    b"\x93": lambda reader: reader.stack_global(),
    b"R": lambda reader: reader.reduced(),
    b"b": lambda reader: reader.built(),
    b"p": lambda reader: reader.remember(int(line) if (line := reader.line()).isdigit() else -1),
    b"q": lambda reader: reader.remember(reader.number(1)),
    b"r": lambda reader: reader.remember(reader.number(4)),
    b"\x94": lambda reader: reader.remember(len(reader.memo)),
    b"g": lambda reader: reader.recall(int(line) if (line := reader.line()).isdigit() else -1),
    b"h": lambda reader: reader.recall(reader.number(1)),
    b"j": lambda reader: reader.recall(reader.number(4)),
}
"""Those of lists, tuples, numbers, bytes, texts and the names above; see `pickletools`."""
