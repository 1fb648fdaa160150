"""The header of an ONNX file: inputs, outputs and the files of its weights, without the weights.

The file is mapped and its fields are walked over, so that gigabytes of weights are not read. The
numbers of the fields are those of onnx.proto3.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from alignkit.errors import DataError
from alignkit.models.file_kind import mistaken
from alignkit.stored_file import open_regular
from alignkit.tasks import OutputShape

Shape: TypeAlias = tuple[int | None, ...]
"""``None`` for a dimension that the file leaves open."""

_MOST_FIELDS = 100_000
"""Fields of a model that are read: one for its graph, and one for each function and entry."""
_FLOAT, DOUBLE = 1, 11
"""Types of elements, as onnx numbers them."""
_WHOLE = frozenset({2, 3, 4, 5, 6, 7, 9, 12, 13})
_TYPES = {
    0: "undefined", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
    10: "float16", 11: "float64", 16: "bfloat16",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OnnxValue:
    """An input or output of a graph."""

    name: str
    type: int
    """Of its elements, as onnx numbers them."""
    shape: Shape | None
    """``None`` if the file leaves all of it open."""


@dataclass(frozen=True, slots=True)
class OnnxHeader:
    """The part of a graph that says how to use it."""

    inputs: tuple[OnnxValue, ...]
    """Without those that are weights, which older exporters list too."""
    outputs: tuple[OnnxValue, ...]
    beside: tuple[str, ...]
    """Files that hold weights, relative to this one."""
    metadata: tuple[tuple[str, str], ...] = ()
    """Key and value of each entry that its exporter wrote beside the graph."""

    @property
    def declared(self) -> tuple[OutputShape, ...]:
        """The outputs, as a task recognises them."""
        return tuple(
            OutputShape(each.name, each.shape, each.type in _WHOLE) for each in self.outputs
        )

    @property
    def classes(self) -> int | None:
        """The number of outputs of a classifier; ``None`` if the file leaves it open."""
        shape = self.outputs[0].shape if self.outputs else None
        return shape[1] if shape and len(shape) == 2 else None


def read_onnx_header(file: Path) -> OnnxHeader:
    """Read the header; raise `DataError`, whose text names the file, if it is no ONNX file."""
    try:
        reason = mistaken(file, "onnx")
        model = [] if reason else [*islice(_fields(_mapped(file)), _MOST_FIELDS)]
        graphs = [each for number, each in model if number == 7]
        if graphs and any(number == 1 for number, _ in model):
            functions = [each for number, each in model if number == 25]
            pairs = tuple(_pair(each) for number, each in model if number == 14)
            return replace(_header(graphs[-1], functions), metadata=pairs)
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror})") from error
    except (ValueError, IndexError, TypeError, RecursionError) as error:
        reason = "its fields cannot be read; fetch or export it again"
        raise DataError(f"{file} is no ONNX file, or it is damaged: {reason}") from error
    raise DataError(f"{file} is no ONNX file: {reason or 'it holds no graph; export it again'}")


def _mapped(file: Path) -> memoryview:
    with open_regular(file) as opened:
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))


def onnx_faults(
    file: Path, header: OnnxHeader, size: tuple[int, int], wanted: Collection[str] = ()
) -> Iterator[str]:
    """Say why a graph does not take (samples, 3, height, width) float32, or give float32.

    ``wanted`` are the names of the outputs that are read, all if empty.
    """
    if len(header.inputs) != 1 or not header.outputs:
        yield (
            f"{file} has {len(header.inputs)} inputs and {len(header.outputs)} outputs; a model "
            "with one input, the images, is needed"
        )
        return
    (given,) = header.inputs
    if given.type != _FLOAT:
        yield (
            f"{file} takes {_TYPES.get(given.type, 'other values')}, no float32; export it with a "
            "float32 input"
        )
    if given.shape is None:
        yield (
            f"{file} does not say how many sides its input {given.name!r} has; declare it as "
            f"{in_text((None, 3, *size))} (onnx.helper.make_tensor_value_info), or export it again"
        )
    else:
        yield from _input_faults(file, given.shape, (3, *size))
    double = [each.name for each in header.outputs if each.type == DOUBLE]
    if named := [each for each in double if each in wanted or not wanted]:
        yield (
            f"{file} gives {_TYPES[DOUBLE]} outputs ({', '.join(named)}), and outputs are "
            "compared in float32; export it in float32"
        )


def _input_faults(file: Path, taken: Shape, wanted: tuple[int, int, int]) -> Iterator[str]:
    if len(taken) == 4 and taken[3] == 3 and taken[1] != 3:
        yield f"{file} takes {in_text(taken)}: channels last; export it with channels first"
        return
    fits = len(taken) == 4 and all(
        has in (None, want) for has, want in zip(taken[1:], wanted, strict=True)
    )
    if not fits:
        yield (
            f"{file} takes inputs of {in_text(taken)}, and the path gives "
            f"{in_text((None, *wanted))}; change the path's size, or export the model again"
        )
    if len(taken) == 4 and taken[0] not in (None, 1):  # one image at a time is no fault
        yield (
            f"{file} takes batches of exactly {taken[0]}; export it with a free first dimension "
            "(torch.onnx.export: dynamic_shapes, or dynamic_axes)"
        )


def one_size(file: Path) -> str:
    """Say that a graph takes images of one size only; empty if height and width are open.

    Raise `DataError` as `read_onnx_header` does.
    """
    taken = next((each.shape for each in read_onnx_header(file).inputs), None)
    if taken is None or taken[2:] == (None, None):
        return ""
    return (
        f"{file} takes inputs of {in_text(taken)} alone; export it with open height and width "
        "(torch.onnx.export: dynamic_shapes; Ultralytics: dynamic=True)"
    )


def in_text(shape: Shape) -> str:
    """Write ``?x3x224x224``."""
    return "x".join("?" if each is None else str(each) for each in shape)


_Field: TypeAlias = int | memoryview


def _fields(message: memoryview) -> Iterator[tuple[int, _Field]]:
    """Yield number and value of each field; raise `ValueError` or `IndexError` for no message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire not in (1, 2, 5) or not number:
            raise ValueError("its fields cannot be read")
        size, at = _varint(message, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
        if at + size > len(message):
            raise ValueError("it ends within a field")
        yield number, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("its fields cannot be read")


def _all(message: _Field, number: int) -> list[_Field]:
    return [value for found, value in _fields(_message(message)) if found == number]


def _message(value: _Field) -> memoryview:
    if isinstance(value, int):
        raise TypeError("its fields cannot be read")
    return value


def _text(value: _Field) -> str:
    return bytes(_message(value)).decode()


def _header(graph: _Field, functions: Iterable[_Field]) -> OnnxHeader:
    weights = {_text(name) for each in _all(graph, 5) for name in _all(each, 8)}
    inputs = [_value(each) for each in _all(graph, 11)]
    outputs = tuple(_value(each) for each in _all(graph, 12))
    tensors = [*_tensors(graph), *(each for one in functions for each in _of_nodes(one, 7))]
    entries = [entry for tensor in tensors for entry in _all(tensor, 13)]
    located = [each for each in entries if [_text(key) for key in _all(each, 1)] == ["location"]]
    beside = dict.fromkeys(_text(name) for each in located for name in _all(each, 2))
    own = tuple(each for each in inputs if each.name not in weights)
    return OnnxHeader(own, outputs, tuple(filter(None, beside)))


def _pair(entry: _Field) -> tuple[str, str]:
    key, value = ("".join(map(_text, _all(entry, number))) for number in (1, 2))
    return key, value


def _tensors(graph: _Field) -> Iterator[_Field]:
    """Yield all tensors of a graph and the graphs in it: each may have its values in a file."""
    yield from _all(graph, 5)
    yield from _sparse(_all(graph, 15))
    yield from _of_nodes(graph, 1)


def _sparse(tensors: Iterable[_Field]) -> Iterator[_Field]:
    for each in tensors:
        yield from (*_all(each, 1), *_all(each, 2))


def _of_nodes(holder: _Field, number: int) -> Iterator[_Field]:
    """Yield the tensors in the attributes of nodes, which are the field ``number``."""
    for attribute in (each for node in _all(holder, number) for each in _all(node, 5)):
        for kind, value in _fields(_message(attribute)):
            if kind in (5, 10):
                yield value
            elif kind in (6, 11):
                yield from _tensors(value)
            elif kind in (22, 23):
                yield from _sparse([value])


def _value(info: _Field) -> OnnxValue:
    name = "".join(map(_text, _all(info, 1)))
    tensors = [tensor for kind in _all(info, 2) for tensor in _all(kind, 1)]
    types = [each for tensor in tensors for each in _all(tensor, 1) if isinstance(each, int)]
    shapes = [shape for tensor in tensors for shape in _all(tensor, 2)]
    shape = tuple(map(_dimension, _all(shapes[-1], 1))) if shapes else None
    return OnnxValue(name, types[-1] if types else 0, shape)


def _dimension(value: _Field) -> int | None:
    numbers = [each for each in _all(value, 1) if isinstance(each, int)]
    # some exporters write 0 or -1 for a free dimension
    return numbers[-1] if numbers and 0 < numbers[-1] < 2**63 else None
