"""The layers of an ONNX graph: the graph cut off behind one, and one layer isolated.

An isolated layer is fed the reference's activations, to measure its own error. A backend's session
takes one array, (samples, 3, height, width). So the layer's inputs are packed side by side into one
array of (samples, 3, 1, width), and the graph begins by unpacking them.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Batch
from alignkit.errors import DataError

Values: TypeAlias = npt.NDArray[np.floating]
_INPUT = "alignkit_packed"
_NOT_LAYERS = ("Constant", "Identity")  # they compute nothing
_MAX_WEIGHTS = 2**31
"""Bytes: protobuf's limit for a message."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A floating-point output of a node; its fields are keywords of a `LayerDrift`."""

    name: str
    """The node's name; that of its output if it has none."""
    operator: str
    tensor: str


def load_graph(file: Path) -> Any:
    """Read an ``onnx.ModelProto`` with its weights and the shapes of all its tensors.

    Raises `DataError` if the file is no ONNX file, or its weights exceed one protobuf message.
    """
    import onnx

    try:
        model = onnx.load(file)
    except Exception as error:  # protobuf, onnx and the system have no common one
        raise DataError(f"{file} is no ONNX file ({error})") from error
    weights = sum(len(each.raw_data) for each in model.graph.initializer)
    if weights > _MAX_WEIGHTS:
        raise DataError(
            f"{file} has {weights / 2**30:.1f} GiB of weights; a graph is taken apart up to "
            f"{_MAX_WEIGHTS / 2**30:g} GiB, the limit of an ONNX file without external data"
        )
    try:
        return onnx.shape_inference.infer_shapes(model)
    except Exception as error:
        raise DataError(f"{file}: the shapes of its tensors are unknown ({error})") from error


def layers_of(model: Any) -> tuple[Layer, ...]:
    """Return every floating-point output that depends on the model's input, in graph order."""
    import onnx

    kinds = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
    floats = {
        name for name, each in tensors_of(model).items() if each.type.tensor_type.elem_type in kinds
    }
    reached = {each.name for each in inputs_of(model)}
    layers = []
    for node in model.graph.node:
        if reached.isdisjoint(_read(node)):
            continue
        reached.update(node.output)
        layers += [
            Layer(node.name or output, node.op_type, output)
            for output in node.output
            if output in floats and node.op_type not in _NOT_LAYERS
        ]
    return tuple(layers)


def outputs_of(model: Any) -> list[str]:
    """Name the model's outputs, or the tensor of which one is only another name."""
    same = {
        each.output[0]: each.input[0] for each in model.graph.node if each.op_type == "Identity"
    }
    names = []
    for each in model.graph.output:
        name = each.name
        while name in same:
            name = same[name]
        names.append(name)
    return names


def cut(model: Any, tensor: str) -> Any:
    """Return the model with ``tensor`` as its only output, without nodes it does not need."""
    nodes, _ = leading_to(model, tensor)
    return rebuilt(model, nodes, inputs_of(model), tensor)


def leading_to(
    model: Any, tensor: str, given: Container[str] = ()
) -> tuple[list[Any], frozenset[str]]:
    """Return the nodes from ``given`` tensors to ``tensor``, in order, and the names they read."""
    needed, nodes = {tensor}, []
    for node in reversed(model.graph.node):
        wanted = {name for name in needed if name not in given}
        if not wanted.isdisjoint(node.output):
            nodes.append(node)
            needed.update(_read(node))
    return nodes[::-1], frozenset(needed - {tensor})


def rebuilt(
    model: Any,
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    tensor: str,
    constants: Sequence[Any] = (),
) -> Any:
    """Build a model of these nodes, with the weights they read and ``tensor`` as its output."""
    from onnx import helper

    read = {name for node in nodes for name in _read(node)}
    graph = helper.make_graph(
        nodes,
        model.graph.name,
        inputs,
        [tensors_of(model)[tensor]],
        [*constants, *(each for each in model.graph.initializer if each.name in read)],
    )
    return helper.make_model(
        graph,
        opset_imports=model.opset_import,
        ir_version=model.ir_version,  # the file's: a runtime may refuse a newer one
        functions=model.functions,
    )


