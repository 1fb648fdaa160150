"""What torchpipe 0.2.25's backends do to an image, and which keys of a TOML file each reads.

Read in its sources (``csrc/mat_torch``, ``torchplugins``, ``nvjpeg_torch``, ``tensorrt_torch``). A
key that none of a node's backends reads is ignored by torchpipe without a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ImageForm = Literal["encoded", "mat", "cpu", "cuda"]
"""Where an image is: still bytes, an OpenCV matrix, or a tensor on the CPU or a GPU."""

SCHEDULING = frozenset(
    {"backend", "next", "map", "or", "instance_num", "batching_timeout", "max", "min", "node_name",
     "entrypoint", "restart", "priority"}
)  # fmt: skip
"""Keys that omniback, torchpipe's scheduler, reads for every node; ``priority`` stands in its
binary, and what it does there is not documented, so that it is not called ignored."""

SIZE = ("resize_h", "resize_w")


@dataclass(frozen=True, slots=True)
class TorchpipeBackend:
    """One backend's effect on an image."""

    does: Literal["decode", "resize", "letterbox", "colour", "move", "nothing", "infer"]
    takes: tuple[ImageForm, ...] = ()
    """Where the image must be; empty: anywhere."""
    gives: ImageForm | None = None
    """Where it is afterwards; ``None``: where it was."""
    reads: tuple[str, ...] = ()
    """Keys of the node it heeds."""


_MAT: tuple[ImageForm, ...] = ("mat",)
_TENSOR: tuple[ImageForm, ...] = ("cpu", "cuda")
_CVT_MAT = TorchpipeBackend("colour", _MAT, reads=("color",))
_CVT_TENSOR = TorchpipeBackend("colour", _TENSOR, reads=("color",))

BACKENDS = {
    "DecodeMat": TorchpipeBackend("decode", ("encoded",), "mat"),
    "DecodeTensor": TorchpipeBackend("decode", ("encoded",), "cuda", ("color", "data_format")),
    "ResizeMat": TorchpipeBackend("resize", _MAT, reads=SIZE),
    "ResizeTensor": TorchpipeBackend("resize", _TENSOR, reads=SIZE),
    "LetterBoxMat": TorchpipeBackend("letterbox", _MAT, reads=(*SIZE, "pad_val")),
    "CvtColorMat": _CVT_MAT,
    "cvtColorMat": _CVT_MAT,
    "CvtColorTensor": _CVT_TENSOR,
    "cvtColorTensor": _CVT_TENSOR,
    "Mat2Tensor": TorchpipeBackend("move", _MAT, "cuda", ("device",)),
    "GpuTensor": TorchpipeBackend("move", _TENSOR, "cuda"),
    "CpuTensor": TorchpipeBackend("move", _TENSOR, "cpu"),
    "Identity": TorchpipeBackend("nothing"),
    "ContiguousTensor": TorchpipeBackend("nothing", _TENSOR),
    "FixTensor": TorchpipeBackend("nothing", _TENSOR),
    "PrintTensor": TorchpipeBackend("nothing", _TENSOR),
    "TensorrtTensor": TorchpipeBackend(
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
"""Backends of torchpipe before 0.2 that 0.2.25 no longer has."""
