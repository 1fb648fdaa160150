"""Calls of torchpipe 0.2.25's backends, as a TOML file names them → the stages of a `Preprocess`.

Each backend's effect on an image and the keys that it reads are taken from its sources
(``csrc/mat_torch``, ``torchplugins``, ``nvjpeg_torch``, ``tensorrt_torch``). torchpipe silently
ignores a key that none of a node's backends reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from alignkit.errors import ConfigError
from alignkit.plugins import did_you_mean
from alignkit.preprocess.presets import PRESETS

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

Call: TypeAlias = tuple[str, Mapping[str, str], str]
"""Backend, the keys of its node, and ``file:line`` to name in an error."""

NOT_NORMALISED = {"mean": [0.0, 0.0, 0.0], "std": [1 / 255, 1 / 255, 1 / 255]}
"""Of values in 0..1: the model receives 0..255."""
_SURROGATE = PRESETS["torchpipe-gpu-surrogate"]
STAND_INS = {"decode": _SURROGATE.decode, "resize": _SURROGATE.resize}
"""The stages that replace torchpipe-cuda's."""
NO_MEAN = (
    "no TensorrtTensor with 'mean' and 'std', so the model is handed values in 0..255; if it is "
    "normalised elsewhere, say so with 'normalise'"
)


def image_stages(
    calls: Iterable[Call], *, surrogate: bool = False
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the stage block up to the model, and questions that the file leaves open.

    Raises `ConfigError` for calls that torchpipe refuses or a `Preprocess` cannot express.
    """
    image = _Image()
    for name, keys, at in calls:
        try:
            image.call(name, keys)
        except ConfigError as error:
            raise ConfigError(f"{at}: {name}: {error}") from None
        if image.inferred:
            break  # nodes behind the model compute on its logits
    open_questions = () if "normalise" in image.stages else (NO_MEAN,)
    return image.block(surrogate=surrogate), open_questions


@dataclass(slots=True)
class _Image:
    place: ImageForm = "encoded"
    order: str = ""
    """``rgb`` or ``bgr``, as torchpipe tracks it under the key ``color``."""
    stages: dict[str, Any] = field(default_factory=dict)
    inferred: bool = False

    def call(self, name: str, keys: Mapping[str, str]) -> None:
        backend = TORCHPIPE_BACKENDS.get(name)
        if backend is None:
            near = did_you_mean(name, TORCHPIPE_BACKENDS)
            raise ConfigError(f"alignkit knows not what this does to an image{near}")
        if backend.takes and self.place not in backend.takes:
            found = {"encoded": "bytes", "mat": "a Mat"}.get(self.place, "a tensor")
            raise ConfigError(f"is given {found}, which it refuses")
        steps: dict[str, Callable[[str, Mapping[str, str]], None]] = {
            "decode": self._decode, "resize": self._resize, "letterbox": self._letterbox,
            "colour": self._colour, "infer": self._infer,
        }  # fmt: skip
        if backend.does in steps:
            steps[backend.does](name, keys)
        # a GPU is torchpipe's default
        device = keys.get("device", "cuda") if name == "Mat2Tensor" else ""
        if device not in ("", "cpu", "cuda"):
            raise ConfigError(f"'device' must be cpu or cuda, not {device!r}")
        self.place = "cpu" if device == "cpu" else backend.gives or self.place

    def _decode(self, name: str, keys: Mapping[str, str]) -> None:
        # OpenCV decodes to BGR whatever the key says
        self.order = "bgr" if name == "DecodeMat" else _order(keys)
        self.stages["decode"] = {"name": "torchpipe" if name == "DecodeMat" else "torchpipe-cuda"}

    def _resize(self, name: str, keys: Mapping[str, str]) -> None:
        if "resize" in self.stages:
            raise ConfigError("a second resize; a path has one")
        smallest = 1 if name == "ResizeMat" else 2
        height, width = (_whole(keys, key, smallest) for key in ("resize_h", "resize_w"))
        resizer = {"mat": ("torchpipe", "mat"), "cpu": ("torchpipe", "tensor")}.get(self.place)
        plugin = {"name": resizer[0], "op": resizer[1]} if resizer else {"name": "torchpipe-cuda"}
        self.stages["resize"] = {**plugin, "size": [height, width]}

    def _letterbox(self, _: str, keys: Mapping[str, str]) -> None:
        self._resize("ResizeMat", keys)
        pads = {_pad(each) for each in keys.get("pad_val", "0").split(",")[:3]}
        if len(pads) > 1:
            raise ConfigError("'pad_val' of three levels; a path's border is one grey")
        self.stages["resize"] |= {"fit": "letterbox", "rounding": "nearest", "pad": pads.pop()}

    def _colour(self, name: str, keys: Mapping[str, str]) -> None:
        if name.endswith("Tensor") and "color" not in keys:
            raise ConfigError("needs the key 'color'")
        self.order = _order(keys)

    def _infer(self, _: str, keys: Mapping[str, str]) -> None:
        mean, std = _levels(keys, "mean"), _levels(keys, "std")
        if mean or std:
            self.stages["normalise"] = {
                "mean": [level / 255 for level in mean or [0.0] * 3],
                "std": [level / 255 for level in std or [1.0] * 3],
            }
        self.inferred = True

    def block(self, *, surrogate: bool) -> dict[str, Any]:
        for stage in ("decode", "resize"):
            if stage not in self.stages:
                raise ConfigError(f"no backend that {stage}s the image")
        block = {"normalise": NOT_NORMALISED, **self.stages, "colour": self.order}
        on_gpu = [stage for stage in STAND_INS if block[stage]["name"] == "torchpipe-cuda"]
        if surrogate and not on_gpu:
            raise ConfigError("'surrogate': nothing here runs on a GPU; leave it out")
        for stage in on_gpu if surrogate else ():
            block[stage] = {**block[stage], **STAND_INS[stage]}
        return block


def _order(keys: Mapping[str, str]) -> str:
    order = keys.get("color", "rgb")
    if order not in ("rgb", "bgr"):
        raise ConfigError(f"'color' must be rgb or bgr, not {order!r}")
    return order


def _whole(keys: Mapping[str, str], key: str, smallest: int) -> int:
    given = keys.get(key)
    if given is None:
        raise ConfigError(f"needs the key {key!r}")
    if not given.isdigit() or int(given) < smallest:
        raise ConfigError(f"{key!r} must be a whole number from {smallest}, not {given!r}")
    return int(given)


def _pad(given: str) -> int:
    if not given.strip().isdigit() or int(given) > 255:
        raise ConfigError(f"'pad_val' must be levels in 0..255, not {given!r}")
    return int(given)


def _levels(keys: Mapping[str, str], key: str) -> list[float]:
    """Return three levels in 0..255, as TensorrtTensor takes them; none without the key."""
    if key not in keys:
        return []
    try:
        levels = [float(each) for each in keys[key].split(",")]
    except ValueError:
        raise ConfigError(f"{key!r} must be three numbers, not {keys[key]!r}") from None
    if len(levels) != 3 or min(levels) <= 1 + 1e-5:
        raise ConfigError(f"{key!r}: torchpipe takes three levels of 0..255, each over 1")
    return levels
