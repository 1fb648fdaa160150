"""An ONNX Runtime session whose provider and kernels were verified."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Logits


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
