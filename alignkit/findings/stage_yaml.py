"""A `Preprocess` as the entry of ``preprocess:`` that builds it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from alignkit.decoders import DECODERS
from alignkit.plugins import name_of
from alignkit.preprocess import Preprocess, Resize, StageName
from alignkit.preprocess.image_header import MAX_PIXELS
from alignkit.preprocess.normalise import Normalise
from alignkit.resizers import RESIZERS


def changed_options(plugin: Any) -> dict[str, Any]:
    """Return the options that differ from the plugin's defaults."""
    return {
        each.name: getattr(plugin, each.name)
        for each in fields(plugin)
        if each.init and getattr(plugin, each.name) != each.default
    }


def stage_block(preprocess: Preprocess) -> dict[str, Any]:
    """Return the entry of ``preprocess:`` that builds it, without defaults."""
    resize, crop, normalise = preprocess.resize, preprocess.crop, preprocess.normalise
    height, width = resize.size
    plain = Resize(resize.resizer, resize.size)
    block: dict[str, Any] = {
        "decode": {
            "name": name_of(preprocess.decode, DECODERS),
            **changed_options(preprocess.decode),
        },
        "resize": {
            # an entry names a resizer, also where none is called
            "name": "opencv" if resize.fit == "none" else name_of(resize.resizer, RESIZERS),
            **changed_options(resize.resizer),
            "size": height if height == width else [height, width],
            **{
                option: list(value)
                if isinstance(value := getattr(resize, option), tuple)
                else value
                for option in ("fit", "pad", "rounding", "auto", "stride", "half", "at")
                if getattr(resize, option) != getattr(plain, option)
            },
        },
    }
    if preprocess.orient.policy != "none":
        block["orient"] = preprocess.orient.policy
    if crop.size is not None:
        options: dict[str, Any] = {"size": list(crop.size)}
        if crop.at is not None:
            options["at"] = list(crop.at)
        elif crop.half != "even":
            options["half"] = crop.half
        block["crop"] = options if len(options) > 1 else options["size"]
    if preprocess.quantise.rule != "none":
        block["quantise"] = preprocess.quantise.rule
    if preprocess.colour.space != "rgb":
        block["colour"] = preprocess.colour.space
    if normalise != Normalise():
        block["normalise"] = {"mean": list(normalise.mean), "std": list(normalise.std)}
    if preprocess.max_pixels != MAX_PIXELS:
        block["max_pixels"] = preprocess.max_pixels
    return block


def stage_line(preprocess: Preprocess, stage: StageName) -> str:
    """Return one stage as the entry writes it, in one line: ``{name: opencv, size: 224}``."""
    import yaml

    own: dict[str, Any] = {
        "orient": preprocess.orient.policy,
        "crop": None,
        "quantise": preprocess.quantise.rule,
        "colour": preprocess.colour.space,
        "normalise": {each: list(getattr(preprocess.normalise, each)) for each in ("mean", "std")},
    }
    value = (own | stage_block(preprocess))[stage]
    line: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
    return line.removesuffix("\n").removesuffix("\n...")
