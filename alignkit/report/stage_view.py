"""Views of the stages that differ, by how much and where: between paths, and since the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

from alignkit.compare.image_table import LAST
from alignkit.record import (
    BaselineFacts,
    BaselineStage,
    PixelStage,
    PlaneStage,
    RunRecord,
    SpatialFacts,
)
from alignkit.record.blame_facts import LevelMap
from alignkit.report.axis import Axis
from alignkit.report.marks import Line
from alignkit.report.page import (
    Beside,
    Details,
    Graphic,
    Heading,
    PagePart,
    Paragraph,
    Strong,
    against,
    sentence,
)
from alignkit.report.plot import Plot
from alignkit.report.table import Shown, Table
from alignkit.text.column import Fact, of_part
from alignkit.text.diff_words import other_shape
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import (
    DASH,
    count,
    grouped,
    listed,
    plain,
    signed,
    significant,
)
from alignkit.text.where_words import displacement_sentence, drawn_words, mechanism_sentence

NO_PIXELS = "no pixels were compared"
IDENTICAL = "nothing differs: PSNR is infinite"
_SHADES = 10
"""Shades of a map, of equal width from 0 to its greatest cell."""


@dataclass(frozen=True, slots=True)
class StageSection:
    """The stages of one pair of paths."""

    reference: PathName
    candidate: PathName
    first: str
    """The first stage whose isolated difference is not zero; empty if there is none."""
    largest: str
    """The stage with the greatest isolated mean; empty if there is none."""
    words: str
    identical: str
    """The stages that give the same values for the same input, in words; empty without one."""
    table: Table | None
    """The stages that differ, and the last pixels; ``None`` where every stage is identical."""
    planes: Table | None = None
    """The same in Y'CbCr, where that was measured."""
    places: Sequence[PagePart] = ()
    """Where the stages that differ do so, in their order."""


def stage_sections(
    pixels: Sequence[PixelStage], names: Names, spatial: Sequence[SpatialFacts] = ()
) -> tuple[StageSection, ...]:
    """Return a section for each pair of paths, in the record's order."""
    pairs = dict.fromkeys((stage.reference, stage.candidate) for stage in pixels)
    sections = []
    for pair in pairs:
        stages = [each for each in pixels if (each.reference, each.candidate) == pair]
        isolated = [stage for stage in stages if stage.mode == "isolated"]
        first = next((s for s in isolated if s.differs), None)
        # normalised units are no grey levels, so that stage cannot be the largest
        grey = [stage for stage in isolated if stage.stage != "normalise" and stage.mean_abs]
        largest = max(grey, key=lambda stage: stage.mean_abs or 0.0, default=None)
        same = [each.stage for each in isolated if each.max_abs == 0 and not each.shape_mismatches]
        # the last pixels stay beside those that differ: they are what a model sees
        shown = [s for s in stages if s.stage not in same or (s.stage == LAST and first)]
        tags = {largest.stage: "largest"} if largest else {}
        if first:
            tags[first.stage] = "starts here" + (", largest" if first is largest else "")
        reference, candidate = map(names.of, pair)
        of = f"{candidate.short} against {reference.short}"
        sections.append(
            StageSection(
                reference,
                candidate,
                first.stage if first else "",
                largest.stage if largest else "",
                _words(isolated, first, largest),
                f"Identical on the same input: {listed(same)}." if same else "",
                _stage_table(shown, tags, of) if shown else None,
                places=_places(
                    [e for e in spatial if (e.reference, e.candidate) == pair], of, names
                ),
            )
        )
    return tuple(sections)


def stage_parts(section: StageSection, *, open: bool, level: int = 3) -> Iterator[PagePart]:  # noqa: A002
    """Yield what a page shows of a pair: its sentence, where it differs, and the numbers."""
    yield against(section.candidate, section.reference, level=level)
    yield Paragraph(f"{section.words} {section.identical}".rstrip(), "lead")
    yield from section.places
    if section.table:
        tables = [section.table, *([section.planes] if section.planes else [])]
        yield Details("Stages in numbers", tables, open=open)


