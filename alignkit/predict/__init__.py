"""Predict evaluations, the cells of the matrix: a session of a model, and its stored answers.

A session is opened once for a model in a runtime, predicts on every path, and is closed before the
next one is opened. Every backend receives the same array for the same images: normalising is the
path's last stage, not the backend's. Only a runtime that does its own preprocessing receives files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.backends import Builder
from alignkit.engines import build_engine, calibration_of
from alignkit.engines.export import export_onnx
from alignkit.errors import DataError, MissingDependency, NothingCompared
from alignkit.models.checkpoint import EngineSource
from alignkit.models.user_model import in_one_file
from alignkit.predict.session_inputs import FileInputs, Inputs, Tensors, batch_logits, logits_of
from alignkit.rank import ALONE, Rank
from alignkit.record import BatchCheck
from alignkit.stored_file import write_atomically
from alignkit.workspace import Workspace, content_key

if TYPE_CHECKING:
    from alignkit.arrays import Labels, Logits
    from alignkit.backends import Session
    from alignkit.compare.predictions import Predictions
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan.planned_runtime import Runtime
    from alignkit.plan.work import Evaluation
    from alignkit.prepare import Prepared
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.samples import Samples

_EXPORT_CHECKED = 16
"""Number of real images that check an ONNX export."""
_CHECKED_ALONE = 16
"""Images predicted again one at a time, to measure the effect of the batch size."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The predictions of a cell, with facts of the run."""

    predictions: Predictions
    effective: dict[str, str]
    """The session's report of what ran."""
    inputs: str
    """SHA-256 hex of the tensors that the session received, in order: the same for every runtime;
    ``files:`` and the hash of the files for a runtime that does its own preprocessing."""
    batch: BatchCheck


@contextmanager
def open_session(
    runtime: Runtime, checkpoint: Checkpoint, onnx: Path | None = None
) -> Iterator[Session]:
    """Load a model in a runtime, for all its paths; free it when the block ends.

    ``onnx`` is the file of `model_file`, for backends that need it. Raises
    `MissingDependency` or `BackendError` if the runtime cannot run exactly this configuration.
    """
    if runtime.skipped:
        raise MissingDependency(f"{runtime.name} {runtime.precision}: {runtime.skipped}")
    session = runtime.backend.open(checkpoint, onnx, runtime.precision)
    try:
        # a user's model may have other classes than the data, in another order
        yield Reordered(session, checkpoint.order) if checkpoint.order else session
    finally:
        session.close()


@dataclass(frozen=True, slots=True)
class Reordered:
    """A session whose outputs come in the order of the data's classes, then the others."""

    inner: Session
    order: tuple[int, ...]

    def predict(self, inputs: Any) -> Logits:
        """Predict with the inner session, and reorder the columns."""
        # the caller refuses an unexpected shape
        logits = self.inner.predict(inputs)
        return logits if logits.shape[1:] != (len(self.order),) else logits[:, list(self.order)]

    def effective(self) -> dict[str, str]:
        return self.inner.effective()

    def close(self) -> None:
        self.inner.close()


def predict(
    evaluation: Evaluation,
    checkpoint: Checkpoint,
    session: Session,
    prepared: Prepared,
    samples: Samples,
    *,
    batch_size: int,
    workspace: Workspace,
    rank: Rank = ALONE,
) -> Answer:
    """Predict on every image the path decoded, and store it; or give what is stored.

    ``prepared`` is what the path made of all ``samples``; a backend with its ``own_path`` is
    sent their bytes. On rank 0 of a group `predict` is called inside
    `rank_sessions.shared_session`. Raises `NothingCompared` if the path decoded no image,
    `DataError` if the labels or the input's size are not the model's.
    """
    from alignkit.compare.predictions import Predictions
    from alignkit.predict.rank_sessions import shared_logits, shares

    def fill(folder: Path) -> None:
        inputs = _inputs(evaluation, checkpoint, prepared, samples)
        if isinstance(inputs, Tensors) and shares(rank, evaluation.runtime):
            logits = shared_logits(rank, session, inputs, checkpoint.classes, batch_size)
        else:
            logits = logits_of(session, inputs, checkpoint.classes, batch_size)
        Predictions(
            ids=prepared.decoded_ids,
            labels=_labels(samples, prepared),
            logits=logits,
            classes=samples.classes,
            outside=checkpoint.outside,
        ).to_parquet(folder / "predictions.parquet")
        batch = check_batches(session, inputs, logits, batch_size).model_dump(mode="json")
        facts = {"effective": session.effective(), "inputs": inputs.digest(), "batch": batch}
        write_atomically(folder / "session.json", json.dumps(facts, indent=1))

    parts = cell_parts(evaluation, checkpoint)
    images = len(prepared.decoded)
    return workspace.keep(evaluation.kind, parts, evaluation.label, fill, _read, images=images)


