"""ONNX graphs for several runtimes, and a runtime's reason for refusing one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alignkit.backends import Precision

_SOURCE_PLACES = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : "
    r"|Load model from \S+ failed:"
    r"|/\S+\.(?:cc|h):\d+ .*?\) (?=[A-Z])"  # ONNX Runtime's file, line and C++ signature
    r"|(?:Exception from|Check '[^']*' failed at) \S+:\d+:"  # OpenVINO's
)
"""Parts of a message that name the library's own source or one of its temporary files."""


def graph_of(onnx: Path, precision: Precision) -> bytes:
    """Return the graph for a runtime that computes in the types of the graph."""
    return half_precision(onnx) if precision == "fp16" else onnx.read_bytes()


def half_precision(onnx: Path) -> bytes:
    """Convert weights and edges to float16, and keep inputs and outputs in float32."""
    from onnx import load
    from onnxruntime.transformers.float16 import convert_float_to_float16

    converted: bytes = convert_float_to_float16(load(onnx), keep_io_types=True).SerializeToString()
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
