"""The header of an ONNX file: inputs, outputs and the files of its weights, without the weights.

The file is mapped and its fields are walked over, so that gigabytes of weights are not read. The
numbers of the fields are those of onnx.proto3.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from alignkit.errors import DataError
from alignkit.models.file_headers import mistaken
from alignkit.stored_file import Stamp, open_regular, stamp_of
from alignkit.tasks import OutputShape, ScoreScale

Shape: TypeAlias = tuple[int | None, ...]
"""``None`` for a dimension that the file leaves open."""

_MOST_FIELDS = 100_000
"""Fields of a model that are read: one for its graph, and one for each function and entry."""
_FLOAT, _BYTE, HALF, DOUBLE = 1, 2, 10, 11
"""Types of elements, as onnx numbers them."""
TAKEN = frozenset({_FLOAT, _BYTE, HALF})
"""Types of an input that `alignkit.models.joined_graph` gives an image in."""
_WHOLE = frozenset({2, 3, 4, 5, 6, 7, 9, 12, 13})
_COMPARED = _WHOLE | {0, _FLOAT, HALF}
"""Types of an output that float32 holds; 0 is one that the file leaves open."""
_TYPES = {
    0: "undefined", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
    10: "float16", 11: "float64", 16: "bfloat16", 8: "string", 14: "complex64", 15: "complex128",
    17: "float8", 18: "float8", 19: "float8", 20: "float8", 21: "uint4", 22: "int4", 23: "float4",
}  # fmt: skip
_SCALES: dict[str, ScoreScale] = {
    "Sigmoid": "probabilities", "HardSigmoid": "probabilities", "Softmax": "probabilities",
    "Gemm": "logits", "MatMul": "logits", "Conv": "logits", "LogSoftmax": "logits",
    "ArgMax": "ids",
}  # fmt: skip
"""Operator that makes an output → the scale of its values."""
_LINEAR = frozenset({"Gemm", "MatMul", "Conv"})
_SAME_SCALE = frozenset({
    "AveragePool", "Cast", "DequantizeLinear", "Dropout", "Flatten", "GlobalAveragePool",
    "Identity", "QuantizeLinear", "ReduceMean", "Reshape", "Resize", "Slice", "Squeeze",
    "Transpose", "Unsqueeze", "Upsample",
})  # fmt: skip
"""Operators whose output is on the scale of their first input."""


@dataclass(frozen=True, slots=True)
class OnnxValue:
    """An input or output of a graph."""

    name: str
    type: int
    """Of its elements, as onnx numbers them."""
    shape: Shape | None
    """``None`` if the file leaves all of it open."""
    scale: ScoreScale = ""
    """Scale of an output's values, by the operator that makes it; empty if that is open."""
    chosen_from: str = ""
    """The tensor of which an output is the place of the greatest, if its scale is ``ids``."""

    @property
    def channels_last(self) -> bool:
        """Whether an input has the channels of an image in its last side."""
        shape = self.shape or ()
        return len(shape) == 4 and shape[3] in (1, 3) and shape[1] not in (1, 3)

    @property
    def takes_bytes(self) -> bool:
        """Whether an input takes uint8."""
        return self.type == _BYTE

    @property
    def image(self) -> Shape | None:
        """Its sides as (images, channels, height, width), whatever their order in the file."""
        if self.shape is None or not self.channels_last:
            return self.shape
        return self.shape[0], self.shape[3], *self.shape[1:3]

    @property
    def unusual(self) -> str:
        """Say how an image is given to this input if it is no RGB plane after plane in float32."""
        shape, said = self.image or (), []
        if len(shape) == 4 and shape[1] == 1:
            said.append("one channel, 0.299 R + 0.587 G + 0.114 B")
        if self.channels_last:
            said.append("channels last")
        if self.takes_bytes:
            said.append("bytes, rounded")
        if self.type == HALF:
            said.append("float16, computed in float32")
        return ", ".join(said)


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
            OutputShape(
                each.name,
                each.shape,
                each.type in _WHOLE or each.scale == "ids",
                "" if each.scale == "ids" else each.scale,
            )
            for each in self.outputs
        )


# onnx reads all weights of a file: those of 420 MB in 2.4 s, into 860 MB of memory
def read_onnx_header(file: Path) -> OnnxHeader:
    """Read the header; raise `DataError`, whose text names the file, if it is no ONNX file."""
    try:
        return _read(file, stamp_of(file.stat()))
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror})") from error


