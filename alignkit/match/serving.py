"""Options of serving libraries, each with the configuration here that behaves like it.

The reverse of the usual question: which settings of the serving libraries reproduce the pixels that
a model was trained on? GPU libraries do not run on every machine, so each option has a CPU
configuration in its place; where that is a surrogate, its name says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from alignkit.decoders import Decoder
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.match.configurations import Configuration, Rounding
from alignkit.resizers import Resizer
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.resizers.torchvision import TorchvisionResizer


@dataclass(frozen=True, slots=True)
class ServingDecode:
    """A way to decode where a model is served."""

    name: str
    decoder: Decoder
    surrogate: bool
    """Whether ``decoder`` only approximates it."""


@dataclass(frozen=True, slots=True)
class ServingResize:
    """A way to resize where a model is served."""

    name: str
    resizer: Resizer
    rounding: Rounding = "none"


DECODES = (
    ServingDecode(
        "decode on the CPU (OpenCV, torchpipe DecodeMat, torchvision)", OpenCVDecoder(), False
    ),
    ServingDecode(
        "nvImageCodec fancy_upsampling=True, DALI jpeg_fancy_upsampling=True, or nvJPEG with "
        "NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION",
        SimpleJPEGDecoder(),
        True,
    ),
    ServingDecode(
        "nvJPEG with its default flags (torchpipe DecodeTensor, torchvision decode_jpeg on CUDA)",
        SimpleJPEGDecoder(chroma="nearest"),
        True,
    ),
)
RESIZES = (
    ServingResize("torchpipe ResizeMat or cv2.resize", OpenCVResizer()),
    ServingResize("cv2.resize INTER_AREA", OpenCVResizer("area")),
    ServingResize("torchpipe ResizeTensor", TorchResizer(align_corners=True)),
    ServingResize("F.interpolate align_corners=False", TorchResizer()),
    ServingResize("F.interpolate align_corners=False, rounded", TorchResizer(), "round"),
    ServingResize("F.interpolate antialias=True", TorchResizer(antialias=True)),
    ServingResize("F.interpolate antialias=True, rounded", TorchResizer(antialias=True), "round"),
    ServingResize("torchvision resize antialias=True", TorchvisionResizer()),
    ServingResize("torchvision resize antialias=False", TorchvisionResizer(antialias=False)),
)


def serving_options() -> dict[Configuration, str]:
    """Return each configuration that represents a serving option, with the option's name."""
    return {
        Configuration(decode.decoder, resize.resizer, resize.rounding): (
            f"{decode.name}{' (surrogate, not yet calibrated)' if decode.surrogate else ''}; "
            f"{resize.name}"
        )
        for decode, resize in product(DECODES, RESIZES)
    }