def _words(
    isolated: Sequence[PixelStage], first: PixelStage | None, largest: PixelStage | None
) -> str:
    if first is None:
        if all(stage.max_abs is None for stage in isolated):
            return "No stage could be compared."
        return "Every stage gives the same values for the same input."
    text = f"Drift starts at {first.stage}, the first stage that differs on the same input"
    if first.shape_mismatches:
        images = count(first.shape_mismatches, "image")
        text += f": {images} {other_shape(first.stage)}"
    if largest is None:
        return f"{text}."
    mean, most = plain(largest.mean_abs or 0.0, 2), plain(largest.max_abs or 0.0, 0)
    size = f"mean |Δpixel| {mean}, max {most} of 255"
    return f"{text}; it is largest at {largest.stage} ({size})."


def _places(found: Sequence[SpatialFacts], of: str, names: Names) -> list[PagePart]:
    """Return where each stage of a pair differs; the one that differs most is unfolded."""
    means = [sum(map(sum, each.map.levels())) / each.map.rows / each.map.columns for each in found]
    return [
        Details(
            f"Where {each.stage} differs",
            [Beside([*_where(each, f"{of}, {each.stage}", names)], "where-plots")],
            open=mean == max(means),
        )
        for each, mean in zip(found, means, strict=True)
    ]


def _where(facts: SpatialFacts, of: str, names: Names) -> Iterator[list[PagePart]]:
    """Yield the mechanism in words, each map, and the spectrum."""
    mechanism = mechanism_sentence(facts, names.short)
    said = [displacement_sentence(facts)]
    if not mechanism and facts.drawn:
        said.append(f"The pixels show no known mechanism, {drawn_words(facts)}.")
    named = [Paragraph(Strong(sentence(mechanism)))] if mechanism else []
    yield [*named, *(Paragraph(each) for each in said if each)]
    maps = {
        "Mean |Δ| by position in the image": facts.map,
        "Luma within 16×16 pixels": facts.luma,
        "Chroma within 16×16 pixels": facts.chroma,
    }
    for name, each in maps.items():
        if each:
            yield [heat_map(each, name, of)]
    if plot := _spectrum(facts, of):
        yield [plot]


def heat_map(levels: LevelMap, name: str, of: str) -> Graphic:
    """Describe a map as a path for each shade, in units of its cells."""
    steps, columns = bytes.fromhex(levels.cells), levels.columns
    shades = [""] * _SHADES
    for row in range(levels.rows):
        at = 0
        for shade, run in groupby(
            step * _SHADES // 256 for step in steps[row * columns : (row + 1) * columns]
        ):
            # cells of one shade side by side are one rectangle: pages stay small
            width = len([*run])
            shades[shade] += f"M{at} {row}h{width}v1h-{width}z"
            at += width
    greatest = significant(levels.greatest, 2)
    view = {
        "title": f"{of}: {name}, 0 to {greatest} levels",
        "caption": f"{name}, levels",
        "columns": columns,
        "rows": levels.rows,
        "shades": shades,
        "depths": [round((shade + 0.4) / (_SHADES - 0.6), 2) for shade in range(_SHADES)],
        "greatest": greatest,
    }
    return Graphic("heat_map", view)


def _spectrum(facts: SpatialFacts, of: str) -> Plot | None:
    """Plot power in decibels of one squared level; bands without power are skipped."""
    lines = []
    for label, tone, powers in (
        ("reference image", "t0", facts.image_power),
        ("Δ", "t1", facts.power),
    ):
        middles = [0.5 * (band + 0.5) / len(powers) for band in range(len(powers))]
        known = [pair for pair in zip(middles, powers, strict=True) if pair[1] > 0]
        lines.append(Line([(x, 10 * math.log10(power)) for x, power in known], tone, label))
    if not all(each.points for each in lines):
        return None
    return Plot(
        title=f"{of}: power by spatial frequency",
        caption="Power by frequency",
        x=Axis(name="cycles a pixel", ticks=(0, 0.125, 0.25, 0.375, 0.5)),
        y=Axis(name="dB"),
        marks=lines,
        words="The difference beside the reference image.",
    )


