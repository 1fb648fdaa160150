"""A Hugging Face ``preprocessor_config.json`` → the stages of its image processor.

Read without transformers: `PROCESSORS` holds the settings a file may leave out. ``fast`` is the
torchvision processor, the default of transformers 5; ``slow`` is the Pillow one, the default of
transformers 4.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

from alignkit.datasets.regular_file import read_text
from alignkit.errors import ConfigError
from alignkit.experiment.imported_configuration import Stages
from alignkit.limits import parsed_json
from alignkit.plugins import did_you_mean
from alignkit.preprocess.normalise import IMAGENET_MEAN, IMAGENET_STD

ProcessorKind = Literal["slow", "fast"]
NAME = "preprocessor_config.json"
_FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""Names of the values of ``resample``, from 0: Pillow's ``Image.Resampling``."""
OF_TORCHVISION = {"nearest": "nearest-exact", "bilinear": "bilinear", "bicubic": "bicubic"}


def stages_of_processor(file: Path, kind: ProcessorKind = "fast") -> Stages:
    """Read the file, or the folder that holds it.

    Raises `ConfigError`, with the key's name, for what no `Preprocess` can express.
    """
    file = file / NAME if file.is_dir() else file
    given = _read(file)
    try:
        return Stages(_stages(_Settings(given), kind))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        given = parsed_json(read_text(file))
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file; save_pretrained writes it") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror})") from None
    except ValueError as error:  # of bytes that are not UTF-8 too
        raise ConfigError(f"{file}: not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise ConfigError(f"{file}: not a mapping of settings")
    return given


class _Settings:
    """A file's settings over the defaults of its processor."""

    def __init__(self, given: dict[str, Any]) -> None:
        kind = str(given.get("image_processor_type") or given.get("feature_extractor_type") or "")
        # older files name the class by its former name, newer ones with the library's suffix
        name = kind.replace("FeatureExtractor", "ImageProcessor")
        self.name = name.removesuffix("Fast").removesuffix("Pil")
        if self.name not in PROCESSORS:
            near = did_you_mean(self.name, PROCESSORS)
            raise ConfigError(f"image_processor_type {kind!r}: alignkit does not know it{near}")
        for key, value in given.items():
            # null and false leave a setting off, so that it changes no pixel
            if key not in READ | _IGNORED and value not in (None, False):
                raise ConfigError(f"{key!r}: alignkit cannot express it")
        written = {key: value for key, value in given.items() if value is not None}
        self.of: dict[str, Any] = {"rescale_factor": 1 / 255, **PROCESSORS[self.name], **written}
        for name in ("rescale_factor", "crop_pct"):
            factor = self.of.get(name, 1.0)
            if type(factor) not in (int, float) or not factor > 0:
                raise ConfigError(f"{name!r} must be a number above 0, not {factor!r}")
        if "crop_pct" in given and self.name != "ConvNextImageProcessor":
            raise ConfigError(f"'crop_pct': {self.name} does not read it")

    def sides(self, key: str) -> dict[str, int]:
        """Return ``size`` or ``crop_size`` as a mapping; old files give a number alone."""
        given = self.of.get(key)
        if isinstance(given, int):
            square = key == "crop_size" or self.of.get("square", True)
            given = {"height": given, "width": given} if square else {"shortest_edge": given}
        if isinstance(given, dict):
            given = {edge: side for edge, side in given.items() if side is not None}
            whole = all(type(side) is int and side > 0 for side in given.values())
            if whole and given.keys() in ({"height", "width"}, {"shortest_edge"}):
                return given
        raise ConfigError(f"{key!r}: needs height and width, or shortest_edge alone, not {given}")


def _stages(settings: _Settings, kind: ProcessorKind) -> dict[str, Any]:
    of = settings.of
    if not of["do_resize"]:
        raise ConfigError("'do_resize': without it images keep their sizes; a path needs one")
    stages = {"decode": {"name": "pillow"}, **_geometry(settings), "normalise": _normalise(of)}
    stages["resize"] = {**_resizer(of["resample"], kind), **stages["resize"]}
    return stages


def _geometry(settings: _Settings) -> dict[str, Any]:
    """Return ``resize``, without its resizer, and ``crop``."""
    size, convnext = settings.sides("size"), settings.name == "ConvNextImageProcessor"
    crop = settings.sides("crop_size") if settings.of.get("do_center_crop") else None
    edge = size.get("shortest_edge")
    if convnext and (edge is None or crop is not None):
        raise ConfigError("'size': ConvNext takes shortest_edge, and no do_center_crop beside it")
    if edge is None:
        resized, stages = [size["height"], size["width"]], {"fit": "squash"}
    elif convnext and edge >= 384:  # as its class says: warped, not cropped
        resized, stages = [edge, edge], {"fit": "squash"}
    else:
        side = int(edge / settings.of["crop_pct"]) if convnext else edge
        resized, stages = [side, side], {"fit": "shorter"}
        if convnext:
            crop = {"height": edge, "width": edge}
        if crop is None:
            raise ConfigError("'do_center_crop': without it images differ in shape")
    resize = {**stages, "size": resized}
    if crop is None:
        return {"resize": resize}
    cropped = [crop.get("height", math.inf), crop.get("width", math.inf)]
    if cropped[0] > resized[0] or cropped[1] > resized[1]:
        raise ConfigError(f"'crop_size': larger than what 'size' leaves would be padded: {crop}")
    return {"resize": resize, "crop": {"size": cropped, "half": "down"}}


def _resizer(resample: int, kind: ProcessorKind) -> dict[str, Any]:
    if type(resample) is not int or not 0 <= resample < len(_FILTERS):
        raise ConfigError(f"'resample' must be 0 to {len(_FILTERS) - 1}, not {resample!r}")
    name = _FILTERS[resample]
    if kind == "slow":
        return {"name": "pillow", "filter": name}
    if name not in OF_TORCHVISION:
        raise ConfigError(f"'resample' {name}: only the slow processor's, for alignkit")
    return {"name": "torchvision", "interpolation": OF_TORCHVISION[name], "antialias": True}


def _normalise(of: dict[str, Any]) -> dict[str, list[float]]:
    """Return mean and std of values in 0..1, whatever factor the file rescales by."""
    scale = float(of["rescale_factor"]) if of["do_rescale"] else 1.0
    mean, std = [0.0] * 3, [1.0] * 3
    if of["do_normalize"]:
        mean, std = _channels(of, "image_mean"), _channels(of, "image_std")
    return {
        "mean": [each / (255 * scale) for each in mean],
        "std": [each / (255 * scale) for each in std],
    }


def _channels(of: dict[str, Any], key: str) -> list[float]:
    given = of[key]
    three = [given] * 3 if isinstance(given, int | float) else given
    if len(three) != 3:
        raise ConfigError(f"{key!r}: needs three channels, not {len(three)}")
    return [float(each) for each in three]


# Processors as their classes in transformers 5 define them (``models/*/image_processing_*.py``); a
# test compares the table with the installed transformers. ``square`` is ``default_to_square``:
# whether a number alone as ``size`` is both sides or the shorter one.

_HALF = [0.5, 0.5, 0.5]
CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
CLIP_STD = [0.26862954, 0.26130258, 0.27577711]
BILINEAR, BICUBIC = 2, 3

READ = frozenset(
    {"image_processor_type", "feature_extractor_type", "do_resize", "size", "resample",
     "do_center_crop", "crop_size", "crop_pct", "do_rescale", "rescale_factor", "do_normalize",
     "image_mean", "image_std"}
)  # fmt: skip
_IGNORED = frozenset(
    {"processor_class", "data_format", "do_convert_rgb", "input_data_format", "device",
     "disable_grouping", "return_tensors", "do_reduce_labels", "reduce_labels", "use_fast",
     "transformers_version", "default_to_square"}
)  # fmt: skip
"""Keys that change no pixel of an RGB image; every decoder here gives RGB."""


def _settings(
    size: dict[str, int],
    *,
    resample: int = BICUBIC,
    mean: list[float] = _HALF,
    std: list[float] = _HALF,
    crop: int | None = None,
    square: bool = True,
    **others: Any,
) -> dict[str, Any]:
    cropped = {"do_center_crop": True, "crop_size": {"height": crop, "width": crop}}
    return {
        "do_resize": True, "do_rescale": True, "do_normalize": True, "size": size,
        "resample": resample, "image_mean": mean, "image_std": std, "square": square,
        **(cropped if crop else {}), **others,
    }  # fmt: skip


def _squash(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


PROCESSORS = {
    "BeitImageProcessor": _settings(_squash(224)) | {"crop_size": _squash(224)},
    "BitImageProcessor": _settings(
        {"shortest_edge": 224}, mean=CLIP_MEAN, std=CLIP_STD, crop=224, square=False
    ),
    "BlipImageProcessor": _settings(_squash(384), mean=CLIP_MEAN, std=CLIP_STD),
    "CLIPImageProcessor": _settings(
        {"shortest_edge": 224}, mean=CLIP_MEAN, std=CLIP_STD, crop=224, square=False
    ),
    "ConvNextImageProcessor": _settings({"shortest_edge": 384}, square=False, crop_pct=224 / 256),
    "DeiTImageProcessor": _settings(_squash(256), crop=224),
    "MobileNetV1ImageProcessor": _settings(
        {"shortest_edge": 256}, resample=BILINEAR, crop=224, square=False
    ),
    "MobileNetV2ImageProcessor": _settings(
        {"shortest_edge": 256}, resample=BILINEAR, crop=224, square=False
    ),
    "PvtImageProcessor": _settings(_squash(224), mean=[*IMAGENET_MEAN], std=[*IMAGENET_STD]),
    "SiglipImageProcessor": _settings(_squash(224), square=False),
    "ViTImageProcessor": _settings(_squash(224), resample=BILINEAR),
}
