"""Plugins that resize: `Image` → `Pixels` of a given height and width.

The contract that every resizer keeps and the conformance tests check:

- accepts a ``uint8`` RGB (height, width, 3) array and does not write to it; may be called from
  threads;
- returns (height, width, 3) in ``uint8`` or unrounded ``float32`` 0..255, as its library does;
- equals its library called directly, bit for bit.

The `Resize` stage derives the target height and width from the image, in the same way for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from alignkit.decoders import DALI
from alignkit.plugins import Plugin

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


RESIZERS = {
    "opencv": Plugin(
        "alignkit.resizers.opencv:OpenCVResizer",
        distributions=("opencv-python", "opencv-python-headless", "opencv-contrib-python"),
        module="cv2",
        summary="cv2.resize; uint8, no antialias",
    ),
    "pillow": Plugin(
        "alignkit.resizers.pillow:PillowResizer",
        distributions=("pillow",),
        module="PIL",
        summary="PIL.Image.resize; uint8, antialiased",
    ),
    "torch": Plugin(
        "alignkit.resizers.torch:TorchResizer",
        distributions=("torch",),
        module="torch",
        summary="F.interpolate; float32, align_corners and antialias by choice",
    ),
    "torchvision": Plugin(
        "alignkit.resizers.torchvision:TorchvisionResizer",
        distributions=("torchvision",),
        module="torchvision",
        summary="transforms.v2.functional.resize on a uint8 tensor",
    ),
    "torchpipe": Plugin(
        "alignkit.resizers.torchpipe:TorchpipeResizer",
        distributions=("torchpipe",),
        module="torchpipe",
        summary="ResizeMat (uint8) or ResizeTensor (align_corners, unrounded float32)",
    ),
    "dali": Plugin(
        "alignkit.resizers.dali:DALIResizer",
        distributions=DALI,
        module="nvidia.dali",
        extra="dali",
        summary="NVIDIA DALI's resize on the CPU; uint8, antialiased",
    ),
    "torchvision-cuda": Plugin(
        "alignkit.resizers.torchvision:TorchvisionCudaResizer",
        distributions=("torchvision",),
        module="torchvision",
        gpu=True,
        unproven=True,
        summary="transforms.v2.functional.resize on a CUDA tensor",
    ),
    "torchpipe-cuda": Plugin(
        "alignkit.resizers.torchpipe:TorchpipeCudaResizer",
        distributions=("torchpipe",),
        module="torchpipe",
        gpu=True,
        unproven=True,
        summary="ResizeTensor on a CUDA tensor; align_corners, unrounded float32",
    ),
    "dali-gpu": Plugin(
        "alignkit.resizers.dali:DALIGPUResizer",
        distributions=DALI,
        module="nvidia.dali",
        extra="dali",
        gpu=True,
        unproven=True,
        summary="NVIDIA DALI's resize on the GPU; uint8, antialiased",
    ),
    "cvcuda": Plugin(
        "alignkit.resizers.cvcuda:CVCUDAResizer",
        distributions=("cvcuda-cu13", "cvcuda-cu12"),
        module="cvcuda",
        extra="cvcuda",
        gpu=True,
        unproven=True,
        summary="CV-CUDA's resize; uint8",
    ),
}
