"""Plugins that run a model in a runtime: sessions, graphs, kernels, int8; images → `Outputs`.

Every backend keeps this contract, which `alignkit.testing` checks:

- ``impossible(precision)`` says, without loading anything heavy, why a precision cannot run on
  this machine; empty if it can. The plan shows the reason as Skipped;
- ``open`` returns a `Session` that runs in exactly that precision, or raises; it never falls back
  to another precision, provider or device;
- a session receives the same ``float32`` `Batch` as those of the other backends and returns the
  outputs that the checkpoint names as ``float32``, whatever type it computes in;
- a backend that does its own preprocessing (an endpoint, an engine with a decoder in front) names
  it as ``own_path``, and its session receives `EncodedFiles`;
- a backend that generates kernels for a model is a `Compiler`: the compiler is part of the keys of
  its cells;
- a backend that converts or compiles a model first is a `Builder`. For int8 it receives training
  images, preprocessed as the model was trained, and never evaluation images;
- a builder that knows the layers of its engines is an `EngineBuilder`; it may build where it
  cannot run;
- ``emulated(precision)`` says, without loading anything heavy, which instructions this processor
  lacks for a precision that runs all the same, and how much slower it was measured to be, on which
  processor; empty if nothing is known to be lacking;
- a backend whose numbers are a simulation says so by ``simulation``, and by its name: no surface
  shows them as those of a runtime;
- ``effective`` reports what ran: provider, precision, TF32, inserted casts, calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from alignkit.plugins import Plugin, PluginTable

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.models.checkpoint import Checkpoint, EngineSource
    from alignkit.preprocess.normalise import Normalise
    from alignkit.record import EngineFacts
    from alignkit.tasks import Outputs

Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8", "served"]
"""``served``: the precision of an endpoint, which a client can neither choose nor verify."""
Choice = Literal["balanced", "random", "first"]
Device = Literal["cpu", "cuda"]
QUANTISED_GRAPH = "quantised graph"
"""Key of `Session.effective`: sessions with the same value execute the same int8 graph."""


@dataclass(frozen=True, slots=True)
class CalibrationSet:
    """Choice of the training images that give an int8 engine its scales."""

    images: int
    """Number of images; all, if there are fewer."""
    choice: Choice = "balanced"
    """Equally many of every class, a draw from all, or the first ones."""


@dataclass(frozen=True, slots=True)
class EncodedFiles:
    """Images for a session that decodes and preprocesses them itself."""

    files: Sequence[bytes]
    normalise: Normalise
    """Normalisation that the model was trained with, for a session that does not know it."""

    def __len__(self) -> int:
        return len(self.files)


class Session(Protocol):
    """A model loaded in a runtime, ready to predict."""

    def predict(self, inputs: Any, /) -> Outputs:
        """Return the wanted outputs, (images, …) float32 each, in the order of the checkpoint's.

        ``inputs`` is an `alignkit.arrays.Batch`, (images, 3, height, width) float32, or
        `EncodedFiles` where the backend has its ``own_path``.
        """
        ...

    def effective(self) -> dict[str, str]:
        """Return what ran, e.g. ``{"provider": "CPUExecutionProvider", "precision": "fp16"}``.

        The key ``warning``, if present, says why the logits hold on this machine only.
        """
        ...

    def close(self) -> None:
        """Free the runtime's memory."""
        ...


class Backend(Protocol):
    """A runtime with its options: a frozen dataclass whose fields are the options."""

    needs_onnx: ClassVar[bool]
    """Whether ``open`` needs the exported ONNX file besides the checkpoint."""
    precisions: ClassVar[tuple[Precision, ...]]
    """Precisions it supports on a suitable machine; the first is the default."""
    # An endpoint's answers may change overnight, and no client sees whose weights it serves.
    live: ClassVar[bool] = False
    """Whether its answers may change between runs: its cells are then measured in every run."""
    any_size: ClassVar[bool] = False
    """Whether one session predicts batches of several sizes, if the model can."""

    @property
    def own_path(self) -> str:
        """Name of the preprocessing that it does itself; empty if it receives batches."""
        ...

    @property
    def on_cpu(self) -> bool:
        """Whether this machine's processor computes: its vector extensions decide the logits."""
        ...

    @property
    def folds_batch_norm(self) -> bool:
        """Whether the graph exported for it has batch normalisation inside the convolutions."""
        return True

    def simulation(self, precision: Precision) -> str:  # noqa: ARG002 - nearly no backend simulates
        """Return how it simulates a precision, and what is unknown of it; empty if it computes it.

        Every surface that shows its numbers shows this label.
        """
        return ""

    def impossible(self, precision: Precision) -> str:
        """Return why the precision cannot run here; empty if it can."""
        ...

    def emulated(self, precision: Precision) -> str:  # noqa: ARG002 - nearly no backend emulates
        """Say what this processor lacks for a precision, and the cost; empty if none is known."""
        return ""

    def open(self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision) -> Session:
        """Load the model; raise if exactly this precision is not available.

        ``onnx`` is the exported file, or the folder that a `Builder` filled with an engine.
        """
        ...

    def version(self) -> str:
        """Name the runtime and the version that runs."""
        ...


