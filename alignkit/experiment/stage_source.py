"""`Stages` of a path from their source: a preset, another stack's file, or the YAML alone.

Options that the YAML gives for a stage override those of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic_core import InitErrorDetails

from alignkit.errors import ConfigError
from alignkit.experiment.option import wrong
from alignkit.plugins import did_you_mean
from alignkit.preprocess.presets import PRESETS

SOURCE_KEYS = {
    "preset": ("size",),
    "torchpipe_toml": ("surrogate",),
    "huggingface": ("processor",),
    "timm": ("size",),
}
"""The keys that name a source, each with the keys that only it reads."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The stage block as an experiment file would hold it, and notes on it."""

    block: dict[str, Any] = field(default_factory=dict)
    surrogate_of: str = ""
    """The GPU stack that these stages replace on a CPU; empty if they replace none."""
    warnings: tuple[str, ...] = ()
    """Keys that the other stack ignores, and facts it leaves open."""


def stages_from_source(
    given: dict[str, Any], known: Collection[str], lines: list[InitErrorDetails]
) -> tuple[dict[str, Any], Stages]:
    """Return the entry completed by its source's stages, and these stages.

    ``known`` are the keys an entry can have. Mistakes of the source are appended to ``lines``.
    """
    given = _without_misspelling(given, known)
    named = [key for key in SOURCE_KEYS if given.get(key) is not None]
    lines += [wrong("source", f"{named[0]!r} gives the stages already", key) for key in named[1:]]
    lines += [
        wrong(key, _alone(key), key, given=given[key])
        for key in dict.fromkeys(key for keys in SOURCE_KEYS.values() for key in keys)
        if given.get(key) is not None and not any(key in SOURCE_KEYS[name] for name in named)
    ]
    if not named or not isinstance(given[named[0]], str):
        return given, Stages()
    stages = _READ[named[0]](given, lines)
    block = dict(stages.block)
    for stage in block.keys() & given.keys():
        block[stage] = _over(block[stage], given[stage])
    return {**given, **block}, stages


def _without_misspelling(given: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Add ``preset`` from a key that looks like it; that key is reported as unknown."""
    unknown = [str(key) for key in given if key not in known]
    misspelt = get_close_matches("preset", unknown, n=1)
    meant = given[misspelt[0]] if misspelt else None
    return {**given, "preset": meant} if isinstance(meant, str) else given


def _alone(key: str) -> str:
    if key == "size":
        return "a size here belongs to a preset; without one, write it in 'resize'"
    owner = next(name for name, keys in SOURCE_KEYS.items() if key in keys)
    return f"belongs to {owner!r}"


def _preset(given: dict[str, Any], lines: list[InitErrorDetails]) -> Stages:
    name, size = given["preset"], given.get("size")
    preset = PRESETS.get(name)
    if preset is None:
        message = f"no preset {name!r}{did_you_mean(name, PRESETS)}"
        lines.append(wrong("preset", message, "preset", given=name))
        preset = next(iter(PRESETS.values()))  # any, so that the other keys are checked too
    if size is None:
        message = "a preset needs 'size', the input's side in pixels"
        lines.append(wrong("preset_size", message, "size", given=given))
    return Stages(preset.stages(_side(size) or 1), preset.surrogate_of)


def _side(size: Any) -> int | None:
    """Return a usable size, else ``None``: a wrong one is reported with the model's keys."""
    return size if type(size) is int and size > 0 else None


def _torchpipe(given: dict[str, Any]) -> Stages:
    from alignkit.experiment.torchpipe_toml import stages_of_toml

    return stages_of_toml(Path(given["torchpipe_toml"]), surrogate=given.get("surrogate") is True)


def _hugging_face(given: dict[str, Any]) -> Stages:
    from alignkit.experiment.hugging_face import stages_of_processor

    slow = given.get("processor") == "slow"
    return stages_of_processor(Path(given["huggingface"]), "slow" if slow else "fast")


def _timm(given: dict[str, Any]) -> Stages:
    from alignkit.experiment.timm_config import stages_of_timm

    return stages_of_timm(given["timm"], _side(given.get("size")))


def _imported(
    key: str, read: Callable[[dict[str, Any]], Stages]
) -> Callable[[dict[str, Any], list[InitErrorDetails]], Stages]:
    def stages(given: dict[str, Any], lines: list[InitErrorDetails]) -> Stages:
        try:
            return read(given)
        except ConfigError as error:
            lines.append(wrong("imported", str(error), key, given=given[key]))
            return Stages(ANY)  # so that the other keys are checked too

    return stages


ANY = PRESETS["opencv-train"].stages(1)
_READ: dict[str, Callable[[dict[str, Any], list[InitErrorDetails]], Stages]] = {
    "preset": _preset,
    "torchpipe_toml": _imported("torchpipe_toml", _torchpipe),
    "huggingface": _imported("huggingface", _hugging_face),
    "timm": _imported("timm", _timm),
}


def _over(stage: Any, given: Any) -> Any:
    """Override a source's options; another plugin keeps only the geometry of the source."""
    if not isinstance(stage, dict) or not isinstance(given, dict):
        return given
    kept = ("size", "fit", "pad", "rounding") if "name" in given else stage.keys()
    return {**{key: stage[key] for key in kept if key in stage}, **given}
