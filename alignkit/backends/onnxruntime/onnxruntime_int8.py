"""Static quantisation for ONNX Runtime's CPU provider, and the check of its fused kernels.

The nodes of a quantised graph define its result: quantise, dequantise, and compute in float32
between. The runtime fuses them into integer kernels. On some processors those kernels saturate, so
that part of the int8 drift comes from the processor and not from the quantisation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.backends.onnx_graph import refusal
from alignkit.backends.onnxruntime import OPTIMISATION_LEVELS
from alignkit.backends.onnxruntime.onnxruntime_session import (
    ONNXRuntimeSession,
    Start,
    kernels_saturate,
)
from alignkit.errors import BackendError
from alignkit.torch_settings import quiet

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Batch

_WEIGHTS_FILE, _IMAGES_FILE = "weights.txt", "checked.npy"
"""Files of an engine's folder: the bits of its weights in words, and the images of its check."""
_CHECKED_IMAGES = 8
"""Images of the check: saturation shows on most images, and unfused kernels are slow."""
_TOLERANCE = 0.1
"""Greatest distance of fused from unfused logits, as a share of the greatest logit.

The limit is relative because every model's logits have their own range. Without saturation the two
differ where single activations are rounded differently: by 0.008 of the greatest logit with a
network of 4 convolutions, by 0.37 in logits of several units with EfficientNet-Lite0. With
saturation they differ by 0.29 to 0.35 of it, and by 5.5. A tenth is a factor of 3 from either.
"""


def quantise(onnx: Path, images: Batch, folder: Path) -> None:
    """Write ``model.onnx``: pairs of quantise and dequantise nodes around every operator.

    Weights are int8 with a scale per channel, activations uint8 with the range that ``images``,
    (n, 3, height, width) float32, gave them. Where this processor's kernels saturate, weights have
    7 bits: the sum of two products with uint8 then fits into 16 bits. Raises `BackendError` if the
    graph cannot be loaded or quantised.
    """
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    # quant_pre_process only logs a graph that it cannot load; a session raises
    loaded = Start("CPUExecutionProvider", {}, "ORT_ENABLE_BASIC", 1).session(onnx.read_bytes())
    name = loaded.get_inputs()[0].name

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        rest = iter(images)

        def get_next(self) -> dict[str, Any] | None:
            image = next(self.rest, None)
            return None if image is None else {name: np.ascontiguousarray(image[None])}

    reduced = kernels_saturate()
    inferred, file = folder / "inferred.onnx", folder / "model.onnx"
    try:
        with quiet():  # it advises to preprocess the graph, which is what runs here
            quant_pre_process(onnx, inferred, skip_symbolic_shape=True)
            quantization.quantize_static(
                inferred,
                file,
                Reader(),
                quant_format=quantization.QuantFormat.QDQ,
                # one scale for a whole layer costs accuracy where channels differ in range
                per_channel=True,
                activation_type=quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
                reduce_range=reduced,
            )
    except Exception as error:  # the library raises bare exceptions of every kind
        raise BackendError(f"ONNX Runtime cannot quantise the graph: {refusal(error)}") from error
    inferred.unlink()  # an engine's folder holds only what opens it
    bits = "7 bits: this processor's kernels saturate with 8" if reduced else "8 bits"
    (folder / _WEIGHTS_FILE).write_text(bits)
    np.save(folder / _IMAGES_FILE, images[:_CHECKED_IMAGES])


def fusion_facts(session: ONNXRuntimeSession, start: Start, folder: Path) -> dict[str, str]:
    """Compare an engine's session, opened by ``start``, with the same graph unfused.

    Returns facts for `ONNXRuntimeSession.effective`, with a ``warning`` if the greatest distance
    is above 0.1 of the greatest logit.
    """
    images = np.load(folder / _IMAGES_FILE)
    graph = (folder / "model.onnx").read_bytes()
    unfused = replace(
        session, session=replace(start, level=OPTIMISATION_LEVELS["disabled"]).session(graph)
    )
    # one image at a time, as in calibration: a graph may allow no greater batch
    fused, exact = (
        np.concatenate([each.predict(image[None]) for image in images])
        for each in (session, unfused)
    )
    apart, greatest = float(np.abs(fused - exact).max()), float(np.abs(exact).max())
    distance = f"up to {apart:.2g} in logits up to {greatest:.2g}, {len(images)} images"
    facts = {"weights": (folder / _WEIGHTS_FILE).read_text(), "fused from unfused": distance}
    if not apart <= _TOLERANCE * greatest:  # written so that NaN warns too
        verb = "saturates" if kernels_saturate() else "departs from its graph"
        facts["warning"] = (
            f"int8 {verb} on this processor: the fused kernels are off by {distance}; elsewhere "
            "the same model predicts otherwise"
        )
    return facts
