"""Static quantisation of a graph for ONNX Runtime's CPU provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignkit.backends.onnxruntime.start import Start
from alignkit.backends.refusal import refusal
from alignkit.errors import BackendError
from alignkit.library_logs import quiet

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Batch


def quantise(onnx: Path, images: Batch, folder: Path) -> None:
    """Write ``model.onnx``: pairs of quantise and dequantise nodes around every operator.

    Weights are int8 with a scale a channel, activations uint8 with the range that ``images``,
    (n, 3, height, width) float32, gave them. Raises `BackendError` if the graph cannot be loaded or
    quantised.
    """
    import numpy as np
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    # its preprocessing logs a graph that it cannot optimise, and goes on with the unoptimised one
    loaded = Start("CPUExecutionProvider", {}, "ORT_ENABLE_BASIC", 1).session(onnx.read_bytes())
    name = loaded.get_inputs()[0].name

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        rest = iter(images)

        def get_next(self) -> dict[str, Any] | None:
            image = next(self.rest, None)
            return None if image is None else {name: np.ascontiguousarray(image[None])}

    inferred, file = folder / "inferred.onnx", folder / "model.onnx"
    try:
        with quiet():  # of its advice to do what is being done
            quant_pre_process(onnx, inferred, skip_symbolic_shape=True)
            quantization.quantize_static(
                inferred,
                file,
                Reader(),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=True,
                activation_type=quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
            )
    except Exception as error:  # it raises bare exceptions of every kind
        raise BackendError(f"ONNX Runtime cannot quantise the graph: {refusal(error)}") from error
    inferred.unlink()
