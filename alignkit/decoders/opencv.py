"""``cv2.imread``, or ``cv2.imdecode``, without the turn by EXIF.

- the two differ: ``imread`` reads no TIFF of orientation 5 to 8, ``imdecode`` no truncated JPEG,
  and it does not turn an animated PNG.
- EXIF: ignored; the image is not turned. OpenCV turns it by EXIF in JPEG, PNG, WebP and AVIF files,
  where the block does not begin with JPEG's identifier as some writers' does, and by nothing else;
  a TIFF is always turned.
- grey: three equal channels; CMYK and YCCK: RGB by OpenCV's integer formula, one level from
  Pillow's; 16 bits: the high byte; alpha: dropped; palette: looked up; ICC profile: ignored;
  animation: the first frame.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- truncated files: ``corrupt`` if JPEG, as ``imread`` makes the rest grey; ``imdecode``, and either
  of another format, returns nothing and no reason: ``failed``.
- other damage that libjpeg only warns of (extraneous bytes, a bad Huffman code) ends as ``ok``,
  because the warning goes to the process's stderr and not to the caller.
- never ``unsupported``: an unknown format looks to the caller like a damaged one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, cast

from alignkit.decoders import START_OF_IMAGE, Decoded, Decoder
from alignkit.decoders.exif import measured_orientation
from alignkit.plugins import option_added_later

if TYPE_CHECKING:
    from alignkit.arrays import Image


@dataclass(frozen=True, slots=True)
class OpenCVDecoder(Decoder):
    """OpenCV to RGB, with its turning by EXIF switched off: `Orient` is a stage of its own."""

    function: Literal["imread", "imdecode", "ultralytics"] = option_added_later(default="imread")
    """``ultralytics`` is its ``utils.patches.imread``: ``imdecode``, but a TIFF of 16 bits by its
    high byte. AVIF, which it reads with Pillow, is ``unsupported``."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode an image of any format this OpenCV was built with."""
        import cv2

        # imdecode's own message for an empty buffer is an assertion of its source
        if not encoded:
            return Decoded("failed", reason="the file is empty")
        if self.function == "ultralytics" and encoded[4:8] == b"ftyp":
            return Decoded("unsupported", reason="Ultralytics reads AVIF and HEIF with Pillow")
        try:
            image = self._image(encoded, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
        except cv2.error as error:
            return Decoded("failed", reason=str(error).strip())
        if image is None:
            call = "imread" if self.function == "imread" else "imdecode"
            return Decoded("failed", reason=f"cv2.{call} gave no image, and says no more")
        return self._judged(image, encoded)

    def _judged(self, image: Image, encoded: bytes) -> Decoded:
        """Return the outcome of a file that gave an image."""
        if image.dtype != "uint8":
            return Decoded("unsupported", reason=f"Ultralytics reads it as {image.dtype}")
        if self.function == "imread" and _ends_early(encoded):
            reason = "the file ends early; cv2.imread fills the rest, cv2.imdecode gives no image"
            return Decoded("corrupt", image, reason)
        return Decoded("ok", image)

    def orientation(self, encoded: bytes) -> int:
        """Return the orientation by which the function turns the file."""
        import cv2

        flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION, cv2.IMREAD_COLOR
        return measured_orientation(encoded, lambda turned: self._image(encoded, flags[turned]))

    def _image(self, encoded: bytes, flags: int) -> Image | None:
        """Read an image as users do, in BGR: IMREAD_COLOR_RGB swaps other files' channels too."""
        import cv2

        read = {"imread": _imread, "imdecode": _imdecode, "ultralytics": _ultralytics}
        image = read[self.function](encoded, flags)
        return None if image is None else cast("Image", cv2.cvtColor(image, cv2.COLOR_BGR2RGB))

    def version(self) -> str:
        """Return ``opencv 5.0.0, build-libjpeg-turbo (ver 3.1.2-70)``."""
        import cv2

        codec = re.search(r"JPEG:\s+(.+)", cv2.getBuildInformation())
        return f"opencv {cv2.__version__}, {codec.group(1) if codec else 'no JPEG codec'}"


def _ends_early(encoded: bytes) -> bool:
    """Tell whether OpenCV finds the end of a JPEG file missing."""
    import cv2

    whole = not encoded.startswith(START_OF_IMAGE) or encoded.endswith(b"\xff\xd9")
    return not whole and _imdecode(encoded, cv2.IMREAD_COLOR) is None


def _imdecode(encoded: bytes, flags: int) -> Any:
    import cv2
    import numpy as np

    return cv2.imdecode(np.frombuffer(encoded, np.uint8), flags)


def _imread(encoded: bytes, flags: int) -> Any:
    import cv2

    with _file_of(encoded) as path:
        return cv2.imread(path, flags)


def _ultralytics(encoded: bytes, flags: int) -> Any:
    """Read as ``ultralytics.utils.patches.imread`` of 8.4.190 does."""
    import cv2
    import numpy as np

    if encoded.startswith((b"II*\0", b"MM\0*")):
        decoded, pages = cv2.imdecodemulti(np.frombuffer(encoded, np.uint8), cv2.IMREAD_UNCHANGED)
        if decoded and pages[0].ndim == 3:
            page: Any = pages[0][..., :3]
            return (page >> 8).astype(np.uint8) if page.dtype == np.uint16 else page
    return _imdecode(encoded, flags)


@contextmanager
def _file_of(encoded: bytes) -> Iterator[str]:
    """Hold an image in a file; on Linux in memory, where a killed worker leaves nothing."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("image"), "wb") as file:
            file.write(encoded)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with TemporaryDirectory() as folder:
            path = Path(folder, "image")
            path.write_bytes(encoded)
            yield str(path)
