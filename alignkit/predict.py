"""Evaluation → Predictions.

A session is opened once for a model in a runtime, predicts on every path, and is closed before the
next one is opened. Every backend is handed the same array for the same images: normalising is the
path's last stage, not the backend's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from alignkit.errors import BackendError, DataError, MissingDependency, NothingCompared
from alignkit.workspace import Workspace, content_key, write_atomically

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import Batch, Logits
    from alignkit.backends import Session
    from alignkit.checkpoint import Checkpoint
    from alignkit.plan import Evaluation, Runtime
    from alignkit.predictions import Predictions
    from alignkit.prepare import Prepared
    from alignkit.preprocess import Normalise

Answer: TypeAlias = "tuple[Predictions, dict[str, str]]"
"""What a cell gave: its predictions, and what really ran."""


@contextmanager
def open_session(
    runtime: Runtime, checkpoint: Checkpoint, onnx: Path | None = None
) -> Iterator[Session]:
    """A model loaded in a runtime, for all its paths; freed when the block ends.

    ``onnx`` is the file of `alignkit.export.export_onnx`, for backends that need it. Raises
    `MissingDependency` or `BackendError` where the runtime cannot run it exactly as asked.
    """
    if runtime.skipped:
        raise MissingDependency(f"{runtime.name} {runtime.precision}: {runtime.skipped}")
    session = runtime.backend.open(checkpoint, onnx, runtime.precision)
    try:
        yield Reordered(session, checkpoint.order) if checkpoint.order else session
    finally:
        session.close()


@dataclass(frozen=True, slots=True)
class Reordered:
    """A session whose outputs come in the order of the data's classes."""

    inner: Session
    order: tuple[int, ...]

    def predict(self, batch: Batch) -> Logits:
        """As the session inside, with its columns exchanged; an odd shape is left to the caller."""
        logits = self.inner.predict(batch)
        return logits if logits.shape[1:] != (len(self.order),) else logits[:, list(self.order)]

    def effective(self) -> dict[str, str]:
        """What really ran."""
        return self.inner.effective()

    def close(self) -> None:
        """Free the runtime's memory."""
        self.inner.close()


def predict(
    evaluation: Evaluation,
    checkpoint: Checkpoint,
    session: Session,
    prepared: Prepared,
    *,
    labels: Sequence[int],
    ids: Sequence[str],
    classes: Sequence[str],
    batch_size: int,
    workspace: Workspace,
    progress: Callable[[int, int], None] | None = None,
) -> Answer:
    """Predict on every image the path decoded, and store it; or give what is stored.

    ``labels`` and ``ids`` are those of all samples. ``progress`` is called with images (done,
    total). Raises `NothingCompared` if the path decoded no image, `DataError` if the labels or the
    input's size are not the model's.
    """
    import numpy as np

    from alignkit.predictions import Predictions

    if (stored := stored_answer(evaluation, checkpoint, workspace)) is not None:
        return stored
    if len(classes) != checkpoint.classes:
        raise DataError(f"the data has {len(classes)} classes, the model {checkpoint.classes}")
    decoded = np.flatnonzero(prepared.rows >= 0)
    if not len(decoded):
        raise NothingCompared(f"{evaluation.preprocess.name} decoded no image to evaluate")
    normalise = evaluation.preprocess.normalise
    logits = logits_of(session, prepared, decoded, normalise, checkpoint, batch_size, progress)
    predictions = Predictions(
        ids=tuple(ids[index] for index in decoded.tolist()),
        labels=np.asarray(labels, np.int64)[decoded],
        logits=logits,
        classes=tuple(classes),
    )
    effective = session.effective()
    parts = cell_parts(evaluation, checkpoint)
    with workspace.store("cells", content_key(parts), parts, evaluation.label) as folder:
        predictions.to_parquet(folder / "predictions.parquet")
        write_atomically(folder / "effective.json", json.dumps(effective, indent=1))
    return predictions, effective


def stored_answer(
    evaluation: Evaluation, checkpoint: Checkpoint, workspace: Workspace
) -> Answer | None:
    """What `predict` stored; ``None`` if it has not run. No session is needed to read it."""
    from alignkit.predictions import Predictions

    folder = workspace.stored("cells", content_key(cell_parts(evaluation, checkpoint)))
    if folder is None:
        return None
    effective: dict[str, str] = json.loads((folder / "effective.json").read_text())
    return Predictions.from_parquet(folder / "predictions.parquet"), effective


def cell_parts(evaluation: Evaluation, checkpoint: Checkpoint) -> dict[str, Any]:
    """What the predictions depend on: the plan's, with the checkpoint that was really used."""
    return {**evaluation.parts, "training": checkpoint.key}


def logits_of(
    session: Session,
    prepared: Prepared,
    indices: npt.NDArray[np.int64],
    normalise: Normalise,
    checkpoint: Checkpoint,
    batch_size: int,
    progress: Callable[[int, int], None] | None = None,
) -> Logits:
    """(images, classes) float32, batch by batch: memory does not grow with the images."""
    import numpy as np

    expected = (3, checkpoint.height, checkpoint.width)
    logits = np.empty((len(indices), checkpoint.classes), np.float32)
    for start in range(0, len(indices), batch_size):
        batch = prepared.batch(indices[start : start + batch_size], normalise)
        if batch.shape[1:] != expected:
            raise DataError(
                f"the path gives inputs of {batch.shape[1:]}, the model takes {expected}"
            )
        given = session.predict(batch)
        if given.shape != (len(batch), checkpoint.classes) or given.dtype != np.float32:
            raise BackendError(
                f"the backend returned {given.dtype} {given.shape} for {len(batch)} images of "
                f"{checkpoint.classes} classes, not float32 logits"
            )
        logits[start : start + len(batch)] = given
        if progress:
            progress(start + len(batch), len(indices))
    return logits
