"""The layers of an ONNX graph, and the graph cut off behind one of them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignkit.errors import DataError

_NOT_LAYERS = ("Constant", "Identity")
_MAX_WEIGHTS = 2**31
"""Bytes: protobuf's limit for a message."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A floating-point output of a node."""

    name: str
    """The node's name; that of its output if it has none."""
    operator: str
    tensor: str

    def facts(self) -> dict[str, Any]:
        """Return the keywords of a `LayerDrift`."""
        return {"name": self.name, "operator": self.operator, "tensor": self.tensor}


def load_graph(file: Path) -> Any:
    """Read an ``onnx.ModelProto`` with its weights and the shapes of all its tensors.

    Raises `DataError` if the file is no ONNX file, or its weights exceed one protobuf message.
    """
    import onnx

    try:
        model = onnx.load(file)
    except Exception as error:
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
        ir_version=model.ir_version,
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
