"""Kinds of models' files, and names and shapes of the tensors in a file of ``torch.save``.

A kind is known by first bytes and the names in an archive; torch is not imported, and no value is
loaded. The pickle of weights is read by an unpickler that imports nothing: each class and function
that it names is replaced by a blank, so that nothing of it is executed. torch reads the values
(`alignkit.models.architectures`), and refuses every object that is no tensor or plain
container; so does this.
"""

from __future__ import annotations

import errno
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, ClassVar, Literal
from zipfile import BadZipFile, ZipFile

from alignkit.errors import DataError
from alignkit.limits import WEIGHTS_BYTES, read_member
from alignkit.stored_file import open_regular

FileKind = Literal[
    "empty", "cut", "weights", "torchscript", "exported", "onnx", "safetensors", "page", "pointer",
    "keras", "tflite", "other",
]  # fmt: skip
"""``weights`` is any other archive of ``torch.save``, ``cut`` the beginning of an archive."""

_WRITERS = {"weights": "torch.save", "torchscript": "torch.jit", "exported": "torch.export"}
_HEAD = 4096
_SAFETENSORS = 100_000_000
"""Bytes of a header: the format's own limit."""
_GIVE = {
    "weights": "it is a file of torch.save; give it as 'weights', with its 'model'",
    "torchscript": "it is a TorchScript file; give it as 'torchscript'",
    "exported": "it is an archive of torch.export; give it as 'exported'",
    "onnx": "it is an ONNX file; give it as 'onnx'",
    "safetensors": "it is a safetensors file; convert it: "
    "torch.save(safetensors.torch.load_file(FILE), 'weights.pt')",
    "page": "it is a web page, as a failed download leaves it; fetch the file again",
    "pointer": "it is a pointer of Git LFS; fetch the file: git lfs pull",
    "keras": "it is an HDF5 file, as Keras writes it; export the model to ONNX",
    "tflite": "it is a TensorFlow Lite file; convert the model to ONNX",
    "empty": "it is empty: a download or copy was cut; fetch it again",
}


def kind_of(file: Path) -> FileKind:
    """Return the kind of a file; raise `OSError` if it cannot be read."""
    with open_regular(file) as opened:
        head = opened.read(_HEAD)
    if head.startswith(b"PK\x03\x04"):
        return _archive(file)
    signs: dict[FileKind, bool] = {
        "empty": not head,
        "page": head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")),
        "pointer": head.startswith(b"version https://git-lfs"),
        "keras": head.startswith(b"\x89HDF\r\n\x1a\n"),
        "tflite": head[4:8] == b"TFL3",
        # the size of its header, and the header
        "safetensors": head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= _SAFETENSORS,
        # an ONNX file begins with its field 1, a small version; a pickle with another byte
        "onnx": head[:1] == b"\x08" and head[1:2] < b"@",
    }
    return next((kind for kind, found in signs.items() if found), "other")


def _archive(file: Path) -> FileKind:
    try:
        with ZipFile(file) as archive:
            names = [name.partition("/")[2] or name for name in archive.namelist()]
    except (BadZipFile, OSError, ValueError):
        return "cut"
    if any(name.startswith("code/") for name in names) and "constants.pkl" in names:
        return "torchscript"
    exported = ("archive_format", "serialized_exported_program.json")
    return "exported" if any(name in exported for name in names) else "weights"


def mistaken(file: Path, wanted: FileKind) -> str:
    """Say that a file is of another kind than ``wanted``, and the next step; empty if unknown.

    Raise `OSError` if it cannot be read.
    """
    kind = kind_of(file)
    if kind == "cut":
        size = file.stat().st_size
        return f"it ends after {size} bytes: a download or copy was cut; fetch it again"
    return "" if kind == wanted else _GIVE.get(kind, "")


def damage(file: Path, error: Exception, wanted: FileKind) -> str:
    """Explain why torch cannot read a file that should be of a kind: the next step."""
    if isinstance(error, OSError) and error.errno != errno.EINVAL:
        return f"it cannot be read ({error.strerror})"
    if reason := mistaken(file, wanted):
        return reason
    writer = _WRITERS[wanted]
    # of a file that is no archive, torch's text advises to load it unsafely
    reason = f"no file of {writer}"
    if kind_of(file) == wanted:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return f"it is damaged ({reason}); fetch it again, or save it with {writer}"


