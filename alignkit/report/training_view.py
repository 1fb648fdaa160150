"""Training logs: loss and accuracy by epoch, a line a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from alignkit.record import Epoch, PretrainedFacts, RunRecord, TrainingFacts
from alignkit.report.charts import LinePlot, line_plot
from alignkit.report.table import RowCells, Shown, Table, numbers
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import DASH, count, grouped, percent, written


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
        words += _how(logged)
        words += _begun(logged[0].pretrained)
    words += [f"seed {t.seed} {t.state}: {t.reason or 'no reason was recorded'}" for t in undone]
    return TrainingSection(path, ", ".join(words), _charts(index, path, logged) if logged else ())


def _how(logged: list[TrainingFacts]) -> list[str]:
    """What else is to be known of trainings that ran."""
    first, words = logged[0], []
    if first.ranks > 1:
        words.append(f"{first.ranks} processes")
    if first.held_out:
        kept = ", ".join(f"{t.kept_epoch} of {len(t.epochs)} (seed {t.seed})" for t in logged)
        words.append(f"{grouped(first.held_out)} more held out to score them; kept epoch {kept}")
    return words


def _begun(pretrained: PretrainedFacts | None) -> list[str]:
    if pretrained is None:
        return []
    anew = ", ".join(pretrained.drawn_anew)
    return [
        f"begun with {pretrained.identity}, state_dict SHA-256 {pretrained.sha256[:12]}…"
        + (f", {anew} drawn anew for these classes" if anew else "")
    ]


def _charts(index: int, path: PathName, logged: list[TrainingFacts]) -> tuple[LinePlot, ...]:
    def plot(name: str, title: str, value: Callable[[Epoch], float | None]) -> LinePlot | None:
        lines = [(f"seed {t.seed}", _points(t, value)) for t in logged]
        if not any(points for _, points in lines):
            return None
        title = f"{path.name}: {title} by epoch"
        return line_plot(lines, id=f"{name}-{index}", title=title, zero=name == "loss")

    plots = (
        plot("loss", "training loss", lambda epoch: epoch.loss),
        plot("accuracy", "training accuracy in %", lambda epoch: 100 * epoch.accuracy),
        plot("held-out", "held-out macro recall in %", _held_out_recall),
    )
    return tuple(each for each in plots if each)


def _points(
    training: TrainingFacts, value: Callable[[Epoch], float | None]
) -> list[tuple[float, float]]:
    values = ((float(epoch.epoch), value(epoch)) for epoch in training.epochs)
    return [(epoch, each) for epoch, each in values if each is not None]


def _held_out_recall(epoch: Epoch) -> float | None:
    return None if epoch.held_out_recall is None else 100 * epoch.held_out_recall


def training_table(record: RunRecord, names: Names) -> Table | None:
    """Every epoch of every training; ``None`` without any."""
    held_out = any(training.held_out for training in record.trainings)
    rows = tuple(
        _row(training, epoch, names, held_out=held_out)
        for training in record.trainings
        for epoch in training.epochs
    )
    scores = ("Held-out loss", "Held-out accuracy", "Held-out recall") if held_out else ()
    columns = (
        "Trained with",
        *numbers("Seed", "Epoch", "Loss", "Accuracy", "Learning rate", "Images / s", *scores),
    )
    told = "Every epoch; accuracy on the training images as augmented"
    if held_out:
        told += ", held-out recall is the mean over the classes"
    if any(training.files for training in record.trainings):
        told += (
            "; as CSV, with scikit-learn’s report of each epoch, in trainings/ beside the record"
        )
    return Table.of(told, columns, rows) if rows else None


def _row(training: TrainingFacts, epoch: Epoch, names: Names, *, held_out: bool) -> RowCells:
    scores = (
        _or_dash(epoch.held_out_loss, "{:.4f}".format),
        _or_dash(epoch.held_out_accuracy, percent),
        _or_dash(epoch.held_out_recall, percent),
    )
    return (
        names.short(training.preprocess),
        str(training.seed),
        str(epoch.epoch),
        f"{epoch.loss:.4f}",
        percent(epoch.accuracy),
        written(epoch.learning_rate, ".2e"),
        f"{epoch.images_per_second:.0f}",
        *map(Shown, scores if held_out else ()),
    )


def _or_dash(value: float | None, words: Callable[[float], str]) -> str:
    return DASH if value is None else words(value)
