"""The real stage that each stage of a surrogate replaces, and whether it can run here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from alignkit.decoders import DECODERS
from alignkit.plugins import Plugin, name_of
from alignkit.preprocess.presets import PRESETS
from alignkit.resizers import RESIZERS

if TYPE_CHECKING:
    from alignkit.preprocess import Preprocess

CalibratedStage = Literal["decode", "resize"]
CALIBRATED_STAGES: tuple[CalibratedStage, ...] = ("decode", "resize")
_SIZE = 224

TENSORFLOW = {
    "decode": Plugin(
        "alignkit.studies.calibrate.tensorflow:TensorFlowDecoder",
        distributions=("tensorflow-cpu",),
        module="tensorflow",
    ),
    "resize": Plugin(
        "alignkit.studies.calibrate.tensorflow:TensorFlowResizer",
        distributions=("tensorflow-cpu",),
        module="tensorflow",
    ),
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
            real, plugin = _torchpipe_on_a_cpu()
    return Pair(stage, ours, real, plugin.missing() or needed.missing(), plugin.gpu)


def _stage(path: Preprocess, stage: CalibratedStage) -> tuple[Any, Plugin]:
    found, table = (path.decode, DECODERS) if stage == "decode" else (path.resize.resizer, RESIZERS)
    return found, table[name_of(found, table)]


def _torchpipe_on_a_cpu() -> tuple[Any, Plugin]:
    """Return ResizeTensor itself: torchpipe runs the same code on a CPU tensor."""
    from alignkit.resizers.torchpipe import TorchpipeResizer

    return TorchpipeResizer("tensor"), RESIZERS["torchpipe"]
