"""What real stacks do, by name. Pure data: imports no library and none of the plugins."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    """The stages of one real stack, but for the size of the model's input."""

    summary: str
    """One line for `alignkit list`."""
    source: str
    """Where the settings come from."""
    decode: dict[str, Any]
    resize: dict[str, Any]
    """The resizer with its options and ``fit``; the size is filled in by `stages`."""
    crop_share: tuple[int, int] = (1, 1)
    """Side of the centre crop ÷ shorter side of the resized image; (1, 1): no crop."""
    others: dict[str, Any] = field(default_factory=dict)
    """``orient``, ``quantise``, ``colour`` and ``normalise``, where they are not the defaults."""
    surrogate_of: str = ""
    """The GPU stack this one stands in for on a CPU; empty if it stands for itself."""

    def stages(self, size: int) -> dict[str, Any]:
        """The stage block as an experiment file would hold it, for a square input of ``size`` px.

        >>> PRESETS["torchvision-eval"].stages(224)["resize"]["size"]
        256
        """
        share, whole = self.crop_share
        crop = {"crop": size} if share != whole else {}
        resize = {**self.resize, "size": size * whole // share}
        return {"decode": dict(self.decode), "resize": resize, **crop, **self.others}


PRESETS = {
    "opencv-train": Preset(
        summary="cv2.imread, cv2.resize: OpenCV from end to end",
        source="docs.opencv.org, cv::imread: turns by EXIF unless IMREAD_IGNORE_ORIENTATION "
        "is given; cv::resize: INTER_LINEAR is the default",
        decode={"name": "opencv"},
        resize={"name": "opencv", "interpolation": "linear"},
        others={"orient": "exif"},
    ),
    "pillow-train": Preset(
        summary="Image.open, Image.resize: Pillow, antialiased bilinear, EXIF ignored",
        source="torchvision.datasets.folder.pil_loader, which does not turn by EXIF; "
        "transforms.Resize on a PIL image: bilinear is the default",
        decode={"name": "pillow"},
        resize={"name": "pillow", "filter": "bilinear"},
    ),
    "torchvision-eval": Preset(
        summary="decode_image, then the transform that published weights carry",
        source="torchvision.transforms._presets.ImageClassification (resize_size=256, "
        "crop_size=224, antialias=True), which interpolates a tensor in float32 and rounds; "
        "pytorch.org/vision, Models and pre-trained weights: decode_image",
        decode={"name": "torchvision"},
        resize={"name": "torch", "antialias": True, "fit": "shorter"},
        crop_share=(7, 8),
        others={"quantise": "round"},
    ),
    "torchpipe-cpu": Preset(
        summary="torchpipe on a CPU: DecodeMat, ResizeMat",
        source="torchpipe 0.2.25, csrc/mat_torch/DecodeMat.cpp (IMREAD_COLOR, so turned by EXIF) "
        "and ResizeMat.cpp (cv::resize with its defaults)",
        decode={"name": "torchpipe"},
        resize={"name": "torchpipe", "op": "mat"},
    ),
    "torchpipe-gpu-surrogate": Preset(
        summary="stands in for torchpipe's DecodeTensor, ResizeTensor",
        source="torchpipe 0.2.25, csrc/nvjpeg_torch/DecodeTensor.cpp (nvJPEG with flags 0: nearest "
        "chroma, no EXIF) and torchplugins/ResizeTensor.cpp (align_corners, unrounded float32)",
        decode={"name": "simplejpeg", "chroma": "nearest"},
        resize={"name": "torch", "mode": "bilinear", "align_corners": True},
        surrogate_of="torchpipe-gpu",
    ),
    "torchvision-cuda-surrogate": Preset(
        summary="stands in for torchvision's decode_jpeg(device='cuda'), antialiased resize",
        source="torchvision csrc/io/image/cuda/decode_jpegs_cuda.cpp (nvJPEG with its default "
        "flags: nearest chroma, no EXIF); transforms.v2.Resize: antialias=True is the "
        "default since 0.17",
        decode={"name": "simplejpeg", "chroma": "nearest"},
        resize={"name": "torchvision", "antialias": True},
        surrogate_of="torchvision-cuda",
    ),
}


@cache
def calibration(name: str) -> str:
    """How far the surrogate was measured to be from the stack it stands in for, in a sentence.

    Read from ``alignkit/calibration/<name>.json``, key ``summary``; ``not yet calibrated`` where no
    such file exists. Empty for a preset that is no surrogate.
    """
    import json
    from importlib import resources

    if not PRESETS[name].surrogate_of:
        return ""
    measured = resources.files("alignkit").joinpath("calibration", f"{name}.json")
    if not measured.is_file():
        return "not yet calibrated"
    return str(json.loads(measured.read_text(encoding="utf-8"))["summary"])
