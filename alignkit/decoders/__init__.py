"""Plugins that decode: encoded bytes → `Image`.

The contract that every decoder keeps and `alignkit.testing` checks:

- accepts ``bytes`` of one encoded image; keeps no reference to them; may be called from threads;
- returns `Decoded`: RGB, ``uint8``, (height, width, 3), freshly owned, C-contiguous;
- never turns an image by its EXIF orientation, unless the library cannot do otherwise; then its
  class says ``orients = True`` and `Preprocess` leaves the orient stage to it. OpenCV, Pillow and
  others always turn a TIFF, which is then upright for the orient stage;
- ``orientation`` returns the turn that the library itself makes where it is asked to, which
  ``orient: exif`` follows: libraries read the orientation of other formats and places;
- never raises for bad bytes: a file it decoded with damage is ``corrupt`` (with pixels), one it
  could not decode is ``failed``, one of a kind it does not handle is ``unsupported``;
- never hands the bytes to another library: the label names the code that ran;
- describes in its module docstring how it treats EXIF, grey, CMYK, 16-bit, alpha, ICC, progressive
  and truncated files; docs/preprocessing.md has this as a table, and a test measures every entry
  that can be measured on a CPU.

Two decoders count as the same when they return equal bytes for every valid file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from alignkit.plugins import Plugin, PluginTable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import Image

_WORDS = 1 << 14
"""Words of an image that are weighted at a time; their arrays fit into a processor's cache."""
_ODD = 0x9E3779B97F4A7C15
START_OF_IMAGE = b"\xff\xd8"
"""The first two bytes of a JPEG file."""
DecodeOutcome = Literal["ok", "corrupt", "failed", "unsupported"]


@dataclass(frozen=True)  # without slots, which could not keep the digest
class Decoded:
    """Outcome of one decode, with the image if there is one."""

    outcome: DecodeOutcome
    image: Image | None = None
    """Present for ``ok`` and ``corrupt``; ``None`` for ``failed`` and ``unsupported``."""
    reason: str = ""
    """The library's own words, where the outcome is not ``ok``."""

    @cached_property
    def digest(self) -> str:
        """Return the `digest_of` the image; empty without one."""
        return "" if self.image is None else digest_of(self.image)


def digest_of(image: Image) -> str:
    """Hash decoded pixels with their size, in 16 hex digits.

    Files that differ in nothing but metadata, or in bytes that no decoder reads, have the same.
    Weighted sums, which take a tenth of the time of SHA-256, tell any two images apart unless
    somebody has made them for it.
    """
    import numpy as np

    pixels = np.ascontiguousarray(image).reshape(-1).view(np.uint8)
    whole = len(pixels) // 8 * 8
    words, end = pixels[:whole].view(np.uint64), pixels[whole:].tobytes()
    found = 0
    for number in (*image.shape, int.from_bytes(end, "little")):
        found = found * _ODD + number
    for start in range(0, len(words), _WORDS):
        some = words[start : start + _WORDS]
        # folded, as the product has the low bits of a word alone in all of its own
        weighted = some >> np.uint64(32)
        weighted ^= some
        weighted *= _weights()[: len(some)]
        found = (found * _ODD + int(np.add.reduce(weighted))) % 2**64
    return f"{found % 2**64:016x}"


@cache
def _weights() -> npt.NDArray[np.uint64]:
    import numpy as np
    from numpy.random import PCG64

    # odd, as an even one loses the highest bit of a word
    return PCG64(0).random_raw(_WORDS) | np.uint64(1)


class Decoder(Protocol):
    """Decoder plugin: a frozen dataclass whose fields are its options."""

    orients: ClassVar[bool] = False
    """Whether the library turns images by their EXIF orientation and has no switch for it."""
    surrogate_of: ClassVar[str] = ""
    """Name of the GPU decoder that this one imitates on a CPU; empty if it imitates none."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one image; never raises for bad bytes."""
        ...

    def orientation(self, encoded: bytes) -> int:
        """Return the orientation, 1..8, by which the library turns this file where asked to.

        A library that turns nothing follows EXIF.
        """
        from alignkit.decoders.exif import exif_orientation

        return exif_orientation(encoded)

    def version(self) -> str:
        """Return the library, its version and its codec's, as they really run."""
        ...