_NESTED = ("state_dict", "model_state_dict", "model")
"""Keys under which training scripts keep the ``state_dict`` beside an optimiser's state."""
_WRAPPERS = {"module.": "DataParallel", "_orig_mod.": "torch.compile"}
"""Beginnings of all names that a wrapper around the module adds."""
_Unpickler: Any = pickle._Unpickler  # noqa: SLF001 - see below
_MOST_COPIED = 10_000_000
"""Values that a pickle may copy; torch's own copy the sides of each tensor."""
_NEVER = {
    each[0]
    for each in (pickle.BYTEARRAY8, pickle.INST, pickle.OBJ, pickle.NEWOBJ_EX, pickle.ADDITEMS,
                 pickle.FROZENSET)
}  # fmt: skip
"""Instructions that torch.save does not write, and which could make something large."""
_LEGACY = 0x1950A86A20F9469CFC6C
"""The number that torch wrote first before it wrote archives."""
_PLAIN = {
    "collections": ("OrderedDict", "Counter"),
    "_codecs": ("encode",),
    "builtins": ("set", "bytearray", "complex"),
    "torch": None, "torch._utils": None, "torch._tensor": None, "torch.storage": None,
    "torch.serialization": None, "torch.nn.parameter": None,
}  # fmt: skip
"""Module → its names that torch reads safely; ``None`` leaves them to torch."""


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """A tensor without its values."""

    shape: tuple[int, ...] | None
    """``None`` for a kind of tensor whose shape is not read."""


@dataclass(frozen=True, slots=True)
class WeightsHeader:
    """The contents of a file of weights."""

    tensors: Mapping[str, Any]
    """Name → `TensorHeader`, or another value."""
    key: str = ""
    """The key of a whole training's state that holds them; empty if they are the file's content."""


def read_weights_header(file: Path) -> WeightsHeader:
    """Read the header of a file of weights.

    Raise `DataError`, whose text does not name the file, if it holds more than tensors and plain
    containers, or none, or is damaged or of another kind.
    """
    try:
        content = _content(file)
    except DataError:
        raise
    except Exception as error:  # a damaged pickle makes its reader raise any kind
        raise DataError(damage(file, error, "weights")) from error
    return weights_in(content)


def _content(file: Path) -> Any:
    if kind_of(file) == "weights":
        with ZipFile(file) as archive:
            name = next(each for each in archive.namelist() if each.endswith("data.pkl"))
            pickled = read_member(archive, archive.getinfo(name), WEIGHTS_BYTES)
        return _unpickled(BytesIO(pickled))
    if reason := mistaken(file, "weights"):
        raise DataError(reason)
    # behind the names lie the values, which are not read
    with open_regular(file) as opened:
        return _legacy(BytesIO(opened.read(int(WEIGHTS_BYTES()))))


def weights_in(content: Any) -> WeightsHeader:
    """Find the ``state_dict`` in a file's content, whose tensors may be headers or torch's.

    Raise `DataError`, whose text does not name the file, if there is none, or it lies below a key
    that is none of `_NESTED`.
    """
    if not isinstance(content, Mapping):
        raise DataError(f"it holds a {type(content).__name__}, no state_dict")
    for key in _NESTED:
        if isinstance(content.get(key), Mapping):
            return WeightsHeader(content[key], key)
    if below := _below(content):
        others = f" (others: {', '.join(map(repr, below[1:]))})" if below[1:] else ""
        raise DataError(
            f"the weights lie below {below[0]!r}{others}; save them alone: "
            f"torch.save(torch.load(FILE, weights_only=True)[{below[0]!r}], 'weights.pt')"
        )
    return WeightsHeader(content)


def _below(content: Mapping[Any, Any]) -> list[Any]:
    """Return the keys below which more tensors lie than at the top, the largest first."""
    top = sum(map(_is_tensor, content.values()))
    tensors = {
        key: len(each)
        for key, each in content.items()
        if isinstance(each, Mapping) and all(map(_is_tensor, each.values())) and len(each) > top
    }
    return sorted(tensors, key=lambda key: -tensors[key])


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape")


def wrapper(names: Iterable[Any]) -> str:
    """Say that a wrapper around the module wrote all of these names; empty if none did."""
    given = [str(name) for name in names]
    for prefix, added_by in _WRAPPERS.items():
        if given and all(name.startswith(prefix) for name in given):
            return (
                f"all of its {len(given)} names begin with {prefix!r}, which {added_by} adds; save "
                f"the state_dict of the module inside: torch.save(model.{prefix}state_dict(), FILE)"
            )
    return ""


def _legacy(opened: IO[bytes]) -> Any:
    first = _unpickled(opened)
    if first != _LEGACY:
        raise ValueError("no file of torch.save")
    for _ in range(2):  # the version of the format, and facts of the system
        _unpickled(opened)
    return _unpickled(opened)


