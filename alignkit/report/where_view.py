"""Views of where in the image a stage differs: by position, by frequency, and the mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.record import SpatialFacts
from alignkit.record.blame_facts import LevelMap
from alignkit.report.axis import Axis
from alignkit.report.marks import SHADES, HeatMap, Line
from alignkit.report.plot import Plot
from alignkit.text.names import Names
from alignkit.text.numbers import significant
from alignkit.text.where_words import displacement_sentence, drawn_words, mechanism_sentence


@dataclass(frozen=True, slots=True)
class WhereView:
    """Where one stage of a pair differs."""

    stage: str
    open: bool
    """Whether it is shown unfolded."""
    mechanism: str
    sentences: tuple[str, ...]
    maps: tuple[Plot, ...]
    spectrum: Plot | None


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
            spectrum=_spectrum(each, names),
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


def _pair(facts: SpatialFacts, names: Names) -> str:
    return f"{names.short(facts.candidate)} against {names.short(facts.reference)}, {facts.stage}"


def _maps(facts: SpatialFacts, names: Names) -> list[Plot]:
    maps = [(facts.map, "Mean |Δ| by position in the image, levels", "by position")]
    if facts.luma:
        maps.append((facts.luma, "Luma within 16×16 pixels, levels", "luma by position in a block"))
    if facts.chroma:
        words = "chroma by position in a block"
        maps.append((facts.chroma, "Chroma within 16×16 pixels, levels", words))
    pair = _pair(facts, names)
    return [_heat_map(levels, f"{pair}: {words}", caption) for levels, caption, words in maps]


def _heat_map(levels: LevelMap, title: str, caption: str) -> Plot:
    steps, columns = bytes.fromhex(levels.cells), levels.columns
    shades = [step * SHADES // 256 for step in steps]
    rows = [shades[start : start + columns] for start in range(0, len(shades), columns)]
    greatest = significant(levels.greatest, 2)
    return Plot(
        title=f"{title}, 0 to {greatest} levels",
        caption=caption,
        x=Axis(ticks=(0, columns)),
        y=Axis(ticks=(0, levels.rows)),
        marks=[HeatMap(rows, greatest)],
        words="The darker a cell, the greater is the difference.",
        size="map",
        height=192.0 * levels.rows / columns,
    )


def _spectrum(facts: SpatialFacts, names: Names) -> Plot | None:
    """Plot power in decibels of one squared level; bands without power are skipped."""
    if not facts.power:
        return None
    width = 0.5 / len(facts.power)
    lines = [
        Line(
            [
                ((band + 0.5) * width, 10 * math.log10(power))
                for band, power in enumerate(powers)
                if power > 0
            ],
            tone,
            label,
        )
        for label, tone, powers in (
            ("reference image", "t0", facts.image_power),
            ("Δ", "t1", facts.power),
        )
    ]
    if not all(each.points for each in lines):
        return None
    return Plot(
        title=f"{_pair(facts, names)}: power by spatial frequency",
        caption="Power by frequency",
        x=Axis(name="cycles a pixel", ticks=(0, 0.125, 0.25, 0.375, 0.5)),
        y=Axis(name="dB"),
        marks=lines,
        words="The difference beside the reference image.",
    )
