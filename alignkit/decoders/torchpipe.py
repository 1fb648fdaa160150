"""torchpipe's ``DecodeMat``, which is ``cv2.imdecode`` of an OpenCV inside torchpipe's wheel.

- **Turns the image by its EXIF orientation** and has no switch for it: ``orients`` is true.
- grey, CMYK, 16 bits, alpha, palette, ICC, progressive: as `alignkit.decoders.opencv`; the wheel's
  OpenCV has no WebP and no AVIF.
- truncated files: ``failed``.
- never ``corrupt`` or ``unsupported``: torchpipe says only "no result". Its own log line goes to
  the process's stdout and libjpeg's warnings to stderr; neither reaches the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from alignkit.decoders import Decoded, embedded_version
from alignkit.torch_settings import TORCH_EXTENSIONS, quiet


@dataclass(frozen=True, slots=True)
class TorchpipeDecoder:
    """torchpipe's ``S[DecodeMat,CvtColorMat,Mat2Tensor]``: decode, BGR to RGB, no copy."""

    orients: ClassVar[bool] = True

    def decode(self, encoded: bytes) -> Decoded:
        """Decode an image of any format torchpipe's OpenCV was built with."""
        from torch.utils.dlpack import from_dlpack

        request: dict[str, Any] = {"data": encoded}
        # without a colour CvtColorMat silently does nothing, without a device Mat2Tensor takes CUDA
        decode = backend("S[DecodeMat,CvtColorMat,Mat2Tensor]", color="rgb", device="cpu")
        try:
            decode(request)
        except RuntimeError as error:
            return Decoded("failed", reason=str(error).strip())
        return Decoded("ok", from_dlpack(request["result"]).numpy())

    def version(self) -> str:
        """Return ``torchpipe 0.2.25, omniback 0.2.24, opencv 4.12.0, libjpeg-turbo 3.1.0``."""
        from importlib import metadata

        libraries = metadata.files("torchpipe") or []
        names = [f"{name} {metadata.version(name)}" for name in ("torchpipe", "omniback")]
        for library in libraries:
            if library.match("torchpipe_opencv-abiflag1.so"):
                names += _codecs(str(library.locate()))
        return ", ".join(names)


@lru_cache(maxsize=256)
def backend(chain: str, **parameters: str) -> Any:
    """Build a torchpipe backend without a name, once per process and set of parameters.

    Unlike a ``torchpipe.pipe`` it may be called from threads and after a fork, and uses no name,
    which would stay taken for the life of the process.
    """
    with quiet(TORCH_EXTENSIONS):
        import torchpipe  # noqa: F401 - registers its backends with omniback
    import omniback

    return omniback.init(chain, parameters)


def _codecs(library: str) -> list[str]:
    opencv = embedded_version(library, r"General configuration for OpenCV ([\d.]+)")
    turbo = embedded_version(library, r"build-libjpeg-turbo \(ver ([\d.]+)")
    return [f"opencv {opencv}", f"libjpeg-turbo {turbo}"]
