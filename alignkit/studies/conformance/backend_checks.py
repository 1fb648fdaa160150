"""Checks of the contract in `alignkit.backends`, with a small model of untrained weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from alignkit.arrays import Batch, Logits
from alignkit.backends import Backend, Precision, Session
from alignkit.engines import build_engine
from alignkit.engines.export import export_onnx
from alignkit.models.checkpoint import Calibration, Checkpoint, EngineSource
from alignkit.studies.conformance import Check, NotApplicable, require
from alignkit.workspace import Workspace

TOLERANCE: dict[Precision, float] = {
    "fp32": 1e-5, "tf32": 1e-2, "fp16": 5e-3, "bf16": 5e-2, "int8": 0.15
}  # fmt: skip
"""Share of the largest logit by which torch in fp32 may differ; measured on a trained small-cnn:
6e-7, 7e-4, 1e-3, 1e-2 and 9e-2."""
_SIDE, _CLASSES, _IMAGES = 32, 10, 24


@dataclass(frozen=True)
class SmallModel:
    """One model with all that a backend opens, in a folder."""

    folder: Path

    @cached_property
    def batch(self) -> Batch:
        """Return (24, 3, 32, 32) float32: waves of several lengths, normalised."""
        down, across = np.mgrid[:_SIDE, :_SIDE] / _SIDE
        waves = [
            np.sin(6.3 * ((image % 5) * down + (channel + 1) * across) + image)
            for image in range(_IMAGES)
            for channel in range(3)
        ]
        return np.array(waves, np.float32).reshape(_IMAGES, 3, _SIDE, _SIDE)

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The weights, of a fixed seed."""
        import torch

        from alignkit.models.architectures import build_model

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build_model("small-cnn", _CLASSES, _SIDE, _SIDE)
        file = self.folder / "weights.pt"
        torch.save(model.state_dict(), file)
        return Checkpoint("small-cnn", _CLASSES, _SIDE, _SIDE, file, "conformance")

    @cached_property
    def onnx(self) -> Path:
        """The exported graph."""
        return export_onnx(self.checkpoint, Workspace(self.folder), self.batch)

    def open(self, backend: Backend, precision: Precision) -> Session:
        """Build what the backend builds, and open it."""
        calibration = Calibration("conformance", lambda: self.batch, f"{_IMAGES} images")
        source = EngineSource(self.checkpoint, self.onnx, calibration)
        engine = build_engine(backend, source, precision, Workspace(self.folder))
        return backend.open(self.checkpoint, engine, precision)

    def predict(self, backend: Backend, precision: Precision) -> Logits:
        """Return (24, 10) float32."""
        with closing(self.open(backend, precision)) as session:
            return session.predict(self.batch)[0]


def checks(backend: Backend) -> Iterator[Check]:
    """Yield every check of a backend, in each of its precisions."""
    if backend.live or backend.own_path:
        yield Check("agrees with torch", _served)
        return
    with TemporaryDirectory(prefix="alignkit-conformance-") as folder:
        model = SmallModel(Path(folder))
        for precision in backend.precisions:
            if reason := backend.impossible(precision):
                yield Check(f"{precision}: runs here", partial(_skipped, reason))
                continue
            yield Check(f"{precision}: keeps the contract of sessions",
                        partial(session_contract, model, backend, precision))  # fmt: skip
            yield Check(f"{precision}: agrees with torch in fp32",
                        partial(agreement, model, backend, precision))  # fmt: skip
            yield Check(f"{precision}: gives the same bits in another session",
                        partial(same_bits, model, backend, precision))  # fmt: skip


def session_contract(model: Any, backend: Backend, precision: Precision) -> str:
    """Check one session: shape, dtype, repeats, a batch of one, and what it says it ran.

    ``model`` has ``batch`` and ``open`` as `SmallModel`.
    """
    before = model.batch.copy()
    with closing(model.open(backend, precision)) as session:
        outputs = session.predict(model.batch)
        require(isinstance(outputs, tuple) and len(outputs) == 1, f"{len(outputs)} outputs, not 1")
        (logits,) = outputs
        require(logits.dtype == np.float32, f"logits of {logits.dtype}, expected float32")
        expected = (len(model.batch), model.checkpoint.classes)
        require(logits.shape == expected, f"logits of shape {logits.shape}, expected {expected}")
        require(logits.flags.c_contiguous, "logits are not C-contiguous")
        require(np.array_equal(model.batch, before), "predict() writes to its input")
        (again,) = session.predict(model.batch)
        require(np.array_equal(again, logits), "a second call gives other bits")
        one = session.predict(model.batch[:1])[0].shape
        require(one == (1, expected[1]), f"a batch of one gives shape {one}")
        effective = session.effective()
        ran = effective.get("precision")
        require(ran == precision, f"effective() says precision {ran!r}, expected {precision!r}")
        texts = all(isinstance(value, str) and value for value in effective.values())
        require(texts, f"effective() holds what is no text: {effective}")
    return f"{len(model.batch)} images, {', '.join(f'{k} {v}' for k, v in effective.items())}"


def agreement(model: Any, backend: Backend, precision: Precision) -> str:
    """Check the distance from torch's logits in fp32."""
    from alignkit.backends.torch import TorchBackend

    reference = model.predict(TorchBackend(), "fp32")
    largest = float(np.abs(reference).max())
    apart = float(np.abs(model.predict(backend, precision) - reference).max()) / largest
    allowed = TOLERANCE[precision]
    said = f"at most {apart:.1e} of the largest logit away"
    require(apart <= allowed, f"{said}, expected {allowed:g} or less")
    # equal bits would be torch's fp32 under another name
    require(precision == "fp32" or apart > 0, f"{precision} gives the very bits of fp32")
    return f"{said}; {allowed:g} is allowed"


def same_bits(model: Any, backend: Backend, precision: Precision) -> str:
    """Check that two sessions agree in every bit."""
    first, again = (model.predict(backend, precision) for _ in range(2))
    apart = float(np.abs(first - again).max())
    require(np.array_equal(first, again), f"two sessions differ by up to {apart:.2g}")
    return "equal"


def _skipped(reason: str) -> str:
    raise NotApplicable(reason)


def _served() -> str:
    raise NotApplicable("it serves a model of its own, or preprocesses by itself")
