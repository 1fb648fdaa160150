"""Drift against the size of the training set: a chart with intervals, its table, and what it says.

The charts and the tables beside them show where another path served than trained, in the reference
runtime; a further table shows every entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.record import Estimate, RunRecord, SizeCurve
from alignkit.report.entry_view import served_elsewhere
from alignkit.report.spread_plot import SpreadPlot, spread_plot
from alignkit.report.svg import drawn
from alignkit.report.table import Notes, RowCells, Table, number_columns, text_columns
from alignkit.text.names import LABELS, Names
from alignkit.text.numbers import count, estimated, grouped

MOST_LINES = 4
"""Lines of one chart, those that change most: more cannot be told apart."""


@dataclass(frozen=True, slots=True)
class SizeSection:
    """One metric."""

    title: str
    sentences: tuple[str, ...]
    chart: SpreadPlot | None
    """``None`` where no other path was measured."""
    omitted: str
    """How many lines the chart leaves to the table, in words."""
    table: Table | None
    """Of what the chart may show; ``None`` as the chart."""
    every: Table
    """Of every entry and runtime."""


def size_sections(record: RunRecord, names: Names) -> tuple[SizeSection, ...]:
    """A section for each metric; none where models were trained on one share of the data only."""
    metrics = dict.fromkeys(curve.metric for curve in record.training_sizes)
    return tuple(
        _section(metric, [each for each in record.training_sizes if each.metric == metric],
                 across_paths(record, metric), names)
        for metric in metrics
    )  # fmt: skip


def across_paths(record: RunRecord, metric: str) -> list[SizeCurve]:
    """Return the curves of models served with another path, in the reference runtime."""
    found = served_elsewhere(record.training_sizes, record)
    return [each for each in found if each.metric == metric]


def size_sentence(curve: SizeCurve, names: Names) -> str:
    """The two ends of a curve in words, and whether they are told apart."""
    share = curve.metric == "churn"
    least, most = curve.points[0], curve.points[-1]
    what = LABELS[curve.metric] if share else f"Change of {LABELS[curve.metric].lower()}"
    few, many = (estimated(each.drift, share=share, unit=" pp") for each in (least, most))
    ends = (
        f"{what} of {names.short(curve.trained_with)} models served with "
        f"{names.short(curve.evaluated_with)}: {few} trained on {count(least.images, 'image')}, "
        f"{many} on {grouped(most.images)}"
    )
    return f"{ends}. {_reading(curve)}"


def _reading(curve: SizeCurve) -> str:
    change = curve.change
    if change.value is None or change.low is None or change.high is None:
        return f"Their difference has no interval: {change.reason or 'not measured'}."
    told = estimated(change, unit=" pp")
    if change.low <= 0 <= change.high:
        return f"The difference, {told}, may be none: no amplification is shown."
    if abs(curve.points[0].drift.value or 0) > abs(curve.points[-1].drift.value or 0):
        return f"Fewer images amplify the drift: {told}."
    return f"Fewer images lessen the drift: {told}."


def _section(
    metric: str, curves: Sequence[SizeCurve], across: Sequence[SizeCurve], names: Names
) -> SizeSection:
    most = sorted(across, key=lambda each: -abs(each.change.value or 0.0))[:MOST_LINES]
    shown = [each for each in across if each in most]  # a line has one colour in every chart
    left = len(across) - len(shown)
    title = LABELS[metric] if metric == "churn" else f"Δ {LABELS[metric].lower()}"
    unit = "%" if metric == "churn" else "percentage points"
    return SizeSection(
        title=title,
        sentences=tuple(size_sentence(each, names) for each in across),
        chart=spread_plot(
            [(_label(each, names), _points(each)) for each in shown],
            id=f"size-{metric.replace('.', '-')}",
            title=f"{title} against the number of training images, with 95 % intervals",
            names=("training images", f"{title}, {unit}"),
        )
        if shown
        else None,
        omitted=f"{count(left, 'more line')} in the table only." if left else "",
        table=_table(title, unit, across, names, every=False) if across else None,
        every=_table(title, unit, curves, names, every=True),
    )


def _label(curve: SizeCurve, names: Names) -> str:
    return f"{names.short(curve.trained_with)} served with {names.short(curve.evaluated_with)}"


def _points(curve: SizeCurve) -> list[tuple[float, float, float, float]]:
    """Return (images, value, low, high) of each point with a value, in percent."""
    known = [(each.images, drawn(each.drift)) for each in curve.points]
    return [(float(n), end.value, end.low, end.high) for n, end in known if end is not None]


def _table(
    title: str, unit: str, curves: Sequence[SizeCurve], names: Names, *, every: bool
) -> Table:
    notes = Notes()
    rows: list[RowCells] = [
        (
            *names.cells(curve)[: 2 + every],
            *told[: 1 + every],
            notes.estimated(estimate, share=share),
        )
        for curve in curves
        for told, estimate, share in _lines(curve)
    ]
    columns = (
        *text_columns(*("Trained with", "Served with", "Runtime")[: 2 + every]),
        *number_columns(*("Images", "Seeds")[: 1 + every], f"{title}, {unit}"),
    )
    pairing = "; fewest less most is paired by seed and image" if every else ""
    caption = f"{title} by number of training images{pairing}"
    return Table.of(caption, columns, rows, notes=notes)


def _lines(curve: SizeCurve) -> list[tuple[tuple[str, str], Estimate, bool]]:
    """Return (images, seeds), estimate and whether it is a share, of each point and the change."""
    share = curve.metric == "churn"
    points = [((grouped(each.images), str(each.seeds)), each.drift, share) for each in curve.points]
    return [*points, (("fewest less most", ""), curve.change, False)]
