"""CV-CUDA's ``resize``: ``uint8``. **Not yet run on hardware.**"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from alignkit.arrays import Image


@dataclass(frozen=True, slots=True)
class CVCUDAResizer:
    """CV-CUDA on the current CUDA device; pixels are copied there and back."""

    interpolation: Literal["nearest", "linear", "cubic", "area"] = "linear"
    """``cvcuda.Interp`` of that name."""

    def resize(self, image: Image, height: int, width: int) -> Image:
        """Resample (h, w, 3) ``uint8`` → (height, width, 3) ``uint8``."""
        import cvcuda
        import numpy as np
        import torch

        # a copy, because torch warns of an array that cannot be written
        source = cvcuda.as_tensor(torch.from_numpy(np.array(image, order="C")).cuda(), "HWC")
        flag = getattr(cvcuda.Interp, self.interpolation.upper())
        torch.cuda.synchronize()  # CV-CUDA's stream is not torch's
        with cvcuda.Stream() as stream:
            resized = cvcuda.resize(source, (height, width, 3), flag, stream=stream)
            stream.sync()
        return np.ascontiguousarray(torch.as_tensor(resized.cuda(), device="cuda").cpu().numpy())

    def version(self) -> str:
        """Return ``cvcuda 0.19.0``."""
        import cvcuda

        return f"cvcuda {cvcuda.__version__}"
