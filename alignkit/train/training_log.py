"""Logs of a training in a run's folder: CSV, classification reports, TensorBoard."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from alignkit.record import Artifact, Epoch
from alignkit.stored_file import file_sha256, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from torch.utils.tensorboard import SummaryWriter

    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan.work import Training

_COPIED = ("log.csv", "classification.json")


@contextmanager
def growing_log(training: Training, folder: Path | None) -> Iterator[Callable[[Epoch], None]]:
    """Yield a function that takes a training's epochs from the first on and updates its files.

    A resumed training passes its earlier epochs again, which replaces the files. Without a folder
    nothing is written.
    """
    epochs: list[Epoch] = []
    events: list[SummaryWriter] = []
    name = _name(training)

    def add(epoch: Epoch) -> None:
        if folder is None:
            return
        epochs.append(epoch)
        write_atomically(folder / f"trainings/{name}-log.csv", log_csv(epochs))
        if find_spec("tensorboard"):  # an extra, not in the base install
            if not events:
                events.append(_new_events(folder / "tensorboard" / name))
            _add_event(events[0], epoch)

    try:
        yield add
    finally:
        for each in events:
            each.close()


def write_logs(
    checkpoint: Checkpoint, training: Training, epochs: Sequence[Epoch], folder: Path
) -> tuple[Artifact, ...]:
    """Copy a stored training's logs into a run's folder, under the row's name and the seed.

    Events that the training itself wrote there stay: somebody may be watching them.
    """
    name = _name(training)
    events = folder / "tensorboard" / name
    if find_spec("tensorboard") and not events.exists():
        with _new_events(events) as writer:
            for epoch in epochs:
                _add_event(writer, epoch)
    return tuple(_copied(checkpoint.weights.with_name(each), folder, name) for each in _COPIED)


def log_csv(epochs: Sequence[Epoch]) -> str:
    """Format a header and a line per epoch: loss, accuracy, learning rate, images per second."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=[*Epoch.model_fields], lineterminator="\n")
    writer.writeheader()
    writer.writerows(epoch.model_dump() for epoch in epochs)
    return text.getvalue()


def _name(training: Training) -> str:
    # a row's name has spaces and a percent sign, which links do not take
    row = re.sub(r"[^\w.+=-]+", "_", str(training.row))
    return f"{row}-seed{training.seed}"


def _copied(source: Path, folder: Path, name: str) -> Artifact:
    path = f"trainings/{name}-{source.name}"
    write_atomically(folder / path, source.read_bytes())
    return Artifact(path=path, sha256=file_sha256(folder / path))


def _new_events(folder: Path) -> SummaryWriter:
    from torch.utils.tensorboard import SummaryWriter

    shutil.rmtree(folder, ignore_errors=True)  # events of an earlier run would be drawn as well
    return SummaryWriter(folder)


def _add_event(writer: SummaryWriter, epoch: Epoch) -> None:
    for tag, value in epoch.model_dump(exclude={"epoch"}, exclude_none=True).items():
        writer.add_scalar(tag, value, epoch.epoch)
    writer.flush()