@runtime_checkable
class Builder(Protocol):
    """A backend that converts or compiles a model before it opens it.

    `alignkit.engines.build_engine` stores its engines under a content hash, and builds again
    in an empty workspace where the experiment says ``builds: k``. It has ``needs_onnx = True``.
    """

    def build_parts(self, precision: Precision) -> dict[str, Any] | None:
        """Return what an engine depends on besides model, shapes, precision and options.

        Plain JSON: the version of the library that builds, and the device with its driver where the
        engine is tied to one. ``None`` if this precision builds nothing: ``open`` then receives the
        ONNX file itself.
        """
        ...

    def calibration(self, precision: Precision) -> CalibrationSet | None:
        """Say which images `build` needs in ``source.calibration``; ``None`` if it needs none.

        They are part of the engine's hash and of the cell's key.
        """
        ...

    def build(self, source: EngineSource, precision: Precision, folder: Path) -> None:
        """Write the engine to the empty ``folder``; raise `BackendError` if it cannot be built.

        It may read nothing of an earlier build, so that two builds are independent.
        """
        ...


@runtime_checkable
class EngineBuilder(Builder, Protocol):
    """A `Builder` that knows its engines' layers, and may build on a machine that cannot run them.

    Where ``impossible`` gives a reason and ``cannot_build`` none, a cell is *built, not run*.
    """

    def cannot_build(self, precision: Precision) -> str:
        """Return why an engine cannot be built here; empty if it can."""
        ...

    def described(self, engine: Path) -> EngineFacts:
        """Describe the engine in a folder that `build` filled."""
        ...


@runtime_checkable
class Compiler(Protocol):
    """A backend whose kernels are generated when it opens a model."""

    def compiler(self) -> str:
        """Name the compiler with its version; empty if these options generate no kernels."""
        ...


@runtime_checkable
class RemoteBackend(Protocol):
    """A backend whose endpoint already holds a model; only that model's row has cells on it."""

    unnamed: ClassVar[frozenset[str]]
    """Options that the column's name leaves out: the address, time-outs and retries."""
    serves: str
    """The row, or the name of the user's model; empty if there is only one."""


NOT_COMPARED = "not compared with hardware"
"""Part of every simulation's label."""

BACKENDS = PluginTable(
    "backends",
    {
        "torch": Plugin(
            "alignkit.backends.torch:TorchBackend",
            distributions=("torch",),
            module="torch",
            extra="train",
            summary="PyTorch, eager or compiled; TF32 is off in fp32",
        ),
        "onnxruntime": Plugin(
            "alignkit.backends.onnxruntime:ONNXRuntimeBackend",
            distributions=("onnxruntime-gpu", "onnxruntime"),
            module="onnxruntime",
            extra="onnx",
            summary="ONNX Runtime; CPU, CUDA or TensorRT provider",
            needs=("onnx",),
        ),
        "openvino": Plugin(
            "alignkit.backends.openvino:OpenVINOBackend",
            distributions=("openvino",),
            module="openvino",
            extra="openvino",
            summary="OpenVINO on the CPU; each precision is verified",
            needs=("onnx", "onnxruntime"),
        ),
        "kserve": Plugin(
            "alignkit.backends.kserve:KServeBackend",
            distributions=("tritonclient",),
            module="tritonclient",
            extra="kserve",
            summary="a live endpoint, by the Open Inference Protocol v2 over HTTP or gRPC",
        ),
        "http-json": Plugin(
            "alignkit.backends.http_json:HTTPJSONBackend",
            distributions=("aiohttp",),
            module="aiohttp",
            extra="http-json",
            summary="a live endpoint that takes images in JSON of its own form, over HTTP",
        ),
        "torchpipe": Plugin(
            "alignkit.backends.torchpipe:TorchpipeBackend",
            distributions=("torchpipe",),
            module="torchpipe",
            extra="torchpipe",
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
            summary="TensorRT 10 or 11 engines, strongly typed",
            needs=("onnx", "onnxruntime", "torch"),
        ),
        "tensorrt-rtx": Plugin(
            "alignkit.backends.tensorrt:TensorRTRTXBackend",
            distributions=("tensorrt-rtx-cu13",),
            module="tensorrt_rtx_bindings",
            extra="tensorrt-rtx",
            unproven=True,
            summary="TensorRT-RTX engines, built without a GPU",
            needs=("onnx", "onnxruntime", "torch"),
        ),
        "simulated": Plugin(
            "alignkit.backends.simulated:SimulatedBackend",
            distributions=("onnxruntime-gpu", "onnxruntime"),
            module="onnxruntime",
            extra="onnx",
            summary="the arithmetic of other processors, simulated on the CPU",
            needs=("onnx",),
        ),
    },
)
