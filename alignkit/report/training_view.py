"""View of training logs: loss and accuracy by epoch, a line a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from operator import itemgetter

from alignkit.record import Epoch, RunRecord, TrainingFacts
from alignkit.report.axis import Axis
from alignkit.report.marks import TONES, Line
from alignkit.report.page import Beside, Details, Heading, PagePart, Paragraph, Section
from alignkit.report.plot import Plot
from alignkit.report.table import Table
from alignkit.text.column import Fact, of_part
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import count, grouped, written


@dataclass(frozen=True, slots=True)
class TrainingSection:
    """The trainings of one path."""

    path: PathName
    words: str
    charts: tuple[Plot, ...]
    """Loss, accuracy."""


def training_sections(record: RunRecord, names: Names) -> tuple[TrainingSection, ...]:
    """Return a section for each path that was trained with."""
    paths = dict.fromkeys(training.preprocess for training in record.trainings)
    return tuple(
        _section(names.of(path), [t for t in record.trainings if t.preprocess == path])
        for path in paths
    )


def training_section(record: RunRecord, names: Names) -> Section:
    """Return how the models of each path were trained."""
    sections = training_sections(record, names)
    parts: list[PagePart] = [Paragraph((each.path, f": {each.words}")) for each in sections]
    charts: list[list[PagePart]] = [
        [Heading(each.path), *each.charts] for each in sections if each.charts
    ]
    if charts:
        parts.append(Details("Loss and accuracy by epoch", [Beside(charts, "columns")]))
    if table := training_table(record, names):
        parts.append(Details("Every epoch in numbers", [table]))
    return Section("training", "Training", parts or [Paragraph("This run trained no model.")])


def _section(path: PathName, trainings: list[TrainingFacts]) -> TrainingSection:
    # a user's own model has no log
    logged = [training for training in trainings if training.epochs]
    undone = [t for t in trainings if t.state != "measured"]
    done = count(len(trainings) - len(undone), "model")
    words = [f"{done} trained" if logged or undone else f"{done}, not trained by this run"]
    if logged:
        words += _how(logged)
    words += [f"seed {t.seed} {t.state}: {t.reason or 'no reason was recorded'}" for t in undone]
    return TrainingSection(path, ", ".join(words), _charts(path, logged) if logged else ())


def _how(logged: list[TrainingFacts]) -> list[str]:
    """Say how models were trained: all seeds of a path share their options."""
    first = logged[0]
    words = [f"{grouped(first.images)} images"]
    if first.ranks > 1:
        words.append(f"{first.ranks} processes")
    if first.held_out:
        kept = ", ".join(f"{t.kept_epoch} of {len(t.epochs)} (seed {t.seed})" for t in logged)
        words.append(f"{grouped(first.held_out)} more held out to score them; kept epoch {kept}")
    if weights := first.pretrained:
        words.append(f"begun with {weights.identity}, state_dict SHA-256 {weights.sha256[:12]}…")
        if weights.initialised:
            words.append(
                f"{', '.join(weights.initialised)} initialised at random for these classes"
            )
    return words


def _charts(path: PathName, logged: list[TrainingFacts]) -> tuple[Plot, ...]:
    values: dict[str, Callable[[Epoch], float | None]] = {
        "training loss": lambda epoch: epoch.loss,
        "training accuracy in %": lambda epoch: _percent(epoch.accuracy),
        "held-out macro recall in %": lambda epoch: _percent(epoch.held_out_recall),
    }
    last = max(len(each.epochs) for each in logged)
    plots = (
        Plot(
            title=f"{path.name}: {name} by epoch, one line for each seed",
            caption=f"{name[:1].upper()}{name[1:]} by epoch",
            # three marks: the chart is small
            x=Axis(ticks=tuple(sorted({1, round((1 + last) / 2), last}))),
            y=Axis(),
            marks=[
                Line(points, tone, f"seed {each.seed}")
                for each, tone in zip(logged, cycle(TONES), strict=False)
                if (points := [(e.epoch, y) for e in each.epochs if (y := of(e)) is not None])
            ],
            words="The table below contains the numbers.",
            size="small",
            height=116.0,
        )
        for name, of in values.items()
    )
    return tuple(each for each in plots if each.marks)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


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
