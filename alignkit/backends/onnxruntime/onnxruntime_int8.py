"""Static quantisation for ONNX Runtime's CPU provider, and the check of its fused kernels.

The nodes of a quantised graph define its result: quantise, dequantise, and compute in float32
between. The runtime fuses them into integer kernels. On some processors those kernels saturate, so
that part of the int8 drift comes from the processor and not from the quantisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from alignkit.backends.onnx_quantisation import quantise_for_cpu
from alignkit.backends.onnxruntime import OPTIMISATION_LEVELS
from alignkit.backends.onnxruntime.onnxruntime_session import (
    ONNXRuntimeSession,
    Start,
    kernels_saturate,
)

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from alignkit.arrays import Batch

    Output = npt.NDArray[np.float32]

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
    (n, 3, height, width) float32, gave them. Beside it lie what `fusion_facts` reads. Raises
    `BackendError` if the graph cannot be loaded or quantised.
    """
    reduced = quantise_for_cpu(onnx, images, folder / "model.onnx")
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
    fused, exact = ([each.predict(image[None]) for image in images] for each in (session, unfused))
    found = {
        name: _distance([each[at] for each in fused], [each[at] for each in exact])
        for at, name in enumerate(session.outputs)
    }
    facts = {"weights": (folder / _WEIGHTS_FILE).read_text()}
    facts["fused from unfused"] = f"{_in_words(found)}, {len(images)} images"
    if off := {name: each for name, each in found.items() if each and each.is_far}:
        verb = "saturates" if kernels_saturate() else "departs from its graph"
        facts["warning"] = (
            f"int8 {verb} on this processor: the fused kernels are off by {_in_words(off)}, "
            f"{len(images)} images; elsewhere the same model predicts otherwise"
        )
    return facts


@dataclass(frozen=True, slots=True)
class _Distance:
    """Distance of an output of the fused kernels from the same of the unfused ones."""

    apart: float
    greatest: float
    """Greatest value of the unfused kernels."""

    @property
    def is_far(self) -> bool:
        """Whether the kernels disagree; written so that NaN counts."""
        return not self.apart <= _TOLERANCE * self.greatest


def _distance(fused: Sequence[Output], exact: Sequence[Output]) -> _Distance | None:
    """Compare an output of every image; ``None`` if the number of its objects varies."""
    if len({each.shape for each in (*fused, *exact)}) != 1:
        return None
    apart = np.abs(np.concatenate(fused) - np.concatenate(exact))
    return _Distance(float(apart.max(initial=0)), float(np.abs(exact).max(initial=0)))


def _in_words(found: Mapping[str, _Distance | None]) -> str:
    if len(found) == 1 and (only := next(iter(found.values()))):
        return f"up to {only.apart:.2g} in logits up to {only.greatest:.2g}"
    return "; ".join(
        f"{name} up to {each.apart:.2g} in values up to {each.greatest:.2g}"
        if each
        else f"{name} not compared, as the number of its objects varies"
        for name, each in found.items()
    )
