"""Starting ONNX Runtime sessions: on one provider or not at all."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignkit.backends.onnx_graph import byte_products, products
from alignkit.backends.onnxruntime.kernels import Kernels, kernels_in
from alignkit.backends.refusal import refusal
from alignkit.errors import BackendError, MissingDependency
from alignkit.torch_settings import named_arithmetic

OPEN = """
import sys, onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
level = getattr(onnxruntime.GraphOptimizationLevel, sys.argv[2])
options.graph_optimization_level = level
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""


@dataclass(frozen=True, slots=True)
class Start:
    """How a session is to run."""

    provider: str
    options: dict[str, str]
    """The provider's."""
    level: str
    """Name of an ``onnxruntime.GraphOptimizationLevel``."""
    threads: int

    def session(self, graph: bytes, profile: Path | None = None) -> Any:
        """An ``InferenceSession`` on the provider alone, profiled if a file is given.

        Raises `MissingDependency` if the provider does not start, `BackendError` if the runtime
        cannot load the graph.
        """
        import onnxruntime

        if self.provider != "CPUExecutionProvider":
            onnxruntime.preload_dlls()  # CUDA and cuDNN, from the nvidia-* wheels that torch brings
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, self.level)
        options.log_severity_level = 3  # it warns of its own optimisations by default
        if profile:
            options.enable_profiling = True
            options.log_severity_level = 4  # of a graph it refuses it would log: no profile either
            options.profile_file_prefix = str(profile)
        providers = [(self.provider, self.options)]
        try:
            session = onnxruntime.InferenceSession(graph, options, providers, enable_fallback=0)
        except Exception as error:
            told = f"{self.provider} cannot load the graph: {refusal(error)}"
            raise BackendError(told) from error
        if session.get_providers()[0] != self.provider:
            raise MissingDependency(
                f"{self.provider} did not start, and ONNX Runtime would compute on the CPU; "
                "check that the CUDA, cuDNN and TensorRT libraries that onnxruntime "
                f"{onnxruntime.__version__} was built for are installed"
            )
        return session

    def profiled_session(self, graph: bytes, size: tuple[int, int]) -> tuple[Any, Kernels]:
        """A session, and the kernels that one black image of (height, width) ran through."""
        import numpy as np

        with tempfile.TemporaryDirectory() as folder:
            session = self.session(graph, Path(folder) / "kernels")
            session.run(None, {session.get_inputs()[0].name: np.zeros((1, 3, *size), np.float32)})
            events = json.loads(Path(session.end_profiling()).read_text())
        return session, kernels_in(events)

    def arithmetic(self) -> str:
        """``ieee``, ``tf32`` or ``bf16``: what float32 products and convolutions compute in."""
        import numpy as np

        session = self.session(products())
        names = [each.name for each in session.get_inputs()]

        def survives(value: float) -> bool:
            image = np.full((1, 64, 32, 32), value, np.float32)
            fed = {"image": image, "matrix": image[0].reshape(64, 1024).T.copy()}
            return all(
                (out == value).all() for out in session.run(None, {k: fed[k] for k in names})
            )

        return named_arithmetic(survives)


def kernels_saturate() -> bool:
    """Whether the CPU provider's uint8 × int8 kernels cut sums of two products to 16 bits.

    Those for x86 without VNNI do (``vpmaddubsw``). The kernels are asked, not the processor's
    flags: a flag cannot be read on every system, an emulator or a hypervisor may show another
    processor's, and another version of the runtime may choose by others.
    """
    import numpy as np

    session = Start("CPUExecutionProvider", {}, "ORT_ENABLE_ALL", 1).session(byte_products())
    product = session.run(None, {"bytes": np.full((4, 64), 255, np.uint8)})[0]
    return bool((product != 64 * 255 * 127).any())


def require_no_crash(graph: bytes, level: str) -> None:
    """Open the graph in another process first; raises `BackendError` if that process dies.

    ONNX Runtime 1.31 ends in a segmentation fault while it optimises some float16 graphs (vision
    transformers) for the CPU, which would take the whole run with it.
    """
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(graph)
        file.flush()
        tried = subprocess.run(  # noqa: S603 - our own interpreter and script
            [sys.executable, "-c", OPEN, file.name, level], check=False, capture_output=True
        )
    if tried.returncode < 0:
        raise BackendError(
            f"ONNX Runtime crashes ({signal.Signals(-tried.returncode).name}) while it optimises "
            "this model in fp16 for the CPU; set 'optimisation: basic' for this backend"
        )
