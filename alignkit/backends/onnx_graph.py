"""ONNX graphs for several runtimes, and a runtime's reason for refusing one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.models.onnx_header import DOUBLE, read_onnx_header

if TYPE_CHECKING:
    from alignkit.backends import Precision

_SOURCE_PLACES = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : "
    r"|Load model from \S+ failed:"
    r"|/\S+\.(?:cc|h):\d+ .*?\) (?=[A-Z])"  # ONNX Runtime's file, line and C++ signature
    r"|(?:Exception from|Check '[^']*' failed at) \S+:\d+:"  # OpenVINO's
)
"""Parts of a message that name the library's own source or one of its temporary files."""


def graph_of(onnx: Path, precision: Precision, wanted: Sequence[str] = ()) -> bytes:
    """Return the graph for a runtime that computes in the types of the graph.

    ``wanted`` are the outputs that are read, all if empty. The others are left out if one of them
    is float64: no model that computes in float32 need compute it.
    """
    if precision == "fp16":
        return half_precision(onnx, wanted)
    if not _has_double(onnx, wanted):
        return onnx.read_bytes()
    serialised: bytes = _wanted_model(onnx, wanted).SerializeToString()
    return serialised


def _has_double(onnx: Path, wanted: Sequence[str]) -> bool:
    return bool(wanted) and any(each.type == DOUBLE for each in read_onnx_header(onnx).outputs)


def _wanted_model(onnx: Path, wanted: Sequence[str]) -> Any:
    """Load a model with the outputs ``wanted``, and the nodes that they need."""
    from onnx import load

    model = load(onnx)
    needed, nodes = {*wanted}, []
    # nodes are sorted: each comes after those that it reads
    for node in reversed(model.graph.node):
        if needed & {*node.output}:
            needed |= {*names_read(node)}
            nodes.append(node)
    outputs = [each for each in model.graph.output if each.name in wanted]
    for field, kept in ((model.graph.node, nodes[::-1]), (model.graph.output, outputs)):
        # copies, as the field owns its entries
        copies = [type(each).FromString(each.SerializeToString()) for each in kept]
        del field[:]
        field.extend(copies)
    return model


def names_read(node: Any) -> Iterator[str]:
    """Name all that a node reads, also in the graphs of its branches."""
    yield from filter(None, node.input)  # an optional input that is absent has an empty name
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (each.name for each in graph.output)
            for inner in graph.node:
                yield from names_read(inner)


def half_precision(onnx: Path, wanted: Sequence[str] = ()) -> bytes:
    """Convert weights and edges to float16, and keep inputs and outputs in float32.

    ``wanted`` are those of `graph_of`.
    """
    from onnx import load
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = _wanted_model(onnx, wanted) if _has_double(onnx, wanted) else load(onnx)
    converted: bytes = convert_float_to_float16(model, keep_io_types=True).SerializeToString()
    return converted


def byte_products() -> bytes:
    """Make a graph that multiplies ``bytes``, uint8 (4, 64), by int8 weights that are all 127."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    # 127: two products with 255 exceed 16 bits, which a saturating kernel shows
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["bytes", "weights"], ["product"])],
        "byte products",
        [helper.make_tensor_value_info("bytes", TensorProto.UINT8, (4, 64))],
        [helper.make_tensor_value_info("product", TensorProto.INT32, (4, 16))],
        [numpy_helper.from_array(np.full((64, 16), 127, np.int8), "weights")],
    )
    return _serialised(graph)


def products() -> bytes:
    """Make a graph that multiplies a matrix and convolves an image with the identity, in float32.

    ``matrix`` is (1024, 64), ``image`` (1, 64, 32, 32). Its outputs tell
    `alignkit.torch_settings.named_arithmetic` which arithmetic a runtime uses.
    """
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    def edge(name: str, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    # an exact product with the identity returns its input unchanged
    identity = np.eye(64, dtype=np.float32)
    weights = {"identity": identity, "kernel": identity[:, :, None, None]}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["matrix", "identity"], ["product"]),
            helper.make_node("Conv", ["image", "kernel"], ["convolved"]),
        ],
        "products",
        [edge("matrix", 1024, 64), edge("image", 1, 64, 32, 32)],
        [edge("product", 1024, 64), edge("convolved", 1, 64, 32, 32)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return _serialised(graph)


def _serialised(graph: Any) -> bytes:
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    serialised: bytes = model.SerializeToString()
    return serialised


def refusal(error: Exception) -> str:
    """Return a runtime's reason for refusing a graph, without places in its source, in one line.

    >>> refusal(RuntimeError("[ONNXRuntimeError] : 1 : FAIL : Warp is not a registered op"))
    'Warp is not a registered op'
    """
    return " ".join(_SOURCE_PLACES.sub("", " ".join(str(error).split())).split())
