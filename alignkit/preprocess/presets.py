"""Presets: the settings of real stacks by name, and the evidence for those that are surrogates.

Importing it imports no library and no plugin.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from alignkit.decoders import DECODERS
from alignkit.plugins import PluginTable, name_of
from alignkit.resizers import RESIZERS

if TYPE_CHECKING:
    from alignkit.preprocess import Preprocess


@dataclass(frozen=True, slots=True)
class Preset:
    """Stages of one real stack, without the size of the model's input."""

    summary: str
    """One line for `alignkit list`."""
    source: str
    """Source of the settings."""
    decode: dict[str, Any]
    resize: dict[str, Any]
    """The resizer with its options and ``fit``; the size is filled in by `stages`."""
    crop_share: tuple[int, int] = (1, 1)
    """Side of the centre crop ÷ shorter side of the resized image; (1, 1): no crop."""
    crop_half: str = "even"
    """Rounding of half an odd margin; see `alignkit.preprocess.Crop`."""
    others: dict[str, Any] = field(default_factory=dict)
    """``orient``, ``quantise``, ``colour`` and ``normalise``, where they are not the defaults."""
    surrogate_of: str = ""
    """Name of the GPU stack that this one imitates on a CPU; empty if it is no surrogate."""

    def missing(self) -> str:
        """Explain why its decoder or resizer cannot run here, with the fix; empty if they can."""
        decoder, resizer = DECODERS[self.decode["name"]], RESIZERS[self.resize["name"]]
        return decoder.missing() or resizer.missing()

    def stages(self, size: int) -> dict[str, Any]:
        """Return the stages as an experiment file holds them, for a square input of ``size`` px.

        >>> PRESETS["torchvision-eval"].stages(224)["resize"]["size"]
        256
        """
        share, whole = self.crop_share
        resize = {**self.resize, "size": size * whole // share}
        stages = {"decode": self.decode, "resize": resize, **self.others}
        if share != whole:
            stages["crop"] = {"size": size, "half": self.crop_half}
        return deepcopy(stages)


DALI_RESNET = (
    "NVIDIA/DALI, docs/examples/use_cases/pytorch/resnet50/main.py: decoders.image (turned by "
    "EXIF, its default), resize(mode='not_smaller', INTERP_TRIANGULAR), crop_mirror_normalize"
)
DALI_GEOMETRY = {
    "interpolation": "linear",
    "antialias": True,
    "fit": "shorter",
    "rounding": "nearest",
    "keep_scale": True,
}
DALI_CROP: dict[str, Any] = {"crop_share": (7, 8), "crop_half": "up", "others": {"orient": "exif"}}
UNIT_RANGE = {"normalise": {"mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0]}}
"""Values in 0..1."""
ULTRALYTICS: dict[str, Any] = {
    "decode": {"name": "opencv", "function": "ultralytics"},
    "resize": {"name": "opencv", "interpolation": "linear", "fit": "letterbox", "pad": 114},
    "others": {"orient": "exif", **UNIT_RANGE},
}
TORCHPIPE_GPU = (
    "torchpipe 0.2.25, csrc/nvjpeg_torch/DecodeTensor.cpp (nvjpegDecode of one image at a time, "
    "flags 0, no EXIF: chroma repeated) and torchplugins/ResizeTensor.cpp "
    "(float32, upsample_bilinear2d with align_corners, not rounded)"
)
TORCHVISION_CUDA = (
    "torchvision csrc/io/image/cuda/decode_jpegs_cuda.cpp (nvJPEG with its default flags, no EXIF; "
    "a GPU's JPEG engine, where it has one, decodes baseline files) and "
    "transforms/v2/functional/_geometry.py, resize_image (on CUDA: float32, then rounded); "
    "antialias=True is the default since 0.17"
)
DALI_GPU = (
    DALI_RESNET
    + "; jpeg_fancy_upsampling is off by default: chroma repeated; a GPU's JPEG engine, "
    "where it has one, decodes a share of the files (hw_decoder_load)"
)
NVJPEG_13 = {"name": "nvjpeg-model", "dct": "float-up", "colour": "even"}
"""The release that comes with CUDA 13, on a GPU without a JPEG engine (T4, L4, RTX 30 and 40)."""
TORCHVISION_RESIZE: dict[str, Any] = {
    "resize": {"name": "torch", "antialias": True},
    "others": {"quantise": "round"},
}
"""torchvision's resize of a CUDA tensor; on a CPU it has an integer kernel, which differs."""

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
    "timm-eval": Preset(
        summary="timm's evaluation: Pillow, antialiased bicubic, centre crop",
        source="timm.data.create_transform(is_training=False) with the commonest pretrained_cfg: "
        "interpolation bicubic, crop_pct 0.875, crop_mode center",
        decode={"name": "pillow"},
        resize={"name": "pillow", "filter": "bicubic", "fit": "shorter"},
        crop_share=(7, 8),
    ),
    "mlperf-resnet50": Preset(
        summary="MLPerf Inference's ResNet-50: cv2 INTER_AREA, centre crop, means taken off",
        source="mlcommons/inference, vision/classification_and_detection/python/dataset.py, "
        "pre_process_vgg and center_crop; imagenet.py: cv2.imread",
        decode={"name": "opencv"},
        resize={"name": "opencv", "interpolation": "area", "fit": "shorter"},
        crop_share=(7, 8),
        crop_half="down",
        others={
            "orient": "exif",
            "normalise": {"mean": [123.68 / 255, 116.78 / 255, 103.94 / 255], "std": [1 / 255] * 3},
        },
    ),
    "ultralytics-letterbox": Preset(
        summary="Ultralytics YOLO: cv2, letterbox on grey 114, values in 0..1",
        source="ultralytics.data.augment.LetterBox (center, scaleup, auto=False as for a fixed "
        "input) and utils.patches.imread (cv2.imdecode, so turned by EXIF; AVIF, read with Pillow, "
        "is unsupported here)",
        **ULTRALYTICS,
    ),
    "ultralytics-letterbox-rect": Preset(
        summary="Ultralytics YOLO, model of any input size: least rectangle in steps of 32 px",
        source="ultralytics.engine.predictor.pre_transform (auto=True for a .pt model and a "
        "dynamic export, where the images of a batch have one size) and "
        "ultralytics.data.augment.LetterBox; predict's, not val's, whose rectangles are a batch's",
        decode=ULTRALYTICS["decode"],
        resize={**ULTRALYTICS["resize"], "auto": True},
        others=ULTRALYTICS["others"],
    ),
    "plsc": Preset(
        summary="PLSC's faces: Pillow, (x - 127.5) / 128; faces are cut to size beforehand",
        source="PaddlePaddle/PLSC, plsc/utils/jpeg_reader.py, process_image_imagepath: divides by "
        "128 and not 127.5; has no resize, so one of Pillow's is used where the size is another",
        decode={"name": "pillow"},
        resize={"name": "pillow", "filter": "bilinear"},
        others={"normalise": {"mean": [127.5 / 255] * 3, "std": [128 / 255] * 3}},
    ),
    "tensorflow-surrogate": Preset(
        summary="stands in for tf.image.decode_image and resize: fast DCT, no antialias, float32",
        source="keras.utils.image_dataset_from_directory: tf.image.decode_image (dct_method by "
        "default INTEGER_FAST) and tf.image.resize (bilinear, antialias=False); Rescaling(1/255)",
        decode={"name": "simplejpeg", "dct": "ifast"},
        resize={"name": "torch", "mode": "bilinear"},
        others=UNIT_RANGE,
        surrogate_of="tensorflow",
    ),
    "dali-resnet": Preset(
        summary="NVIDIA DALI's ResNet-50 validation pipeline on the CPU",
        source=DALI_RESNET,
        decode={"name": "dali"},
        resize={"name": "dali", **DALI_GEOMETRY},
        **DALI_CROP,
    ),
    "dali-gpu": Preset(
        summary="NVIDIA DALI's ResNet-50 validation pipeline on a GPU",
        source=DALI_GPU,
        decode={"name": "dali-gpu"},
        resize={"name": "dali-gpu", **DALI_GEOMETRY},
        **DALI_CROP,
    ),
    "dali-gpu-surrogate": Preset(
        summary="stands in for dali-gpu without a JPEG engine: nvJPEG's rule, DALI's resize on the "
        "CPU",
        source=DALI_GPU,
        decode=NVJPEG_13,
        resize={"name": "dali", **DALI_GEOMETRY},
        **DALI_CROP,
        surrogate_of="dali-gpu",
    ),
    "torchpipe-cpu": Preset(
        summary="torchpipe on a CPU: DecodeMat, ResizeMat",
        source="torchpipe 0.2.25, csrc/mat_torch/DecodeMat.cpp (IMREAD_COLOR, so turned by EXIF) "
        "and ResizeMat.cpp (cv::resize with its defaults)",
        decode={"name": "torchpipe"},
        resize={"name": "torchpipe", "op": "mat"},
    ),
    "torchpipe-gpu": Preset(
        summary="torchpipe on a GPU: DecodeTensor, ResizeTensor",
        source=TORCHPIPE_GPU,
        decode={"name": "torchpipe-cuda"},
        resize={"name": "torchpipe-cuda"},
    ),
    "torchpipe-gpu-surrogate": Preset(
        summary="stands in for torchpipe's DecodeTensor, ResizeTensor: nvJPEG's rule, bilinear "
        "with align_corners",
        source=TORCHPIPE_GPU,
        decode=NVJPEG_13,
        resize={"name": "torch", "mode": "bilinear", "align_corners": True},
        surrogate_of="torchpipe-gpu",
    ),
    "torchvision-cuda": Preset(
        summary="torchvision's decode_jpeg and resize on a GPU",
        source=TORCHVISION_CUDA,
        decode={"name": "torchvision-cuda"},
        resize={"name": "torchvision-cuda", "antialias": True},
        others=TORCHVISION_RESIZE["others"],
    ),
    "torchvision-cuda-surrogate": Preset(
        summary="stands in for torchvision's decode_jpeg(device='cuda') without a JPEG engine, "
        "antialiased resize",
        source=TORCHVISION_CUDA,
        decode=NVJPEG_13,
        **TORCHVISION_RESIZE,
        surrogate_of="torchvision-cuda",
    ),
    "torchvision-cuda-engine-surrogate": Preset(
        summary="stands in for the same on a GPU with a JPEG engine (A100, H100, B200)",
        source=TORCHVISION_CUDA,
        decode={**NVJPEG_13, "engine": True},
        **TORCHVISION_RESIZE,
        surrogate_of="torchvision-cuda",
    ),
}

NOT_CALIBRATED = "not yet calibrated"
HYPOTHESIS = "unverified (a hypothesis): no output of a GPU was compared with it"


def calibration(path: Preprocess) -> str:
    """Return, in a sentence, the evidence that a surrogate's pixels are the real stack's.

    It is that of the stages by which the path imitates the stack: `alignkit.studies.calibrate`
    measured them, and ``decoders/nvjpeg_model.py`` was verified against stored output. Empty for a
    path that is no surrogate.
    """
    if not path.surrogate_of:
        return ""
    stages = (("decode", path.decode, DECODERS), ("resize", path.resize.resizer, RESIZERS))
    found = [_evidence(stage, plugin, table, path.surrogate_of) for stage, plugin, table in stages]
    return joined([sentence for sentence in found if sentence]) or NOT_CALIBRATED


def decoder_evidence(decoder: Any) -> str:
    """Return the same for a decoder, with the stack it imitates; empty if it imitates none."""
    real = getattr(decoder, "surrogate_of", "")
    evidence = _evidence("decode", decoder, DECODERS, real) or f"decode {NOT_CALIBRATED}"
    return f"surrogate of {real}, {evidence}" if real else ""


def imitated(real: str, replaced: Sequence[str]) -> str:
    """Name the stack ``real`` with the stages of it that a surrogate has replaced.

    >>> imitated("torchpipe-gpu", ("orient", "resize"))
    'torchpipe-gpu with another orient and resize'
    """
    *others, last = replaced or ("",)
    stages = f"{', '.join(others)} and {last}" if others else last
    return f"{real} with another {stages}" if stages else real


def joined(sentences: Sequence[str]) -> str:
    """Join stages' sentences; the part "(against …)" that several share stands at the end alone."""
    if not sentences:
        return ""
    *others, last = sentences
    start = last.find(" (against ")
    against = last[start:] if start >= 0 else ""
    return "; ".join([*(each.removesuffix(against) for each in others), last])


def _evidence(stage: str, plugin: Any, table: PluginTable, real: str) -> str:
    """Return the sentence of one stage; empty if no surrogate of ``real`` has this stage.

    A distance from the real stage, measured for any preset that has both, comes before a record of
    the decoder itself.
    """
    name, known = name_of(plugin, table), False
    for preset, each in PRESETS.items():
        block = each.decode if stage == "decode" else each.resize
        if each.surrogate_of == real and block["name"] == name and _is(plugin, block):
            known = True
            if stage in _measured(preset):
                return _measured(preset)[stage]
    if name == "nvjpeg-model":
        # with other options it is no rule that was verified
        return _measured(name).get(f"decode ({plugin.rule})", f"{stage} {HYPOTHESIS}")
    return f"{stage} {NOT_CALIBRATED}" if known else ""


def _is(plugin: Any, block: dict[str, Any]) -> bool:
    options = {key: block[key] for key in block if key in plugin.__dataclass_fields__}
    return bool(type(plugin)(**options) == plugin)


@cache
def _measured(preset: str) -> dict[str, str]:
    """Read stage → sentence, as `alignkit calibrate` wrote them; empty without a file."""
    import json
    from importlib import resources

    file = resources.files("alignkit.preprocess").joinpath("calibration", f"{preset}.json")
    if not file.is_file():
        return {}
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))["summary"]
    return found
