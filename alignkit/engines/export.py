"""Export of a checkpoint to ONNX, once for all backends, checked against torch on real images.

The exporter is torch's TorchScript-based one (``dynamo=False``): it needs no further library and
gives every torchvision model that was tried a free batch axis. The newer one needs onnxscript.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError
from alignkit.models.joined_graph import graph_in
from alignkit.plugins import Plugin
from alignkit.stored_file import write_atomically
from alignkit.version import ENGINE_LAYERS, code_version
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import Batch
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.tasks import Outputs

    Output = npt.NDArray[np.float32]

OPSET = 17
_TOLERANCE = 1e-3
"""Share of the largest logit; float32 sums in another order differ by about 1e-6 of it."""
_ALONE = 0.01
"""Share of objects that may lie so near a threshold that one side alone finds them."""


def export_onnx(
    checkpoint: Checkpoint, workspace: Workspace, check_batch: Batch, *, folded: bool = True
) -> Path:
    """Return the ONNX file of a checkpoint, with input ``images``.

    ``folded`` puts batch normalisation into the convolutions, as engines do and eager torch does
    not; without it, each module is nodes of its own.

    Its outputs have the names of `Checkpoint.outputs`; the only one is called ``logits``. Objects
    of varying number are exported for one image at a time, (1, objects, …). ``check_batch`` holds
    some real, normalised images. Raises `BackendError` if the module cannot be exported, or ONNX
    Runtime's outputs for them differ from torch's by more than 1e-3 of the largest.
    """

    def export(folder: Path) -> None:
        graph = graph_in(folder)
        _write_graph(checkpoint, graph, folded=folded)
        found = _check(checkpoint, graph, check_batch)
        write_atomically(folder / "check.json", json.dumps(found, indent=1, allow_nan=False))

    label = f"export {checkpoint.model}"
    parts = export_parts(checkpoint) | ({} if folded else {"folded": False})
    return workspace.keep("exports", parts, label, export, graph_in)


def export_parts(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what the file depends on, for its key."""
    return {
        "checkpoint": checkpoint.key,
        "model": checkpoint.model,
        "shape": [3, checkpoint.height, checkpoint.width, checkpoint.classes],
        **({"outputs": list(checkpoint.outputs)} if checkpoint.outputs else {}),
        **exporter_parts(),
        "code": code_version(ENGINE_LAYERS),
    }


def exporter_parts() -> dict[str, Any]:
    """Return the versions of the exporter's libraries, without importing them."""
    libraries = [Plugin(target="", distributions=(each,)).version() for each in ("torch", "onnx")]
    return {"libraries": libraries, "opset": OPSET}