def _unpickled(opened: IO[bytes]) -> Any:
    """Unpickle one object with blanks; raise `DataError` if it needs more than plain containers."""
    unpickler = _BlankUnpickler(opened)
    content = unpickler.load()
    if not unpickler.foreign:
        return content
    if whole := _whole_module(content):
        name, key = whole
        inside = f"[{key!r}]" if key else ""
        raise DataError(
            f"it is a whole pickled module ({name}), which runs code when it is loaded; where you "
            f"trust it, save its weights alone: torch.save(torch.load(FILE, weights_only=False)"
            f"{inside}.state_dict(), 'weights.pt')"
        )
    raise DataError(
        f"it is a pickle that would run code or build objects other than tensors "
        f"({unpickler.foreign[0]}); save the weights alone, torch.save(model.state_dict(), FILE)"
    )


def _whole_module(content: Any) -> tuple[str, str] | None:
    """Return the class of a pickled module, and the key that holds it; ``None`` without any."""
    held = {"": content, **(content if isinstance(content, Mapping) else {})}
    for key, each in held.items():
        state = getattr(each, "state", None)
        if isinstance(each, _Blank) and isinstance(state, dict) and "_modules" in state:
            return type(each).__qualname__, str(key)
    return None


class _Blank:
    """An object of a class that is not imported."""

    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        """Take an element, as lists do."""

    def extend(self, values: Any) -> None:
        """Take elements, as lists do."""


def _shaped(place: int) -> Callable[..., TensorHeader]:
    """Return a function that makes a tensor of the shape which is its argument at ``place``."""
    return lambda *arguments: TensorHeader(tuple(map(int, arguments[place])))


def _first(*arguments: Any) -> Any:
    return arguments[0]


_KNOWN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): lambda *_: Counter(),
    ("builtins", "set"): lambda *_: set(),
    ("torch", "Size"): tuple,
    ("torch._utils", "_rebuild_tensor"): _shaped(2),
    ("torch._utils", "_rebuild_tensor_v2"): _shaped(2),
    ("torch._utils", "_rebuild_tensor_v3"): _shaped(2),
    ("torch._utils", "_rebuild_qtensor"): _shaped(2),
    ("torch._utils", "_rebuild_parameter"): _first,
    ("torch._utils", "_rebuild_parameter_with_state"): _first,
    ("torch._tensor", "_rebuild_from_type_v2"): lambda make, _, given, *__: make(*given),
}
"""(module, name) → what it is replaced by."""


class _BlankUnpickler(_Unpickler):  # type: ignore[misc]  # it is in Python, without types
    """An unpickler that imports nothing, and makes nothing large.

    It is the one in Python: that in C makes room for any index of the memo, up to 2**32 values.
    """

    def __init__(self, opened: IO[bytes]) -> None:
        super().__init__(opened)
        self.foreign: list[str] = []
        """Names of classes and functions that torch would refuse, in order."""
        self._copied = 0

    def _count(self) -> None:
        """Refuse values that are copied over and over, by a few bytes each time."""
        values = self.stack[-1]
        of_each = values if isinstance(values, tuple) else (values,)
        self._copied += sum(len(each) for each in of_each if isinstance(each, Sized))
        if self._copied > _MOST_COPIED:
            raise DataError(f"its pickle copies more than {_MOST_COPIED:,} values")

    def _require_key(self, key: Any) -> None:
        # the time to hash a tuple of the same tuple twice, of the same twice …, doubles each time
        if isinstance(key, tuple):
            raise DataError("its pickle has a tuple as a key")

    def load_reduce(self) -> None:
        self._count()
        super().load_reduce()

    def load_newobj(self) -> None:
        self._count()
        super().load_newobj()

    def load_build(self) -> None:
        self._count()
        super().load_build()

    def load_setitem(self) -> None:
        self._require_key(self.stack[-2])
        super().load_setitem()

    def load_setitems(self) -> None:
        for key in self.stack[::2]:
            self._require_key(key)
        super().load_setitems()

    dispatch: ClassVar[dict[int, Any]] = {
        code: follow for code, follow in _Unpickler.dispatch.items() if code not in _NEVER
    } | {
        pickle.REDUCE[0]: load_reduce,
        pickle.NEWOBJ[0]: load_newobj,
        pickle.BUILD[0]: load_build,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return a replacement of a class or function."""
        # torch.save writes pickles of protocol 2, with Python 2's name of the module
        module = {"__builtin__": "builtins"}.get(module, module)
        if (module, name) in _KNOWN:
            return _KNOWN[module, name]
        plain = _PLAIN.get(module, ())
        if plain is not None and name not in plain:
            self.foreign.append(f"{module}.{name}")
        return type(name, (_Blank,), {"__qualname__": f"{module}.{name}", "shape": None})

    def persistent_load(self, pid: Any) -> Any:
        """Return a storage's description in place of its values, and a class that has a source."""
        if isinstance(pid, tuple) and pid[:1] == ("module",):
            return pid[1]
        return pid
