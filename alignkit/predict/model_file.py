"""File that a backend opens: an ONNX graph checked on real images, or an engine built from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.backends import Builder
from alignkit.engines.build import build_engine, calibration_of
from alignkit.engines.export import export_onnx
from alignkit.models.checkpoint import EngineSource
from alignkit.models.user_model import in_one_file

if TYPE_CHECKING:
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan.work import Evaluation
    from alignkit.prepare.sets import Sets
    from alignkit.workspace import Workspace

_EXPORT_CHECKED = 16
"""Number of real images that check an ONNX export."""


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
    if checkpoint.format == "onnx":
        return EngineSource(checkpoint, in_one_file(checkpoint.weights, workspace), calibration)
    prepared = sets.evaluated(evaluation.preprocess.name)
    batch = prepared.batch(prepared.decoded[:_EXPORT_CHECKED], evaluation.preprocess.normalise)
    return EngineSource(checkpoint, export_onnx(checkpoint, workspace, batch), calibration)
