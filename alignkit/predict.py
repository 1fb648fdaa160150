"""Evaluation → Predictions.

A session is opened once for a model in a runtime, predicts on every path, and is closed before the
next one is opened. Every backend is handed the same array for the same images: normalising is the
path's last stage, not the backend's. Only a runtime that preprocesses by itself is handed files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from alignkit.backends import FileSession
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
) -> Iterator[Session | FileSession]:
    """A model loaded in a runtime, for all its paths; freed when the block ends.

    ``onnx`` is the file of `alignkit.execute.graph_of`, for backends that need it. Raises
    `MissingDependency` or `BackendError` where the runtime cannot run it exactly as asked.
    """
    if runtime.skipped:
        raise MissingDependency(f"{runtime.name} {runtime.precision}: {runtime.skipped}")
    session = runtime.backend.open(checkpoint, onnx, runtime.precision)
    try:
        yield _in_order(session, checkpoint.order)
    finally:
        session.close()


def _in_order(session: Session | FileSession, order: tuple[int, ...]) -> Session | FileSession:
    if not order:
        return session
    if isinstance(session, FileSession):
        return ReorderedFiles(session, order)
    return Reordered(session, order)


@dataclass(frozen=True, slots=True)
class Reordered:
    """A session whose outputs come in the order of the data's classes."""

    inner: Session
    order: tuple[int, ...]

    def predict(self, batch: Batch) -> Logits:
        """As the session inside, with its columns exchanged; an odd shape is left to the caller."""
        return _reordered(self.inner.predict(batch), self.order)

    def effective(self) -> dict[str, str]:
        """What really ran."""
        return self.inner.effective()

    def close(self) -> None:
        """Free the runtime's memory."""
        self.inner.close()


@dataclass(frozen=True, slots=True)
class ReorderedFiles:
    """`Reordered`, of a session that is handed files."""

    inner: FileSession
    order: tuple[int, ...]

    def predict_files(self, files: Sequence[bytes], normalise: Normalise) -> Logits:
        """As the session inside, with its columns exchanged."""
        return _reordered(self.inner.predict_files(files, normalise), self.order)

    def effective(self) -> dict[str, str]:
        """What really ran."""
        return self.inner.effective()

    def close(self) -> None:
        """Free the runtime's memory."""
        self.inner.close()


def _reordered(logits: Logits, order: tuple[int, ...]) -> Logits:
    return logits if logits.shape[1:] != (len(order),) else logits[:, list(order)]


def predict(
    evaluation: Evaluation,
    checkpoint: Checkpoint,
    session: Session | FileSession,
    prepared: Prepared,
    *,
    labels: Sequence[int],
    ids: Sequence[str],
    classes: Sequence[str],
    read: Callable[[int], bytes] | None = None,
    batch_size: int,
    workspace: Workspace,
    progress: Callable[[int, int], None] | None = None,
) -> Answer:
    """Predict on every image the path decoded, and store it; or give what is stored.

    ``labels`` and ``ids`` are those of all samples, and ``read`` gives their encoded bytes, for a
    `FileSession`. ``progress`` is called with images (done, total). Raises `NothingCompared` if the
    path decoded no image, `DataError` if the labels or the input's size are not the model's.
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
    if isinstance(session, FileSession):
        assert read is not None
        answers = partial(_answers_to_files, session, read, normalise)
    else:
        answers = partial(_answers_to_batch, session, prepared, normalise, checkpoint)
    logits = _collected(answers, decoded, checkpoint.classes, batch_size, progress)
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


def forget_answer(evaluation: Evaluation, checkpoint: Checkpoint, workspace: Workspace) -> None:
    """Discard what `predict` stored, if it did."""
    key = content_key(cell_parts(evaluation, checkpoint))
    if workspace.stored("cells", key):
        workspace.discard("cells", key)


def cell_parts(evaluation: Evaluation, checkpoint: Checkpoint) -> dict[str, Any]:
    """What the predictions depend on: the plan's, with the checkpoint that was really used."""
    return {**evaluation.parts, "training": checkpoint.key}


def _answers_to_batch(
    session: Session,
    prepared: Prepared,
    normalise: Normalise,
    checkpoint: Checkpoint,
    indices: npt.NDArray[np.int64],
) -> Logits:
    batch: Batch = prepared.batch(indices, normalise)
    expected = (3, checkpoint.height, checkpoint.width)
    if batch.shape[1:] != expected:
        raise DataError(f"the path gives inputs of {batch.shape[1:]}, the model takes {expected}")
    return session.predict(batch)


def _answers_to_files(
    session: FileSession,
    read: Callable[[int], bytes],
    normalise: Normalise,
    indices: npt.NDArray[np.int64],
) -> Logits:
    return session.predict_files([read(index) for index in indices.tolist()], normalise)


def _collected(
    answers: Callable[[npt.NDArray[np.int64]], Logits],
    indices: npt.NDArray[np.int64],
    classes: int,
    batch_size: int,
    progress: Callable[[int, int], None] | None,
) -> Logits:
    """(images, classes) float32, batch by batch: memory does not grow with the images."""
    import numpy as np

    logits = np.empty((len(indices), classes), np.float32)
    for start in range(0, len(indices), batch_size):
        chosen = indices[start : start + batch_size]
        given = answers(chosen)
        if given.shape != (len(chosen), classes) or given.dtype != np.float32:
            raise BackendError(
                f"the backend returned {given.dtype} {given.shape} for {len(chosen)} images of "
                f"{classes} classes, not float32 logits"
            )
        logits[start : start + len(chosen)] = given
        if progress:
            progress(start + len(chosen), len(indices))
    return logits
