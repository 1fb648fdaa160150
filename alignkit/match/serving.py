"""What can be changed where a model is served, and which configuration here behaves like it.

The reverse of the usual question: a model was trained on one stack; which settings of the serving
libraries bring their pixels home? GPU libraries do not run on every machine, so each option has a
configuration that stands for it on a CPU; where that is a surrogate, its name says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from alignkit.decoders import Decoder
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.match.configurations import Configuration, Rule
from alignkit.resizers import Resizer
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.resizers.torchvision import TorchvisionResizer


@dataclass(frozen=True, slots=True)
class DecodeOption:
    """A way to decode where a model is served."""

    name: str
    decoder: Decoder
    surrogate: bool
    """Whether ``decoder`` only stands in for it."""


@dataclass(frozen=True, slots=True)
class ResizeOption:
    """A way to resize where a model is served."""

    name: str
    resizer: Resizer
    rounding: Rule = "none"


DECODES = (
    DecodeOption(
        "decode on the CPU (OpenCV, torchpipe DecodeMat, torchvision)", OpenCVDecoder(), False
    ),
    DecodeOption(
        "nvImageCodec fancy_upsampling=True, DALI jpeg_fancy_upsampling=True, or nvJPEG with "
        "NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION",
        SimpleJPEGDecoder(),
        True,
    ),
    DecodeOption(
        "nvJPEG with its default flags (torchpipe DecodeTensor, torchvision decode_jpeg on CUDA)",
        SimpleJPEGDecoder(chroma="nearest"),
        True,
    ),
)
RESIZES = (
    ResizeOption("torchpipe ResizeMat or cv2.resize", OpenCVResizer()),
    ResizeOption("cv2.resize INTER_AREA", OpenCVResizer("area")),
    ResizeOption("torchpipe ResizeTensor", TorchResizer(align_corners=True)),
    ResizeOption("F.interpolate align_corners=False", TorchResizer()),
    ResizeOption("F.interpolate align_corners=False, rounded", TorchResizer(), "round"),
    ResizeOption("F.interpolate antialias=True", TorchResizer(antialias=True)),
    ResizeOption("F.interpolate antialias=True, rounded", TorchResizer(antialias=True), "round"),
    ResizeOption("torchvision resize antialias=True", TorchvisionResizer()),
    ResizeOption("torchvision resize antialias=False", TorchvisionResizer(antialias=False)),
)


def serving_options() -> dict[Configuration, str]:
    """Each configuration that stands for a way to serve, with the way's name."""
    return {
        Configuration(decode.decoder, resize.resizer, resize.rounding): (
            f"{decode.name}{' (surrogate, not yet calibrated)' if decode.surrogate else ''}; "
            f"{resize.name}"
        )
        for decode, resize in product(DECODES, RESIZES)
    }