def _write_graph(checkpoint: Checkpoint, graph: Path, *, folded: bool) -> None:
    import torch

    from alignkit.models.architectures import load_model
    from alignkit.models.module_outputs import wanted_module

    mode: dict[str, Any] = {}
    # the mode of an exported program is fixed, and the exporter would change it
    if checkpoint.format == "exported" or not folded:
        mode = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    names = list(checkpoint.outputs) or ["logits"]
    model = load_model(checkpoint)
    size = (checkpoint.height, checkpoint.width)
    model, by_image = wanted_module(model, size, checkpoint.outputs)
    free = {1: "objects"} if by_image else {0: "samples"}
    # two images: with one, the tracer could fold the batch axis into a constant
    example = torch.zeros(1 if by_image else 2, 3, *size)
    with _quiet_exporter():
        torch.onnx.export(
            model,
            (example,),
            graph,
            dynamo=False,
            **mode,
            opset_version=OPSET,
            input_names=["images"],
            output_names=names,
            dynamic_axes={**({} if by_image else {"images": free}), **dict.fromkeys(names, free)},
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
        # torchvision's detectors make tensors of tensors while they are traced
        warnings.filterwarnings("ignore", message="To copy construct from a tensor")
        warnings.filterwarnings("ignore", message="no signature found for <torch.ScriptMethod")
        yield


def _check(checkpoint: Checkpoint, graph: Path, batch: Batch) -> dict[str, Any]:
    """Compare ONNX Runtime, unoptimised, with torch, both in float32 on the CPU."""
    from alignkit.backends.onnxruntime import ONNXRuntimeBackend
    from alignkit.backends.torch import TorchBackend

    def outputs_of(backend: Any) -> Outputs:
        session = backend.open(checkpoint, graph, "fp32")
        try:
            outputs: Outputs = session.predict(batch)
        finally:
            session.close()
        return outputs

    expected = outputs_of(TorchBackend())
    # unoptimised, so that a difference is the export's and not a fused kernel's
    exported = outputs_of(ONNXRuntimeBackend(optimisation="disabled"))
    names, facts = checkpoint.outputs, {"images": len(batch)}
    if len({each.shape[:2] for each in expected}) == 1 < len(names):
        return {**facts, **checked_objects(expected, exported, checkpoint.model)}
    if not names:
        return {**facts, **checked_output("", expected[0], exported[0], checkpoint.model)}
    found = {
        name: checked_output(name, mine, other, checkpoint.model)
        for name, mine, other in zip(names, expected, exported, strict=True)
    }
    return {**facts, "outputs": found}


def checked_output(name: str, expected: Output, exported: Output, model: str) -> dict[str, float]:
    """Return the distance of an output of an export from torch's.

    Raise `BackendError` if it is above 1e-3 of the greatest value, or the shape is another one.
    """
    import numpy as np

    of, value = (f", output {name!r},", "value") if name else ("", "logit")
    if expected.shape != exported.shape:
        raise BackendError(
            f"the ONNX export of {model}{of} gives {exported.shape} where torch gives "
            f"{expected.shape}; this model cannot be compared in ONNX runtimes"
        )
    largest = float(np.abs(expected).max(initial=0.0))
    difference = float(np.abs(exported - expected).max(initial=0.0))
    if not difference <= _TOLERANCE * largest:  # written so that NaN raises too
        raise BackendError(
            f"the ONNX export of {model}{of} differs from torch by {difference:g} where "
            f"the largest {value} is {largest:g} (allowed: {_TOLERANCE:g} of it), on "
            f"{len(expected)} images; this model cannot be compared in ONNX runtimes"
        )
    return {
        "max_abs": difference,
        f"largest_{value}": largest,
        "relative": difference / largest if largest else 0.0,
    }


def checked_objects(expected: Outputs, exported: Outputs, model: str) -> dict[str, int]:
    """Count objects, (images, objects, …) in each output, and those of them without a counterpart.

    A counterpart differs from it in no value by more than 1e-3 of the output's greatest. Objects of
    nearly equal scores may change places, and one beside a threshold may be lost: raise
    `BackendError` if more than 1 % of the objects on either side have no counterpart.
    """
    import numpy as np

    scales = [max(float(np.nanmax(np.abs(each), initial=0.0)), 1e-30) for each in expected]
    objects = alone = 0
    for image in range(len(expected[0])):
        mine, theirs = (_rows([each[image] for each in side], scales)
                        for side in (expected, exported))  # fmt: skip
        apart = np.abs(mine[:, None] - theirs[None]).max(axis=2, initial=0.0)
        alike = apart <= _TOLERANCE
        objects += len(mine) + len(theirs)
        alone += int((~alike.any(axis=1)).sum() + (~alike.any(axis=0)).sum())
    if alone > _ALONE * objects:
        raise BackendError(
            f"the ONNX export of {model} finds other objects than torch: {alone} of the {objects} "
            f"of both have no counterpart (allowed: {_ALONE:.0%}), on {len(expected[0])} images; "
            "this model cannot be compared in ONNX runtimes"
        )
    return {"objects": objects, "without_counterpart": alone}


def _rows(outputs: Sequence[Output], scales: Sequence[float]) -> Output:
    """Join the values of each object, (objects, values), as shares of the outputs' greatest."""
    import numpy as np

    pairs = zip(outputs, scales, strict=True)
    rows = np.concatenate([each.reshape(len(each), -1) / scale for each, scale in pairs], axis=1)
    kept: Output = rows[~np.isnan(rows).all(axis=1)]
    return kept
