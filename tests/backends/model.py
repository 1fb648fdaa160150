"""One tiny trained model, its ONNX file and held-out images, for every backend's tests."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from alignkit.engines.export import export_onnx
from alignkit.testing.backend_contract import OpenableModel
from alignkit.workspace import Workspace
from tests.training_case import digits_case

FOLDER = tempfile.TemporaryDirectory(prefix="alignkit-tests-")


@dataclass(frozen=True)
class TrainedModel(OpenableModel):
    """Images of ``batch``, (90, 3, 32, 32), are not among those it was trained on, ``seen``."""

    labels: np.ndarray


@cache
def trained_model() -> TrainedModel:
    """Trained once a test run."""
    case, held_out = digits_case(count=400).with_recipe(epochs=8), digits_case(first=900, count=90)
    root = Path(FOLDER.name)
    checkpoint = case.train(root)
    batch = held_out.prepared.batch(held_out.indices, held_out.training.preprocess.normalise)
    onnx = export_onnx(checkpoint, Workspace(root), batch[:16])
    seen = case.prepared.batch(case.indices[:100], case.training.preprocess.normalise)
    return TrainedModel(checkpoint, onnx, batch, seen, root, np.array(held_out.samples.labels))
