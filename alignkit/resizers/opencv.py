"""``cv2.resize``: half-pixel centres, no antialiasing except by ``area``; ``uint8`` or floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from alignkit.errors import ConfigError

if TYPE_CHECKING:
    from alignkit.arrays import Image, Pixels


@dataclass(frozen=True, slots=True)
class OpenCVResizer:
    """OpenCV's kernels, as ``cv2.resize(image, (width, height))`` runs them."""

    interpolation: Literal["linear", "nearest", "cubic", "area", "lanczos4", "linear-exact"] = (
        "linear"
    )
    """``cv2.INTER_*`` of that name. ``area`` averages when shrinking, so it is the nearest to an
    antialiased resize; when enlarging it is ``linear``."""
    floats: bool = False
    """Resize ``float32`` pixels and do not round, as stacks do that convert to floats first."""

    def __post_init__(self) -> None:
        """Raise `ConfigError` for kernels whose floats are those of another option."""
        if self.floats and self.interpolation in ("nearest", "linear-exact"):
            raise ConfigError(
                f"interpolation: {self.interpolation} has no kernel of its own for floats; "
                "remove floats, or choose another interpolation"
            )

    def resize(self, image: Image, height: int, width: int) -> Pixels:
        """Resample (h, w, 3) ``uint8`` → (height, width, 3) ``uint8``, or ``float32``."""
        import cv2
        import numpy as np

        flag = getattr(cv2, f"INTER_{self.interpolation.upper().replace('-', '_')}")
        pixels = image.astype(np.float32) if self.floats else image
        # OpenCV names the width first
        return cast("Pixels", cv2.resize(pixels, (width, height), interpolation=flag))

    def version(self) -> str:
        """Return ``opencv 5.0.0``."""
        import cv2

        return f"opencv {cv2.__version__}"