@dataclass(frozen=True, slots=True)
class Library:
    """A library with plugins of this family and of the resizers."""

    distributions: tuple[str, ...]
    module: str
    extra: str = ""

    def plugin(self, target: str, summary: str, *, gpu: bool = False, ran: bool = False) -> Plugin:
        """Return the table's entry of a class; ``ran``: one for a GPU has run on hardware."""
        unproven = gpu and not ran
        return Plugin(
            target, self.distributions, self.module, self.extra, gpu, unproven, summary=summary
        )


OPENCV = Library(("opencv-python", "opencv-python-headless", "opencv-contrib-python"), "cv2")
PILLOW = Library(("pillow",), "PIL")
TORCHVISION = Library(("torchvision",), "torchvision", "train")
TORCHPIPE = Library(("torchpipe",), "torchpipe", "torchpipe")
# one wheel for each CUDA version: the first installed one counts
DALI = Library(("nvidia-dali-cuda130", "nvidia-dali-cuda120"), "nvidia.dali", "dali")
_NVIMGCODEC = Library(
    ("nvidia-nvimgcodec-cu13", "nvidia-nvimgcodec-cu12"), "nvidia.nvimgcodec", "nvimgcodec"
)

DECODERS = PluginTable(
    "decoders",
    {
        "opencv": OPENCV.plugin(
            "alignkit.decoders.opencv:OpenCVDecoder",
            "cv2.imread; libjpeg-turbo, smooth chroma, islow",
        ),
        "pillow": PILLOW.plugin(
            "alignkit.decoders.pillow:PillowDecoder",
            "PIL.Image.open; libjpeg-turbo, smooth chroma, islow",
        ),
        "torchvision": TORCHVISION.plugin(
            "alignkit.decoders.torchvision:TorchvisionDecoder",
            "torchvision.io.decode_image on the CPU",
        ),
        "simplejpeg": Library(("simplejpeg",), "simplejpeg").plugin(
            "alignkit.decoders.simplejpeg:SimpleJPEGDecoder",
            "libjpeg-turbo with its chroma and DCT switches",
        ),
        "nvjpeg-model": Library(("jpeglib",), "jpeglib").plugin(
            "alignkit.decoders.nvjpeg_model:NvjpegModelDecoder",
            "nvJPEG's arithmetic on the CPU: repeated chroma, float DCT, truncated colour",
        ),
        "torchpipe": TORCHPIPE.plugin(
            "alignkit.decoders.torchpipe:TorchpipeDecoder",
            "torchpipe DecodeMat (OpenCV inside); turns by EXIF",
        ),
        "dali": DALI.plugin("alignkit.decoders.dali:DALIDecoder", "NVIDIA DALI on the CPU"),
        "nvimgcodec": _NVIMGCODEC.plugin(
            "alignkit.decoders.nvimgcodec:NvImageCodecDecoder", "nvImageCodec's CPU backends"
        ),
        "pyav": Library(("av",), "av", "pyav").plugin(
            "alignkit.decoders.pyav:PyAVDecoder", "FFmpeg's JPEG decoder and swscale"
        ),
        "torchvision-cuda": TORCHVISION.plugin(
            "alignkit.decoders.torchvision:TorchvisionCudaDecoder",
            "torchvision.io.decode_jpeg on CUDA: nvJPEG, repeated chroma",
            gpu=True,
            ran=True,
        ),
        "torchpipe-cuda": TORCHPIPE.plugin(
            "alignkit.decoders.torchpipe:TorchpipeCudaDecoder",
            "torchpipe DecodeTensor: nvJPEG, repeated chroma",
            gpu=True,
            ran=True,
        ),
        "dali-gpu": DALI.plugin(
            "alignkit.decoders.dali:DALIGPUDecoder",
            "NVIDIA DALI mixed: nvJPEG, repeated chroma by default",
            gpu=True,
        ),
        "nvimgcodec-gpu": _NVIMGCODEC.plugin(
            "alignkit.decoders.nvimgcodec:NvImageCodecGPUDecoder",
            "nvImageCodec on CUDA or the JPEG engine: nvJPEG, smooth chroma by default",
            gpu=True,
            ran=True,
        ),
    },
)


@cache
def embedded_version(binary: str, pattern: str) -> str:
    """Return the first group of ``pattern`` in the bytes of a shared library; empty if absent.

    For libraries that have no call for the version of the codec inside them.

    >>> embedded_version(__file__, "^no such (text)$")
    ''
    """
    match = re.search(pattern.encode(), Path(binary).read_bytes())
    return match.group(1).decode() if match else ""
