"""The ``data_config`` of a timm model → the stages of timm's evaluation transform.

timm's own ``resolve_data_config`` completes a model's settings, with ``use_test_size`` off as in
timm's documented use; the weights are not downloaded.
"""

from __future__ import annotations

import math
from typing import Any

from alignkit.errors import ConfigError
from alignkit.experiment.stage_source import Stages
from alignkit.models.torch_model_files import import_timm
from alignkit.plugins import did_you_mean

_FILTERS = ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos")


def stages_of_timm(model: str, size: int | None = None) -> Stages:
    """Return the stages for ``MODEL`` or ``MODEL.TAG``; ``size`` replaces the model's input side.

    Raises `ConfigError` for an unknown name and for settings that no `Preprocess` can express.
    """
    config = _data_config(model)
    try:
        return Stages(_stages(config, size))
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
    near = did_you_mean(name, known)  # timm has too many to list
    return f"timm has no model {name!r}{near if 'did you mean' in near else ''}"


def _stages(config: dict[str, Any], size: int | None) -> dict[str, Any]:
    channels, height, width = config["input_size"]
    if channels != 3:
        raise ConfigError(f"'input_size': {channels} channels; a path gives three")
    if config["interpolation"] not in _FILTERS:
        raise ConfigError(f"'interpolation': {config['interpolation']} is drawn for each image")
    target = (size, size) if size else (height, width)
    resized = [math.floor(side / config["crop_pct"]) for side in target]
    return {
        "decode": {"name": "pillow"},
        "resize": {
            "name": "pillow",
            "filter": config["interpolation"],
            "size": resized,
            "fit": _fit(config["crop_mode"], target),
        },
        "crop": {"size": list(target), "half": "even"},
        "normalise": {"mean": list(config["mean"]), "std": list(config["std"])},
    }


def _fit(mode: str, target: tuple[int, int]) -> str:
    if mode == "squash":
        return "squash"
    if mode != "center":
        raise ConfigError(f"'crop_mode': {mode}: a path cannot pad with the mean's colour")
    if target[0] != target[1]:
        raise ConfigError("'input_size': not square; give 'size'")
    return "shorter"
