"""OpenVINO on the CPU.

OpenVINO takes a precision as a hint, and a CPU without it silently computes in another one (fp16
becomes bf16 on a processor with AMX or AVX512-BF16). So the compiled model's own report and the
types of its executed layers are read after compiling, and a model in another precision is refused.
int8 is NNCF's post-training quantisation of the graph, or ONNX Runtime's, whose graph the backend
``simulated`` executes unfused; ``effective`` names the layers that stay in float32.
"""

from __future__ import annotations

from collections import Counter
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from alignkit.backends import BACKENDS, Backend, CalibrationSet, Choice
from alignkit.backends.onnx_graph import refusal
from alignkit.backends.session_outputs import as_outputs, in_pieces, wanted_names
from alignkit.errors import BackendError, MissingDependency
from alignkit.machine import processor_flags
from alignkit.plugins import Plugin
from alignkit.torch_settings import TORCH_EXTENSIONS, quiet

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Batch
    from alignkit.backends import Precision
    from alignkit.models.checkpoint import Checkpoint, EngineSource
    from alignkit.tasks import Outputs

NNCF = Plugin("", distributions=("nncf",), module="nncf", extra="nncf")
_HINTS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16", "int8": "f32"}
"""Precision → OpenVINO's hint. int8 is in the graph; its hint is for the floating-point layers."""
_INTEGERS = frozenset({"i8", "u8"})
_NEEDED_FLAGS = {
    "bf16": frozenset({"avx512_bf16", "amx_bf16"}),
    "fp16": frozenset({"avx512_fp16", "amx_fp16"}),
}
"""Precision → processor flags, of which OpenVINO needs one."""
_WEIGHTED = ("Convolution", "FullyConnected", "MatMul", "GroupConvolution")
"""Layers that multiply by weights: their types decide whether a precision is kept."""


@dataclass(frozen=True, slots=True)
class OpenVINOBackend(Backend):
    """OpenVINO's CPU plugin; no other device is ever tried."""

    needs_onnx: ClassVar[bool] = True
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "bf16", "fp16", "int8")
    own_path: ClassVar[str] = ""
    on_cpu: ClassVar[bool] = True
    calibration_images: Annotated[int, Field(ge=1, le=100_000)] = 300
    """Training images that give int8 its scales."""
    calibration_choice: Choice = "balanced"
    """Which images: ``balanced`` over the classes, ``random``, or the ``first``."""
    quantiser: Literal["nncf", "onnxruntime"] = "nncf"
    """The library that quantises the graph for int8."""

    def impossible(self, precision: Precision) -> str:
        if precision not in _HINTS:
            names = ", ".join(self.precisions)
            return f"{precision} is not a precision of OpenVINO's CPU plugin; {names} are"
        if precision == "int8" and (missing := self._quantiser.missing()):
            return missing
        required = _NEEDED_FLAGS.get(precision)
        # a system may hide its processor's flags: opening the model then decides
        if (flags := processor_flags()) and required and not flags & required:
            needed = " or ".join(sorted(required))
            return (
                f"OpenVINO computes {precision} on processors with {needed}; on this one it would "
                "compute in another precision"
            )
        return ""

    def open(
        self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision
    ) -> OpenVINOSession:
        """Compile the graph and verify what its layers compute in.

        Raises `BackendError` if the plugin cannot compile it, or chose another precision.
        """
        from alignkit.backends.onnx_quantisation import quantisation_facts
        from alignkit.models.checkpoint import read_calibration

        if reason := self.impossible(precision):
            raise MissingDependency(f"openvino {precision}: {reason}")
        if onnx is None:
            raise BackendError("openvino needs the exported ONNX file")
        if precision != "int8":
            return _compiled_session(onnx, checkpoint, precision)
        if self.quantiser == "onnxruntime":
            session = _compiled_session(onnx / "model.onnx", checkpoint, precision)
            session.observed.update(quantisation_facts(onnx))
        else:  # NNCF's graph runs in OpenVINO alone: no runtime executes the same one unfused
            session = _compiled_session(onnx / "model.xml", checkpoint, precision)
            session.observed["calibration"] = read_calibration(onnx)
        return session

    def build_parts(self, precision: Precision) -> dict[str, Any] | None:
        """Return the quantising library for int8; float graphs are opened as they are."""
        return {"quantiser": self._quantiser.version()} if precision == "int8" else None

    def calibration(self, precision: Precision) -> CalibrationSet | None:
        chosen = CalibrationSet(self.calibration_images, self.calibration_choice)
        return chosen if precision == "int8" else None

    def build(self, source: EngineSource, precision: Precision, folder: Path) -> None:  # noqa: ARG002 - int8 alone is built
        """Write ``model.xml`` and ``model.bin`` with NNCF's ``quantize``, at its defaults.

        With the quantiser ``onnxruntime`` the file is ``model.onnx``, as that backend makes it.
        Both use all calibration images. Raises `BackendError` if NNCF or OpenVINO cannot read or
        quantise the graph.
        """
        assert source.calibration is not None
        images = source.calibration.images()
        if self.quantiser == "onnxruntime":
            from alignkit.backends.onnx_quantisation import quantise_for_cpu

            quantise_for_cpu(source.onnx, images, folder / "model.onnx")
            return
        import nncf
        import openvino

        single = nncf.Dataset([image[None] for image in images])
        try:
            graph = openvino.Core().read_model(source.onnx)
            graph.reshape([-1, *images.shape[1:]])
            # nncf prints progress bars, and stdout is for data
            with quiet(TORCH_EXTENSIONS), redirect_stdout(StringIO()):
                made = nncf.quantize(graph, single, subset_size=len(images))
        except (RuntimeError, nncf.ValidationError) as error:
            raise BackendError(f"NNCF cannot quantise the graph: {refusal(error)}") from error
        # its default would round the layers that stay in float32 to float16
        openvino.save_model(made, folder / "model.xml", compress_to_fp16=False)

    @property
    def _quantiser(self) -> Plugin:
        return NNCF if self.quantiser == "nncf" else BACKENDS["onnxruntime"]

    def version(self) -> str:
        """Name the version and the device, as in ``openvino 2026.4.1-…, CPU``."""
        import openvino

        return f"openvino {openvino.__version__}, CPU"


