"""One tiny trained model, its ONNX file and held-out images, for every backend's tests."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from alignkit.engines import build_engine
from alignkit.engines.export import export_onnx
from alignkit.models.checkpoint import Calibration, Checkpoint, EngineSource
from alignkit.workspace import Workspace
from tests.training_case import digits_case

FOLDER = tempfile.TemporaryDirectory(prefix="alignkit-tests-")


@dataclass(frozen=True)
class TrainedModel:
    checkpoint: Checkpoint
    onnx: Path
    batch: np.ndarray
    """(90, 3, 32, 32), never trained on."""
    labels: np.ndarray
    seen: np.ndarray
    """(100, 3, 32, 32), of the images it was trained on."""

    def open(self, backend, precision):
        return backend.open(self.checkpoint, self.file(backend, precision), precision)

    def file(self, backend, precision) -> Path:
        """What it opens: the export, or for int8 the engine, built once a test run."""
        source = EngineSource(
            self.checkpoint, self.onnx, Calibration("seen", lambda: self.seen, "100")
        )
        return build_engine(backend, source, precision, Workspace(Path(FOLDER.name)))

    def predict(self, backend, precision, batch=None) -> np.ndarray:
        session = self.open(backend, precision)
        try:
            return session.predict(self.batch if batch is None else batch)[0]
        finally:
            session.close()


@cache
def trained_model() -> TrainedModel:
    """Trained once a test run."""
    case, held_out = digits_case(count=400).with_recipe(epochs=8), digits_case(first=900, count=90)
    root = Path(FOLDER.name)
    checkpoint = case.train(root)
    batch = held_out.prepared.batch(held_out.indices, held_out.training.preprocess.normalise)
    onnx = export_onnx(checkpoint, Workspace(root), batch[:16])
    seen = case.prepared.batch(case.indices[:100], case.training.preprocess.normalise)
    return TrainedModel(checkpoint, onnx, batch, np.array(held_out.samples.labels), seen)
