"""NVIDIA DALI's ``resize``, in its dynamic mode: ``uint8``, half-pixel centres.

``dali-gpu`` runs the CUDA kernels; **not yet run on hardware**.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from alignkit.arrays import Image


@dataclass(frozen=True, slots=True)
class DALIResizer:
    """DALI's resize on the CPU."""

    device: ClassVar[Literal["cpu", "gpu"]] = "cpu"

    interpolation: Literal["nn", "linear", "cubic", "lanczos3", "gaussian"] = "linear"
    """``DALIInterpType.INTERP_*`` of that name."""
    antialias: bool = True
    """Widen the filter when shrinking; DALI's default. Without effect on ``nn``."""
    keep_scale: bool = False
    """Let DALI compute the longer side, as its ``resize_shorter`` does: it then samples by the
    exact scale of the shorter side, and not by the ratio of whole sizes. Needs ``fit: shorter``
    and ``rounding: nearest``."""

    def resize(self, image: Image, height: int, width: int) -> Image:
        """Resample (h, w, 3) ``uint8`` → (height, width, 3) ``uint8``.

        Raise `ValueError` where ``keep_scale`` leads to another size.
        """
        import numpy as np
        import nvidia.dali.experimental.dynamic as dali
        from nvidia.dali.types import DALIInterpType

        source: Any = dali.tensor(np.ascontiguousarray(image), layout="HWC", device=self.device)
        target = (
            {"resize_shorter": min(height, width)} if self.keep_scale else {"size": [height, width]}
        )
        resized = dali.resize(
            source,
            **target,
            interp_type=getattr(DALIInterpType, f"INTERP_{self.interpolation.upper()}"),
            antialias=self.antialias,
            device=self.device,
        )
        result = np.array(resized.cpu())
        # DALI rounds the longer side by itself, and `Resize` has promised a size
        if result.shape[:2] != (height, width):
            size = "{}x{}".format(*result.shape[:2])
            raise ValueError(f"DALI's keep_scale gives {size}, not {height}x{width}")
        return result

    def version(self) -> str:
        """Return ``dali 2.4.0``."""
        import nvidia.dali

        return f"dali {nvidia.dali.__version__}"


@dataclass(frozen=True, slots=True)
class DALIGPUResizer(DALIResizer):
    """DALI's resize on the GPU. Not yet run on hardware."""

    device: ClassVar[Literal["cpu", "gpu"]] = "gpu"
