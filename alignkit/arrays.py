"""Names of the arrays that stages pass on, with dtype, axes and value range."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.errors import BackendError

Image: TypeAlias = npt.NDArray[np.uint8]
"""(height, width, 3), RGB, 0..255, as every decoder returns it."""

Pixels: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.float32]
"""(height, width, 3), RGB, 0..255: after a resize, ``uint8`` or unrounded ``float32`` as the
library gives it."""

# channels first, as PyTorch and ONNX models take them
Batch: TypeAlias = npt.NDArray[np.float32]
"""(samples, 3, height, width), normalised, as every backend receives it."""

Logits: TypeAlias = npt.NDArray[np.float32]
"""(samples, classes), before any softmax; (samples, 1) of one output for two classes."""

Labels: TypeAlias = npt.NDArray[np.int64]
"""(samples,), index into the classes of the data set."""


FloatArray: TypeAlias = npt.NDArray[np.float64]


def unreal(value: object) -> str:
    """Say why a value of the user's holds more than real numbers; empty if it does not."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if isinstance(value, complex) or kind == "c" or getattr(value, "is_complex", bool)():
        return "is complex, and a part of it would be lost; return real numbers"
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return "has masked values, which would count as numbers; fill them (numpy.ma.filled)"
    return ""


_EXACT = 2**24
"""Whole numbers up to here are exact in float32."""


def require_exact(*whole: int) -> None:
    """Raise `BackendError` if one of the whole numbers is none of float32."""
    if (greatest := max(map(abs, whole))) > _EXACT:
        raise BackendError(
            f"an output holds the whole number {greatest}, which float32 cannot hold; name the "
            "outputs that are wanted as the model's 'outputs'"
        )
