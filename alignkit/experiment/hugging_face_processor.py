"""The image processors of transformers that alignkit can express, and their default settings.

From their classes in transformers 5 (``models/*/image_processing_*.py``); a test compares the table
with the installed transformers. ``square`` is its ``default_to_square``: whether a number alone as
``size`` is both sides or the shorter one.
"""

from __future__ import annotations

from typing import Any

from alignkit.preprocess import IMAGENET_MEAN, IMAGENET_STD

_HALF = [0.5, 0.5, 0.5]
CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
CLIP_STD = [0.26862954, 0.26130258, 0.27577711]
BILINEAR, BICUBIC = 2, 3

READ = frozenset(
    {"image_processor_type", "feature_extractor_type", "do_resize", "size", "resample",
     "do_center_crop", "crop_size", "crop_pct", "do_rescale", "rescale_factor", "do_normalize",
     "image_mean", "image_std"}
)  # fmt: skip
IGNORED = frozenset(
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
