"""A TensorRT engine whose precision was verified. **Not yet run on hardware.**"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.backends.tensorrt.engine import Engine
from alignkit.backends.tensorrt.layers import facts_of, layers_by_type, require
from alignkit.errors import BackendError
from alignkit.plugins import UNPROVEN
from alignkit.torch_settings import named_arithmetic

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Logits
    from alignkit.backends import Precision


def open_engine(
    folder: Path, precision: Precision, batch: tuple[int, int, int], classes: int
) -> TensorRTSession:
    """Load ``model.engine`` and verify it with the inspector and ``products.engine``."""
    import tensorrt

    engine = Engine.read(folder / "model.engine")
    inspector = engine.engine.create_engine_inspector()
    inspector.execution_context = engine.context
    layers = layers_by_type(inspector.get_engine_information(tensorrt.LayerInformationFormat.JSON))
    require(precision, layers)
    arithmetic = _arithmetic(Engine.read(folder / "products.engine"))
    if precision != "fp16" and arithmetic != ("tf32" if precision == "tf32" else "ieee"):
        raise BackendError(f"tensorrt {precision}: products are computed in {arithmetic}")
    observed = {
        "precision": precision,
        "adapter": UNPROVEN,
        "tensorrt": tensorrt.__version__,
        "float32 products": f"{arithmetic}, verified",
        **facts_of(layers),
        "batch profile": " to ".join(str(batch[index]) for index in (0, 2)),
    }
    return TensorRTSession(engine, batch, classes, observed)


@dataclass(slots=True, eq=False)
class TensorRTSession:
    """An engine that was verified."""

    engine: Engine | None
    batch: tuple[int, int, int]
    classes: int
    observed: dict[str, str] = field(default_factory=dict)

    def predict(self, batch: Batch) -> Logits:
        """(samples, 3, height, width) float32 → (samples, classes) float32.

        Raises `BackendError` for a batch outside the engine's profile.
        """
        import tensorrt
        import torch

        assert self.engine is not None, "the session is closed"
        smallest, _, greatest = self.batch
        if not smallest <= len(batch) <= greatest:
            raise BackendError(
                f"the engine takes {smallest} to {greatest} images at once, not {len(batch)}; set "
                f"this backend's batch, or evaluate.batch_size to at most {greatest}"
            )
        (name,) = self.engine.names(tensorrt.TensorIOMode.INPUT)
        logits: Logits = self.engine.run({name: torch.from_numpy(batch).cuda()})[0].cpu().numpy()
        return logits

    def effective(self) -> dict[str, str]:
        """What really ran."""
        return dict(self.observed)

    def close(self) -> None:
        """Free the engine's memory."""
        self.engine = None


def _arithmetic(engine: Engine) -> str:
    """What the engine of `alignkit.backends.onnx_graph.products` computes in."""
    import torch

    def survives(value: float) -> bool:
        image = torch.full((1, 64, 32, 32), value, device="cuda")
        matrix = image[0].reshape(64, 1024).T.contiguous()
        outputs = engine.run({"image": image, "matrix": matrix})
        return all(bool((output == value).all()) for output in outputs)

    return named_arithmetic(survives)
