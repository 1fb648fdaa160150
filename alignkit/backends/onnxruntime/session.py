"""An ONNX Runtime session whose provider and kernels were verified."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from alignkit.backends.onnxruntime.provider import PROVIDERS
from alignkit.errors import BackendError

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Logits
    from alignkit.backends import Precision
    from alignkit.backends.onnxruntime.start import Start


def verified_session(
    start: Start, graph: bytes, size: tuple[int, int], precision: Precision
) -> ONNXRuntimeSession:
    """Load a graph, run one image of (height, width) and verify who computed it and in what.

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
        """(samples, 3, height, width) float32 → (samples, classes) float32."""
        assert self.session is not None, "the session is closed"
        logits: Logits = self.session.run(None, {self.session.get_inputs()[0].name: batch})[0]
        return logits

    def effective(self) -> dict[str, str]:
        """What really ran."""
        return dict(self.observed)

    def close(self) -> None:
        """Free the runtime's memory."""
        self.session = None