@lru_cache(maxsize=16)  # a plan asks one file twenty times
def _read(file: Path, _stamp: Stamp) -> OnnxHeader:
    try:
        reason = mistaken(file, "onnx")
        model = [] if reason else [*islice(_fields(_mapped(file)), _MOST_FIELDS)]
        graphs = [each for number, each in model if number == 7]
        if graphs and any(number == 1 for number, _ in model):
            functions = [each for number, each in model if number == 25]
            pairs = tuple(_pair(each) for number, each in model if number == 14)
            return replace(_header(graphs[-1], functions), metadata=pairs)
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
    """Say why `alignkit.models.joined_graph` cannot give a graph images, or why it has no answer.

    ``wanted`` are the names of the outputs that are read, all if empty.
    """
    if len(header.inputs) != 1 or not header.outputs:
        yield _several(file, header, size)
        return
    (given,) = header.inputs
    if given.type not in TAKEN:
        yield (
            f"{file} takes {_TYPES.get(given.type, 'other values')}; export it with an input of "
            "float32, float16 or uint8"
        )
    if given.shape is None:
        yield (
            f"{file} does not say how many sides its input {given.name!r} has; declare it as "
            f"{in_text((None, 3, *size))} (onnx.helper.make_tensor_value_info), or export it again"
        )
    else:
        yield from _input_faults(file, given, size)
    named = [each for each in header.outputs if each.name in wanted or not wanted]
    if others := [each for each in named if each.type not in _COMPARED]:
        kinds = dict.fromkeys(_TYPES.get(each.type, "other") for each in others)
        yield (
            f"{file} gives {' and '.join(kinds)} outputs ({', '.join(e.name for e in others)}), "
            "and outputs are compared in float32; export it in float32"
        )


def _several(file: Path, header: OnnxHeader, size: tuple[int, int]) -> str:
    """Say that a graph has no output, or not one input; name the others as constants."""
    images = [each for each in header.inputs if each.shape is None or len(each.shape) == 4]
    others = [each for each in header.inputs if each not in images]
    has = f"{file} has {len(header.inputs)} inputs and {len(header.outputs)} outputs"
    if len(images) != 1 or not others or not header.outputs:
        return f"{has}; a model with one input, the images, is needed"
    known = [image or side for image, side in zip((images[0].image or ())[2:], size, strict=False)]
    sides = [str(each) for each in reversed(known or size)]  # width first, as RT-DETR has it
    made = "; ".join(
        "m.graph.initializer.append(onnx.numpy_helper.from_array(numpy.array("
        f"{_filled(each, sides)}, {_TYPES.get(each.type, 'float32')!r}), {each.name!r}))"
        for each in others
    )
    names = ", ".join(each.name for each in others)
    return (
        f"{has}; images alone are given. Make {names} constant, with the value that serving gives: "
        f'python -c "import numpy, onnx; m = onnx.load({str(file)!r}); {made}; '
        f'onnx.save(m, {str(file.with_stem(file.stem + "-constant"))!r})"'
    )


def _filled(given: OnnxValue, sides: list[str]) -> str:
    """Write a value for an input that is no image: the image's sides, if it takes two numbers."""
    shape = tuple(each or 1 for each in given.shape or ())
    if shape[-1:] == (2,) and "scale" not in given.name:
        return f"[[{', '.join(sides)}]]"
    return f"numpy.ones({shape})"


def _input_faults(file: Path, given: OnnxValue, size: tuple[int, int]) -> Iterator[str]:
    taken = given.image or ()
    fits = len(taken) == 4 and all(
        has is None or has in want
        for has, want in zip(taken[1:], ((1, 3), *((side,) for side in size)), strict=True)
    )
    if not fits:
        yield (
            f"{file} takes inputs of {in_text(given.shape or ())}, and the path gives "
            f"{in_text((None, 3, *size))}; change the path's size, or export the model again"
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
    taken = next((each.image for each in read_onnx_header(file).inputs), None)
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
    makers = _makers(graph)
    outputs = tuple(_told(each, makers) for each in map(_value, _all(graph, 12)))
    tensors = [*_tensors(graph), *(each for one in functions for each in _of_nodes(one, 7))]
    entries = [entry for tensor in tensors for entry in _all(tensor, 13)]
    located = [each for each in entries if [_text(key) for key in _all(each, 1)] == ["location"]]
    beside = dict.fromkeys(_text(name) for each in located for name in _all(each, 2))
    own = tuple(each for each in inputs if each.name not in weights)
    return OnnxHeader(own, outputs, tuple(filter(None, beside)))


_Makers: TypeAlias = dict[str, tuple[str, list[str]]]
"""Name of a tensor → the operator that makes it, and the names of its inputs."""


def _makers(graph: _Field) -> _Makers:
    found: _Makers = {}
    for node in _all(graph, 1):
        operator = "".join(map(_text, _all(node, 4)))
        given = [_text(each) for each in _all(node, 1)]
        found |= {_text(each): (operator, given) for each in _all(node, 2)}
    return found


def _told(output: OnnxValue, makers: _Makers) -> OnnxValue:
    """Add what the values of an output are, by the operator that makes it."""
    name = output.name
    for _ in makers:  # a damaged graph may be a circle
        operator, given = makers.get(name, ("", []))
        if operator == "Add":  # of a bias
            before = (makers.get(each, ("",))[0] for each in given)
            operator = next((each for each in before if each in _LINEAR), "")
        if operator not in _SAME_SCALE or not given:
            scale = _SCALES.get(operator, "")
            return replace(output, scale=scale, chosen_from=given[0] if scale == "ids" else "")
        name = given[0]
    return output


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
