"""Views of drift against the training data: the size of the set, and a mix of paths.

The charts show where another path served than trained, in the reference runtime; the table below
shows every entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.record import Estimate, MixFacts, RunRecord, SizeCurve, SizePoint
from alignkit.report.axis import Axis, drawn
from alignkit.report.entries_view import served_elsewhere
from alignkit.report.marks import TONES, Dot, Line, PlotMark, RuleLine
from alignkit.report.page import Details, Heading, PagePart, Paragraph, Section
from alignkit.report.plot import Plot
from alignkit.report.table import Table
from alignkit.text.column import Fact
from alignkit.text.names import Names
from alignkit.text.numbers import count, estimated, grouped
from alignkit.text.task_words import CHURN, OF_CLASSES, TaskWords

_LINES = 4
"""Lines of one chart, those that change most: more cannot be distinguished."""


@dataclass(frozen=True, slots=True)
class SizeSection:
    """One metric."""

    title: str
    sentences: tuple[str, ...]
    chart: Plot | None
    """``None`` where no other path was measured."""
    omitted: str
    """How many lines the chart leaves to the table, in words."""
    table: Table
    """Of every entry and runtime."""


def size_sections(record: RunRecord, names: Names) -> tuple[SizeSection, ...]:
    """Return a section a metric; none where models were trained on one share of the data only."""
    metrics = dict.fromkeys(curve.metric for curve in record.training_sizes)
    return tuple(_size_section(record, metric, names) for metric in metrics)


def sizes_section(record: RunRecord, names: Names, intervals: str) -> Section | None:
    """Return drift by the size of the training set; ``None`` where models had one share of it."""
    lead = (
        "The same models trained on fractions of the images; the charts show the drift on other "
        f"paths than the training path, in the reference runtime. {intervals}"
    )
    parts: list[PagePart] = [Paragraph(lead, "lead")]
    for each in size_sections(record, names):
        parts += [Heading(each.title), *map(Paragraph, each.sentences)]
        parts += [each.chart] if each.chart else []
        parts += [Paragraph(each.omitted)] if each.omitted else []
        parts.append(Details(f"{each.title} of every entry and runtime, in numbers", [each.table]))
    if len(parts) == 1:
        return None
    return Section("sizes", "Drift and training set size", parts, nav="Training set")


def across_paths(record: RunRecord, metric: str) -> list[SizeCurve]:
    """Return the curves of models served with another path, in the reference runtime."""
    curves = served_elsewhere(record.training_sizes, record)
    return [each for each in curves if each.metric == metric]


def size_sentence(curve: SizeCurve, names: Names, words: TaskWords) -> str:
    """Word the two ends of a curve, and whether they differ significantly."""
    metric = curve.metric
    least, most = curve.points[0], curve.points[-1]
    share = metric == CHURN
    what = words.label(metric) if share else f"Change of {words.phrase(metric)}"
    few, many = (words.estimated(metric, each.drift, unit=True) for each in (least, most))
    # by size: a drift of recall is greater whichever way it goes
    amplified = abs(least.drift.value or 0) > abs(most.drift.value or 0)
    reading = _difference(
        curve.change,
        f"Fewer images {'amplify' if amplified else 'lessen'} the drift",
        (words, metric),
        doubt="no amplification is shown",
    )
    return (
        f"{what} of {_label(curve, names, 'models served with')}: {few} trained on "
        f"{count(least.images, 'image')}, {many} on {grouped(most.images)}. {reading}"
    )


def _difference(
    change: Estimate, effect: str, of: tuple[TaskWords, str] = (OF_CLASSES, CHURN), *, doubt: str
) -> str:
    """Word a paired difference as an effect only where its interval is clear of zero."""
    words, metric = of
    if change.value is None or change.low is None or change.high is None:
        return f"Their difference has no interval: {change.reason or 'not measured'}."
    size = words.changed(metric, change, unit=True)
    if change.low <= 0 <= change.high:
        return f"The difference, {size}, may be none: {doubt}."
    return f"{effect}: {size}."


def _label(curve: SizeCurve, names: Names, served: str = "served with") -> str:
    return f"{names.short(curve.trained_with)} {served} {names.short(curve.evaluated_with)}"


def _size_section(record: RunRecord, metric: str, names: Names) -> SizeSection:
    # every entry and runtime
    curves = [each for each in record.training_sizes if each.metric == metric]
    across = across_paths(record, metric)
    most = sorted(across, key=lambda each: -abs(each.change.value or 0.0))[:_LINES]
    shown = [each for each in across if each in most]  # a line has one colour in every chart
    left = len(across) - len(shown)
    words = TaskWords(record.task)
    title = words.label(metric) if metric == CHURN else f"Δ {words.phrase(metric)}"
    units = {"share": "percentage points", "px": "pixels", "value": "its own unit"}
    unit = "%" if metric == CHURN else units[words.unit(metric)]
    scale = 100 if words.is_share(metric) else 1
    counts = {float(each.images) for curve in shown for each in curve.points}
    lines: list[PlotMark] = [RuleLine(y=0)]
    for index, (each, tone) in enumerate(zip(shown, TONES, strict=False)):
        # intervals of one count lie beside each other
        aside = (max(counts) / min(counts)) ** (0.012 * (index - (len(shown) - 1) / 2))
        points = [
            (point.images * aside, drift)
            for point in each.points
            if (drift := drawn(point.drift, scale))
        ]
        key = _label(each, names)
        lines.append(Line([(images, drift.value) for images, drift in points], tone, key))
        lines += [Dot(images, drift, tone, "point") for images, drift in points]
    chart = Plot(
        title=f"{title} against the number of training images, with 95 % intervals",
        x=Axis(
            name="training images",
            kind="log",
            ticks=tuple(sorted(counts)),
            text=lambda images: grouped(int(images)),
        ),
        y=Axis(name=f"{title}, {unit}"),
        marks=lines,
        inset=24.0,  # so that the intervals of the first and the last count stand free
    )
    return SizeSection(
        title=title,
        sentences=tuple(size_sentence(each, names, words) for each in across),
        chart=chart if shown else None,
        omitted=f"{count(left, 'more line')} in the table only." if left else "",
        table=_size_table(f"{title}, {unit}", curves, names, words),
    )


def _size_table(heading: str, curves: Sequence[SizeCurve], names: Names, words: TaskWords) -> Table:
    change = "fewest less most"
    rows = [(curve, point) for curve in curves for point in (*curve.points, None)]

    def drift(row: tuple[SizeCurve, SizePoint | None]) -> Estimate:
        return row[1].drift if row[1] else row[0].change

    def text(found: Estimate, row: tuple[SizeCurve, SizePoint | None]) -> str:
        write = words.estimated if row[1] else words.changed
        return write(row[0].metric, found)

    columns: tuple[Fact[tuple[SizeCurve, SizePoint | None]], ...] = (
        Fact("Trained with", lambda row: names.short(row[0].trained_with)),
        Fact("Served with", lambda row: names.short(row[0].evaluated_with)),
        Fact("Runtime", lambda row: names.cells(row[0])[2]),
        Fact("Images", lambda row: grouped(row[1].images) if row[1] else change, "count"),
        Fact("Seeds", lambda row: str(row[1].seeds) if row[1] else "", "count"),
        Fact(heading, drift, "points", format=text),
    )
    title = heading.rpartition(", ")[0]
    caption = f"{title} by number of training images; {change} is paired by seed and image"
    return Table.made(caption, columns, rows)


def mix_section(record: RunRecord, names: Names, intervals: str) -> Section | None:
    """Return the mixes of a run; ``None`` where no model was trained on one."""
    if not record.mixes:
        return None
    words = TaskWords(record.task)
    columns: tuple[Fact[MixFacts], ...] = (
        Fact("Trained with", lambda each: names.short(each.mix)),
        Fact("Served with", lambda each: names.short(each.evaluated_with)),
        Fact("Change of", lambda each: words.label(each.metric)),
        Fact("Mix, pp", lambda each: each.mixed, "points",
               format=lambda _, each: words.estimated(each.metric, each.mixed)),
        Fact("First path alone, pp", lambda each: each.single, "points",
               format=lambda _, each: words.estimated(each.metric, each.single)),
        Fact("Mix less alone, pp", lambda each: each.change, "points",
               format=lambda _, each: words.changed(each.metric, each.change)),
    )  # fmt: skip
    caption = (
        "Drift from the cell served with the first path, in the reference runtime, with 95 % "
        "intervals; mix less alone is paired by seed and image"
    )
    said = map(Paragraph, (*mix_sentences(record, names), intervals))
    table = Table.made(caption, columns, record.mixes)
    return Section("mix", "Training on a mix of paths", [*said, table], nav="Mix")


def mix_sentences(record: RunRecord, names: Names) -> tuple[str, ...]:
    """Answer for each path that serves, by churn."""
    return tuple(_mix_sentence(each, names) for each in record.mixes if each.metric == "churn")


def _mix_sentence(facts: MixFacts, names: Names) -> str:
    known = "" if facts.in_mix else " (no training image of the mix came from it)"
    effect = "lessens the drift, not to nothing"
    if facts.change.low is not None and facts.change.low > 0:
        effect = "makes it worse"
    elif facts.mixed.high == 0:
        effect = "removes the drift"
    reading = _difference(facts.change, f"The mix {effect}", doubt="the mix is not shown to help")
    return (
        f"Served with {names.short(facts.evaluated_with)}{known}, "
        f"{estimated(facts.mixed, share=True)} of the predictions of models trained on "
        f"{names.short(facts.mix)} change, {estimated(facts.single, share=True)} of those trained "
        f"with {names.short(facts.alone)} alone. {reading}"
    )
