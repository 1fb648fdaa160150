"""A resizer's options in common words: its kernel, its filter and its grid."""

from __future__ import annotations

from alignkit.plugins import name_of
from alignkit.resizers import RESIZERS, Resizer

KERNEL_OPTIONS = {"pillow": "filter", "opencv": "interpolation", "torch": "mode",
                  "torchvision": "interpolation", "torchvision-cuda": "interpolation",
                  "dali": "interpolation", "dali-gpu": "interpolation",
                  "ResizeInFloat": "kernel"}  # fmt: skip
"""Resizer → its option that names the kernel."""
_KERNELS = {"bilinear": "linear", "linear-exact": "linear", "bicubic": "cubic", "nn": "nearest",
            "lanczos4": "lanczos", "lanczos3": "lanczos"}  # fmt: skip
"""A library's name of a kernel → the common one, where they differ."""
_TORCHPIPE = ("torchpipe", "torchpipe-cuda")


def kernel(resizer: Resizer) -> str:
    """Name the kernel: ``linear``, ``cubic``, …; empty if it is not known."""
    name = name_of(resizer, RESIZERS)
    if name in _TORCHPIPE:
        return "linear"
    own = getattr(resizer, KERNEL_OPTIONS.get(name, ""), "")
    return _KERNELS.get(own, own)


def filters(resizer: Resizer) -> bool | None:
    """Tell whether it averages when it shrinks; ``None`` of a resizer that is not known."""
    name = name_of(resizer, RESIZERS)
    if name == "pillow":
        return bool(resizer.filter != "nearest")  # type: ignore[attr-defined]
    if name == "opencv":
        return bool(resizer.interpolation == "area")  # type: ignore[attr-defined]
    return False if name in _TORCHPIPE else getattr(resizer, "antialias", None)


def aligns_corners(resizer: Resizer) -> bool:
    """Tell whether its grid lies through the centres of the corner pixels."""
    tensor = name_of(resizer, RESIZERS) == "torchpipe-cuda"
    tensor = tensor or getattr(resizer, "op", "") == "tensor"
    return tensor or bool(getattr(resizer, "align_corners", False))
