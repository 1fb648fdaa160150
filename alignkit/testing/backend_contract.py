"""The contract in `alignkit.backends` as tests, with a small model of untrained weights."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest

from alignkit.arrays import Batch, Logits
from alignkit.backends import BACKENDS, Backend, Precision, Session
from alignkit.testing.image_contracts import PluginContract

if TYPE_CHECKING:
    from alignkit.models.checkpoint import Checkpoint

TOLERANCE: dict[Precision, float] = {
    "fp32": 1e-5, "tf32": 1e-2, "fp16": 5e-3, "bf16": 5e-2, "int8": 0.15
}  # fmt: skip
"""Share of the largest logit by which torch in fp32 may differ; measured on a trained small-cnn:
6e-7, 7e-4, 1e-3, 1e-2 and 9e-2."""


class BackendContract(PluginContract):
    """Tests of a backend, in each precision that runs here."""

    plugin: Backend
    table = BACKENDS

    def test_keeps_the_contract_in_each_precision(self) -> None:
        backend = self.plugin
        if backend.live or backend.own_path:
            pytest.skip("it serves a model of its own, or preprocesses by itself")
        possible = [each for each in backend.precisions if not backend.impossible(each)]
        if not possible:
            pytest.skip(backend.impossible(backend.precisions[0]))
        for precision in possible:
            check_session(small_model(), backend, precision)
            check_agreement(small_model(), backend, precision)


@dataclass(frozen=True)
class OpenableModel:
    """A model with all that a backend opens, and images for it."""

    checkpoint: Checkpoint
    onnx: Path
    batch: Batch
    """Images to predict."""
    seen: Batch
    """Images to calibrate by."""
    folder: Path
    """Of the engines that are built."""

    def file(self, backend: Backend, precision: Precision) -> Path | None:
        """Return what a backend opens: the export, or an engine that is built once."""
        from alignkit.engines import build_engine
        from alignkit.models.checkpoint import Calibration, EngineSource
        from alignkit.workspace import Workspace

        calibration = Calibration("seen", lambda: self.seen, f"{len(self.seen)} images")
        source = EngineSource(self.checkpoint, self.onnx, calibration)
        return build_engine(backend, source, precision, Workspace(self.folder))

    def open(self, backend: Backend, precision: Precision) -> Session:
        """Open a session of a backend."""
        return backend.open(self.checkpoint, self.file(backend, precision), precision)

    def predict(self, backend: Backend, precision: Precision, batch: Batch | None = None) -> Logits:
        """Return (images, classes) float32 of a batch, by default of its own."""
        with closing(self.open(backend, precision)) as session:
            return session.predict(self.batch if batch is None else batch)[0]


@cache
def small_model() -> OpenableModel:
    """Make a model of 10 classes with weights of a fixed seed, and 24 images of noise."""
    import torch

    from alignkit.engines.export import export_onnx
    from alignkit.models.architectures import build_model
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.workspace import Workspace

    root = Path(_folder().name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model("small-cnn", 10, 32, 32)
    torch.save(model.state_dict(), root / "weights.pt")
    checkpoint = Checkpoint("small-cnn", 10, 32, 32, root / "weights.pt", "contract")
    batch = np.random.default_rng(0).normal(size=(24, 3, 32, 32)).astype(np.float32)
    return OpenableModel(
        checkpoint, export_onnx(checkpoint, Workspace(root), batch), batch, batch, root
    )


_folder = cache(lambda: TemporaryDirectory(prefix="alignkit-contract-"))


def check_session(model: OpenableModel, backend: Backend, precision: Precision) -> None:
    """Check two sessions: types, repeats, a batch of one, and the precision that ran."""
    before, expected = model.batch.copy(), (len(model.batch), model.checkpoint.classes)
    with closing(model.open(backend, precision)) as session:
        outputs = session.predict(model.batch)
        assert isinstance(outputs, tuple)
        (logits,) = outputs
        assert (logits.dtype.name, logits.shape) == ("float32", expected)
        assert logits.flags.c_contiguous
        assert np.array_equal(model.batch, before), "predict() writes to its input"
        assert np.array_equal(session.predict(model.batch)[0], logits), "a second call differs"
        assert session.predict(model.batch[:1])[0].shape == (1, expected[1])
        effective = session.effective()
        assert effective["precision"] == precision
        assert all(isinstance(value, str) and value for value in effective.values()), effective
    assert np.array_equal(model.predict(backend, precision), logits), "a second session differs"


def check_agreement(model: OpenableModel, backend: Backend, precision: Precision) -> None:
    """Check the distance of a model's logits from those of torch in fp32."""
    from alignkit.backends.torch import TorchBackend

    reference = model.predict(TorchBackend(), "fp32")
    apart = np.abs(model.predict(backend, precision) - reference).max() / np.abs(reference).max()
    assert apart <= TOLERANCE[precision], precision
    # equal bits would be torch's fp32 under another name
    assert precision == "fp32" or apart > 0, precision