def tensors_of(model: Any) -> dict[str, Any]:
    """Return name → ``ValueInfoProto`` of every tensor whose type is known."""
    return {each.name: each for each in (*model.graph.value_info, *model.graph.output)}


def inputs_of(model: Any) -> list[Any]:
    """Return the inputs that a caller gives; older files list the weights among them."""
    weights = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in weights]


def _read(node: Any) -> Iterator[str]:
    """Yield the names a node reads, including those of graphs inside it (``If``, ``Loop``)."""
    yield from node.input
    for attribute in node.attribute:
        for inside in attribute.g.node:
            yield from _read(inside)


class Activations:
    """Name of a tensor → its values, on disk: a model's activations are many times its weights.

    The files are removed with the object.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="alignkit-"))
        self._files: dict[str, Path] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        # not __del__: this runs at the exit of Python too
        weakref.finalize(self, shutil.rmtree, self._folder)

    def keep(self, tensor: str, values: Values) -> None:
        """Write the values of a tensor, in place of those kept before."""
        file = self._files.setdefault(tensor, self._folder / f"{len(self._files)}.npy")
        self.shapes[tensor] = values.shape
        np.save(file, values)

    def read(self, tensor: str) -> Values:
        """Return the values of a tensor; raises `KeyError` if none were kept."""
        values: Values = np.load(self._files[tensor])
        return values


def isolated_graph(
    model: Any, tensor: str, shapes: Mapping[str, tuple[int, ...]], images: int
) -> tuple[Any, tuple[str, ...]]:
    """Return the graph from known tensors to ``tensor``, and the names of those it is fed.

    ``shapes`` are those of the known tensors. A tensor whose first axis is no multiple of the
    images is not fed. Nodes that lead to the layer from tensors that are not fed, such as a
    computed shape, stay in the graph. The names are empty if no known tensor leads to the layer.
    """
    from onnx import TensorProto, helper

    usable = {
        name: shape
        for name, shape in shapes.items()
        if name != tensor and shape and shape[0] and shape[0] % images == 0
    }
    nodes, read = leading_to(model, tensor, usable)
    fed = tuple(name for name in usable if name in read)
    apart, constants = _taken_apart({name: usable[name] for name in fed}, images)
    shape = ["samples", 3, 1, "columns"]
    packed_input = helper.make_tensor_value_info(_INPUT, TensorProto.FLOAT, shape)
    return rebuilt(model, [*apart, *nodes], [packed_input], tensor, constants), fed


def packed(held: Activations, names: tuple[str, ...], images: int) -> Batch:
    """Lay the tensors side by side: (images, 3, 1, width) float32, padded with zeros."""
    flat = [np.reshape(held.read(name), (images, -1)) for name in names]
    # three channels hold a multiple of three columns
    columns = sum(each.shape[1] for each in flat)
    flat.append(np.zeros((images, -columns % 3), np.float32))
    return np.concatenate(flat, axis=1, dtype=np.float32).reshape(images, 3, 1, -1)


def _taken_apart(shapes: Mapping[str, tuple[int, ...]], images: int) -> tuple[list[Any], list[Any]]:
    """Return nodes that restore each tensor's name and shape, and the constants they read."""
    from onnx import helper, numpy_helper

    constants = {"axes": [1], "flat": [0, -1]}
    nodes = [helper.make_node("Reshape", [_INPUT, f"{_INPUT}_flat"], [f"{_INPUT}_rows"])]
    start = 0
    for number, (name, shape) in enumerate(shapes.items()):
        end = start + int(np.prod(shape)) // images
        constants |= {f"{number}_start": [start], f"{number}_end": [end]}
        constants[f"{number}_shape"] = [-1, *shape[1:]]
        bounds = [f"{_INPUT}_{each}" for each in (f"{number}_start", f"{number}_end", "axes")]
        columns = f"{_INPUT}_{number}_columns"
        nodes += [
            helper.make_node("Slice", [f"{_INPUT}_rows", *bounds], [columns]),
            helper.make_node("Reshape", [columns, f"{_INPUT}_{number}_shape"], [name]),
        ]
        start = end
    arrays = {f"{_INPUT}_{name}": np.array(each, np.int64) for name, each in constants.items()}
    return nodes, [numpy_helper.from_array(each, name) for name, each in arrays.items()]
