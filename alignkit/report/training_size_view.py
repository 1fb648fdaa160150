"""Drift against the size of the training set: a chart with intervals, its table, and what it says.

The charts and the tables beside them show where another path served than trained, in the reference
runtime; a further table shows every entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.record import Estimate, RunRecord, SizeCurve
from alignkit.report.spread_plot import SpreadPlot, spread_plot
from alignkit.report.table import Notes, Table, number_columns, text_columns
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
    """The metric's curves of models served with another path, in the reference runtime."""
    runtimes = {(each.backend, each.precision) for each in record.matrix if each.aligned}
    return [
        each
        for each in record.training_sizes
        if each.metric == metric
        and each.evaluated_with not in each.row.preprocesses
        and (each.backend, each.precision) in runtimes
    ]


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
    drawn = [each for each in across if each in most]  # a line has one colour in every chart
    left = len(across) - len(drawn)
    title = LABELS[metric] if metric == "churn" else f"Δ {LABELS[metric].lower()}"
    unit = "%" if metric == "churn" else "percentage points"
    return SizeSection(
        title=title,
        sentences=tuple(size_sentence(each, names) for each in across),
        chart=spread_plot(
            [(_label(each, names), _points(each)) for each in drawn],
            id=f"size-{metric.replace('.', '-')}",
            title=f"{title} against the number of training images, with 95 % intervals",
            names=("training images", f"{title}, {unit}"),
        )
        if drawn
        else None,
        omitted=f"{count(left, 'more line')} in the table only." if left else "",
        table=_table(title, unit, across, names) if across else None,
        every=_every(title, unit, curves, names),
    )


def _label(curve: SizeCurve, names: Names) -> str:
    return f"{names.short(curve.trained_with)} served with {names.short(curve.evaluated_with)}"


def _points(curve: SizeCurve) -> list[tuple[float, float, float, float]]:
    """(images, value, low, high) of each point with a value, in percent."""
    return [
        (float(each.images), 100 * each.drift.value,
         100 * (each.drift.value if each.drift.low is None else each.drift.low),
         100 * (each.drift.value if each.drift.high is None else each.drift.high))
        for each in curve.points
        if each.drift.value is not None
    ]  # fmt: skip


def _table(title: str, unit: str, curves: Sequence[SizeCurve], names: Names) -> Table:
    notes = Notes()
    rows = [
        (
            names.short(curve.trained_with),
            names.short(curve.evaluated_with),
            images,
            notes.estimated(estimate, share=share),
        )
        for curve in curves
        for images, _, estimate, share in _lines(curve)
    ]
    columns = (
        *text_columns("Trained with", "Served with"),
        *number_columns("Images", f"{title}, {unit}"),
    )
    return Table.of(f"{title} by number of training images", columns, rows, notes=notes)


def _every(title: str, unit: str, curves: Sequence[SizeCurve], names: Names) -> Table:
    notes = Notes()
    rows = [
        (*names.cells(curve), images, seeds, notes.estimated(estimate, share=share))
        for curve in curves
        for images, seeds, estimate, share in _lines(curve)
    ]
    columns = (
        *text_columns("Trained with", "Served with", "Runtime"),
        *number_columns("Images", "Seeds", f"{title}, {unit}"),
    )
    caption = f"{title} by number of training images; fewest less most is paired by seed and image"
    return Table.of(caption, columns, rows, notes=notes)


def _lines(curve: SizeCurve) -> list[tuple[str, str, Estimate, bool]]:
    """(images, seeds, estimate, whether it is a share) of each point and of their change."""
    share = curve.metric == "churn"
    measured = [(grouped(each.images), str(each.seeds), each.drift, share) for each in curve.points]
    return [*measured, ("fewest less most", "", curve.change, False)]
