"""The run against its approved baseline, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.record import BaselineFacts, BaselineStage, RunRecord
from alignkit.report.table import Notes, RowCells, Shown, Table, alarm, number_columns, text_columns
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, count, grouped, listed, plain, significant


@dataclass(frozen=True, slots=True)
class BaselineView:
    """What changed since it was approved."""

    words: str
    table: Table | None


def baseline_view(record: RunRecord, names: Names) -> BaselineView | None:
    """``None`` for a run that was compared with no baseline."""
    if record.baseline is None:
        return None
    return BaselineView(_words(record.baseline), _table(record.baseline, names))


def _words(baseline: BaselineFacts) -> str:
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


def _table(baseline: BaselineFacts, names: Names) -> Table | None:
    if not baseline.stages:
        return None
    notes = Notes()
    columns = (
        *text_columns("Path", "Stage"),
        *number_columns("Images", "Changed", "Begins here", "Max Δ", "Mean Δ"),
        *text_columns("What else changed", "Examples"),
    )
    rows: list[RowCells] = [
        (names.short(stage.path), stage.stage, *_cells(stage, notes)) for stage in baseline.stages
    ]
    return Table.of("Arrays against those approved", columns, rows, notes=notes)


def _cells(stage: BaselineStage, notes: Notes) -> tuple[Shown, ...]:
    least = listed([f"{name} {significant(value)}" for name, value in stage.at_least.items()])
    largest = stage.pixels.max_abs if stage.pixels else None
    mean = stage.pixels.mean_abs if stage.pixels else None
    reason = "no changed image" if not stage.changed else "no golden tensor of a changed image"
    if least:
        reason += f"; at least {least}"
    return (
        Shown(grouped(stage.images)),
        alarm(stage.changed),
        alarm(stage.begun),
        notes.number(largest, lambda v: plain(v, 1), reason),
        notes.number(mean, lambda v: plain(v, 3), reason),
        Shown(stage.cause or DASH),
        Shown(", ".join(stage.examples[:3]) or DASH),
    )
