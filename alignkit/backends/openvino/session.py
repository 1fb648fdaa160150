"""A graph quantised by NNCF, and one compiled by OpenVINO's CPU plugin and verified."""

from __future__ import annotations

from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any

from alignkit.backends.openvino.precision import HINTS, executed_layers, require
from alignkit.backends.refusal import refusal
from alignkit.errors import BackendError
from alignkit.plugins import Plugin
from alignkit.torch_settings import TORCH_EXTENSIONS, quiet

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Batch, Logits
    from alignkit.backends import Precision

NNCF = Plugin("", distributions=("nncf",), module="nncf", extra="nncf")


def quantise(onnx: Path, images: Batch, folder: Path) -> None:
    """Write ``model.xml`` and ``model.bin``: NNCF's ``quantize`` with its defaults but the images.

    ``images`` are (n, 3, height, width) float32, normalised. Raises `BackendError` if NNCF or
    OpenVINO cannot read or quantise the graph.
    """
    import nncf
    import openvino

    single = nncf.Dataset([image[None] for image in images])
    try:
        graph = openvino.Core().read_model(onnx)
        graph.reshape([-1, *images.shape[1:]])
        # nncf prints progress bars, and stdout is for data
        with quiet(TORCH_EXTENSIONS), redirect_stdout(StringIO()):
            made = nncf.quantize(graph, single, subset_size=len(images))
    except (RuntimeError, nncf.ValidationError) as error:
        raise BackendError(f"NNCF cannot quantise the graph: {refusal(error)}") from error
    openvino.save_model(made, folder / "model.xml", compress_to_fp16=False)


def compiled_session(file: Path, size: tuple[int, int], precision: Precision) -> OpenVINOSession:
    """Compile an ONNX file or OpenVINO's own for images of (height, width) and verify it.

    Raises `BackendError` if the plugin cannot compile it, or chose another precision.
    """
    import openvino

    from alignkit.torch_settings import available_threads

    threads = available_threads()
    wanted = {
        "INFERENCE_PRECISION_HINT": HINTS[precision],
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
    }
    try:
        core = openvino.Core()
        graph = core.read_model(file)
        graph.reshape([-1, 3, *size])
        compiled = core.compile_model(graph, "CPU", wanted)
    except RuntimeError as error:
        raise BackendError(f"OpenVINO cannot compile the graph: {refusal(error)}") from error
    layers = executed_layers(compiled)
    chosen = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    require(precision, chosen, layers)
    facts = {
        "precision": precision,
        "device": ", ".join(compiled.get_property("EXECUTION_DEVICES")),
        "inference precision": f"{chosen}, verified",
        **{
            f"{kind} layers": ", ".join(f"{n} {name}" for name, n in sorted(names.items()))
            for kind, names in sorted(layers.items())
        },
        "threads": str(threads),
    }
    return OpenVINOSession(compiled, facts)


@dataclass(slots=True, eq=False)
class OpenVINOSession:
    """A compiled model."""

    compiled: Any
    observed: dict[str, str] = field(default_factory=dict)

    def predict(self, batch: Batch) -> Logits:
        """(samples, 3, height, width) float32 → (samples, classes) float32."""
        assert self.compiled is not None, "the session is closed"
        logits: Logits = self.compiled(batch)[0].copy()  # the runtime reuses its buffer
        return logits

    def effective(self) -> dict[str, str]:
        """What really ran."""
        return dict(self.observed)

    def close(self) -> None:
        """Free the runtime's memory."""
        self.compiled = None
