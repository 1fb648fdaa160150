"""A user's ONNX graph as every backend takes it: in one file, of RGB planes in float32.

Exporters may keep its weights in files beside it, and it may take bytes, float16, channels last, or
one channel: it is joined with its weights, and nodes before it bring the planes into its own form.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alignkit.errors import DataError
from alignkit.models.onnx_header import HALF, OnnxHeader, OnnxValue, read_onnx_header
from alignkit.stored_file import file_sha256
from alignkit.workspace import Workspace

_LUMA = (0.299, 0.587, 0.114)
"""Shares of R, G and B in the only channel of a model, by ITU-R BT.601, as cv2 has them."""
_LARGEST = 2**31
"""Bytes of weights in one file: protobuf's limit for a message."""


def missing_weights(file: Path, header: OnnxHeader) -> list[str]:
    """Name each file in which the graph keeps weights, and which is not there."""
    return [
        f"{file} keeps its weights in {location}, which is not beside it; move both together"
        for location in header.beside
        if not (file.parent / location).is_file()
    ]


def weights_beside(file: Path) -> dict[str, str]:
    """Map each file in which the graph keeps weights to its SHA-256; empty if it holds its own.

    Raise `DataError` if one of them is not there, or the file is no ONNX file.
    """
    header = read_onnx_header(file)
    for reason in missing_weights(file, header):
        raise DataError(reason)
    return {location: file_sha256(file.parent / location) for location in header.beside}


def in_one_file(file: Path, workspace: Workspace) -> Path:
    """Return the file, or a stored file with its weights that takes RGB planes in float32.

    Raise `DataError` if one file cannot hold the weights, or they cannot be read.
    """
    beside, (given, *_) = weights_beside(file), read_onnx_header(file).inputs
    if not beside and not given.unusual:
        return file
    size = sum((file.parent / each).stat().st_size for each in beside)
    if size > _LARGEST:
        raise DataError(
            f"{file} has {size / 2**30:.1f} GiB of weights; backends take graphs of one file, "
            f"which holds at most {_LARGEST / 2**30:g} GiB"
        )

    def put_together(folder: Path) -> None:
        graph_in(folder).write_bytes(of_planes(file).SerializeToString())

    parts = {"graph": file_sha256(file), "weights": beside, "input": given.unusual}
    label = f"put {file.name} together"
    return workspace.keep("exports", parts, label, put_together, graph_in)


def of_planes(file: Path) -> Any:
    """Return the ``ModelProto`` of a graph and its weights, of (n, 3, height, width) float32.

    Raise `DataError` if they cannot be read.
    """
    import onnx

    (given, *_) = read_onnx_header(file).inputs
    try:
        model = onnx.load(file)
        if given.type == HALF:
            _widen(model.graph)
        if given.unusual:
            _take_planes(model, given)
    except Exception as error:
        raise DataError(f"{file}: its weights cannot be read ({error})") from error
    return model


def _take_planes(model: Any, given: OnnxValue) -> None:
    """Put the nodes before a graph that make its input of RGB planes in float32."""
    from onnx import TensorProto, helper

    (images, _, *sides) = given.image or (None,) * 4
    planes = helper.make_tensor_value_info(
        f"{given.name} in planes",
        TensorProto.FLOAT,
        [images or "images", 3, *(side or name for side, name in zip(sides, "hw", strict=True))],
    )
    kept = [each for each in model.graph.input if each.name != given.name]
    nodes, constants = _steps(given, planes.name)
    nodes += list(model.graph.node)
    model.graph.initializer.extend(constants)
    for field, wanted in ((model.graph.input, [planes, *kept]), (model.graph.node, nodes)):
        # copies, as the field owns its entries
        copies = [type(each).FromString(each.SerializeToString()) for each in wanted]
        del field[:]
        field.extend(copies)


def _steps(given: OnnxValue, planes: str) -> tuple[list[Any], list[Any]]:
    """Return the nodes from ``planes`` to the input ``given``, and their constants."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    name = planes
    nodes: list[Any] = []
    constants: list[Any] = []

    def then(operator: str, *more: str, **options: Any) -> None:
        nonlocal name
        made = f"{planes} {len(nodes)}"
        nodes.append(helper.make_node(operator, [name, *more], [made], name=made, **options))
        name = made

    def constant(values: Any) -> str:
        constants.append(numpy_helper.from_array(values, f"{planes} constant {len(constants)}"))
        return str(constants[-1].name)

    if (given.image or (0, 0))[1] == 1:
        shares = []
        for channel, share in enumerate(_LUMA):
            name = planes
            then("Gather", constant(np.array([channel], np.int64)), axis=1)
            then("Mul", constant(np.array(share, np.float32)))
            shares.append(name)
        name, *others = shares
        for other in others:
            then("Add", other)
    if given.channels_last:
        then("Transpose", perm=[0, 2, 3, 1])
    if given.takes_bytes:
        # by ReLU and the least of both, as Clip has its limits in other places in other opsets
        then("Relu")
        then("Min", constant(np.array(255, np.float32)))
        then("Add", constant(np.array(0.5, np.float32)))
        then("Cast", to=TensorProto.UINT8)  # which cuts the fraction off
    then("Identity")
    nodes[-1].output[0] = given.name
    return nodes, constants


def _widen(graph: Any) -> None:
    """Store and compute in float32 what a graph has in float16: every float16 is a float32."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    for tensor in _tensors_of(graph):
        if tensor.data_type == TensorProto.FLOAT16:
            wide = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for inner in _graphs_in(graph):
        for value in (*inner.input, *inner.output, *inner.value_info):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
                value.type.tensor_type.elem_type = TensorProto.FLOAT
        for node in inner.node:
            for attribute in node.attribute:
                if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT16:
                    attribute.i = TensorProto.FLOAT


def _graphs_in(graph: Any) -> Iterator[Any]:
    """Yield a graph, and those of its branches and loops."""
    yield graph
    for attribute in (each for node in graph.node for each in node.attribute):
        for inner in (attribute.g, *attribute.graphs):
            if inner.node:
                yield from _graphs_in(inner)


def _tensors_of(graph: Any) -> Iterator[Any]:
    for inner in _graphs_in(graph):
        yield from inner.initializer
        for attribute in (each for node in inner.node for each in node.attribute):
            yield from (attribute.t, *attribute.tensors)


def graph_in(folder: Path) -> Path:
    """Return the file of a stored graph."""
    return folder / "model.onnx"
