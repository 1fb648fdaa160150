"""PyTorch eager.

fp32 is IEEE float32, whatever torch's global settings are; tf32 is an arm of its own, on a GPU.
bf16 and fp16 convert weights and inputs (no autocast). Each precision is verified when a model is
opened: by the type that every layer returns, and for fp32 and tf32 by a probe of exact products.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from alignkit.errors import BackendError
from alignkit.numerics import missing_device

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    import torch
    from torch import nn

    from alignkit.arrays import Batch, Logits
    from alignkit.backends import Precision
    from alignkit.checkpoint import Checkpoint

NARROW = {"fp16": "float16", "bf16": "bfloat16"}


@dataclass(frozen=True, slots=True)
class TorchBackend:
    """The module as it was trained, without compilation."""

    needs_onnx: ClassVar[bool] = False
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "tf32", "fp16", "bf16")
    live: ClassVar[bool] = False
    own_path: ClassVar[str] = ""
    device: Literal["cpu", "cuda"] = "cpu"
    channels_last: bool = True
    """Memory format of weights and inputs; it decides which convolution kernels run."""
    ceil_mode: bool = False
    """Round the sizes that max-pooling gives up, not down, as some runtimes do: a noise of SysNoise
    (Wang et al., MLSys 2023). A model is trained without."""

    def impossible(self, precision: Precision) -> str:
        """Why the precision cannot run here; empty if it can."""
        if precision not in self.precisions:
            return f"{precision} is not a precision of torch; {', '.join(self.precisions)} are"
        if precision == "tf32" and self.device == "cpu":
            return "tf32 is the arithmetic of NVIDIA GPUs; a CPU has none"
        return missing_device(self.device)

    def open(self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision) -> TorchSession:  # noqa: ARG002 - it is for other backends
        """Load the weights and verify the precision; raises `BackendError` if it differs."""
        import torch

        from alignkit.backends.torch_pools import round_pools_up
        from alignkit.numerics import available_threads, require_device
        from alignkit.train.models import load_model

        device = require_device(self.device)
        if reason := self.impossible(precision):
            raise BackendError(f"torch {precision}: {reason}")
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        model = load_model(checkpoint)
        pools = round_pools_up(model, checkpoint) if self.ceil_mode else ""
        model = model.to(device, getattr(torch, NARROW.get(precision, "float32")))
        model = model.to(memory_format=layout)  # type: ignore[call-overload]
        session = TorchSession(model, device, layout, precision, available_threads())
        session.verify(checkpoint.height, checkpoint.width)
        if pools:
            session.observed["max-pooling"] = pools
        return session

    def version(self) -> str:
        """``torch 2.12.1+cu130, AVX512``: with the CPU kernels' instructions, or the GPU's name."""
        import torch

        if self.device == "cuda" and torch.cuda.is_available():
            return f"torch {torch.__version__}, {torch.cuda.get_device_name()}"
        return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"


@dataclass(slots=True, eq=False)
class TorchSession:
    """A module on its device."""

    model: nn.Module
    device: torch.device
    layout: torch.memory_format
    precision: Precision
    threads: int
    observed: dict[str, str] = field(default_factory=dict)

    def predict(self, batch: Batch) -> Logits:
        """(samples, 3, height, width) float32 → (samples, classes) float32."""
        import torch

        with self._arithmetic(), torch.inference_mode():
            images = torch.from_numpy(batch).to(
                self.device, getattr(torch, NARROW.get(self.precision, "float32"))
            )
            logits = self.model(images.contiguous(memory_format=self.layout))
            widened: Logits = logits.to("cpu", torch.float32).numpy()
        return widened

    def verify(self, height: int, width: int) -> None:
        """Run one image; raises `BackendError` unless the precision is what was asked for."""
        import numpy as np

        from alignkit.numerics import observed_float32, recorded_dtypes

        wanted = NARROW.get(self.precision, "float32")
        with recorded_dtypes(self.model) as seen:
            self.predict(np.zeros((1, 3, height, width), np.float32))
        if seen != {wanted}:
            raise BackendError(f"torch {self.precision}: layers return {', '.join(sorted(seen))}")
        self.observed["device"] = str(self.device)
        self.observed["layers return"] = f"{wanted}, verified"
        if wanted == "float32":
            with self._arithmetic():
                products = observed_float32(self.device)
            if products != self._products:
                raise BackendError(f"torch {self.precision}: products are computed in {products}")
            self.observed["float32 products"] = f"{products}, verified"
        self.observed["layout"] = str(self.layout).removeprefix("torch.")
        self.observed["threads"] = str(self.threads)

    @property
    def _products(self) -> Literal["ieee", "tf32"]:
        return "tf32" if self.precision == "tf32" else "ieee"

    def effective(self) -> dict[str, str]:
        """What really ran."""
        return {"precision": self.precision, **self.observed}

    def close(self) -> None:
        """Free the weights."""
        del self.model

    def _arithmetic(self) -> AbstractContextManager[None]:
        from alignkit.numerics import reproducible

        return reproducible(self.device, self.threads, self._products)
