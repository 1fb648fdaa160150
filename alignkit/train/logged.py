"""What a training logged, beside the record: CSV, classification reports, TensorBoard."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING

from alignkit.record import Artifact
from alignkit.workspace import file_sha256, write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alignkit.checkpoint import Checkpoint
    from alignkit.plan import Training
    from alignkit.record import Epoch

COPIED = ("log.csv", "classification.json")


def write_logs(
    checkpoint: Checkpoint, training: Training, epochs: Sequence[Epoch], folder: Path
) -> tuple[Artifact, ...]:
    """Copies a stored training's logs into a run's folder, under the row's name and the seed.

    Where TensorBoard is installed, its events lie in ``tensorboard/NAME`` too.
    """
    # a row's name has spaces and a percent sign, which links do not take
    row = re.sub(r"[^\w.+=-]+", "_", training.row)
    name = f"{row}-seed{training.seed}"
    if find_spec("tensorboard"):
        _write_events(epochs, folder / "tensorboard" / name)
    return tuple(_copied(checkpoint.weights.with_name(each), folder, name) for each in COPIED)


def _copied(source: Path, folder: Path, name: str) -> Artifact:
    path = f"trainings/{name}-{source.name}"
    write_atomically(folder / path, source.read_bytes())
    return Artifact(path=path, sha256=file_sha256(folder / path))


def _write_events(epochs: Sequence[Epoch], folder: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    shutil.rmtree(folder, ignore_errors=True)  # events of an earlier run would be drawn as well
    with SummaryWriter(folder) as writer:
        for line in epochs:
            for tag, value in line.model_dump(exclude={"epoch"}, exclude_none=True).items():
                writer.add_scalar(tag, value, line.epoch)
