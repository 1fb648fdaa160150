"""``cv2.imdecode``.

- EXIF: ignored; the image is not turned.
- grey: three equal channels; CMYK and YCCK: RGB by OpenCV's integer formula, one level from
  Pillow's; 16 bits: the high byte; alpha: dropped; palette: looked up; ICC profile: ignored;
  animation: the first frame.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- truncated files: ``failed``; ``imdecode`` returns nothing and no reason.
- never ``corrupt``: damage that libjpeg only warns of (extraneous bytes, a bad Huffman code) ends
  as ``ok``, because the warning goes to the process's stderr and not to the caller.
- never ``unsupported``: an unknown format looks to the caller like a damaged one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from alignkit.decoders import Decoded, Decoder

if TYPE_CHECKING:
    from alignkit.arrays import Image


@dataclass(frozen=True, slots=True)
class OpenCVDecoder(Decoder):
    """OpenCV to RGB, with its turning by EXIF switched off: `Orient` is a stage of its own."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode an image of any format this OpenCV was built with."""
        import cv2
        import numpy as np

        # imdecode's own message for an empty buffer is an assertion of its source
        if not encoded:
            return Decoded("failed", reason="the file is empty")
        # since OpenCV 4.11; an approved baseline may be of an older one
        rgb = getattr(cv2, "IMREAD_COLOR_RGB", None)
        flags = (cv2.IMREAD_COLOR if rgb is None else rgb) | cv2.IMREAD_IGNORE_ORIENTATION
        try:
            image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags)
        except cv2.error as error:
            return Decoded("failed", reason=str(error).strip())
        if image is None:
            return Decoded("failed", reason="cv2.imdecode gave no image, and says no more")
        if rgb is None:
            image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        return Decoded("ok", cast("Image", image))

    def version(self) -> str:
        """Return ``opencv 5.0.0, build-libjpeg-turbo (ver 3.1.2-70)``."""
        import cv2

        codec = re.search(r"JPEG:\s+(.+)", cv2.getBuildInformation())
        return f"opencv {cv2.__version__}, {codec.group(1) if codec else 'no JPEG codec'}"
