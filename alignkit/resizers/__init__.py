"""Plugins that resize: `Image` → `Pixels` of a given height and width.

The contract that every resizer keeps and `alignkit.testing` checks:

- accepts a ``uint8`` RGB (height, width, 3) array and does not write to it; may be called from
  threads;
- returns (height, width, 3) in ``uint8`` or unrounded ``float32`` 0..255, as its library does;
- equals its library called directly, bit for bit.

The `Resize` stage derives the target height and width from the image, in the same way for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from alignkit.decoders import DALI, OPENCV, PILLOW, TORCHPIPE, TORCHVISION, Library
from alignkit.plugins import PluginTable

if TYPE_CHECKING:
    from alignkit.arrays import Image, Pixels


class Resizer(Protocol):
    """Resizer plugin: a frozen dataclass of its options (filter, antialias, …), not the size."""

    def resize(self, image: Image, height: int, width: int) -> Pixels:
        """Resample (h, w, 3) to (height, width, 3); the dtype is the library's."""
        ...

    def version(self) -> str:
        """Return the library and its version, as they really run."""
        ...


@dataclass(frozen=True, slots=True)
class AsIs:
    """Resizer that returns the image itself, whatever the size; it is in no table."""

    def resize(self, image: Image, height: int, width: int) -> Pixels:  # noqa: ARG002
        """Return the image."""
        return image

    def version(self) -> str:
        """Return nothing: no library runs."""
        return ""


RESIZERS = PluginTable(
    "resizers",
    {
        "opencv": OPENCV.plugin(
            "alignkit.resizers.opencv:OpenCVResizer",
            "cv2.resize; uint8 or floats, no antialias",
        ),
        "pillow": PILLOW.plugin(
            "alignkit.resizers.pillow:PillowResizer", "PIL.Image.resize; uint8, antialiased"
        ),
        "torch": Library(("torch",), "torch", "train").plugin(
            "alignkit.resizers.torch:TorchResizer",
            "F.interpolate; float32, align_corners and antialias by choice",
        ),
        "torchvision": TORCHVISION.plugin(
            "alignkit.resizers.torchvision:TorchvisionResizer",
            "transforms.v2.functional.resize on a uint8 tensor",
        ),
        "torchpipe": TORCHPIPE.plugin(
            "alignkit.resizers.torchpipe:TorchpipeResizer",
            "ResizeMat (uint8) or ResizeTensor (align_corners, unrounded float32)",
        ),
        "dali": DALI.plugin(
            "alignkit.resizers.dali:DALIResizer",
            "NVIDIA DALI's resize on the CPU; uint8, antialiased",
        ),
        "torchvision-cuda": TORCHVISION.plugin(
            "alignkit.resizers.torchvision:TorchvisionCudaResizer",
            "transforms.v2.functional.resize on a CUDA tensor",
            gpu=True,
            ran=True,
        ),
        "torchpipe-cuda": TORCHPIPE.plugin(
            "alignkit.resizers.torchpipe:TorchpipeCudaResizer",
            "ResizeTensor on a CUDA tensor; align_corners, unrounded float32",
            gpu=True,
            ran=True,
        ),
        "dali-gpu": DALI.plugin(
            "alignkit.resizers.dali:DALIGPUResizer",
            "NVIDIA DALI's resize on the GPU; uint8, antialiased",
            gpu=True,
        ),
        "cvcuda": Library(("cvcuda-cu13", "cvcuda-cu12"), "cvcuda", "cvcuda").plugin(
            "alignkit.resizers.cvcuda:CVCUDAResizer", "CV-CUDA's resize; uint8", gpu=True
        ),
    },
)
