"""``torch.nn.functional.interpolate`` on a float tensor: unrounded ``float32``.

``bicubic`` overshoots, so its result may leave 0..255 by some levels; it is not clipped here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from alignkit.errors import ConfigError

if TYPE_CHECKING:
    from alignkit.arrays import Image, Pixels


@dataclass(frozen=True, slots=True)
class TorchResizer:
    """``interpolate`` on the CPU, on a contiguous (1, 3, h, w) ``float32`` tensor."""

    mode: Literal["bilinear", "bicubic", "nearest"] = "bilinear"
    """Interpolation of ``torch.nn.functional.interpolate``."""
    align_corners: bool = False
    """Lay the grid through the centres of the corner pixels; ``False`` is the half-pixel grid of
    OpenCV and Pillow. Not with ``nearest``."""
    antialias: bool = False
    """Widen the filter when shrinking, as Pillow does. Not with ``nearest``."""

    def __post_init__(self) -> None:
        if self.mode == "nearest" and (self.align_corners or self.antialias):
            raise ConfigError("mode: nearest takes neither align_corners nor antialias")

    def resize(self, image: Image, height: int, width: int) -> Pixels:
        """Resample (h, w, 3) ``uint8`` → (height, width, 3) ``float32``."""
        import numpy as np
        import torch

        planes = np.ascontiguousarray(image.transpose(2, 0, 1), np.float32)
        resized = torch.nn.functional.interpolate(
            torch.from_numpy(planes)[None],
            (height, width),
            mode=self.mode,
            # interpolate refuses the option for nearest
            align_corners=None if self.mode == "nearest" else self.align_corners,
            antialias=self.antialias,
        )
        return np.ascontiguousarray(resized[0].permute(1, 2, 0).numpy())

    def version(self) -> str:
        """Return ``torch 2.12.1``."""
        import torch

        return f"torch {torch.__version__}"
