"""The real stage that each stage of a surrogate replaces, and whether it can run here.

TensorFlow's own decode and resize, which the preset ``tensorflow-surrogate`` replaces, are here:
``tf.image.decode_image`` with its defaults and ``tf.image.resize``: bilinear, no antialias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from alignkit.arrays import Image, Pixels
from alignkit.decoders import DECODERS, Decoded
from alignkit.plugins import Plugin, name_of
from alignkit.preprocess import Preprocess
from alignkit.preprocess.presets import PRESETS
from alignkit.resizers import RESIZERS

CalibratedStage = Literal["decode", "resize"]
CALIBRATED_STAGES: tuple[CalibratedStage, ...] = ("decode", "resize")
_SIZE = 224  # the usual input of ImageNet models; the resize is compared at this size

TENSORFLOW = {
    stage: Plugin(f"{__name__}:{name}", distributions=("tensorflow-cpu",), module="tensorflow")
    for stage, name in (("decode", "TensorFlowDecoder"), ("resize", "TensorFlowResizer"))
}
"""Not a preset: TensorFlow conflicts with our libraries in some environments, and only calibration
needs it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A surrogate's stage and the real one."""

    stage: CalibratedStage
    surrogate: Any
    """A decoder or resizer, as is ``real``."""
    real: Any
    """``None`` where its library is missing."""
    missing: str
    """Why the two cannot be compared here; empty if they can."""
    gpu: bool
    """Whether the real stage computes on a GPU."""


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A preset that replaces a real stack."""

    name: str
    path: Preprocess
    pairs: tuple[Pair, ...]
    """One for each of `CALIBRATED_STAGES`."""


def surrogates() -> tuple[Surrogate, ...]:
    """Return every surrogate among the presets."""
    return tuple(
        Surrogate(name, path, tuple(_pair(path, stage) for stage in CALIBRATED_STAGES))
        for name, preset in PRESETS.items()
        if preset.surrogate_of
        for path in (_path(name),)
    )


def _path(preset: str) -> Preprocess:
    from alignkit.experiment.preprocess_option import PreprocessOption

    return PreprocessOption.model_validate({"preset": preset, "size": _SIZE}).build(preset)


def _pair(path: Preprocess, stage: CalibratedStage) -> Pair:
    ours, needed = _stage(path, stage)
    if path.surrogate_of == "tensorflow":
        plugin = TENSORFLOW[stage]
        real = None if plugin.missing() else plugin.load()()
    else:
        real, plugin = _stage(_path(path.surrogate_of), stage)
        if plugin.missing() and stage == "resize" and path.surrogate_of == "torchpipe-gpu":
            from alignkit.resizers.torchpipe import TorchpipeResizer

            # ResizeTensor itself: torchpipe runs the same code on a CPU tensor
            real, plugin = TorchpipeResizer("tensor"), RESIZERS["torchpipe"]
    return Pair(stage, ours, real, plugin.missing() or needed.missing(), plugin.gpu)


def _stage(path: Preprocess, stage: CalibratedStage) -> tuple[Any, Plugin]:
    found, table = (path.decode, DECODERS) if stage == "decode" else (path.resize.resizer, RESIZERS)
    return found, table[name_of(found, table)]


@dataclass(frozen=True, slots=True)
class TensorFlowDecoder:
    """A decoder by the contract of `alignkit.decoders`."""

    orients: ClassVar[bool] = False

    def decode(self, encoded: bytes) -> Decoded:
        """Decode; a file that TensorFlow refuses is ``failed``."""
        import numpy as np
        import tensorflow as tf

        try:
            image = tf.image.decode_image(encoded, channels=3, expand_animations=False)
        except tf.errors.InvalidArgumentError as error:
            return Decoded("failed", reason=error.message)
        return Decoded("ok", np.array(image))

    def version(self) -> str:
        """Return e.g. ``tensorflow 2.21.0, tf.image.decode_image``."""
        import tensorflow as tf

        return f"tensorflow {tf.__version__}, tf.image.decode_image"


@dataclass(frozen=True, slots=True)
class TensorFlowResizer:
    """A resizer by the contract of `alignkit.resizers`."""

    def resize(self, image: Image, height: int, width: int) -> Pixels:
        """Resize (h, w, 3) ``uint8`` to (height, width, 3) ``float32``."""
        import numpy as np
        import tensorflow as tf

        return np.array(tf.image.resize(image, (height, width)))

    def version(self) -> str:
        """Return e.g. ``tensorflow 2.21.0, tf.image.resize``."""
        import tensorflow as tf

        return f"tensorflow {tf.__version__}, tf.image.resize"
