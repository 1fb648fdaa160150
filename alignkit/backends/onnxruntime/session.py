"""ONNX Runtime sessions on one verified provider, with verified kernels."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.backends.onnx_graph import byte_products, products, refusal
from alignkit.backends.onnxruntime.kernels import Kernels, kernels_in
from alignkit.backends.onnxruntime.provider import PROVIDERS
from alignkit.errors import BackendError, MissingDependency
from alignkit.torch_settings import named_arithmetic

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Logits
    from alignkit.backends import Precision

_OPEN_SCRIPT = """
import sys, onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
level = getattr(onnxruntime.GraphOptimizationLevel, sys.argv[2])
options.graph_optimization_level = level
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""


@dataclass(frozen=True, slots=True)
class Start:
    """Settings of a session: provider, optimisation and threads."""

    provider: str
    options: dict[str, str]
    """Options of the provider."""
    level: str
    """Name of an ``onnxruntime.GraphOptimizationLevel``."""
    threads: int

    def session(self, graph: bytes, profile: Path | None = None) -> Any:
        """Open an ``InferenceSession`` on this provider only, profiled if a file is given.

        Raises `MissingDependency` if the provider does not start, `BackendError` if the runtime
        cannot load the graph.
        """
        import onnxruntime

        if self.provider != "CPUExecutionProvider":
            onnxruntime.preload_dlls()  # CUDA and cuDNN, from the nvidia-* wheels that torch brings
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, self.level)
        options.log_severity_level = 3  # by default it warns about its own optimisations
        if profile:
            options.enable_profiling = True
            options.log_severity_level = 4  # or it logs a missing profile for a graph it refuses
            options.profile_file_prefix = str(profile)
        providers = [(self.provider, self.options)]
        try:
            session = onnxruntime.InferenceSession(graph, options, providers, enable_fallback=0)
        except Exception as error:
            message = f"{self.provider} cannot load the graph: {refusal(error)}"
            raise BackendError(message) from error
        if session.get_providers()[0] != self.provider:
            raise MissingDependency(
                f"{self.provider} did not start, and ONNX Runtime would compute on the CPU; "
                "check that the CUDA, cuDNN and TensorRT libraries that onnxruntime "
                f"{onnxruntime.__version__} was built for are installed"
            )
        return session

    def profiled_session(self, graph: bytes, size: tuple[int, int]) -> tuple[Any, Kernels]:
        """Open a session, and read the kernels that one black image of (height, width) used."""
        import numpy as np

        with tempfile.TemporaryDirectory() as folder:
            session = self.session(graph, Path(folder) / "kernels")
            session.run(None, {session.get_inputs()[0].name: np.zeros((1, 3, *size), np.float32)})
            events = json.loads(Path(session.end_profiling()).read_text())
        return session, kernels_in(events)

    def arithmetic(self) -> str:
        """Measure the arithmetic of float32 products and convolutions: ieee, tf32 or bf16."""
        import numpy as np

        session = self.session(products())

        def survives(value: float) -> bool:
            image = np.full((1, 64, 32, 32), value, np.float32)
            inputs = {"image": image, "matrix": image[0].reshape(64, 1024).T.copy()}
            return all((output == value).all() for output in session.run(None, inputs))

        return named_arithmetic(survives)


def kernels_saturate() -> bool:
    """Return whether the CPU provider's uint8 × int8 kernels cut sums of two products to 16 bits.

    The kernels for x86 without VNNI do (``vpmaddubsw``). The function runs a kernel and does not
    read the processor's flags: not every system shows them, an emulator or a hypervisor may show
    another processor's, and another version of the runtime may choose its kernels by other flags.
    """
    import numpy as np

    session = Start("CPUExecutionProvider", {}, "ORT_ENABLE_ALL", 1).session(byte_products())
    product = session.run(None, {"bytes": np.full((4, 64), 255, np.uint8)})[0]
    return bool((product != 64 * 255 * 127).any())


def require_no_crash(graph: bytes, level: str) -> None:
    """Open the graph in another process; raise `BackendError` if that process dies.

    ONNX Runtime 1.31 dies of a segmentation fault while it optimises some float16 graphs (vision
    transformers) for the CPU, which would end the whole run.
    """
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(graph)
        file.flush()
        trial = subprocess.run(  # noqa: S603 - our own interpreter and script
            [sys.executable, "-c", _OPEN_SCRIPT, file.name, level], check=False, capture_output=True
        )
    if trial.returncode < 0:
        raise BackendError(
            f"ONNX Runtime crashes ({signal.Signals(-trial.returncode).name}) while it optimises "
            "this model in fp16 for the CPU; set 'optimisation: basic' for this backend"
        )


def verified_session(
    start: Start, graph: bytes, size: tuple[int, int], precision: Precision
) -> ONNXRuntimeSession:
    """Load a graph, run one image of (height, width), and verify the provider and the types.

    Raises `MissingDependency` if the provider does not start, `BackendError` if the runtime cannot
    run the graph, or runs it elsewhere or otherwise.
    """
    arithmetic = start.arithmetic()
    if arithmetic != ("tf32" if precision == "tf32" else "ieee"):
        fix = "; set NVIDIA_TF32_OVERRIDE=0" if start.provider == PROVIDERS["tensorrt"] else ""
        raise BackendError(f"onnxruntime {precision}: products are computed in {arithmetic}{fix}")
    session, kernels = start.profiled_session(graph, size)
    kernels.require(start.provider, precision)
    observed = {
        "precision": precision,
        "provider": start.provider,
        "float32 products": f"{arithmetic}, verified",
        **kernels.facts(precision),
        "threads": str(start.threads),
    }
    return ONNXRuntimeSession(session, observed)


@dataclass(slots=True, eq=False)
class ONNXRuntimeSession:
    """A graph loaded in one provider."""

    session: Any
    observed: dict[str, str] = field(default_factory=dict)

    def predict(self, batch: Batch) -> Logits:
        """Return (samples, classes) float32 for (samples, 3, height, width) float32."""
        assert self.session is not None, "the session is closed"
        logits: Logits = self.session.run(None, {self.session.get_inputs()[0].name: batch})[0]
        return logits

    def effective(self) -> dict[str, str]:
        """Return the verified facts of the run."""
        return dict(self.observed)

    def close(self) -> None:
        """Free the runtime's memory."""
        self.session = None
