"""``cv2.resize``: ``uint8``, half-pixel centres, no antialiasing except by ``area``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from alignkit.arrays import Image


@dataclass(frozen=True, slots=True)
class OpenCVResizer:
    """OpenCV's fixed-point kernels, as ``cv2.resize(image, (width, height))`` runs them."""

    interpolation: Literal["linear", "nearest", "cubic", "area", "lanczos4", "linear-exact"] = (
        "linear"
    )
    """``cv2.INTER_*`` of that name. ``area`` averages when shrinking, so it is the nearest to an
    antialiased resize; when enlarging it is ``linear``."""

    def resize(self, image: Image, height: int, width: int) -> Image:
        """Resample (h, w, 3) ``uint8`` → (height, width, 3) ``uint8``."""
        import cv2

        flag = getattr(cv2, f"INTER_{self.interpolation.upper().replace('-', '_')}")
        # OpenCV names the width first
        return cast("Image", cv2.resize(image, (width, height), interpolation=flag))

    def version(self) -> str:
        """Return ``opencv 5.0.0``."""
        import cv2

        return f"opencv {cv2.__version__}"
