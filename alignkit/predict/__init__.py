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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.backends import Builder
from alignkit.engines import build_engine, calibration_of
from alignkit.engines.export import export_onnx
from alignkit.errors import DataError, MissingDependency, NothingCompared
from alignkit.models.checkpoint import EngineSource
from alignkit.models.graph_bounds import require_bearable
from alignkit.models.joined_graph import in_one_file
from alignkit.predict.decoder import AnswerDecoder
from alignkit.predict.session_inputs import FileInputs, Inputs, Tensors, records_of
from alignkit.rank import ALONE, Rank
from alignkit.record import BatchCheck
from alignkit.stored_file import write_atomically
from alignkit.workspace import Workspace, content_key

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.compare.answers import Answers
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan.work import Evaluation, Runtime
    from alignkit.prepare import Prepared
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.samples import Samples
    from alignkit.tasks import Task

_EXPORT_CHECKED = 16
"""Number of real images that check an ONNX export."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The predictions of a cell, with facts of the run."""

    predictions: Answers
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
        yield session
    finally:
        session.close()


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
    from alignkit.predict.check_batches import check_batches
    from alignkit.predict.rank_sessions import shared_records, shares

    def fill(folder: Path) -> None:
        inputs = _inputs(evaluation, checkpoint, prepared, samples)
        decoder = AnswerDecoder.of(evaluation.task, checkpoint, samples.classes)
        if isinstance(inputs, Tensors) and shares(rank, evaluation.runtime):
            raw = shared_records(rank, session, inputs, decoder, samples, batch_size)
        else:
            raw = records_of(session, inputs, decoder, samples, batch_size)
        answers = decoder.answers(prepared.decoded_ids, raw.records, samples)
        answers.to_parquet(folder / "predictions.parquet")
        checked = check_batches(session, inputs, decoder, raw, answers, samples, batch_size)
        batch = checked.model_dump(mode="json")
        facts = {"effective": session.effective(), "inputs": inputs.digest(), "batch": batch}
        write_atomically(folder / "session.json", json.dumps(facts, indent=1))

    parts = cell_parts(evaluation, checkpoint)
    read = partial(_read, task=evaluation.task)
    return workspace.keep(evaluation.kind, parts, evaluation.label, fill, read)


def _read(folder: Path, task: Task) -> Answer:
    facts = json.loads((folder / "session.json").read_text())
    answers = task.adopt(task.read(folder / "predictions.parquet"))
    batch = BatchCheck.model_validate(facts["batch"])
    return Answer(answers, facts["effective"], facts["inputs"], batch)


def _inputs(
    evaluation: Evaluation, checkpoint: Checkpoint, prepared: Prepared, samples: Samples
) -> Inputs:
    """Return the session's inputs: tensors or files of the images that the path decoded."""
    outputs = len(samples.classes) + len(checkpoint.outside)
    # an embedding has no output for an identity
    if not checkpoint.embedding and outputs != checkpoint.classes:
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
    read = partial(_read, task=evaluation.task)
    return workspace.recall(evaluation.kind, key, evaluation.label, read)


def cell_key(evaluation: Evaluation, checkpoint: Checkpoint) -> str:
    """Return the content hash of `cell_parts`."""
    return content_key(cell_parts(evaluation, checkpoint))


def cell_parts(evaluation: Evaluation, checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what the predictions depend on: the plan's parts with the checkpoint of this run."""
    return {**evaluation.parts, "training": checkpoint.key}


def tensors_of(prepared: Prepared, evaluation: Evaluation, checkpoint: Checkpoint) -> Tensors:
    """Return the model's input for every image that the path decoded."""
    shape = (3, checkpoint.height, checkpoint.width)
    return Tensors(prepared, prepared.decoded, evaluation.preprocess, shape)


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
        own_file = in_one_file(checkpoint.graph, workspace)
        require_bearable(own_file, (checkpoint.height, checkpoint.width))
        return EngineSource(checkpoint, own_file, calibration)
    prepared = sets.evaluated(evaluation.preprocess.name)
    # real images: a difference need not show in the logits of random ones
    batch = prepared.batch(prepared.decoded[:_EXPORT_CHECKED], evaluation.preprocess.normalise)
    folded = backend.folds_batch_norm
    graph = export_onnx(checkpoint, workspace, batch, folded=folded)
    return EngineSource(checkpoint, graph, calibration)
