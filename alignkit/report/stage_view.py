"""Views of the stages that differ, and by how much: between paths, and since the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from alignkit.compare.image_table import LAST
from alignkit.record import (
    BaselineFacts,
    BaselineStage,
    PixelStage,
    PlaneStage,
    RunRecord,
    SpatialFacts,
)
from alignkit.report.page import Details, Drawn, Heading, Part, Text, against
from alignkit.report.table import ZERO, Group, Notes, RowCells, Shown, Table, alarm, numbers
from alignkit.report.where_view import WhereView, where_views
from alignkit.text.diff_words import other_shape
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import DASH, count, grouped, listed, percent, plain, signed, significant

NO_PIXELS = "no pixels were compared"
_MEASURES = ("Max Δ", "Mean Δ", "Bias R, G, B", "Pixels differing", "PSNR, dB", "SSIM")
_MODES: tuple[Literal["isolated", "cumulative"], ...] = ("isolated", "cumulative")
IDENTICAL = "nothing differs: PSNR is infinite"


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
    places: tuple[WhereView, ...] = ()
    """Where the stages that differ do so, in their order."""


def stage_sections(
    pixels: Sequence[PixelStage], names: Names, spatial: Sequence[SpatialFacts] = ()
) -> tuple[StageSection, ...]:
    """Return a section for each pair of paths, in the record's order."""
    pairs = dict.fromkeys((stage.reference, stage.candidate) for stage in pixels)
    sections = []
    for reference, candidate in pairs:
        stages = [s for s in pixels if (s.reference, s.candidate) == (reference, candidate)]
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
        sections.append(
            StageSection(
                reference=names.of(reference),
                candidate=names.of(candidate),
                first=first.stage if first else "",
                largest=largest.stage if largest else "",
                words=_words(first is not None or _any(isolated), first, largest),
                identical=f"Identical on the same input: {listed(same)}." if same else "",
                table=_stage_table(shown, tags, names.short(reference), names.short(candidate))
                if shown
                else None,
                places=where_views(spatial, reference, candidate, names),
            )
        )
    return tuple(sections)


def stage_parts(section: StageSection, *, open: bool, level: int = 3) -> Iterator[Part]:  # noqa: A002
    """Yield what a page shows of a pair: its sentence, where it differs, and the numbers."""
    yield against(section.candidate, section.reference, level=level)
    yield Text(f"{section.words} {section.identical}".rstrip(), "lead")
    for each in section.places:
        yield Details(f"Where {each.stage} differs", [Drawn("where", each)], open=each.open)
    if section.table:
        tables = [section.table, *([section.planes] if section.planes else [])]
        yield Details("Stages in numbers", tables, open=open)


def _any(stages: Sequence[PixelStage]) -> bool:
    return any(stage.max_abs is not None for stage in stages)


def _words(measured: bool, first: PixelStage | None, largest: PixelStage | None) -> str:
    if not measured:
        return "No stage could be compared."
    if first is None:
        return "Every stage gives the same values for the same input."
    text = f"Drift starts at {first.stage}, the first stage that differs on the same input"
    if first.shape_mismatches:
        images = count(first.shape_mismatches, "image")
        text += f": {images} {other_shape(first.stage)}"
    if largest is None:
        return f"{text}."
    mean, most = plain(largest.mean_abs or 0.0, 2), plain(largest.max_abs or 0.0, 0)
    size = f"mean |Δpixel| {mean}, max {most} of 255"
    if largest is first:
        return f"{text}, and is largest there ({size})."
    return f"{text}; it is largest at {largest.stage} ({size})."


def _stage_table(
    stages: list[PixelStage], tags: dict[str, str], reference: str, candidate: str
) -> Table:
    notes = Notes()
    by_mode = {(stage.stage, stage.mode): stage for stage in stages}
    shown = {mode: _measured(stages, mode) for mode in _MODES}
    rows = [
        (
            Shown(name, tag=tags.get(name, "")),
            *(
                cell
                for mode in _MODES
                for cell in _measures(by_mode.get((name, mode)), shown[mode], notes)
            ),
        )
        for name in dict.fromkeys(stage.stage for stage in stages)
    ]
    caption = (
        f"{candidate} against {reference}, stage by stage, in grey levels 0{DASH}255 (normalise: "
        "in normalised units). Isolated: both implementations on the reference's input. "
        "Cumulative: each path on its own."
    )
    names = [name for mode in _MODES for name in shown[mode]]
    groups = [Group(mode.capitalize(), len(shown[mode])) for mode in _MODES if shown[mode]]
    columns = ("Stage", *numbers(*names))
    return Table.of(caption, columns, rows, (Group("", 1), *groups), notes=notes)


def _measured(stages: list[PixelStage], mode: str) -> tuple[str, ...]:
    """Return the measures that any stage has in a mode: SSIM may be of the last pixels alone."""
    of_mode = [stage for stage in stages if stage.mode == mode]
    with_ssim = any(stage.ssim is not None for stage in of_mode)
    return tuple(name for name in _MEASURES if name != "SSIM" or with_ssim) if of_mode else ()


