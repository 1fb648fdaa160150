"""Checkpoint → engine: what a backend converts or compiles a model into, kept under a content hash.

The hash covers model, precision, shapes, the backend's options, its library's version and the
device or the processor's vector extensions. An engine is loaded because its hash is the one asked
for and its files are, byte for byte, what was stored; never because a file lies there.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.backends import Backend, Builder, CalibrationSet, Precision
from alignkit.errors import NothingCompared
from alignkit.machine import vector_extensions
from alignkit.models.checkpoint import CALIBRATION, Calibration, EngineSource
from alignkit.prepare import Preparation, prepare
from alignkit.preprocess import Preprocess, stage_identity
from alignkit.version import ENGINE_LAYERS, code_version
from alignkit.workspace import Workspace, content_key, file_sha256

if TYPE_CHECKING:
    from alignkit.arrays import Batch
    from alignkit.samples import Samples

SEED = 0
"""Of the draw of calibration images."""


def calibration_of(
    wanted: CalibrationSet, path: Preprocess, training: Samples, workspace: Workspace
) -> Calibration:
    """Images of the training split, as the model was trained to see them."""
    chosen = training.take(calibration_indices(wanted, training))

    def images() -> Batch:
        if not len(chosen):
            raise NothingCompared("the training split holds no image to calibrate with")
        prepared = prepare(chosen, path, workspace, split="calibration")
        return prepared.batch(prepared.decoded, path.normalise)

    parts = Preparation(path, "calibration", chosen.fingerprint).parts
    key = content_key([parts, stage_identity(path.normalise)])
    described = f"{len(chosen)} of {len(training)} training images, {wanted.choice}, own path"
    return Calibration(key, images, described)


def calibration_indices(wanted: CalibrationSet, training: Samples) -> list[int]:
    """Which samples of the training split calibrate, in order.

    ``balanced`` takes one of every class in turn, drawn within it.
    """
    import numpy as np

    count = len(training)
    if wanted.choice == "first":
        return list(range(min(wanted.images, count)))
    drawn: list[int] = np.random.default_rng(SEED).permutation(count).tolist()
    if wanted.choice == "balanced" and training.labels:
        seen = Counter[int]()
        turns: dict[int, int] = {}
        for index in drawn:
            turns[index] = seen[training.labels[index]]
            seen[training.labels[index]] += 1
        drawn.sort(key=lambda index: turns[index])
    return sorted(drawn[: wanted.images])


def build_engine(
    backend: Backend, source: EngineSource, precision: Precision, workspace: Workspace
) -> Path:
    """What `Backend.open` takes: the folder of the stored engine, built if there is none.

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
    """What an engine depends on; ``None`` where nothing is built."""
    if not isinstance(backend, Builder):
        return None
    own = backend.build_parts(precision)
    if own is None:
        return None
    checkpoint = source.checkpoint
    parts = {
        "model": checkpoint.key,
        "onnx": file_sha256(source.onnx),
        "shape": [3, checkpoint.height, checkpoint.width, checkpoint.classes],
        "backend": stage_identity(backend),
        "precision": precision,
        "code": code_version(ENGINE_LAYERS),
        **own,
    }
    if backend.on_cpu:  # it decides whether weights are quantised to 7 or to 8 bits
        parts["processor"] = vector_extensions()
    if source.calibration and backend.calibration(precision):
        parts["calibration"] = source.calibration.key
    return parts
