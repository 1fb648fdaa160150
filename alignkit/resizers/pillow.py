"""``PIL.Image.resize``: ``uint8``, antialiased when shrinking, except ``nearest``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from alignkit.errors import ConfigError

if TYPE_CHECKING:
    from alignkit.arrays import Image


@dataclass(frozen=True, slots=True)
class PillowResizer:
    """Pillow's two-pass convolution, 8-bit between the passes."""

    filter: Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"] = "bilinear"
    """``PIL.Image.Resampling`` of that name."""
    reducing_gap: float | None = None
    """Factor of the target, at least 1.0, down to which ``Image.resize`` first shrinks by a whole
    number, its own shortcut. ``None`` is Pillow's default: no shortcut."""

    def __post_init__(self) -> None:
        if self.reducing_gap is not None and self.reducing_gap < 1.0:
            raise ConfigError(f"reducing_gap must be 1.0 or more, not {self.reducing_gap}")

    def resize(self, image: Image, height: int, width: int) -> Image:
        """Resample (h, w, 3) ``uint8`` → (height, width, 3) ``uint8``."""
        import numpy as np
        from PIL import Image as PillowImage

        resampling = PillowImage.Resampling[self.filter.upper()]
        source = PillowImage.fromarray(image)
        return np.array(source.resize((width, height), resampling, reducing_gap=self.reducing_gap))

    def version(self) -> str:
        """Return ``pillow 13.0.0``."""
        import PIL

        return f"pillow {PIL.__version__}"
