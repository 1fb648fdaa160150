"""The preset that a word means which names none, and what runs here in place of one that cannot."""

from __future__ import annotations

from collections.abc import Collection

from alignkit.decoders import DECODERS
from alignkit.plugins import did_you_mean
from alignkit.preprocess.presets import PRESETS
from alignkit.resizers import RESIZERS

_RUNTIME = (
    "; a runtime does not preprocess: name the stack that prepares its input (alignkit list "
    "presets), and its model with alignkit diff --model"
)
_SERVER = (
    "; a server prepares images as its pipeline says: torchpipe-cpu, torchpipe-gpu-surrogate, "
    "dali-gpu-surrogate, or in Python pillow-train or opencv-train; of a live endpoint "
    "alignkit match --target http://HOST:PORT/v2/models/NAME finds out which"
)
_STACKS = {
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


def runs_here(preset: str) -> bool:
    """Tell whether a preset's decoder and resizer can run on this machine; loads neither."""
    block = PRESETS[preset]
    plugins = DECODERS[block.decode["name"]], RESIZERS[block.resize["name"]]
    return not any(plugin.missing() for plugin in plugins)


def preset_meant(word: str, entries: Collection[str] = ()) -> str:
    """Return ``; did you mean …?`` for a word that names no preset and none of ``entries``.

    Names that begin like the word come before names that are spelt like it, and those that run here
    before those that do not.
    """
    given = word.lower().removesuffix("-train")
    if given in _STACKS:
        return _STACKS[given]
    begin = _ALSO_CALLED.get(given, given)
    alike = [name for name in (*entries, *PRESETS) if name.startswith(begin)] if begin else []
    here = [name for name in alike if name not in PRESETS or runs_here(name)]
    if here:
        return f"; did you mean {' or '.join(map(repr, here[:3]))}?"
    near = did_you_mean(word, [*entries, *PRESETS])
    instead = [name for name in PRESETS if repr(name) in near and not runs_here(name)]
    return near + "".join(in_place_of(name) for name in instead)


def in_place_of(preset: str | None) -> str:
    """Return ``; x and y run here`` for a preset that cannot; empty if none of its library does."""
    if preset not in PRESETS:
        return ""
    family = preset.partition("-")[0]
    twins = [
        name
        for name, each in PRESETS.items()
        if name != preset and runs_here(name)
        and (each.surrogate_of == preset or name.partition("-")[0] == family)
    ]  # fmt: skip
    twins.sort(key=lambda name: PRESETS[name].surrogate_of != preset)
    if not twins:
        return ""
    return f"; {' and '.join(twins[:2])} {'runs' if len(twins) == 1 else 'run'} here"