def _compiled_session(file: Path, checkpoint: Checkpoint, precision: Precision) -> OpenVINOSession:
    """Compile the ONNX or OpenVINO file of a checkpoint, and verify its precision.

    Raises `BackendError` if the plugin cannot compile it, or chose another precision.
    """
    import openvino

    from alignkit.torch_settings import available_threads

    threads = available_threads()
    options = {
        "INFERENCE_PRECISION_HINT": _HINTS[precision],
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,  # more would divide the threads between requests
    }
    try:
        core = openvino.Core()
        graph = core.read_model(file)
        images = graph.input(0).get_partial_shape()[0]
        # an export for one image may compute with that number elsewhere too
        count = images.get_length() if images.is_static else -1
        graph.reshape([count, 3, checkpoint.height, checkpoint.width])
        compiled = core.compile_model(graph, "CPU", options)
    except RuntimeError as error:
        raise BackendError(f"OpenVINO cannot compile the graph: {refusal(error)}") from error
    layers = _executed_layers(compiled)
    chosen = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    _require(precision, chosen, layers)
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
    return OpenVINOSession(compiled, _ports(compiled, checkpoint), facts)


def _ports(compiled: Any, checkpoint: Checkpoint) -> list[Any]:
    """Find the checkpoint's outputs; raise `BackendError` if there is no such output."""
    if not checkpoint.outputs and len(compiled.outputs) == 1:
        return [*compiled.outputs]  # it may have no name
    ports = {name: port for port in compiled.outputs for name in port.get_names()}
    return [ports[name] for name in wanted_names(checkpoint.outputs, [*ports])]


def _shape(port: Any) -> tuple[int | None, ...] | None:
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return None
    return tuple(side.get_length() if side.is_static else None for side in shape)


def _executed_layers(compiled: Any) -> dict[str, Counter[str]]:
    """Count the layers with weights by the type they compute in, from the runtime's own graph."""
    layers: dict[str, Counter[str]] = {}
    for operator in compiled.get_runtime_model().get_ops():
        facts = operator.get_rt_info()
        if facts["layerType"].value in _WEIGHTED:
            kind = facts["runtimePrecision"].value
            layers.setdefault(kind, Counter())[facts["layerType"].value] += 1
    return layers


def _require(precision: Precision, chosen: str, layers: dict[str, Counter[str]]) -> None:
    """Raise `BackendError` unless the plugin and every layer with weights keep the precision."""
    wanted = _HINTS[precision]
    if chosen != wanted:
        raise BackendError(
            f"openvino {precision}: this CPU's plugin chose {chosen} in its place; ask for "
            "fp32 or bf16, or run where the CPU has the instructions"
        )
    if precision == "int8":
        if not layers.keys() & _INTEGERS:
            raise BackendError("openvino int8: no layer with weights computes in integers")
        layers = {kind: names for kind, names in layers.items() if kind not in _INTEGERS}
    if others := sorted(layers.keys() - {wanted}):
        raise BackendError(f"openvino {precision}: layers compute in {', '.join(others)}")


@dataclass(slots=True, eq=False)
class OpenVINOSession:
    """A model compiled by OpenVINO."""

    compiled: Any
    outputs: list[Any]
    """Ports of the wanted outputs."""
    observed: dict[str, str] = field(default_factory=dict)

    def predict(self, batch: Batch) -> Outputs:
        """Return the wanted outputs for (samples, 3, height, width) float32."""
        assert self.compiled is not None, "the session is closed"

        def run(part: Batch) -> Outputs:
            found = self.compiled(part)
            # the runtime reuses its buffers
            return as_outputs(found[each].copy() for each in self.outputs)

        images = self.compiled.input(0).get_partial_shape()[0]
        fixed = images.get_length() if images.is_static else None
        return in_pieces(batch, fixed, run, [_shape(each) for each in self.outputs])

    def effective(self) -> dict[str, str]:
        """Return the verified facts of the run."""
        return dict(self.observed)

    def close(self) -> None:
        """Free the runtime's memory."""
        self.compiled, self.outputs = None, []
