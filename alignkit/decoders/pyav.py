"""FFmpeg through PyAV: its own JPEG decoder, and swscale for the conversion to RGB.

- any format FFmpeg knows, by probing; the first frame of the first video stream.
- EXIF: ignored; the image is not turned.
- grey, CMYK, palette: by swscale; 16 bits: scaled to 8, within a level of the high byte;
  alpha: dropped; ICC profile: ignored.
- progressive JPEG: the same pixels as a baseline file of the same coefficients.
- **not equal to libjpeg-turbo** even for 4:4:4: up to 3 levels, by swscale's arithmetic.
- **subsampled chroma** depends on the size. Both sides even: a quick swscale path that repeats
  chroma (nearest neighbour) and on which ``interpolation`` has no effect; with ``accurate`` smooth,
  within 4 levels of libjpeg-turbo's smooth upsampling. Otherwise swscale scales the chroma plane of
  ``ceil(n / 2)`` samples onto ``n`` pixels, in place of doubling it: colour drifts by up to half a
  pixel across the image, tens of levels at edges.
- ``corrupt``: every file FFmpeg warns of while it decodes. Truncated files are among them: FFmpeg
  fills the missing part. Junk before the header is ``corrupt`` too.
- never ``unsupported``: an unknown format and a damaged one raise the same error.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from alignkit.decoders import Decoded, Decoder

if TYPE_CHECKING:
    from alignkit.arrays import Image


@dataclass(frozen=True, slots=True)
class PyAVDecoder(Decoder):
    """PyAV's ``frame.to_ndarray(format="rgb24")``; the frame's rotation is not applied."""

    interpolation: Literal["point", "bilinear", "bicubic", "lanczos"] = "bilinear"
    """swscale's chroma upsampling; PyAV's default is ``bilinear``."""
    accurate: bool = False
    """swscale's ``accurate_rnd`` and ``full_chroma_int``."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one image."""
        import av
        import av.logging

        av.logging.set_level(av.logging.WARNING)  # PyAV's own default is to drop all messages
        try:
            with av.logging.Capture() as log:
                image, damaged = self._pixels(encoded)
        except (av.FFmpegError, IndexError, StopIteration) as error:
            return Decoded("failed", reason=str(error) or "no frame in it")
        # swscale warns of "deprecated pixel format" on every full-range JPEG
        warnings = [message.strip() for _, name, message in log if name != "swscaler"]
        if warnings or damaged:
            return Decoded("corrupt", image, reason="; ".join(warnings) or "marked as corrupt")
        return Decoded("ok", image)

    def version(self) -> str:
        """Return ``pyav 18.1.0, libavcodec 62.28.102, libswscale 9.5.102``."""
        import av

        libraries = av.library_versions
        names = (
            f"{name} {'.'.join(map(str, libraries[name]))}" for name in ("libavcodec", "libswscale")
        )
        return f"pyav {av.__version__}, {', '.join(names)}"

    def _pixels(self, encoded: bytes) -> tuple[Image, bool]:
        import av
        import numpy as np
        from av.video.reformatter import Interpolation

        flags = Interpolation[self.interpolation.upper()]
        if self.accurate:
            flags |= Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
        with av.open(io.BytesIO(encoded), mode="r") as container:
            stream = container.streams.video[0]
            stream.thread_type = "NONE"  # so that its warnings are caught in this thread
            frame = next(container.decode(stream))
            image = frame.to_ndarray(format="rgb24", interpolation=flags, threads=1)
        return np.ascontiguousarray(image, np.uint8), frame.is_corrupt
