"""The last stage of a path: pixels → the tensor that a model receives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Image, Pixels

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Normalise:
    """Normalisation ``(pixels / 255 - mean) / std`` per channel, in float32."""

    mean: tuple[_Finite, _Finite, _Finite] = IMAGENET_MEAN
    """Mean of red, green and blue, of values 0..1."""
    std: tuple[_Positive, _Positive, _Positive] = IMAGENET_STD
    """Standard deviation of red, green and blue, of values 0..1."""

    @property
    def keeps_levels(self) -> bool:
        """Whether it gives the pixels' levels, 0..255, as a model that takes bytes needs them."""
        levels = zip(self.mean, self.std, strict=True)
        return all(abs(mean) < 1e-6 and abs(255 * std - 1) < 1e-4 for mean, std in levels)

    @property
    def doubt(self) -> str:
        """Why these are hardly numbers of values in 0..1, and which are; empty if they may be."""
        # the std of such values is at most 0.5, and one of 1 leaves them as they are
        if max(*self.mean, *self.std) > 1:
            why = "no mean and no std of values in 0..1 is above 1; these of 0..255 are"
            factors = 1 / 255 if max(self.mean) > 1 else 1.0, 1 / 255 if min(self.std) >= 1 else 1.0
        elif 0 < max(self.mean) < 1 / 255 > max(self.std):
            why = "this mean and std are less than one grey level; not divided by 255 they are"
            factors = 255.0, 255.0
        else:
            return ""
        mean, std = (
            ", ".join(f"{each * factor:.4g}" for each in values)
            for values, factor in zip((self.mean, self.std), factors, strict=True)
        )
        return f"{why} mean: [{mean}], std: [{std}]"

    def __call__(self, pixels: Pixels, out: Batch | None = None) -> Batch:
        """Map (n, h, w, 3) or (h, w, 3), 0..255 → (n, 3, h, w) or (3, h, w) contiguous float32.

        The result is written into ``out``, contiguous and of that shape, if it is given.
        """
        import numpy as np

        if out is None:
            *samples, height, width, _ = pixels.shape
            out = np.empty((*samples, 3, height, width), np.float32)
        return (self._look_up if pixels.dtype == "uint8" else self._compute)(pixels, out)

    def _look_up(self, pixels: Pixels, out: Batch) -> Batch:
        """Look up the numbers of `_compute`, seven times as fast: ``uint8`` has 256 levels."""
        import cv2
        import numpy as np

        shape = pixels.shape[-3:]
        images: Image = np.ascontiguousarray(pixels, np.uint8).reshape(-1, *shape)
        tables = _tables(self)
        for image, planes in zip(images, out.reshape(-1, 3, *shape[:2]), strict=True):
            for values, table, plane in zip(cv2.split(image), tables, planes, strict=True):
                cv2.LUT(values, table, plane)
        return out

    def _compute(self, pixels: Pixels, out: Batch) -> Batch:
        import numpy as np

        for channel, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):
            plane = out[..., channel, :, :]
            np.divide(pixels[..., channel], np.float32(255), out=plane, dtype=np.float32)
            # the order of ToTensor and Normalize, as another one rounds differently; in place, as
            # a temporary of the whole batch would cost more than the arithmetic
            plane -= np.float32(mean)
            plane /= np.float32(std)
        return out


@lru_cache(maxsize=16)
def _tables(normalise: Normalise) -> Batch:
    """Normalise every level of a byte once: (3, 256, 1), read-only."""
    import numpy as np

    levels = np.arange(256, dtype=np.float32)[:, None, None].repeat(3, axis=2)
    tables = normalise(levels)
    tables.flags.writeable = False
    return tables
