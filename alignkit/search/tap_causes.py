"""Causes of a difference in words: the options of the recorded code beside the reference's."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from alignkit.decoders import DECODERS
from alignkit.findings.stage_yaml import changed_options
from alignkit.plugins import PluginTable, name_of
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.resizers import RESIZERS, Resizer
from alignkit.search.configurations import Configuration, Framing
from alignkit.search.match_result import Match
from alignkit.search.normalisation_fit import in_numbers
from alignkit.search.recolouring import RecolouringDecoder
from alignkit.search.tap_readings import TapReading
from alignkit.search.tap_report import Cause, StageReport
from alignkit.search.tap_segment import Segment
from alignkit.search.target_facts import geometry_words

SWAPPED = "channels are in reverse order"
"""RGB for BGR, or BGR for RGB."""
_ORIENTED = {"exif": "applied, where the reference does not", "none": "ignored"}


def causes_of(
    segment: Segment, report: StageReport, reading: TapReading, found: Match
) -> tuple[list[Cause], float]:
    """Name each respect in which the nearest differs; return them with what remains, in levels."""
    before = report.isolated.mean if report.isolated else None
    texts, own = [], Framing.of(segment.path)
    if reading.swapped:
        texts.append(SWAPPED)
    if reading.geometry.orient != own.orient:
        texts.append(f"EXIF orientation {_ORIENTED[reading.geometry.orient]}")
    if replace(reading.geometry, orient=own.orient) != own:
        texts.append(_geometry_change(own, reading.geometry))
    if reading.normalise is not None and reading.normalise != segment.reference.normalise:
        named = reading.name or "none that is known"
        texts.append(f"normalisation: {named} ({in_numbers(reading.normalise)})")
    share = found.explained
    libraries = share is not None and share >= EXPLAINS_MOST
    # The reference's own libraries leave `plain_mean`.
    causes = [Cause(" and ".join(texts), before, found.plain_mean)] if texts else []
    if libraries:
        mine = found.plain
        nearest = min(found.named.configurations, key=lambda each: _steps(mine, each))
        left = found.plain_mean if texts else before
        words = _in_words(mine.resizer, nearest.resizer)
        causes.append(Cause(_difference(mine, nearest), left, found.remains, words))
    return causes, found.remains if libraries else found.plain_mean


def _geometry_change(mine: Framing, other: Framing) -> str:
    """Name the options that differ, or both geometries if they are of two kinds."""
    kinds = [(each.resize.fit, each.crop.size is None) for each in (mine, other)]
    if kinds[0] != kinds[1]:
        return f"geometry: {geometry_words(mine)} → {geometry_words(other)}"
    sides = zip(_geometry_options(mine).items(), _geometry_options(other).values(), strict=True)
    return ", ".join(f"{name}: {one} → {two}" for (name, one), two in sides if one != two)


def _geometry_options(geometry: Framing) -> dict[str, str]:
    resize, crop = geometry.resize, geometry.crop
    whole = f"{resize.size[0]}x{resize.size[1]}"
    return {
        "resize.size": f"{min(resize.size)}" if resize.fit == "shorter" else whole,
        "resize.pad": f"{resize.pad}",
        "resize.rounding": resize.side_rounding,
        "resize.auto": f"{resize.auto}",
        "resize.stride": f"{resize.stride}",
        "resize.half": resize.half,
        "crop.size": f"{crop.size[0]}x{crop.size[1]}" if crop.size else "",
        "crop.half": crop.half,
    }


def choice_text(segment: Segment, choice: Configuration) -> str:
    """Name the libraries of a segment's stages, and no stand-in for the others."""
    parts = [_called(choice.decode, DECODERS)] if "decode" in segment.stages else []
    parts += [_called(choice.resizer, RESIZERS)] if "resize" in segment.stages else []
    parts += [f"rounding {choice.rounding}"] if choice.rounding != "none" else []
    return " ▸ ".join(parts) or "the reference's own"


def _steps(mine: Configuration, other: Configuration) -> tuple[int, int]:
    """Count what differs: libraries first, then options."""
    kinds = options = 0
    for ours, theirs in ((mine.decode, other.decode), (mine.resizer, other.resizer)):
        kinds += type(ours) is not type(theirs)
        options += len(changed_options(ours).items() ^ changed_options(theirs).items())
    return kinds, options + (mine.rounding != other.rounding)


def _difference(mine: Configuration, other: Configuration) -> str:
    parts = []
    if isinstance(other.decode, RecolouringDecoder):
        parts.append(f"colours: {other.decode.recolouring.name}")
    elif mine.decode != other.decode:
        parts.append(f"decoder: {_change(mine.decode, other.decode, DECODERS)}")
    if mine.resizer != other.resizer:
        parts.append(f"resizer: {_change(mine.resizer, other.resizer, RESIZERS)}")
    if mine.rounding != other.rounding:
        parts.append(f"rounding: {mine.rounding} → {other.rounding}")
    return ", ".join(parts)


def _change(mine: Any, other: Any, table: PluginTable) -> str:
    """Say which options of one class change, or show both with their options."""
    if type(mine) is not type(other):
        return f"{_called(mine, table)} → {_called(other, table)}"
    changed = [
        f"{each.name}={getattr(mine, each.name)} → {getattr(other, each.name)}"
        for each in fields(mine)
        if getattr(mine, each.name) != getattr(other, each.name)
    ]
    return f"{name_of(mine, table)} {', '.join(changed)}"


def _called(plugin: Any, table: PluginTable) -> str:
    options = {each.name: getattr(plugin, each.name) for each in fields(plugin)}
    # a switch that is off says little
    shown = [f"{key}={value}" for key, value in options.items() if value not in (None, False)]
    return " ".join([name_of(plugin, table), *shown])


def _in_words(mine: Resizer, other: Resizer) -> str:
    words = []
    before, now = _antialiased(mine), _antialiased(other)
    if before is not None and now is not None and before != now:
        words.append("antialiased" if now else "no antialias: it does not filter when it shrinks")
    aligned = (getattr(each, "align_corners", False) for each in (mine, other))
    if (*aligned,) == (False, True):
        words.append("centres of the corner pixels aligned: up to half a pixel off")
    return "; ".join(words)


def _antialiased(resizer: Any) -> bool | None:
    """Tell whether a resizer filters when it shrinks; ``None`` if its options do not say it."""
    if hasattr(resizer, "antialias"):
        return bool(resizer.antialias)
    if hasattr(resizer, "filter"):  # Pillow
        return bool(resizer.filter != "nearest")
    if hasattr(resizer, "interpolation"):  # OpenCV
        return bool(resizer.interpolation == "area")
    return None
