"""``PIL.Image.open(...).convert("RGB")``.

- EXIF: ignored; the image is not turned, except a TIFF, which Pillow turns as it loads it.
  ``ImageOps.exif_transpose`` turns by EXIF in any format, also in a raw profile, by XMP, and by
  ``irot`` and ``imir`` of AVIF.
- grey: three equal channels; CMYK and YCCK: RGB by Pillow's formula, no colour management; alpha:
  dropped, not blended; palette: looked up; ICC profile: ignored; animation: the first frame.
- 16-bit RGB: the high byte. **16-bit grey: clipped at 255**, so nearly white, as Pillow's ``I;16``
  conversion does; every other decoder here takes the high byte.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- truncated files: ``failed``, as ``ImageFile.LOAD_TRUNCATED_IMAGES`` is left ``False``. A process
  that sets it gets grey lower parts and ``ok``.
- never ``corrupt``: Pillow passes no libjpeg warning on. Some damage that other decoders accept
  ("broken data stream") is ``failed`` here.
- never ``unsupported``: an unknown format and a damaged header raise the same error.
- more than twice ``Image.MAX_IMAGE_PIXELS``: ``failed``. More than that number alone is a Python
  warning, and ``failed`` only where warnings are errors.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from alignkit.decoders import START_OF_IMAGE, Decoded, Decoder
from alignkit.decoders.exif import ORIENTATION_TAG

_STRIP = 1 << 22
"""Pixels that are copied at a time."""


@dataclass(frozen=True, slots=True)
class PillowDecoder(Decoder):
    """Pillow to RGB; does not turn the image, does not use ``draft``."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode the first frame of an image of any format Pillow knows."""
        import numpy as np
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(io.BytesIO(encoded)) as opened:
                opened.load()  # a TIFF has its size after its turn
                # of an RGB image, `convert` would return a copy
                converted = opened if opened.mode == "RGB" else opened.convert("RGB")
                image = np.empty((converted.height, converted.width, 3), np.uint8)
                # numpy takes an image's pixels by way of two copies
                rows = max(1, _STRIP // max(1, converted.width))
                for top in range(0, converted.height, rows):
                    box = (0, top, converted.width, min(top + rows, converted.height))
                    image[top : box[3]] = np.asarray(converted.crop(box))
        except UnidentifiedImageError:  # its message is the address of the buffer
            return Decoded("failed", reason="an unknown format, or a damaged header")
        except Exception as error:  # noqa: BLE001 - Pillow's formats raise any kind on bad bytes
            return Decoded("failed", reason=f"{type(error).__name__}: {error}")
        return Decoded("ok", image)

    def orientation(self, encoded: bytes) -> int:
        """Return the orientation by which ``ImageOps.exif_transpose`` turns the image."""
        from PIL import Image

        try:
            with Image.open(io.BytesIO(encoded)) as opened:
                # chunks behind the pixels count, and a TIFF is turned by now; a JPEG has none
                if not encoded.startswith(START_OF_IMAGE):
                    opened.load()
                value = opened.getexif().get(ORIENTATION_TAG, 1)
        except Exception:  # noqa: BLE001 - Pillow's formats raise any kind on bad bytes
            return 1
        return value if value in range(1, 9) else 1

    def version(self) -> str:
        """Return ``pillow 13.0.0, libjpeg-turbo 3.2.0``."""
        import PIL
        from PIL import features

        turbo = features.version_feature("libjpeg_turbo")
        codec = f"libjpeg-turbo {turbo}" if turbo else f"libjpeg {features.version_codec('jpg')}"
        return f"pillow {PIL.__version__}, {codec}"