_Modes: TypeAlias = tuple[str, dict[str, PixelStage]]
"""A stage, and its difference in each mode."""


def _stage_table(stages: Sequence[PixelStage], tags: Mapping[str, str], of: str) -> Table:
    rows: dict[str, dict[str, PixelStage]] = {}
    for stage in stages:
        rows.setdefault(stage.stage, {})[stage.mode] = stage
    columns: list[Fact[_Modes]] = [
        Fact("Stage", lambda row: Shown(row[0], tag=tags.get(row[0], "")))
    ]
    for mode in ("isolated", "cumulative"):
        of_mode = [each for each in stages if each.mode == mode]
        # SSIM may be of the last pixels alone
        measures = stage_columns()[: None if any(each.ssim is not None for each in of_mode) else -1]
        columns += of_part(
            measures if of_mode else (), partial(_of_mode, mode), partial(_not_compared, mode),
            group=mode.capitalize(),
        )  # fmt: skip
    caption = (
        f"{of}, stage by stage, in grey levels 0{DASH}255 (normalise: "
        "in normalised units). Isolated: both implementations on the reference's input. "
        "Cumulative: each path on its own."
    )
    return Table.made(caption, columns, rows.items())


def _of_mode(mode: str, row: _Modes) -> PixelStage | None:
    stage = row[1].get(mode)
    # zeros of the images that happen to have one shape would mislead
    return None if stage is None or stage.shapes_alone else stage


def _not_compared(mode: str, row: _Modes) -> str:
    return _shapes(row[1][mode]) if mode in row[1] else "not compared in this mode"


def stage_columns() -> tuple[Fact[PixelStage], ...]:
    """Return how far two paths are apart after a stage."""
    unknown = attrgetter("reason")
    last = "SSIM is taken of the last pixels before normalisation only"
    return (
        Fact("Max Δ", lambda stage: stage.max_abs, "levels", format=partial(_fine, 1),
               note=unknown, remark=_shapes),
        Fact("Mean Δ", lambda stage: stage.mean_abs, "levels", format=partial(_fine, 3),
               note=unknown),
        Fact("Bias R, G, B", _bias, "change", note=unknown),
        Fact("Pixels differing", lambda stage: stage.share_differing, "share", note=unknown),
        Fact("PSNR, dB", lambda stage: stage.psnr, "levels", 1, note=_no_psnr),
        Fact("SSIM", lambda stage: stage.ssim, "levels", 4,
               note=lambda stage: stage.reason or last),
    )  # fmt: skip


def _fine(decimals: int, value: float, stage: PixelStage) -> str:
    """Write a number of a stage; normalised units are small, of the order of one."""
    return plain(value, decimals + 2 * (stage.stage == "normalise"))


def _shapes(stage: PixelStage) -> str:
    """Say how many images were compared where others have another shape; empty where none has."""
    others = stage.shape_mismatches
    return few_compared(stage.images, others) if others else ""


def _bias(stage: PixelStage) -> str | float | None:
    if stage.bias is None or stage.max_abs == 0:  # one zero says more than three
        return stage.bias and 0.0
    decimals = 4 if stage.stage == "normalise" else 2
    return " ".join(signed(each, decimals) for each in stage.bias)


def _no_psnr(stage: PixelStage) -> str:
    identical = "the images are identical: PSNR is infinite"
    unlike = "normalised units have no peak to relate the error to"
    return stage.reason or (identical if stage.max_abs == 0 else unlike)


def no_pixels(record: RunRecord) -> str:
    """Say why a run has no differences of pixels."""
    if len(record.paths) > 1:
        return NO_PIXELS
    return "there is one path, so that no pixels differ: a change is the runtime's"


