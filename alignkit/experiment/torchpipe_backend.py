"""Effect of each torchpipe 0.2.25 backend on an image, and the keys of a TOML file that it reads.

Taken from its sources (``csrc/mat_torch``, ``torchplugins``, ``nvjpeg_torch``, ``tensorrt_torch``).
torchpipe silently ignores a key that none of a node's backends reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ImageForm = Literal["encoded", "mat", "cpu", "cuda"]
"""Form of an image: encoded bytes, an OpenCV matrix, or a tensor on the CPU or a GPU."""

SCHEDULING = frozenset(
    {"backend", "next", "map", "or", "instance_num", "batching_timeout", "max", "min", "node_name",
     "entrypoint", "restart", "priority"}
)  # fmt: skip
"""Keys that omniback, torchpipe's scheduler, reads for every node. Its binary has ``priority``,
whose effect is not documented, so it is not reported as ignored."""

_SIZE = ("resize_h", "resize_w")


@dataclass(frozen=True, slots=True)
class TorchpipeEffect:
    """One backend's effect on an image."""

    does: Literal["decode", "resize", "letterbox", "colour", "move", "nothing", "infer"]
    takes: tuple[ImageForm, ...] = ()
    """Forms that it accepts; empty: any."""
    gives: ImageForm | None = None
    """Form that it returns; ``None``: unchanged."""
    reads: tuple[str, ...] = ()
    """Keys of the node that it reads."""


_MAT: tuple[ImageForm, ...] = ("mat",)
_TENSOR: tuple[ImageForm, ...] = ("cpu", "cuda")
_CVT_MAT = TorchpipeEffect("colour", _MAT, reads=("color",))
_CVT_TENSOR = TorchpipeEffect("colour", _TENSOR, reads=("color",))

TORCHPIPE_BACKENDS = {
    "DecodeMat": TorchpipeEffect("decode", ("encoded",), "mat"),
    "DecodeTensor": TorchpipeEffect("decode", ("encoded",), "cuda", ("color", "data_format")),
    "ResizeMat": TorchpipeEffect("resize", _MAT, reads=_SIZE),
    "ResizeTensor": TorchpipeEffect("resize", _TENSOR, reads=_SIZE),
    "LetterBoxMat": TorchpipeEffect("letterbox", _MAT, reads=(*_SIZE, "pad_val")),
    "CvtColorMat": _CVT_MAT,
    "cvtColorMat": _CVT_MAT,
    "CvtColorTensor": _CVT_TENSOR,
    "cvtColorTensor": _CVT_TENSOR,
    "Mat2Tensor": TorchpipeEffect("move", _MAT, "cuda", ("device",)),
    "GpuTensor": TorchpipeEffect("move", _TENSOR, "cuda"),
    "CpuTensor": TorchpipeEffect("move", _TENSOR, "cpu"),
    "Identity": TorchpipeEffect("nothing"),
    "ContiguousTensor": TorchpipeEffect("nothing", _TENSOR),
    "FixTensor": TorchpipeEffect("nothing", _TENSOR),
    "PrintTensor": TorchpipeEffect("nothing", _TENSOR),
    "TensorrtTensor": TorchpipeEffect(
        "infer",
        _TENSOR,
        reads=(
            "model", "model_type", "model::cache", "model::timingcache", "max_workspace_size",
            "hardward_compatibility", "log_level", "precision", "precision::fp32",
            "precision::fp16", "force_layer_norm_pattern_fp32", "mean", "std",
        ),
    ),
}  # fmt: skip

GONE = frozenset(
    {"PillowResizeMat", "PillowResizeTensor", "ResizePadMat", "ResizePadTensor", "SaveMat",
     "SaveTensor", "LoadTensor", "Torch", "TensorSync", "Jump", "Range", "CropMat",
     "Mat2GpuTensor"}
)  # fmt: skip
"""Backends of torchpipe before 0.2 that 0.2.25 has removed."""
