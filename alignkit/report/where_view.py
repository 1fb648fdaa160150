"""Views of where in the image a stage differs: by position, by frequency, and the mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from alignkit.record import SpatialFacts
from alignkit.record.spatial_facts import LevelMap
from alignkit.report.charts import Frame, Line, LinePlot, nice_ticks
from alignkit.text.names import Names
from alignkit.text.numbers import significant
from alignkit.text.where_words import displacement_sentence, drawn_words, mechanism_sentence

SHADES = 10
"""Shades of a map, of equal width from 0 to its greatest cell."""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A map as inline SVG: a path for each shade, over unit cells."""

    title: str
    caption: str
    rows: int
    columns: int
    paths: tuple[tuple[int, str], ...]
    """Shade, palest first, and its cells."""
    greatest: str
    """The upper end of the scale, in levels."""


@dataclass(frozen=True, slots=True)
class WhereView:
    """Where one stage of a pair differs."""

    stage: str
    open: bool
    """Whether it is shown unfolded."""
    mechanism: str
    sentences: tuple[str, ...]
    maps: tuple[HeatMap, ...]
    spectrum: LinePlot | None


def where_views(
    spatial: Sequence[SpatialFacts], reference: str, candidate: str, names: Names
) -> tuple[WhereView, ...]:
    """Return the stages of a pair that differ; the one that differs most is unfolded."""
    stages = [s for s in spatial if (s.reference, s.candidate) == (reference, candidate)]
    means = [_mean(each.map) for each in stages]
    return tuple(
        WhereView(
            stage=each.stage,
            open=mean == max(means),
            mechanism=mechanism_sentence(each, names.short),
            sentences=tuple(_sentences(each)),
            maps=tuple(_maps(each, names)),
            spectrum=_spectrum(each),
        )
        for each, mean in zip(stages, means, strict=True)
    )


def _mean(levels: LevelMap) -> float:
    cells = [cell for row in levels.levels() for cell in row]
    return sum(cells) / len(cells)


def _sentences(facts: SpatialFacts) -> list[str]:
    found = [displacement_sentence(facts)]
    if not facts.mechanisms and facts.drawn:
        found.append(f"The pixels show no known mechanism, {drawn_words(facts)}.")
    return [each for each in found if each]


def _maps(facts: SpatialFacts, names: Names) -> list[HeatMap]:
    pair = f"{names.short(facts.candidate)} against {names.short(facts.reference)}, {facts.stage}"
    maps = [(facts.map, "Mean |Δ| by position in the image, levels", "by position")]
    if facts.luma:
        maps.append((facts.luma, "Luma within 16×16 pixels, levels", "luma by position in a block"))
    if facts.chroma:
        words = "chroma by position in a block"
        maps.append((facts.chroma, "Chroma within 16×16 pixels, levels", words))
    return [_heat_map(levels, f"{pair}: {words}", caption) for levels, caption, words in maps]


def _heat_map(levels: LevelMap, title: str, caption: str) -> HeatMap:
    shades: dict[int, list[str]] = {}
    steps = bytes.fromhex(levels.cells)
    for y in range(levels.rows):
        row = steps[y * levels.columns : (y + 1) * levels.columns]
        x = 0
        for shade, run in groupby(row, lambda step: step * SHADES // 256):
            width = len(list(run))
            shades.setdefault(shade, []).append(f"M{x} {y}h{width}v1h-{width}z")
            x += width
    paths = tuple((shade, "".join(cells)) for shade, cells in sorted(shades.items()))
    greatest = significant(levels.greatest, 2)
    return HeatMap(title, caption, levels.rows, levels.columns, paths, greatest)


def _spectrum(facts: SpatialFacts) -> LinePlot | None:
    """Plot power in decibels of one squared level; bands without power are skipped."""
    if not facts.power:
        return None
    width = 0.5 / len(facts.power)
    lines = {
        label: [
            ((band + 0.5) * width, 10 * math.log10(power))
            for band, power in enumerate(powers)
            if power > 0
        ]
        for label, powers in (("reference image", facts.image_power), ("Δ", facts.power))
    }
    if not all(lines.values()):
        return None
    values = [y for points in lines.values() for _, y in points]
    frame = Frame(
        f"spectrum-{facts.reference}-{facts.candidate}-{facts.stage}",
        f"Power by spatial frequency, {facts.stage}",
        x_marks=(0, 0.125, 0.25, 0.375, 0.5),
        y_marks=nice_ticks(min(values), max(values), wanted=5),
        x_name="cycles a pixel",
        y_name="dB",
        width=360.0,
        right=346.0,
    )
    return LinePlot(
        frame,
        tuple(
            Line(" ".join(f"{frame.x(x)},{frame.y(y)}" for x, y in points), label)
            for label, points in lines.items()
        ),
    )
