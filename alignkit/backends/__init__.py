"""Backends: a trained model in a runtime → `Logits`.

The contract every backend keeps, and the conformance tests check:

- ``impossible(precision)`` says, without loading anything heavy, why a precision cannot run on
  this machine; empty if it can. The plan shows it as Skipped;
- ``open`` gives a `Session` that runs in exactly that precision or raises; it never falls back to
  another precision, provider or device;
- a session receives the same ``float32`` `Batch` as every other backend's and returns ``float32``
  `Logits`, whatever it computes in;
- a backend that preprocesses by itself (an endpoint, an engine with a decoder in front) names its
  ``own_path`` instead, and its session receives `EncodedFiles`;
- what generates kernels for a model is part of its cells' keys: such a backend is a `Compiler`;
- a backend that converts or compiles a model first is a `Builder`. For int8 it is handed training
  images of the path the model was trained with, never evaluation images;
- ``effective`` says what really ran: provider, precision, TF32, inserted casts, calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from alignkit.plugins import Plugin

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Logits
    from alignkit.models.checkpoint import Checkpoint, EngineSource
    from alignkit.preprocess import Normalise

Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8", "served"]
"""``served``: what an endpoint computes in, which nobody can choose or verify from outside."""
Choice = Literal["balanced", "random", "first"]
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, slots=True)
class CalibrationSet:
    """Which training images an int8 engine takes its scales from."""

    images: int
    """How many; all, if there are fewer."""
    choice: Choice = "balanced"
    """As many of every class, drawn from all, or the first ones."""


@dataclass(frozen=True, slots=True)
class EncodedFiles:
    """Images for a session that decodes and preprocesses by itself."""

    files: Sequence[bytes]
    normalise: Normalise
    """The one the model was trained with, for a session that does not know it."""

    def __len__(self) -> int:
        return len(self.files)


class Session(Protocol):
    """A model loaded in a runtime, ready to predict."""

    def predict(self, inputs: Any, /) -> Logits:
        """Return (images, classes) float32.

        ``inputs`` is an `alignkit.arrays.Batch`, (images, 3, height, width) float32, or
        `EncodedFiles` where the backend has its ``own_path``.
        """
        ...

    def effective(self) -> dict[str, str]:
        """What really ran, e.g. ``{"provider": "CPUExecutionProvider", "precision": "fp16"}``.

        ``warning``: why its logits hold on this machine alone; absent if nothing says so.
        """
        ...

    def close(self) -> None:
        """Free the runtime's memory."""
        ...


class Backend(Protocol):
    """A frozen dataclass; its fields are its options."""

    needs_onnx: ClassVar[bool]
    """Whether ``open`` wants the exported ONNX file besides the checkpoint."""
    precisions: ClassVar[tuple[Precision, ...]]
    """Those it has where the machine does; the first is meant where none is named."""
    live: ClassVar[bool]
    """Whether it may answer otherwise tomorrow: its cells are measured in every run anew."""

    @property
    def own_path(self) -> str:
        """Name of the preprocessing that it does itself; empty if it receives batches."""
        ...

    @property
    def on_cpu(self) -> bool:
        """Whether this machine's processor computes: its vector extensions decide the logits."""
        ...

    def impossible(self, precision: Precision) -> str:
        """Why the precision cannot run here; empty if it can."""
        ...

    def open(self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision) -> Session:
        """Load the model. Raises if the precision cannot be had exactly.

        ``onnx`` is the exported file; where a `Builder` built an engine, the folder it filled.
        """
        ...

    def version(self) -> str:
        """The runtime and its version, as it really runs."""
        ...


@runtime_checkable
class Builder(Protocol):
    """A backend that converts or compiles a model before it opens it.

    `alignkit.engines.build.build_engine` keeps what it builds under a content hash, and asks again
    with
    nothing kept where the experiment says ``builds: k``. Such a backend has ``needs_onnx = True``.
    """

    def build_parts(self, precision: Precision) -> dict[str, Any] | None:
        """What an engine depends on besides model, shapes, precision and the backend's options.

        Plain JSON: the version of the library that builds, and the device with its driver where the
        engine is tied to one. ``None`` where this precision builds nothing: ``open`` is then given
        the ONNX file itself.
        """
        ...

    def calibration(self, precision: Precision) -> CalibrationSet | None:
        """Which images `build` finds in ``source.calibration``; ``None`` if it needs none.

        They are part of the engine's hash and of the cell's key.
        """
        ...

    def build(self, source: EngineSource, precision: Precision, folder: Path) -> None:
        """Fill the empty ``folder`` with the engine; raises `BackendError` if it cannot be built.

        Nothing may be read from an earlier build, so that two builds are independent.
        """
        ...


@runtime_checkable
class Compiler(Protocol):
    """A backend whose kernels are generated when it opens a model."""

    def compiler(self) -> str:
        """What generates them, with its version; empty where these options generate none."""
        ...


@runtime_checkable
class Endpoint(Protocol):
    """A backend whose model lies elsewhere already: it is asked about that model's row alone."""

    unnamed: ClassVar[frozenset[str]]
    """Options that its column need not name: where it is, and how patiently it is asked."""
    serves: str
    """The row, or the name of the given model; empty where there is one only."""


BACKENDS = {
    "torch": Plugin(
        "alignkit.backends.torch:TorchBackend",
        distributions=("torch",),
        module="torch",
        summary="PyTorch, eager or compiled; fp32 (TF32 off), tf32, bf16, fp16",
    ),
    "onnxruntime": Plugin(
        "alignkit.backends.onnxruntime:ONNXRuntimeBackend",
        distributions=("onnxruntime-gpu", "onnxruntime"),
        module="onnxruntime",
        summary="ONNX Runtime; CPU, CUDA or TensorRT provider; fp32, tf32, fp16, int8",
    ),
    "openvino": Plugin(
        "alignkit.backends.openvino:OpenVINOBackend",
        distributions=("openvino",),
        module="openvino",
        extra="openvino",
        summary="OpenVINO on the CPU; fp32, bf16, fp16, int8, each verified",
    ),
    "kserve": Plugin(
        "alignkit.backends.kserve:KServeBackend",
        distributions=("tritonclient",),
        module="tritonclient",
        extra="kserve",
        summary="a live endpoint, by the Open Inference Protocol v2 over HTTP or gRPC",
    ),
    "torchpipe": Plugin(
        "alignkit.backends.torchpipe:TorchpipeBackend",
        distributions=("torchpipe",),
        module="torchpipe",
        gpu=True,
        unproven=True,
        summary="torchpipe's TensorrtTensor behind its own decoder; is sent files",
    ),
    "tensorrt": Plugin(
        "alignkit.backends.tensorrt:TensorRTBackend",
        distributions=("tensorrt", "tensorrt-cu13", "tensorrt-cu12"),
        module="tensorrt",
        extra="tensorrt",
        gpu=True,
        unproven=True,
        summary="TensorRT 10 or 11 engines, strongly typed; fp32, tf32, fp16",
    ),
}
