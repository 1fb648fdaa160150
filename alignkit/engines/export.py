"""Export of a checkpoint to ONNX, once for all backends, checked against torch on real images.

The exporter is torch's TorchScript-based one (``dynamo=False``): it needs no further library and
gives every torchvision model that was tried a free batch axis. The newer one needs onnxscript.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError
from alignkit.models.user_model import graph_in
from alignkit.plugins import Plugin
from alignkit.stored_file import write_atomically
from alignkit.version import ENGINE_LAYERS, code_version
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Logits
    from alignkit.models.checkpoint import Checkpoint

OPSET = 17
_TOLERANCE = 1e-3
"""Share of the largest logit; float32 sums in another order differ by about 1e-6 of it."""


def export_onnx(checkpoint: Checkpoint, workspace: Workspace, check_batch: Batch) -> Path:
    """Return the ONNX file of a checkpoint, with input ``images`` and output ``logits``.

    ``check_batch`` holds some real, normalised images. Raises `BackendError` if ONNX Runtime's
    logits for them differ from torch's by more than 1e-3 of the largest.
    """

    def export(folder: Path) -> None:
        graph = graph_in(folder)
        _write_graph(checkpoint, graph)
        found = _check(checkpoint, graph, check_batch)
        write_atomically(folder / "check.json", json.dumps(found, indent=1, allow_nan=False))

    label = f"export {checkpoint.model}"
    return workspace.keep("exports", export_parts(checkpoint), label, export, graph_in)


def export_parts(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what the file depends on, for its key."""
    return {
        "checkpoint": checkpoint.key,
        "model": checkpoint.model,
        "shape": [3, checkpoint.height, checkpoint.width, checkpoint.classes],
        **exporter_parts(),
        "code": code_version(ENGINE_LAYERS),
    }


def exporter_parts() -> dict[str, Any]:
    """Return the versions of the exporter's libraries, without importing them."""
    libraries = [Plugin(target="", distributions=(each,)).version() for each in ("torch", "onnx")]
    return {"libraries": libraries, "opset": OPSET}


def _write_graph(checkpoint: Checkpoint, graph: Path) -> None:
    import torch

    from alignkit.models.architectures import load_model

    mode: dict[str, Any] = {}
    if checkpoint.format == "exported":  # its mode is fixed, and the exporter would change it
        mode = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    # two images: with one, the tracer could fold the batch axis into a constant
    example = torch.zeros(2, 3, checkpoint.height, checkpoint.width)
    with _quiet_exporter():
        torch.onnx.export(
            load_model(checkpoint),
            (example,),
            graph,
            dynamo=False,
            **mode,
            opset_version=OPSET,
            input_names=["images"],
            output_names=["logits"],
            dynamic_axes={"images": {0: "samples"}, "logits": {0: "samples"}},
        )


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Silence the exporter's warnings about itself.

    Two say that it is deprecated. Its tracer warns about each Python branch on a shape; the check
    on images of another batch size would find such a fault.
    """
    import torch

    jit: Any = torch.jit
    with warnings.catch_warnings():
        for message in ("You are using the legacy TorchScript", "The feature will be removed"):
            warnings.filterwarnings("ignore", message=message, category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=jit.TracerWarning)
        warnings.filterwarnings("ignore", message="no signature found for <torch.ScriptMethod")
        yield


def _check(checkpoint: Checkpoint, graph: Path, batch: Batch) -> dict[str, Any]:
    """Compare ONNX Runtime, unoptimised, with torch, both in float32 on the CPU."""
    import numpy as np

    from alignkit.backends.onnxruntime import ONNXRuntimeBackend
    from alignkit.backends.torch import TorchBackend

    def logits_of(backend: Any) -> Logits:
        session = backend.open(checkpoint, graph, "fp32")
        try:
            logits: Logits = session.predict(batch)
        finally:
            session.close()
        return logits

    expected = logits_of(TorchBackend())
    # unoptimised, so that a difference is the export's and not a fused kernel's
    exported = logits_of(ONNXRuntimeBackend(optimisation="disabled"))
    largest = float(np.abs(expected).max())
    difference = float(np.abs(exported - expected).max())
    if not difference <= _TOLERANCE * largest:  # written so that NaN raises too
        raise BackendError(
            f"the ONNX export of {checkpoint.model} differs from torch by {difference:g} where "
            f"the largest logit is {largest:g} (allowed: {_TOLERANCE:g} of it), on {len(batch)} "
            "images; this model cannot be compared in ONNX runtimes"
        )
    return {
        "images": len(batch),
        "max_abs": difference,
        "largest_logit": largest,
        "relative": difference / largest if largest else 0.0,
    }