def _measures(stage: PixelStage | None, names: tuple[str, ...], notes: Notes) -> tuple[Shown, ...]:
    if stage is None:
        return (notes.missing("not compared in this mode"),) * len(names)
    if stage.shapes_alone:
        # zeros of the images that happen to have one shape would mislead
        reason = few_compared(stage.images, stage.shape_mismatches)
        found = notes.missing(reason, f"{stage.shape_mismatches} {other_shape(stage.stage)}")
        return (replace(found, tone="bad"), *(notes.missing(reason),) * (len(names) - 1))
    decimals = 4 if stage.stage == "normalise" else 2  # its units are small: of the order of one
    reason = stage.reason or "not measured"
    no_psnr = (
        "the images are identical: PSNR is infinite"
        if stage.max_abs == 0
        else "normalised units have no peak to relate the error to"
    )
    cells = (
        notes.distance(stage.max_abs, lambda value: plain(value, decimals - 1), reason),
        notes.distance(stage.mean_abs, lambda value: plain(value, decimals + 1), reason),
        _bias(stage, decimals, notes, reason),
        notes.distance(stage.share_differing, percent, reason),
        notes.number(stage.psnr, "{:.1f}".format, stage.reason or no_psnr),
    )
    if stage.shape_mismatches:
        mark = notes.mark(few_compared(stage.images, stage.shape_mismatches))
        cells = (replace(cells[0], mark=mark), *cells[1:])
    if "SSIM" not in names:
        return cells
    no_ssim = stage.reason or "SSIM is taken of the last pixels before normalisation only"
    return (*cells, notes.number(stage.ssim, lambda each: plain(each, 4), no_ssim))


def no_pixels(record: RunRecord) -> str:
    """Say why a run has no differences of pixels."""
    if len(record.paths) > 1:
        return NO_PIXELS
    return "there is one path, so that no pixels differ: a change is the runtime's"


def few_compared(images: int, others: int) -> str:
    """Say how many images were compared, where others have another shape."""
    compared = f"{grouped(images)} of {count(images + others, 'image')} compared"
    return f"{compared}; the others have another shape"


def _bias(stage: PixelStage, decimals: int, notes: Notes, reason: str) -> Shown:
    if stage.max_abs == 0:  # one zero says more than three
        return ZERO
    return notes.number(
        stage.bias, lambda bias: " ".join(signed(v, decimals) for v in bias), reason
    )


def planes_table(planes: Sequence[PlaneStage]) -> Table:
    """Return how far two paths differ in luma and in chroma, a row a stage and plane."""
    notes = Notes()
    rows: list[RowCells] = [
        (each.stage, each.plane, grouped(each.images), *_plane_cells(each, notes))
        for each in planes
    ]
    caption = (
        "Luma and chroma: JPEG's Y'CbCr, in grey levels, each path on its own. Chroma upsampling "
        "moves Cb and Cr, and Y' only where a colour is cut off at 0 or 255; truncated colours "
        "move Y'."
    )
    measures = numbers("Images", "Mean Δ", "Max Δ", "Bias", "p99", "p99.9", "PSNR, dB")
    return Table.of(caption, ("Stage", "Plane", *measures), rows, notes=notes)


def _plane_cells(plane: PlaneStage, notes: Notes) -> tuple[Shown, ...]:
    reason = "no pair of values could be compared"
    return (
        notes.distance(plane.mean_abs, lambda value: plain(value, 3), reason),
        notes.distance(plane.max_abs, lambda value: plain(value, 1), reason),
        notes.distance(plane.bias, lambda value: signed(value, 3), reason),
        notes.distance(plane.p99, lambda value: plain(value, 2), reason),
        notes.distance(plane.p99_9, lambda value: plain(value, 2), reason),
        notes.number(plane.psnr, "{:.1f}".format, IDENTICAL if plane.max_abs == 0 else reason),
    )


def baseline_parts(record: RunRecord, names: Names) -> Iterator[Part]:
    """Yield the run against its baseline; nothing for a run that was compared with none."""
    if record.baseline is not None:
        yield Heading("Comparison with the baseline", id="baseline")
        yield Text(_changes(record.baseline), "lead")
        if table := _baseline_table(record.baseline, names):
            yield table


def _changes(baseline: BaselineFacts) -> str:
    begun = [stage for stage in baseline.stages if stage.begun]
    text = f"Compared with the baseline of environment {baseline.fingerprint}: "
    if begun:
        text += listed([f"{stage.path} changed at {stage.stage}" for stage in begun])
    elif any(stage.changed for stage in baseline.stages):
        text += "arrays changed"
    else:
        text += "no array changed"
    if baseline.new:
        text += (
            f"; {count(baseline.new, 'image or path', 'images or paths')} without an approved line"
        )
    if baseline.gone:
        text += f"; {count(baseline.gone, 'approved image')} not among the images of this run"
    return f"{text}."


def _baseline_table(baseline: BaselineFacts, names: Names) -> Table | None:
    if not baseline.stages:
        return None
    notes = Notes()
    columns = (
        "Path",
        "Stage",
        *numbers("Images", "Changed", "Begins here", "Max Δ", "Mean Δ"),
        "What else changed",
        "Examples",
    )
    rows: list[RowCells] = [
        (names.short(stage.path), stage.stage, *_baseline_cells(stage, notes))
        for stage in baseline.stages
    ]
    return Table.of("Arrays against those approved", columns, rows, notes=notes)


def _baseline_cells(stage: BaselineStage, notes: Notes) -> RowCells:
    largest = stage.pixels.max_abs if stage.pixels else None
    mean = stage.pixels.mean_abs if stage.pixels else None
    reason = "no golden tensor of a changed image" if stage.changed else "no changed image"
    if stage.at_least:
        least = [f"{name} {significant(value)}" for name, value in stage.at_least.items()]
        reason += f"; at least {listed(least)}"
    return (
        grouped(stage.images),
        alarm(stage.changed),
        alarm(stage.begun),
        notes.number(largest, lambda v: plain(v, 1), reason),
        notes.number(mean, lambda v: plain(v, 3), reason),
        stage.cause or DASH,
        ", ".join(stage.examples[:3]) or DASH,
    )
