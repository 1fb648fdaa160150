"""Sections of trainings: their logs, drift by the size of the training set, and mixes of paths.

The charts of sizes show where another path served than trained, in the reference runtime; the table
below shows every entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from operator import itemgetter

from alignkit.record import (
    Epoch,
    Estimate,
    MixFacts,
    RunRecord,
    SizeCurve,
    SizePoint,
    TrainingFacts,
)
from alignkit.report.axis import Axis, drawn
from alignkit.report.entries_view import served_elsewhere
from alignkit.report.marks import TONES, Line, PlotMark, RuleLine
from alignkit.report.page import Beside, Details, Heading, PagePart, Paragraph, Section
from alignkit.report.plot import Plot
from alignkit.report.table import Table
from alignkit.text.column import Fact, of_part
from alignkit.text.names import Names
from alignkit.text.numbers import count, estimated, grouped, written
from alignkit.text.task_words import CHURN, OF_CLASSES, TaskWords, capital

_LINES = 4
"""Lines of one chart, those that change most: more cannot be distinguished."""
_CURVES = (
    ("training loss", "loss", 1),
    ("training accuracy in %", "accuracy", 100),
    ("held-out macro recall in %", "held_out_recall", 100),
)
"""What charts show of an epoch, its field, and the factor of its unit."""


def training_section(record: RunRecord, names: Names) -> Section:
    """Return how the models of each path were trained."""
    parts: list[PagePart] = []
    charts: list[list[PagePart]] = []
    for path in dict.fromkeys(each.preprocess for each in record.trainings):
        trainings = [each for each in record.trainings if each.preprocess == path]
        parts.append(Paragraph((names.of(path), f": {', '.join(_trained(trainings))}")))
        if plots := [*_curves(path, trainings)]:
            charts.append([Heading(names.of(path)), *plots])
    if charts:
        parts.append(Details("Loss and accuracy by epoch", [Beside(charts, "columns")]))
    if table := training_table(record, names):
        parts.append(Details("Every epoch in numbers", [table]))
    return Section("training", "Training", parts or [Paragraph("This run trained no model.")])


def _trained(trainings: Sequence[TrainingFacts]) -> Iterator[str]:
    # a user's own model has no log
    logged = [each for each in trainings if each.epochs]
    undone = [each for each in trainings if each.state != "measured"]
    done = count(len(trainings) - len(undone), "model")
    yield f"{done} trained" if logged or undone else f"{done}, not trained by this run"
    for first in logged[:1]:  # all seeds of a path share their options
        yield f"{grouped(first.images)} images"
        if first.ranks > 1:
            yield f"{first.ranks} processes"
        if first.held_out:
            kept = ", ".join(f"{t.kept_epoch} of {len(t.epochs)} (seed {t.seed})" for t in logged)
            yield f"{grouped(first.held_out)} more held out to score them; kept epoch {kept}"
        if weights := first.pretrained:
            yield f"begun with {weights.identity}, state_dict SHA-256 {weights.sha256[:12]}…"
            if weights.initialised:
                yield f"{', '.join(weights.initialised)} initialised at random for these classes"
    for each in undone:
        yield f"seed {each.seed} {each.state}: {each.reason or 'no reason was recorded'}"


def _curves(path: str, trainings: Sequence[TrainingFacts]) -> Iterator[Plot]:
    last = max((len(each.epochs) for each in trainings), default=0)
    for name, field, scale in _CURVES:
        lines = []
        for each, tone in zip(trainings, cycle(TONES), strict=False):
            known = [(epoch.epoch, getattr(epoch, field)) for epoch in each.epochs]
            points = [(epoch, scale * value) for epoch, value in known if value is not None]
            lines += [Line(points, tone, f"seed {each.seed}")] if points else []
        if lines:
            yield Plot(
                title=f"{path}: {name} by epoch, one line for each seed",
                caption=capital(f"{name} by epoch"),
                # three marks: the chart is small
                x=Axis(ticks=tuple(sorted({1, round((1 + last) / 2), last}))),
                y=Axis(),
                marks=lines,
                size="small",
                height=116.0,
            )


def training_table(record: RunRecord, names: Names) -> Table | None:
    """Return every epoch of every training; ``None`` without any."""
    held_out = any(training.held_out for training in record.trainings)
    unknown = "this epoch's log has no such number"
    log: tuple[Fact[Epoch], ...] = (
        Fact("Epoch", lambda epoch: epoch.epoch, "ordinal"),
        Fact("Loss", lambda epoch: epoch.loss, "levels", 4),
        Fact("Accuracy", lambda epoch: epoch.accuracy, "share", note=unknown),
        Fact("Learning rate", lambda epoch: written(epoch.learning_rate, ".2e"), "value"),
        Fact("Images / s", lambda epoch: epoch.images_per_second, "levels", 0),
    )
    scores: tuple[Fact[Epoch], ...] = (
        Fact("Held-out loss", lambda epoch: epoch.held_out_loss, "levels", 4, note=unknown),
        Fact("Held-out accuracy", lambda epoch: epoch.held_out_accuracy, "share", note=unknown),
        Fact("Held-out recall", lambda epoch: epoch.held_out_recall, "share", note=unknown),
    )
    columns: tuple[Fact[tuple[TrainingFacts, Epoch]], ...] = (
        Fact("Trained with", lambda row: names.short(row[0].preprocess)),
        Fact("Seed", lambda row: row[0].seed, "ordinal"),
        *of_part((*log, *(scores if held_out else ())), itemgetter(1)),
    )
    caption = "Every epoch; accuracy on the training images as augmented"
    if held_out:
        caption += ", held-out recall is the mean over the classes"
    if any(training.files for training in record.trainings):
        caption += (
            "; as CSV, with scikit-learn’s report of each epoch, in trainings/ beside the record"
        )
    rows = [(training, epoch) for training in record.trainings for epoch in training.epochs]
    return Table.made(caption, columns, rows) if rows else None


def sizes_section(record: RunRecord, names: Names, intervals: str) -> Section | None:
    """Return drift by the size of the training set; ``None`` where models had one share of it."""
    if not record.training_sizes:
        return None
    lead = (
        "The same models trained on fractions of the images; the charts show the drift on other "
        f"paths than the training path, in the reference runtime. {intervals}"
    )
    parts: list[PagePart] = [Paragraph(lead, "lead")]
    for metric in dict.fromkeys(curve.metric for curve in record.training_sizes):
        parts += _sizes(record, metric, names)
    return Section("sizes", "Drift and training set size", parts, nav="Training set")


def _sizes(record: RunRecord, metric: str, names: Names) -> Iterator[PagePart]:
    words = TaskWords(record.task)
    # every entry and runtime
    curves = [each for each in record.training_sizes if each.metric == metric]
    across = served_elsewhere(curves, record)
    head = words.header(metric) + ", %" * (metric == CHURN)
    title = head.partition(",")[0]
    yield Heading(title)
    yield from (Paragraph(_size_sentence(each, names, words)) for each in across)
    most = sorted(across, key=lambda each: -abs(each.change.value or 0.0))[:_LINES]
    shown = [each for each in across if each in most]  # a path has one colour in every chart
    if shown:
        yield _size_plot(shown, names, title, head, 100 if words.is_share(metric) else 1)
    if left := len(across) - len(shown):
        yield Paragraph(f"{count(left, 'more line')} in the table only.")
    table = _size_table(title, head, curves, names, words)
    yield Details(f"{title} of every entry and runtime, in numbers", [table])


def _size_plot(
    curves: Sequence[SizeCurve], names: Names, title: str, head: str, scale: float
) -> Plot:
    marks: list[PlotMark] = [RuleLine(y=0)]
    for curve, tone in zip(curves, TONES, strict=False):
        drifts = [(each.images, drawn(each.drift, scale)) for each in curve.points]
        points = [(images, drift) for images, drift in drifts if drift]
        marks.append(Line(points, tone, _label(curve, names, "served with")))
    return Plot(
        title=f"{title} against the number of training images, with 95 % intervals",
        x=Axis(
            name="training images",
            kind="log",
            ticks=tuple(sorted({each.images for curve in curves for each in curve.points})),
            text=lambda images: grouped(int(images)),
        ),
        y=Axis(name=head),
        marks=marks,
    )


def _size_sentence(curve: SizeCurve, names: Names, words: TaskWords) -> str:
    """Word the two ends of a curve, and whether they differ significantly."""
    metric, least, most = curve.metric, curve.points[0], curve.points[-1]
    what = words.label(metric) if metric == CHURN else f"Change of {words.phrase(metric)}"
    few, many = (words.estimated(metric, each.drift, unit=True) for each in (least, most))
    # by size: a drift of recall is greater whichever way it goes
    amplified = abs(least.drift.value or 0) > abs(most.drift.value or 0)
    effect = f"Fewer images {'amplify' if amplified else 'lessen'} the drift"
    reading = _difference(curve.change, effect, "no amplification is shown", words, metric)
    return (
        f"{what} of {_label(curve, names, 'models served with')}: {few} trained on "
        f"{count(least.images, 'image')}, {many} on {grouped(most.images)}. {reading}"
    )


def _label(curve: SizeCurve, names: Names, served: str) -> str:
    return f"{names.short(curve.trained_with)} {served} {names.short(curve.evaluated_with)}"


def _difference(
    change: Estimate, effect: str, doubt: str, words: TaskWords = OF_CLASSES, metric: str = CHURN
) -> str:
    """Word a paired difference as an effect only where its interval is clear of zero."""
    if change.value is None or change.low is None or change.high is None:
        return f"Their difference has no interval: {change.reason or 'not measured'}."
    size = words.changed(metric, change, unit=True)
    if change.low <= 0 <= change.high:
        return f"The difference, {size}, may be none: {doubt}."
    return f"{effect}: {size}."


def _size_table(
    title: str, head: str, curves: Sequence[SizeCurve], names: Names, words: TaskWords
) -> Table:
    change = "fewest less most"
    # the row without a point is the difference between both ends
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
        Fact(head, drift, "points", format=text),
    )
    caption = f"{title} by number of training images; {change} is paired by seed and image"
    return Table.made(caption, columns, rows)


def mix_section(record: RunRecord, names: Names, intervals: str) -> Section | None:
    """Return the mixes of a run; ``None`` where no model was trained on one."""
    if not record.mixes:
        return None
    words = TaskWords(record.task)

    def drift(value: Estimate, each: MixFacts) -> str:
        return words.estimated(each.metric, value)

    columns: tuple[Fact[MixFacts], ...] = (
        Fact("Trained with", lambda each: names.short(each.mix)),
        Fact("Served with", lambda each: names.short(each.evaluated_with)),
        Fact("Change of", lambda each: words.label(each.metric)),
        Fact("Mix, pp", lambda each: each.mixed, "points", format=drift),
        Fact("First path alone, pp", lambda each: each.single, "points", format=drift),
        Fact("Mix less alone, pp", lambda each: each.change, "points",
               format=lambda value, each: words.changed(each.metric, value)),
    )  # fmt: skip
    caption = (
        "Drift from the cell served with the first path, in the reference runtime, with 95 % "
        "intervals; mix less alone is paired by seed and image"
    )
    # the answer for each path that serves, by churn
    said = [mix_sentence(each, names) for each in record.mixes if each.metric == CHURN]
    table = Table.made(caption, columns, record.mixes)
    parts: list[PagePart] = [*map(Paragraph, (*said, intervals)), table]
    return Section("mix", "Training on a mix of paths", parts, nav="Mix")


def mix_sentence(facts: MixFacts, names: Names) -> str:
    """Say whether training on the mix lessens the drift on a path that serves."""
    known = "" if facts.in_mix else " (no training image of the mix came from it)"
    effect = "lessens the drift, not to nothing"
    if facts.change.low is not None and facts.change.low > 0:
        effect = "makes it worse"
    elif facts.mixed.high == 0:
        effect = "removes the drift"
    reading = _difference(facts.change, f"The mix {effect}", "the mix is not shown to help")
    return (
        f"Served with {names.short(facts.evaluated_with)}{known}, "
        f"{estimated(facts.mixed, share=True)} of the predictions of models trained on "
        f"{names.short(facts.mix)} change, {estimated(facts.single, share=True)} of those trained "
        f"with {names.short(facts.alone)} alone. {reading}"
    )
