"""The contract in `alignkit.backends` as tests, with a small model of untrained weights."""

from __future__ import annotations

from contextlib import closing
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import SkipTest

import numpy as np

from alignkit.arrays import Batch, Logits
from alignkit.backends import BACKENDS, Backend, Precision, Session
from alignkit.testing.image_contracts import PluginContract

TOLERANCE: dict[Precision, float] = {
    "fp32": 1e-5, "tf32": 1e-2, "fp16": 5e-3, "bf16": 5e-2, "int8": 0.15
}  # fmt: skip
"""Share of the largest logit by which torch in fp32 may differ; measured on a trained small-cnn:
6e-7, 7e-4, 1e-3, 1e-2 and 9e-2."""
_SIDE, _CLASSES, _IMAGES = 32, 10, 24


class BackendContract(PluginContract):
    """Tests of a backend, in each precision that runs here."""

    plugin: Backend
    table = BACKENDS

    def test_keeps_the_contract_in_each_precision(self) -> None:
        backend = self.plugin
        if backend.live or backend.own_path:
            raise SkipTest("it serves a model of its own, or preprocesses by itself")
        found = [each for each in backend.precisions if not backend.impossible(each)]
        if not found:
            raise SkipTest(backend.impossible(backend.precisions[0]))
        for precision in found:
            check_session(_model(), backend, precision)
            check_agreement(_model(), backend, precision)
            first, again = (_model().predict(backend, precision) for _ in range(2))
            same, apart = np.array_equal(first, again), np.abs(first - again).max()
            assert same, f"{precision}: two sessions differ by up to {apart:.2g}"


class SmallModel:
    """One model with all that a backend opens, in a folder."""

    def __init__(self) -> None:
        """Make the folder, and images: waves of several lengths, normalised."""
        self._folder = TemporaryDirectory(prefix="alignkit-contract-")
        down, across = np.mgrid[:_SIDE, :_SIDE] / _SIDE
        waves = [
            np.sin(6.3 * ((image % 5) * down + (channel + 1) * across) + image)
            for image in range(_IMAGES)
            for channel in range(3)
        ]
        self.batch: Batch = np.array(waves, np.float32).reshape(_IMAGES, 3, _SIDE, _SIDE)

    @cached_property
    def checkpoint(self) -> Any:
        """The weights, of a fixed seed."""
        import torch

        from alignkit.models.architectures import build_model
        from alignkit.models.checkpoint import Checkpoint

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build_model("small-cnn", _CLASSES, _SIDE, _SIDE)
        file = Path(self._folder.name, "weights.pt")
        torch.save(model.state_dict(), file)
        return Checkpoint("small-cnn", _CLASSES, _SIDE, _SIDE, file, "contract")

    def open(self, backend: Backend, precision: Precision) -> Session:
        """Build what the backend builds, and open it."""
        from alignkit.engines import build_engine
        from alignkit.engines.export import export_onnx
        from alignkit.models.checkpoint import Calibration, EngineSource
        from alignkit.workspace import Workspace

        workspace = Workspace(Path(self._folder.name))
        onnx = export_onnx(self.checkpoint, workspace, self.batch)
        calibration = Calibration("contract", lambda: self.batch, f"{_IMAGES} images")
        source = EngineSource(self.checkpoint, onnx, calibration)
        engine = build_engine(backend, source, precision, workspace)
        return backend.open(self.checkpoint, engine, precision)

    def predict(self, backend: Backend, precision: Precision) -> Logits:
        """Return (24, 10) float32."""
        with closing(self.open(backend, precision)) as session:
            return session.predict(self.batch)[0]


_model = cache(SmallModel)


def check_session(model: Any, backend: Backend, precision: Precision) -> None:
    """Check one session of a ``model`` with ``batch``, ``checkpoint`` and ``open``."""
    before = model.batch.copy()
    with closing(model.open(backend, precision)) as session:
        outputs = session.predict(model.batch)
        fits = isinstance(outputs, tuple) and len(outputs) == 1
        assert fits, f"predict() gives {type(outputs).__name__}, expected a tuple of one output"
        (logits,), expected = outputs, (len(model.batch), model.checkpoint.classes)
        fits = logits.dtype == np.float32 and logits.shape == expected
        assert fits, f"logits are {logits.dtype} {logits.shape}, expected float32 {expected}"
        assert logits.flags.c_contiguous, "logits are not C-contiguous"
        assert np.array_equal(model.batch, before), "predict() writes to its input"
        (again,) = session.predict(model.batch)
        assert np.array_equal(again, logits), "a second call gives other bits"
        one = session.predict(model.batch[:1])[0].shape
        assert one == (1, expected[1]), f"a batch of one gives shape {one}"
        effective = session.effective()
        ran = effective.get("precision")
        assert ran == precision, f"effective() says precision {ran!r}, expected {precision!r}"
        texts = all(isinstance(value, str) and value for value in effective.values())
        assert texts, f"effective() holds what is no text: {effective}"


def check_agreement(model: Any, backend: Backend, precision: Precision) -> None:
    """Check the distance of a ``model``'s logits from those of torch in fp32."""
    from alignkit.backends.torch import TorchBackend

    reference = model.predict(TorchBackend(), "fp32")
    largest = np.abs(reference).max()
    apart = float(np.abs(model.predict(backend, precision) - reference).max() / largest)
    allowed = TOLERANCE[precision]
    said = f"{precision}: at most {apart:.1e} of the largest logit away"
    assert apart <= allowed, f"{said}, expected {allowed:g} or less"
    # equal bits would be torch's fp32 under another name
    assert precision == "fp32" or apart > 0, f"{precision} gives the very bits of fp32"
