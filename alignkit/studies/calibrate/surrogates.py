"""Which real stage each stage of a surrogate stands in for, and whether it can run here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from alignkit.decoders import DECODERS
from alignkit.plugins import Plugin, name_of
from alignkit.preprocess.presets import PRESETS
from alignkit.resizers import RESIZERS

if TYPE_CHECKING:
    from alignkit.preprocess import Preprocess

Stage = Literal["decode", "resize"]
STAGES: tuple[Stage, ...] = ("decode", "resize")
SIZE = 224

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
"""No preset: its libraries do not go with ours in every environment, and only this needs them."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A surrogate's stage and the real one."""

    stage: Stage
    surrogate: Any
    """A decoder or resizer, as the next."""
    real: Any
    """``None`` where its library is missing."""
    missing: str
    """Why the two cannot be compared here; empty if they can."""
    gpu: bool
    """Whether the real one computes on a GPU."""


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A preset that stands in for a real stack."""

    name: str
    path: Preprocess
    pairs: tuple[Pair, ...]
    """One a stage of `STAGES`."""


def surrogates() -> tuple[Surrogate, ...]:
    """Every surrogate among the presets."""
    return tuple(
        Surrogate(name, path, tuple(_pair(path, stage) for stage in STAGES))
        for name, preset in PRESETS.items()
        if preset.surrogate_of
        for path in (_path(name),)
    )


def _path(preset: str) -> Preprocess:
    from alignkit.experiment.preprocess_option import PreprocessOption

    return PreprocessOption.model_validate({"preset": preset, "size": SIZE}).build(preset)


def _pair(path: Preprocess, stage: Stage) -> Pair:
    ours, needed = _stage(path, stage)
    if path.surrogate_of == "tensorflow":
        plugin = TENSORFLOW[stage]
        real = None if plugin.missing() else plugin.load()()
    else:
        real, plugin = _stage(_path(path.surrogate_of), stage)
        if plugin.missing() and stage == "resize" and path.surrogate_of == "torchpipe-gpu":
            real, plugin = _torchpipe_on_a_cpu()
    return Pair(stage, ours, real, plugin.missing() or needed.missing(), plugin.gpu)


def _stage(path: Preprocess, stage: Stage) -> tuple[Any, Plugin]:
    found, table = (path.decode, DECODERS) if stage == "decode" else (path.resize.resizer, RESIZERS)
    return found, table[name_of(found, table)]


def _torchpipe_on_a_cpu() -> tuple[Any, Plugin]:
    """ResizeTensor itself: torchpipe runs the same code on a CPU tensor."""
    from alignkit.resizers.torchpipe import TorchpipeResizer

    return TorchpipeResizer("tensor"), RESIZERS["torchpipe"]