def few_compared(images: int, others: int) -> str:
    """Say how many images were compared, where others have another shape."""
    compared = f"{grouped(images)} of {count(images + others, 'image')} compared"
    return f"{compared}; the others have another shape"


def planes_table(planes: Sequence[PlaneStage]) -> Table:
    """Return how far two paths differ in luma and in chroma, a row a stage and plane."""
    none = "no pair of values could be compared"
    columns: tuple[Fact[PlaneStage], ...] = (
        Fact("Stage", lambda each: each.stage),
        Fact("Plane", lambda each: each.plane),
        Fact("Images", lambda each: each.images, "count"),
        Fact("Mean Δ", lambda each: each.mean_abs, "levels", 3, note=none),
        Fact("Max Δ", lambda each: each.max_abs, "levels", 1, note=none),
        Fact("Bias", lambda each: each.bias, "change", 3, note=none),
        Fact("p99", lambda each: each.p99, "levels", 2, note=none),
        Fact("p99.9", lambda each: each.p99_9, "levels", 2, note=none),
        Fact("PSNR, dB", lambda each: each.psnr, "levels", 1,
               note=lambda each: IDENTICAL if each.max_abs == 0 else none),
    )  # fmt: skip
    caption = (
        "Luma and chroma: JPEG's Y'CbCr, in grey levels, each path on its own. Chroma upsampling "
        "moves Cb and Cr, and Y' only where a colour is cut off at 0 or 255; truncated colours "
        "move Y'."
    )
    return Table.made(caption, columns, planes)


def baseline_parts(record: RunRecord, names: Names) -> Iterator[PagePart]:
    """Yield the run against its baseline; nothing for a run that was compared with none."""
    if record.baseline is not None:
        yield Heading("Comparison with the baseline", id="baseline")
        yield Paragraph(_changes(record.baseline), "lead")
        if record.baseline.stages:
            yield _baseline_table(record.baseline, names)


def _changes(baseline: BaselineFacts) -> str:
    begun = [stage for stage in baseline.stages if stage.begun]
    text = f"Compared with the baseline of environment {baseline.fingerprint}: "
    if begun:
        text += listed([f"{stage.path} changed at {stage.stage}" for stage in begun])
    elif any(stage.changed for stage in baseline.stages):
        text += "arrays changed"
    else:
        # paths whose inputs are the approved ones are not compared again
        text += "no array changed" if baseline.stages else "no array was compared"
    if baseline.new:
        new = count(baseline.new, "image or path", "images or paths")
        text += f"; {new} without an approved line"
    if baseline.gone:
        text += f"; {count(baseline.gone, 'approved image')} not among the images of this run"
    return f"{text}."


def _baseline_table(baseline: BaselineFacts, names: Names) -> Table:
    columns: tuple[Fact[BaselineStage], ...] = (
        Fact("Path", lambda each: names.short(each.path)),
        Fact("Stage", lambda each: each.stage),
        Fact("Images", lambda each: each.images, "count"),
        Fact("Changed", lambda each: each.changed, "count", alarm=True),
        Fact("Begins here", lambda each: each.begun, "count", alarm=True),
        Fact("Max Δ", lambda each: each.pixels and each.pixels.max_abs, "levels", 1,
               note=_no_tensor),
        Fact("Mean Δ", lambda each: each.pixels and each.pixels.mean_abs, "levels", 3,
               note=_no_tensor),
        Fact("What else changed", lambda each: each.cause or DASH),
        Fact("Examples", lambda each: ", ".join(each.examples[:3]) or DASH),
    )  # fmt: skip
    return Table.made("Arrays against those approved", columns, baseline.stages)


def _no_tensor(stage: BaselineStage) -> str:
    reason = "no golden tensor of a changed image" if stage.changed else "no changed image"
    least = [f"{name} {significant(value)}" for name, value in stage.at_least.items()]
    return reason + (f"; at least {listed(least)}" if least else "")
