"""Static int8 quantisation of an ONNX graph by ONNX Runtime, for several runtimes.

The quantised graph has pairs of quantise and dequantise nodes (QDQ) around its operators, which
define its result: quantise, dequantise, and compute in float32 between. A runtime fuses them into
integer kernels. Weights are int8 with a scale per channel. Operators behind the last weights stay
in float32: a detector joins boxes in pixels and scores there, and
in one tensor of 8 bits with one scale most scores would become 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignkit.backends import QUANTISED_GRAPH
from alignkit.backends.onnx_graph import names_read, refusal
from alignkit.errors import BackendError
from alignkit.models.checkpoint import read_calibration
from alignkit.stored_file import file_sha256
from alignkit.torch_settings import quiet

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Batch

_WEIGHTED = ["Conv", "ConvTranspose", "Gemm", "MatMul"]
"""Operators that multiply by weights."""
_FUSED = ("Relu", "Clip")
"""Activation functions that integer kernels compute with the operator before."""


def quantisation_facts(folder: Path) -> dict[str, str]:
    """Name the calibration images and the int8 graph, ``model.onnx``, of an engine's folder."""
    graph = file_sha256(folder / "model.onnx")[:16]
    return {"calibration": read_calibration(folder), QUANTISED_GRAPH: graph}


def quantise_for_cpu(onnx: Path, images: Batch, file: Path) -> bool:
    """Write the graph with uint8 activations, as ONNX Runtime's CPU kernels take it.

    Where this processor's kernels saturate, weights have 7 bits: the sum of two products with uint8
    then fits into 16 bits. Returns whether they do. Raises as `_quantise` does.
    """
    from onnxruntime.quantization import QuantType

    from alignkit.backends.onnxruntime.onnxruntime_session import kernels_saturate

    reduced = kernels_saturate()
    _quantise(onnx, images, file, activation_type=QuantType.QUInt8, reduce_range=reduced)
    return reduced


def quantise_for_tensorrt(onnx: Path, images: Batch, file: Path) -> None:
    """Write the graph with int8 activations, symmetric with zero point 0, as TensorRT demands.

    Only the inputs of operators that multiply by weights are quantised: a pair between a
    convolution and its activation function would keep TensorRT from fusing them. Biases stay in
    float32, because TensorRT reads no int32. Raises as `_quantise` does.
    """
    from onnxruntime.quantization import QuantType

    _quantise(
        onnx,
        images,
        file,
        activation_type=QuantType.QInt8,
        op_types_to_quantize=_WEIGHTED,
        extra_options={
            "ActivationSymmetric": True,
            "WeightSymmetric": True,
            "QuantizeBias": False,
            "OpTypesToExcludeOutputQuantization": _WEIGHTED,
            # a product of two activations, as in attention, has no weights
            "MatMulConstBOnly": True,
        },
    )


def _quantise(onnx: Path, images: Batch, file: Path, **options: Any) -> None:
    """Quantise a graph with the ranges that ``images``, (n, 3, height, width) float32, give it.

    Raises `BackendError` if the graph cannot be loaded or quantised.
    """
    import numpy as np
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    from alignkit.backends.onnxruntime.onnxruntime_session import Start

    # quant_pre_process only logs a graph that it cannot load; a session raises
    loaded = Start("CPUExecutionProvider", {}, "ORT_ENABLE_BASIC", 1).session(onnx.read_bytes())
    name = loaded.get_inputs()[0].name

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        rest = iter(images)

        def get_next(self) -> dict[str, Any] | None:
            image = next(self.rest, None)
            return None if image is None else {name: np.ascontiguousarray(image[None])}

    inferred = file.with_name("inferred.onnx")
    try:
        with quiet():  # it advises to preprocess the graph, which is what runs here
            quant_pre_process(onnx, inferred, skip_symbolic_shape=True)
            tail = _behind_weights(inferred)
            quantization.quantize_static(
                inferred,
                file,
                Reader(),
                quant_format=quantization.QuantFormat.QDQ,
                # one scale for a whole layer costs accuracy where channels differ in range
                per_channel=True,
                nodes_to_exclude=tail,
                weight_type=quantization.QuantType.QInt8,
                **options,
            )
    except Exception as error:  # the library raises bare exceptions of every kind
        raise BackendError(f"ONNX Runtime cannot quantise the graph: {refusal(error)}") from error
    inferred.unlink()  # an engine's folder holds only what opens it
    if not _is_quantised(file):
        raise BackendError(
            "ONNX Runtime quantises nothing of the graph: it has no convolution or matrix product "
            "outside of If, Loop and Scan; export it without branches"
        )


def _is_quantised(file: Path) -> bool:
    import onnx

    nodes = onnx.load(file, load_external_data=False).graph.node
    return any(node.op_type == "DequantizeLinear" for node in nodes)


def _behind_weights(file: Path) -> list[str]:
    """Name the nodes from which no operator with weights is reached; nameless nodes get names.

    An activation function right behind weights is none of them: kernels compute both in one.
    Weights in the graphs of branches count for nothing, as ONNX Runtime does not quantise them.
    """
    import onnx

    model = onnx.load(file)
    nodes, found = model.graph.node, []
    names = {node.name for node in nodes}
    weighted = {name for node in nodes if node.op_type in _WEIGHTED for name in node.output}
    reaching: set[str] = set()
    # the nodes of a graph are sorted: each stands behind those that it needs
    for number, node in enumerate(reversed(nodes)):
        if not node.name:
            node.name = f"{node.op_type}_{number}_from_the_end"
            while node.name in names:
                node.name += "_"
        fused = node.op_type in _FUSED and node.input[0] in weighted
        if fused or reaching.union(weighted).intersection(node.output):
            reaching.update(names_read(node))
        else:
            found.append(node.name)
    onnx.save(model, file)
    return found
