"""Export of checkpoints to ONNX, and builds of engines, each kept under a content hash.

An engine is a model as a backend converts or compiles it. Its hash covers model, precision, shapes,
the backend's options, its library's version and the device or the processor's vector extensions. An
engine is loaded only if its hash matches and its files are, byte for byte, those that were stored;
a file's name alone proves nothing.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.backends import Backend, Builder, CalibrationSet, Precision
from alignkit.errors import NothingCompared
from alignkit.machine import library_settings, vector_extensions
from alignkit.models.checkpoint import CALIBRATION, Calibration, EngineSource
from alignkit.prepare import Preparation, prepare
from alignkit.preprocess import Preprocess, stage_identity
from alignkit.stored_file import file_sha256
from alignkit.version import ENGINE_LAYERS, code_version
from alignkit.workspace import Workspace, content_key

if TYPE_CHECKING:
    from alignkit.arrays import Batch
    from alignkit.samples import Samples

_SEED = 0
"""Seed of the draw of calibration images."""


def calibration_of(
    wanted: CalibrationSet, path: Preprocess, training: Samples, workspace: Workspace
) -> Calibration:
    """Choose images of the training split, preprocessed as the model was trained.

    Samples of which nothing is known are those that a file names to calibrate with.
    """
    chosen = training.take(calibration_indices(wanted, training))

    def images() -> Batch:
        if not len(chosen):
            raise NothingCompared("the training split holds no image to calibrate with")
        prepared = prepare(chosen, path, workspace, split="calibration")
        return prepared.batch(prepared.decoded, path.normalise)

    parts = Preparation(path, "calibration", chosen.fingerprint).parts
    key = content_key([parts, stage_identity(path.normalise)])
    whose = "calibration" if training.truth == "none" else "training"
    choice = "random" if wanted.choice == "balanced" and not training.labels else wanted.choice
    described = f"{len(chosen)} of {len(training)} {whose} images, {choice}, own path"
    return Calibration(key, images, described)


def calibration_indices(wanted: CalibrationSet, training: Samples) -> list[int]:
    """Choose the samples of the training split that calibrate; return their indices, ascending.

    ``balanced`` draws one sample of every class in turn.
    """
    import numpy as np

    count = len(training)
    if wanted.choice == "first":
        return list(range(min(wanted.images, count)))
    drawn: list[int] = np.random.default_rng(_SEED).permutation(count).tolist()
    if wanted.choice == "balanced" and training.labels:
        seen = Counter[int]()
        turns: dict[int, int] = {}
        for index in drawn:
            turns[index] = seen[training.labels[index]]
            seen[training.labels[index]] += 1
        drawn.sort(key=lambda index: turns[index])  # stable: within a turn the draw decides
    return sorted(drawn[: wanted.images])


def build_engine(
    backend: Backend, source: EngineSource, precision: Precision, workspace: Workspace
) -> Path:
    """Return the input of `Backend.open`: the folder of the stored engine, built if there is none.

    For a backend, or a precision, that builds nothing it is the ONNX file itself. Raises
    `BackendError` if the model cannot be built.
    """
    parts = engine_parts(backend, source, precision)
    if parts is None:
        return source.onnx

    def build(folder: Path) -> None:
        assert isinstance(backend, Builder)
        backend.build(source, precision, folder)
        if source.calibration and backend.calibration(precision):
            (folder / CALIBRATION).write_text(source.calibration.described)

    label = f"build {source.checkpoint.model} for {type(backend).__name__} {precision}"
    return workspace.keep("engines", parts, label, build, Path)


def engine_parts(
    backend: Backend, source: EngineSource, precision: Precision
) -> dict[str, Any] | None:
    """Return what an engine depends on, for its key; ``None`` if nothing is built."""
    if not isinstance(backend, Builder):
        return None
    own = backend.build_parts(precision)
    if own is None:
        return None
    checkpoint = source.checkpoint
    parts = {
        "model": checkpoint.key,
        # the exporter's versions may change the graph of the same weights
        "onnx": file_sha256(source.onnx),
        "shape": [3, checkpoint.height, checkpoint.width, checkpoint.classes],
        "backend": stage_identity(backend),
        "precision": precision,
        "code": code_version(ENGINE_LAYERS),
        **own,
    }
    if backend.on_cpu:  # it decides whether weights are quantised to 7 or to 8 bits
        parts["processor"] = vector_extensions()
    if settings := library_settings():
        parts["settings"] = settings
    if source.calibration and backend.calibration(precision):
        parts["calibration"] = source.calibration.key
    return parts
