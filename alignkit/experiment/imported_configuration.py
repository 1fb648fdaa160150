"""`Stages` of a path from their source: a preset, another stack's file, timm, or the YAML alone.

Options that the YAML gives for a stage override those of the source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import InitErrorDetails

from alignkit.errors import ConfigError
from alignkit.experiment.option import wrong
from alignkit.models.architectures import import_timm
from alignkit.plugins import did_you_mean, nearest
from alignkit.preprocess.preset_names import preset_meant
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
    stages = _stages(named[0], given, lines)
    block = dict(stages.block)
    for stage in block.keys() & given.keys():
        block[stage] = _over(block[stage], given[stage])
    return {**given, **block}, stages


def _without_misspelling(given: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Add ``preset`` from a key that looks like it; that key is reported as unknown."""
    unknown = [str(key) for key in given if key not in known]
    # otherwise every stage would be reported as missing beside the misspelt key
    misspelt = nearest("preset", unknown)
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
        message = f"no preset {name!r}{preset_meant(str(name))}"
        lines.append(wrong("preset", message, "preset", given=name))
        preset = next(iter(PRESETS.values()))  # any, so that the other keys are checked too
    if size is None:
        message = "a preset needs 'size', the input's side in pixels"
        lines.append(wrong("preset_size", message, "size", given=given))
    return Stages(preset.stages(_side(size) or 1), preset.surrogate_of)


def _side(size: Any) -> int | None:
    """Return a usable size, else ``None``: a wrong one is reported with the model's keys."""
    return size if type(size) is int and size > 0 else None


def _stages(source: str, given: dict[str, Any], lines: list[InitErrorDetails]) -> Stages:
    if source == "preset":
        return _preset(given, lines)
    try:
        return _IMPORTS[source](given)
    except ConfigError as error:
        lines.append(wrong("imported", str(error), source, given=given[source]))
        return Stages(PRESETS["opencv-train"].stages(1))  # any, so that the other keys are checked


def _torchpipe(given: dict[str, Any]) -> Stages:
    from alignkit.experiment.torchpipe_toml import stages_of_toml

    return stages_of_toml(Path(given["torchpipe_toml"]), surrogate=given.get("surrogate") is True)


def _hugging_face(given: dict[str, Any]) -> Stages:
    from alignkit.experiment.hugging_face_config import stages_of_processor

    slow = given.get("processor") == "slow"
    return stages_of_processor(Path(given["huggingface"]), "slow" if slow else "fast")


def _over(stage: Any, given: Any) -> Any:
    """Override a source's options; another plugin keeps only the geometry of the source."""
    if not isinstance(stage, dict) or not isinstance(given, dict):
        return given
    kept = ("size", "fit", "pad", "rounding", "half") if "name" in given else stage.keys()
    return {**{key: stage[key] for key in kept if key in stage}, **given}


_TIMM_FILTERS = ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos")


def stages_of_timm(model: str, size: int | None = None) -> Stages:
    """Return the stages for ``MODEL`` or ``MODEL.TAG``; ``size`` replaces the model's input side.

    They are those of timm's evaluation transform: its ``resolve_data_config`` completes a model's
    settings, with ``use_test_size`` off as in timm's documented use; the weights are not
    downloaded. Raises `ConfigError` for an unknown name and for settings that no `Preprocess` can
    express.
    """
    config = _data_config(model)
    try:
        return Stages(_timm_stages(config, size))
    except ConfigError as error:
        raise ConfigError(f"timm's {model}: {error}") from None


def _data_config(model: str) -> dict[str, Any]:
    name = model.partition(".")[0]
    if reason := unknown_timm(name):
        raise ConfigError(reason)
    import timm
    from timm.data import resolve_data_config

    known = timm.list_pretrained(f"{name}.*")
    if model != name and model not in known:
        raise ConfigError(f"timm has no weights {model!r}{did_you_mean(model, known)}")
    config: dict[str, Any] = resolve_data_config(
        pretrained_cfg=timm.models.get_pretrained_cfg(model).to_dict()
    )
    return config


def unknown_timm(name: str) -> str:
    """Return why timm builds no such model, with the nearest name; empty if it builds it.

    Raises `MissingDependency` without timm.
    """
    timm = import_timm()
    known = timm.list_models()
    if name in known:
        return ""
    hint = did_you_mean(name, known) if nearest(name, known) else ""  # timm has too many to list
    return f"timm has no model {name!r}{hint}"


def _timm_stages(config: dict[str, Any], size: int | None) -> dict[str, Any]:
    # timm's order; a path's size is (height, width)
    channels, height, width = config["input_size"]
    if channels != 3:
        raise ConfigError(f"'input_size': {channels} channels; a path gives three")
    if (resample := config["interpolation"]) not in _TIMM_FILTERS:
        raise ConfigError(f"'interpolation': {resample} is drawn for each image")
    target = (size, size) if size else (height, width)
    resized = [math.floor(side / config["crop_pct"]) for side in target]
    mode = config["crop_mode"]
    if mode not in ("squash", "center"):
        raise ConfigError(f"'crop_mode': {mode}: a path cannot pad with the mean's colour")
    if mode == "center" and target[0] != target[1]:
        raise ConfigError("'input_size': not square; give 'size'")
    fit = "squash" if mode == "squash" else "shorter"
    return {
        "decode": {"name": "pillow"},
        "resize": {"name": "pillow", "filter": resample, "size": resized, "fit": fit},
        "crop": {"size": list(target), "half": "even"},
        "normalise": {"mean": list(config["mean"]), "std": list(config["std"])},
    }


_IMPORTS: dict[str, Callable[[dict[str, Any]], Stages]] = {
    "torchpipe_toml": _torchpipe,
    "huggingface": _hugging_face,
    "timm": lambda given: stages_of_timm(given["timm"], _side(given.get("size"))),
}
"""Readers of other stacks' configurations; each raises `ConfigError`."""
