"""Training logs: loss and accuracy by epoch, a line a seed."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.record import Epoch, PretrainedFacts, RunRecord, TrainingFacts
from alignkit.report.names import Names, PathName
from alignkit.report.numerals import count, grouped, percent
from alignkit.report.svg import LinePlot, line_plot
from alignkit.report.table import Row, Shown, Table, number_columns, text_columns


@dataclass(frozen=True, slots=True)
class TrainingSection:
    """The trainings of one path."""

    path: PathName
    words: str
    charts: tuple[LinePlot, ...]
    """Loss, accuracy."""


def training_sections(record: RunRecord, names: Names) -> tuple[TrainingSection, ...]:
    """A section for each path that was trained with."""
    paths = dict.fromkeys(training.preprocess for training in record.trainings)
    return tuple(
        _section(index, names.of(path), [t for t in record.trainings if t.preprocess == path])
        for index, path in enumerate(paths)
    )


def _section(index: int, path: PathName, trainings: list[TrainingFacts]) -> TrainingSection:
    logged = [training for training in trainings if training.epochs]
    undone = [t for t in trainings if t.state != "measured"]
    words = [f"{count(len(trainings) - len(undone), 'model')} trained"]
    if logged:
        words.append(f"{grouped(logged[0].images)} images")
        words += _begun(logged[0].pretrained)
    words += [f"seed {t.seed} {t.state}: {t.reason or 'no reason was recorded'}" for t in undone]
    return TrainingSection(path, ", ".join(words), _charts(index, path, logged) if logged else ())


def _begun(pretrained: PretrainedFacts | None) -> list[str]:
    if pretrained is None:
        return []
    anew = ", ".join(pretrained.drawn_anew)
    return [
        f"begun with {pretrained.identity}, state_dict SHA-256 {pretrained.sha256[:12]}…"
        + (f", {anew} drawn anew for these classes" if anew else "")
    ]


def _charts(index: int, path: PathName, logged: list[TrainingFacts]) -> tuple[LinePlot, ...]:
    loss = [
        (f"seed {t.seed}", [(float(epoch.epoch), epoch.loss) for epoch in t.epochs]) for t in logged
    ]
    accuracy = [
        (f"seed {t.seed}", [(float(epoch.epoch), 100 * epoch.accuracy) for epoch in t.epochs])
        for t in logged
    ]
    return (
        line_plot(
            loss, id=f"loss-{index}", title=f"{path.name}: training loss by epoch", zero=True
        ),
        line_plot(
            accuracy, id=f"accuracy-{index}", title=f"{path.name}: training accuracy in % by epoch"
        ),
    )


def training_table(record: RunRecord, names: Names) -> Table | None:
    """Every epoch of every training; ``None`` without any."""
    rows = tuple(
        _row(training, epoch, names) for training in record.trainings for epoch in training.epochs
    )
    columns = (
        *text_columns("Trained with"),
        *number_columns("Seed", "Epoch", "Loss", "Accuracy", "Learning rate", "Images / s"),
    )
    return Table("Every epoch; accuracy on the training images", columns, rows) if rows else None


def _row(training: TrainingFacts, epoch: Epoch, names: Names) -> Row:
    return Row(
        (
            Shown(names.short(training.preprocess)),
            Shown(str(training.seed)),
            Shown(str(epoch.epoch)),
            Shown(f"{epoch.loss:.4f}"),
            Shown(percent(epoch.accuracy)),
            Shown(f"{epoch.learning_rate:.2e}".replace("-", "\N{MINUS SIGN}")),
            Shown(f"{epoch.images_per_second:.0f}"),
        )
    )