def _labels(samples: Samples, prepared: Prepared) -> Labels:
    """Return the labels of the decoded images; none if the images have none."""
    import numpy as np

    labels: Labels = np.asarray(samples.labels, np.int64)
    return labels[prepared.decoded] if samples.classes else labels


def _read(folder: Path) -> Answer:
    from alignkit.compare.predictions import Predictions

    facts = json.loads((folder / "session.json").read_text())
    predictions = Predictions.from_parquet(folder / "predictions.parquet")
    batch = BatchCheck.model_validate(facts["batch"])
    return Answer(predictions, facts["effective"], facts["inputs"], batch)


def _inputs(
    evaluation: Evaluation, checkpoint: Checkpoint, prepared: Prepared, samples: Samples
) -> Inputs:
    """Return the session's inputs: tensors or files of the images that the path decoded."""
    outputs = len(samples.classes) + len(checkpoint.outside)
    if outputs != checkpoint.classes:
        raise DataError(
            f"the data has {len(samples.classes)} classes, the model {checkpoint.classes}"
        )
    if not len(prepared.decoded):
        raise NothingCompared(f"{evaluation.preprocess.name} decoded no image to evaluate")
    if evaluation.runtime.backend.own_path:
        return FileInputs(samples.read, prepared.decoded, evaluation.preprocess.normalise)
    return tensors_of(prepared, evaluation, checkpoint)


def stored_answer(
    evaluation: Evaluation, checkpoint: Checkpoint, workspace: Workspace
) -> Answer | None:
    """Read the answer that `predict` stored; ``None`` if there is none. It needs no session."""
    key = cell_key(evaluation, checkpoint)
    return workspace.recall(evaluation.kind, key, evaluation.label, _read)


def cell_key(evaluation: Evaluation, checkpoint: Checkpoint) -> str:
    """Return the content hash of `cell_parts`."""
    return content_key(cell_parts(evaluation, checkpoint))


def cell_parts(evaluation: Evaluation, checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what the predictions depend on: the plan's parts with the checkpoint of this run."""
    return {**evaluation.parts, "training": checkpoint.key}


def tensors_of(prepared: Prepared, evaluation: Evaluation, checkpoint: Checkpoint) -> Tensors:
    """Return the model's input for every image that the path decoded."""
    shape = (3, checkpoint.height, checkpoint.width)
    return Tensors(prepared, prepared.decoded, evaluation.preprocess.normalise, shape)


def check_batches(session: Session, inputs: Inputs, logits: Logits, batch_size: int) -> BatchCheck:
    """Predict the first images one at a time and compare with ``logits``, made in batches."""
    import numpy as np

    from alignkit.compare.metrics import logit_distance, predicted_classes

    batch = min(batch_size, len(inputs))
    if batch == 1:
        return BatchCheck(reason="a batch holds one image: there is no other size to compare with")
    images = min(batch, _CHECKED_ALONE)
    classes = logits.shape[1]
    alone = np.concatenate(
        [batch_logits(session, inputs, index, index + 1, classes) for index in range(images)]
    )
    # the same images, from the batches that are stored
    together = logits[:images]
    found = logit_distance(together, alone)
    flips = int((predicted_classes(together) != predicted_classes(alone)).sum())
    return BatchCheck(
        images=images, batch=batch, max_abs=found.max_abs, flips=flips, reason=found.reason
    )


def model_file(
    evaluation: Evaluation, checkpoint: Checkpoint, sets: Sets, workspace: Workspace
) -> Path | None:
    """Return the stored file, or export and build it; ``None`` for a backend that needs no file."""
    runtime = evaluation.runtime
    if not runtime.backend.needs_onnx:
        return None
    source = model_source(evaluation, checkpoint, sets, workspace)
    return build_engine(runtime.backend, source, runtime.precision, workspace)


def model_source(
    evaluation: Evaluation, checkpoint: Checkpoint, sets: Sets, workspace: Workspace
) -> EngineSource:
    """Return the model's ONNX file, with the training images that calibrate its engine, if any.

    Raises `BackendError` if the exported graph differs from the model on real images.
    """
    backend, precision = evaluation.runtime.backend, evaluation.runtime.precision
    wanted = backend.calibration(precision) if isinstance(backend, Builder) else None
    own = evaluation.training.preprocess
    calibration = calibration_of(wanted, own, sets.train, workspace) if wanted else None
    # a file of the user's own is used as it is, not exported again
    if checkpoint.graph is not None:
        return EngineSource(checkpoint, in_one_file(checkpoint.graph, workspace), calibration)
    prepared = sets.evaluated(evaluation.preprocess.name)
    # real images: a difference need not show in the logits of random ones
    batch = prepared.batch(prepared.decoded[:_EXPORT_CHECKED], evaluation.preprocess.normalise)
    return EngineSource(checkpoint, export_onnx(checkpoint, workspace, batch), calibration)
