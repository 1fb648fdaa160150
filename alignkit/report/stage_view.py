"""Which stage differs, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from alignkit.record import PixelStage
from alignkit.report.table import Group, Notes, Shown, Table, number_columns, text_columns
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import DASH, percent, plain, signed

_MEASURES = ("Max Δ", "Mean Δ", "Bias R, G, B", "Pixels differing", "PSNR, dB", "SSIM")
ZERO = Shown("0", tone="muted")
"""Exactly zero, told from what rounds to it."""
_IDENTICAL = "the images are identical: PSNR is infinite"
NO_PEAK = "normalised units have no peak to relate the error to"
NO_SSIM = "SSIM is taken of the last pixels before normalisation only"
MODES: tuple[Literal["isolated", "cumulative"], ...] = ("isolated", "cumulative")


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
    table: Table
    planes: Table | None = None
    """The same in Y'CbCr, where that was measured."""


def stage_sections(pixels: Sequence[PixelStage], names: Names) -> tuple[StageSection, ...]:
    """A section for each pair of paths, in the record's order."""
    pairs = dict.fromkeys((stage.reference, stage.candidate) for stage in pixels)
    sections = []
    for reference, candidate in pairs:
        stages = [s for s in pixels if (s.reference, s.candidate) == (reference, candidate)]
        isolated = [stage for stage in stages if stage.mode == "isolated"]
        first, largest = first_differing(isolated), largest_difference(isolated)
        tags = {largest.stage: "largest"} if largest else {}
        if first:
            tags[first.stage] = "starts here" + (", largest" if first is largest else "")
        sections.append(
            StageSection(
                reference=names.of(reference),
                candidate=names.of(candidate),
                first=first.stage if first else "",
                largest=largest.stage if largest else "",
                words=_words(isolated, first),
                table=_stage_table(stages, tags, names.short(reference), names.short(candidate)),
            )
        )
    return tuple(sections)


def first_differing(isolated: Sequence[PixelStage]) -> PixelStage | None:
    """Where drift starts: the first stage that differs on the same input."""
    return next((stage for stage in isolated if stage.max_abs), None)


def largest_difference(isolated: Sequence[PixelStage]) -> PixelStage | None:
    """The stage with the greatest mean difference in grey levels."""
    grey = [stage for stage in isolated if stage.stage != "normalise" and stage.mean_abs]
    return max(grey, key=lambda stage: stage.mean_abs or 0.0, default=None)


def _words(isolated: list[PixelStage], first: PixelStage | None) -> str:
    measured = [stage for stage in isolated if stage.max_abs is not None]
    if not measured:
        return "No stage could be compared."
    if first is None:
        return "Every stage gives the same values for the same input."
    largest = largest_difference(isolated)
    text = f"Drift starts at {first.stage}, the first stage that differs on the same input"
    if largest is None:
        return f"{text}."
    mean, most = plain(largest.mean_abs or 0.0, 2), plain(largest.max_abs or 0.0, 0)
    size = f"mean {mean}, max {most} grey levels"
    if largest is first:
        return f"{text}, and is largest there ({size})."
    return f"{text}; it is largest at {largest.stage} ({size})."


def _stage_table(
    stages: list[PixelStage], tags: dict[str, str], reference: str, candidate: str
) -> Table:
    notes = Notes()
    by_mode = {(stage.stage, stage.mode): stage for stage in stages}
    shown = {mode: _measured(stages, mode) for mode in MODES}
    rows = [
        (
            Shown(name, tag=tags.get(name, "")),
            *(
                cell
                for mode in MODES
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
    names = [name for mode in MODES for name in shown[mode]]
    groups = [Group(mode.capitalize(), len(shown[mode])) for mode in MODES if shown[mode]]
    columns = (*text_columns("Stage"), *number_columns(*names))
    return Table.of(caption, columns, rows, (Group("", 1), *groups), notes=notes)


def _measured(stages: list[PixelStage], mode: str) -> tuple[str, ...]:
    """The measures that any stage has in a mode: SSIM may be taken of the last pixels alone."""
    of_mode = [stage for stage in stages if stage.mode == mode]
    with_ssim = any(stage.ssim is not None for stage in of_mode)
    return tuple(name for name in _MEASURES if name != "SSIM" or with_ssim) if of_mode else ()


def _measures(stage: PixelStage | None, names: tuple[str, ...], notes: Notes) -> tuple[Shown, ...]:
    if stage is None:
        return (notes.missing("not compared in this mode"),) * len(names)
    decimals = 4 if stage.stage == "normalise" else 2
    reason = stage.reason or "not measured"
    cells = (
        _distance(stage.max_abs, decimals - 1, notes, reason),
        _distance(stage.mean_abs, decimals + 1, notes, reason),
        _bias(stage, decimals, notes, reason),
        ZERO
        if stage.share_differing == 0
        else notes.number(stage.share_differing, percent, reason),
        notes.number(stage.psnr, lambda v: f"{v:.1f}", stage.reason or _no_psnr(stage)),
    )
    if "SSIM" not in names:
        return cells
    return (*cells, notes.number(stage.ssim, lambda v: f"{v:.4f}", stage.reason or NO_SSIM))


def _no_psnr(stage: PixelStage) -> str:
    return _IDENTICAL if stage.max_abs == 0 else NO_PEAK


def _distance(value: float | None, decimals: int, notes: Notes, reason: str) -> Shown:
    return ZERO if value == 0 else notes.number(value, lambda v: plain(v, decimals), reason)


def _bias(stage: PixelStage, decimals: int, notes: Notes, reason: str) -> Shown:
    if stage.max_abs == 0:
        return ZERO
    return notes.number(
        stage.bias, lambda bias: " ".join(signed(v, decimals) for v in bias), reason
    )
