"""A `Match` as text: sentences, the YAML block to paste, JSON, and the facts of a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from alignkit.decoders import DECODERS
from alignkit.match import Match, Ranked
from alignkit.match.configurations import Configuration
from alignkit.plugins import Plugin, name_of
from alignkit.preprocess import Normalise, Preprocess, Resize
from alignkit.preprocess.image_header import MAX_PIXELS
from alignkit.resizers import RESIZERS
from alignkit.text.numbers import estimated

if TYPE_CHECKING:
    from alignkit.match.configurations import Geometry
    from alignkit.match.recorded_target import RecordedTensors
    from alignkit.match.target_guess import Colouring, Fit, Guess

_NAMES_SHOWN = 4
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
    more = len(others) - _NAMES_SHOWN
    shown = "; ".join(others[:_NAMES_SHOWN])
    return f"{shown}; {more} more" if more > 0 else shown


def stage_block(preprocess: Preprocess) -> dict[str, Any]:
    """Return the entry of ``preprocess:`` that builds it, without defaults."""
    resize, crop, normalise = preprocess.resize, preprocess.crop, preprocess.normalise
    height, width = resize.size
    plain = Resize(resize.resizer, resize.size)
    block: dict[str, Any] = {
        "decode": {"name": name_of(preprocess.decode, DECODERS), **_changed(preprocess.decode)},
        "resize": {
            "name": name_of(resize.resizer, RESIZERS),
            **_changed(resize.resizer),
            "size": height if height == width else [height, width],
            **{
                option: getattr(resize, option)
                for option in ("fit", "pad", "rounding")
                if getattr(resize, option) != getattr(plain, option)
            },
        },
    }
    if preprocess.orient.policy != "none":
        block["orient"] = preprocess.orient.policy
    if crop.size is not None:
        size = list(crop.size)
        block["crop"] = size if crop.half == "even" else {"size": size, "half": crop.half}
    if preprocess.quantise.rule != "none":
        block["quantise"] = preprocess.quantise.rule
    if preprocess.colour.space != "rgb":
        block["colour"] = preprocess.colour.space
    if normalise != Normalise():
        block["normalise"] = {"mean": list(normalise.mean), "std": list(normalise.std)}
    if preprocess.max_pixels != MAX_PIXELS:
        block["max_pixels"] = preprocess.max_pixels
    return block


def yaml_block(preprocess: Preprocess, name: str) -> str:
    """Return the lines to paste below ``preprocess:``."""
    import yaml

    # wide, so that no line is folded where it is pasted
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


def recorded_facts(
    recorded: RecordedTensors, found: Guess, normalisation: str, fits: dict[Colouring, Fit]
) -> tuple[str, ...]:
    """Say what was found about recorded tensors, each with the evidence against the next best."""
    count = len(recorded.rows)
    stored = f"{recorded.dtype} {recorded.shape}, read as {found.layout}"
    facts = [f"tensors: {count} of {count + recorded.without_tensor} images have one; {stored}"]
    if recorded.without_image:
        facts.append(f"other images: {recorded.without_image} tensors belong to none of ours")
    order = "BGR" if found.geometry.colour.space == "bgr" else "RGB"
    against = {
        kind: f" (residual {found.residual:.2f} levels; otherwise {other:.2f})"
        for kind, other in found.against.items()
    }
    facts += [
        f"channel order: {order}{against.get('channel order', '')}",
        f"geometry: {_geometry(found.geometry)}{against.get('geometry', '')}",
        f"colour: {_colour(found.colouring, fits)}",
        f"normalisation: {_normalisation(normalisation, fits[found.colouring])}",
    ]
    return tuple(facts)


def _colour(mine: Colouring, fits: dict[Colouring, Fit]) -> str:
    other = min(fit[2] for each, fit in fits.items() if each != mine)
    proof = f"(residual {fits[mine][2]:.3f} levels; otherwise {other:.2f})"
    if mine.misreading is not None:
        return (
            f"{mine.misreading.name} {proof}; no option here does that: correct it where it serves"
        )
    if mine.colour.space.startswith("nv12"):
        return f"round trip through {mine.colour.space} {proof}"
    return f"BT.601, as JPEG files are written {proof}"


def _normalisation(name: str, fitted: Fit) -> str:
    scale, offset, residual = fitted
    std = [1 / (255 * each) for each in scale]
    mean = [-shift * each for shift, each in zip(offset, std, strict=True)]
    three = ["/".join(f"{value:.5g}" for value in values) for values in (mean, std)]
    numbers = f"mean {three[0]}, std {three[1]}"
    proof = f"fitted on the nearest pixels: {numbers}, residual {residual:.3f} levels"
    return f"{name} ({proof})" if name else f"none that is known; {proof}"


def _geometry(geometry: Geometry) -> str:
    resize, crop = geometry.resize, geometry.crop
    size = f"{resize.size[0]}x{resize.size[1]}"
    if resize.fit == "letterbox":
        return f"letterbox to {size}, border {resize.pad}"
    if crop.size:
        half = "" if crop.half == "even" else f", odd margins {crop.half}"
        cut = f"{crop.size[0]}x{crop.size[1]}{half}"
        longer = "" if resize.rounding == "down" else f", the longer rounded to {resize.rounding}"
        return f"shorter side to {min(resize.size)}{longer}, centre crop {cut}"
    return f"{resize.fit} to {size}"
