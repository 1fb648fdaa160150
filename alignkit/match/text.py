"""A `Match` as text: sentences, the YAML block to paste, and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from alignkit.decoders import DECODERS
from alignkit.match import Match, Ranked
from alignkit.match.configurations import Configuration
from alignkit.plugins import Plugin, name_of
from alignkit.preprocess import Normalise, Preprocess, Resize
from alignkit.preprocess.image_header import MAX_PIXELS
from alignkit.resizers import RESIZERS
from alignkit.text.numbers import estimated

NAMES_SHOWN = 4
"""Number of configurations with the same pixels that a row names; the others are counted."""


def label(configuration: Configuration) -> str:
    """Name a configuration: ``simplejpeg chroma=nearest ▸ torch bilinear align_corners=True``."""
    rounding = "" if configuration.rounding == "none" else f" ▸ {configuration.rounding}"
    decode, resizer = configuration.decode, configuration.resizer
    return f"{_called(decode, DECODERS)} ▸ {_called(resizer, RESIZERS)}{rounding}"


def _called(plugin: Any, table: dict[str, Plugin]) -> str:
    options = "".join(f" {key}={value}" for key, value in _changed(plugin).items())
    return f"{name_of(plugin, table)}{options}"


def _changed(plugin: Any) -> dict[str, Any]:
    """Return the options that differ from the plugin's defaults."""
    return {
        each.name: getattr(plugin, each.name)
        for each in fields(plugin)
        if each.init and getattr(plugin, each.name) != each.default
    }


def alternatives(ranked: Ranked, names: Mapping[Configuration, str]) -> str:
    """List the other configurations with the same pixels; empty if there is none."""
    others = [names.get(each, label(each)) for each in ranked.configurations[1:]]
    more = len(others) - NAMES_SHOWN
    shown = "; ".join(others[:NAMES_SHOWN])
    return f"{shown}; {more} more" if more > 0 else shown


def stage_block(preprocess: Preprocess) -> dict[str, Any]:
    """Return the entry of ``preprocess:`` that builds it, without defaults."""
    size = list(preprocess.resize.size)
    resize: dict[str, Any] = {
        "name": name_of(preprocess.resize.resizer, RESIZERS),
        **_changed(preprocess.resize.resizer),
        "size": size[0] if size[0] == size[1] else size,
    }
    given = {
        "fit": preprocess.resize.fit,
        "pad": preprocess.resize.pad,
        "rounding": preprocess.resize.rounding,
    }
    plain = Resize(preprocess.resize.resizer, preprocess.resize.size)
    resize |= {key: value for key, value in given.items() if value != getattr(plain, key)}
    block: dict[str, Any] = {
        "decode": {"name": name_of(preprocess.decode, DECODERS), **_changed(preprocess.decode)},
        "resize": resize,
    }
    if preprocess.orient.policy != "none":
        block["orient"] = preprocess.orient.policy
    if preprocess.crop.size is not None:
        block["crop"] = (
            list(preprocess.crop.size)
            if preprocess.crop.half == "even"
            else {"size": list(preprocess.crop.size), "half": preprocess.crop.half}
        )
    if preprocess.quantise.rule != "none":
        block["quantise"] = preprocess.quantise.rule
    if preprocess.colour.space != "rgb":
        block["colour"] = preprocess.colour.space
    if preprocess.normalise != Normalise():
        block["normalise"] = {
            "mean": list(preprocess.normalise.mean),
            "std": list(preprocess.normalise.std),
        }
    if preprocess.max_pixels != MAX_PIXELS:
        block["max_pixels"] = preprocess.max_pixels
    return block


def yaml_block(preprocess: Preprocess, name: str) -> str:
    """Return the lines to paste below ``preprocess:``."""
    import yaml

    lines: str = yaml.safe_dump(
        {name: stage_block(preprocess)}, sort_keys=False, default_flow_style=None, width=10_000
    )
    return lines


def headline(match: Match, names: Mapping[Configuration, str]) -> str:
    """Name the nearest configuration and the remaining distance, in a sentence or two."""
    best = match.winner
    if best.identical == match.images:
        found = f"gives {match.target}'s pixels on all {match.images} images of the search"
    else:
        assert best.mean_abs.value is not None
        found = (
            f"comes nearest to {match.target}: {best.mean_abs.value:.3f} grey levels remain in the "
            f"mean, {best.max_abs:.0f} at most, over {match.images} images"
        )
    first = best.configurations[0]
    return f"{names.get(first, label(first))} {found}. {_checked(match)}"


def _checked(match: Match) -> str:
    best = match.winner
    if match.holds is None or best.unseen is None:
        return "No image was left to check it on: give five or more."
    if best.unseen_identical == match.unseen:
        return f"So it does on {match.unseen} images the search did not see."
    place = "still the nearest" if match.holds else "no longer the nearest"
    return f"On {match.unseen} images the search did not see it is {place}, {best.unseen:.3f} away."


def fewer_changes(match: Match, names: Mapping[Configuration, str]) -> str:
    """Name the finalist that changes the fewest predictions, in a sentence.

    Empty if none changes fewer than the nearest, and without a model.
    """
    churns = [each.churn for each in match.ranking if each.churn is not None]
    shares = [each.value for each in churns if each.value is not None]
    if not shares or min(shares) == shares[0]:
        return ""
    place = shares.index(min(shares))
    first = match.ranking[place].configurations[0]
    return (
        f"Of the model's predictions, number {place + 1} changes fewer than the nearest: "
        f"{names.get(first, label(first))} {estimated(churns[place], share=True)}, "
        f"the nearest {estimated(churns[0], share=True)}."
    )


def as_json(match: Match, names: Mapping[Configuration, str]) -> dict[str, Any]:
    """Return the whole match, JSON-ready."""
    return {
        "target": match.target,
        "tried": match.tried,
        "rungs": [list(rung) for rung in match.rungs],
        "images": match.images,
        "unseen": match.unseen,
        "holds": match.holds,
        "left_out": [list(each) for each in match.left_out],
        "facts": list(match.facts),
        "ranking": [
            {
                "labels": [names.get(each, label(each)) for each in ranked.configurations],
                "preprocess": stage_block(preprocess),
                "mean_abs": asdict(ranked.mean_abs),
                "max_abs": ranked.max_abs,
                "identical": ranked.identical,
                "unseen_mean_abs": ranked.unseen,
                "unseen_identical": ranked.unseen_identical,
                "churn": asdict(ranked.churn) if ranked.churn else None,
            }
            for ranked, preprocess in zip(match.ranking, match.preprocesses, strict=True)
        ],
    }
