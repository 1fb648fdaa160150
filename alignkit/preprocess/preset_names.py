"""Say which preset a wrong name means, and which one runs here instead of one that cannot."""

from __future__ import annotations

from collections.abc import Mapping

from alignkit.plugins import did_you_mean
from alignkit.preprocess.presets import PRESETS

_RUNTIME = (
    "; a runtime does not preprocess: name the stack that prepares its input (alignkit list "
    "presets), and its model with alignkit diff --model"
)
_SERVER = (
    "; a server prepares images as its pipeline says: torchpipe-cpu, torchpipe-gpu-surrogate, "
    "dali-gpu-surrogate, or in Python pillow-train or opencv-train; of a live endpoint "
    "alignkit match --target http://HOST:PORT/v2/models/NAME finds out which"
)
_PROCESSOR = (
    "; give the folder of the model's preprocessor_config.json, or the file, as --preprocess DIR"
)
_STACKS = {
    "nvjpeg": "; torchpipe-gpu-surrogate and torchvision-cuda-surrogate decode by nvJPEG's rule",
    "hf": _PROCESSOR, "huggingface": _PROCESSOR, "transformers": _PROCESSOR, "vllm": _PROCESSOR,
    "sglang": _PROCESSOR,
    "triton": _SERVER, "kserve": _SERVER, "mlserver": _SERVER,
    "onnx": _RUNTIME, "onnxruntime": _RUNTIME, "ort": _RUNTIME, "tensorrt": _RUNTIME,
    "trt": _RUNTIME, "openvino": _RUNTIME,
}  # fmt: skip
"""Names of stacks that are no preset → what to write instead."""
_ALSO_CALLED = {
    "cv2": "opencv-train", "cv": "opencv-train", "imread": "opencv-train", "torch": "torchvision",
    "tf": "tensorflow", "keras": "tensorflow", "yolo": "ultralytics", "nvidia": "dali",
}  # fmt: skip
"""Other names of a library → the beginning of its presets' names."""


def preset_meant(word: str, entries: Mapping[str, object] | None = None) -> str:
    """Return ``; did you mean …?`` for a word that names no preset and none of ``entries``."""
    given = word.casefold()
    if given in _STACKS:
        return _STACKS[given]
    return did_you_mean(_ALSO_CALLED.get(given, word), {**PRESETS, **(entries or {})})


def in_place_of(preset: str | None) -> str:
    """Return ``; x and y run here`` for a preset that cannot; empty if none of its library does."""
    if preset not in PRESETS:
        return ""
    family = preset.partition("-")[0]
    twins = [name for name in PRESETS if name.partition("-")[0] == family and name != preset]
    here = [name for name in twins if not PRESETS[name].missing()]
    # stand-ins for this very stack first
    here.sort(key=lambda name: PRESETS[name].surrogate_of != preset)
    if here:
        return f"; {' and '.join(here[:2])} {'runs' if len(here) == 1 else 'run'} here"
    stand_ins = [name for name in twins if PRESETS[name].surrogate_of == preset]
    return "".join(f"; {name} would stand in: {PRESETS[name].missing()}" for name in stand_ins)
