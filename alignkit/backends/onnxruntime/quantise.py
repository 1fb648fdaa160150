"""Static quantisation for ONNX Runtime's CPU provider, and how its kernels keep to the graph.

A quantised graph is defined by its nodes: quantise, dequantise, and compute in float32 between. The
runtime fuses them into integer kernels, and on some processors those saturate: part of what int8
then changes is the processor's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from alignkit.backends.onnxruntime.provider import LEVELS
from alignkit.backends.onnxruntime.start import Start, kernels_saturate
from alignkit.backends.refusal import refusal
from alignkit.errors import BackendError
from alignkit.torch_settings import quiet

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Batch
    from alignkit.backends.onnxruntime.session import ONNXRuntimeSession

WEIGHTS, IMAGES = "weights.txt", "checked.npy"
"""In an engine's folder: how many bits its weights have, and the images it is checked with."""
CHECKED = 8
"""Images. Where kernels saturate they do so on most images, and unfused kernels are slow."""
TOLERANCE = 0.1
"""Greatest distance of fused from unfused logits, as a share of the greatest logit.

Logits of another model have another range, so an absolute limit would not do. Without saturation
the two differ where single activations are rounded otherwise: 0.008 of it with a network of 4
convolutions, 0.37 in logits of several units with EfficientNet-Lite0. With saturation they differ
by 0.29 to 0.35 of it, and by 5.5. A tenth lies a factor of 3 from either.
"""


def quantise(onnx: Path, images: Batch, folder: Path) -> None:
    """Write ``model.onnx``: pairs of quantise and dequantise nodes around every operator.

    Weights are int8 with a scale a channel, activations uint8 with the range that ``images``,
    (n, 3, height, width) float32, gave them. Where this processor's kernels saturate, weights have
    7 bits: two products of them with uint8 fit into 16. Raises `BackendError` if the graph cannot
    be loaded or quantised.
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

    reduced = kernels_saturate()
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
                reduce_range=reduced,
            )
    except Exception as error:  # it raises bare exceptions of every kind
        raise BackendError(f"ONNX Runtime cannot quantise the graph: {refusal(error)}") from error
    inferred.unlink()
    bits = "7 bits: this processor's kernels saturate with 8" if reduced else "8 bits"
    (folder / WEIGHTS).write_text(bits)
    np.save(folder / IMAGES, images[:CHECKED])


def fusion_facts(session: ONNXRuntimeSession, start: Start, folder: Path) -> dict[str, str]:
    """Compare an engine's session, opened by ``start``, with the same graph unfused.

    What the session shall say of it; with a ``warning`` if they part by more than `TOLERANCE`.
    """
    import numpy as np

    images = np.load(folder / IMAGES)
    graph = (folder / "model.onnx").read_bytes()
    unfused = replace(session, session=replace(start, level=LEVELS["disabled"]).session(graph))
    # one at a time, as it was calibrated: a graph may have a batch of one
    fused, exact = (
        np.concatenate([each.predict(image[None]) for image in images])
        for each in (session, unfused)
    )
    apart, greatest = float(np.abs(fused - exact).max()), float(np.abs(exact).max())
    distance = f"up to {apart:.2g} in logits up to {greatest:.2g}, {len(images)} images"
    facts = {"weights": (folder / WEIGHTS).read_text(), "fused from unfused": distance}
    if not apart <= TOLERANCE * greatest:  # nor where a logit is not a number
        verb = "saturates" if kernels_saturate() else "departs from its graph"
        facts["warning"] = (
            f"int8 {verb} on this processor: the fused kernels are off by {distance}; elsewhere "
            "the same model predicts otherwise"
        )
    return facts
