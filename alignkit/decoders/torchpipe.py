"""torchpipe's two decoders: ``DecodeMat`` on the CPU, ``DecodeTensor`` on a GPU.

On the CPU (``torchpipe``): ``cv2.imdecode`` of an OpenCV inside torchpipe's wheel.

- **Turns the image by its EXIF orientation** and has no switch for it: ``orients`` is true.
- grey, CMYK, 16 bits, alpha, palette, ICC, progressive: as `alignkit.decoders.opencv`; the wheel's
  OpenCV has no WebP and no AVIF.
- truncated files: ``failed``.
- never ``corrupt`` or ``unsupported``: torchpipe says only "no result". Its own log line goes to
  the process's stdout and libjpeg's warnings to stderr; neither reaches the caller.

On the GPU (``torchpipe-cuda``): nvJPEG, created with flags 0; torchpipe 0.2.25 on an H100
(docs/gpu.md). torchpipe compiles this backend when it is first imported on a machine with CUDA's
headers.

- JPEG of three components only; grey, CMYK and every other format, and so 16 bits and alpha, give
  no result: ``failed``. ICC profile: ignored. Progressive and truncated files decode.
- chroma samples are repeated, with no switch for it; EXIF is ignored. The pixels are those of
  ``torchvision-cuda``: `alignkit.decoders.nvjpeg_model`, with ``engine`` where the GPU has one.
- never ``corrupt`` or ``unsupported``: the reason goes to torchpipe's log on stdout.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from typing import Any, ClassVar

from alignkit.decoders import Decoded, Decoder, embedded_version
from alignkit.errors import MissingDependency
from alignkit.torch_settings import TORCH_EXTENSIONS, quiet

_of_this_thread = threading.local()


@dataclass(frozen=True, slots=True)
class TorchpipeDecoder(Decoder):
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

    def orientation(self, encoded: bytes) -> int:
        """Return OpenCV's, as torchpipe shows no image before its turn."""
        from alignkit.decoders.opencv import OpenCVDecoder

        return OpenCVDecoder("imdecode").orientation(encoded)

    def version(self) -> str:
        """Return ``torchpipe 0.2.25, omniback 0.2.24, opencv 4.12.0, libjpeg-turbo 3.1.0``."""
        names = [_packages()]
        for library in metadata.files("torchpipe") or []:
            if library.match("torchpipe_opencv-abiflag1.so"):
                file = str(library.locate())
                opencv = embedded_version(file, r"General configuration for OpenCV ([\d.]+)")
                turbo = embedded_version(file, r"build-libjpeg-turbo \(ver ([\d.]+)")
                names += [f"opencv {opencv}", f"libjpeg-turbo {turbo}"]
        return ", ".join(names)


@dataclass(frozen=True, slots=True)
class TorchpipeCudaDecoder(Decoder):
    """Decoder on the current CUDA device; pixels are copied back."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one JPEG. Raise `MissingDependency` if torchpipe has no nvJPEG backend."""
        import numpy as np
        from torch.utils.dlpack import from_dlpack

        request: dict[str, Any] = {"data": encoded}
        decode = _decoder_of_this_thread()
        try:
            decode(request)
        except RuntimeError as error:
            return Decoded("failed", reason=str(error).strip())
        if "result" not in request:
            return Decoded("failed", reason="DecodeTensor gave no result; its reason is on stdout")
        return Decoded("ok", np.ascontiguousarray(from_dlpack(request["result"]).cpu().numpy()))

    def version(self) -> str:
        """Return ``torchpipe 0.2.25, omniback 0.2.24, CUDA 13.0``."""
        import torch

        return f"{_packages()}, CUDA {torch.version.cuda}"


def _decoder_of_this_thread() -> Any:
    """Return this thread's ``DecodeTensor``: it holds the state of one nvJPEG decoder."""
    if "decode" not in vars(_of_this_thread):
        try:
            # not through the cache, whose backends are shared between threads
            decode = backend.__wrapped__("DecodeTensor", color="rgb", data_format="hwc")
        except RuntimeError as error:
            first = str(error).strip().partition("\n")[0]
            raise MissingDependency(
                f"torchpipe-cuda: torchpipe has no nvJPEG backend here ({first}); install CUDA's "
                "headers and libnvjpeg and import torchpipe once, which compiles it"
            ) from error
        _of_this_thread.decode = decode
    return _of_this_thread.decode


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


def _packages() -> str:
    return ", ".join(f"{name} {metadata.version(name)}" for name in ("torchpipe", "omniback"))
