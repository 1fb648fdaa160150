"""Sessions of ONNX Runtime on one verified provider, with the kernels that they ran.

The kernels are read from the runtime's own profile of one image.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.backends.onnx_graph import byte_products, products, refusal
from alignkit.backends.onnxruntime import PROVIDERS
from alignkit.backends.session_outputs import as_outputs, in_pieces, wanted_names
from alignkit.errors import BackendError, MissingDependency
from alignkit.models.graph_bounds import bounded_run, trial
from alignkit.torch_settings import named_arithmetic

if TYPE_CHECKING:
    from alignkit.arrays import Batch
    from alignkit.backends import Precision
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.tasks import Outputs

_TYPES = {
    "float": "float32", "float16": "float16", "bfloat16": "bfloat16", "double": "float64",
    "int8": "int8", "uint8": "int8",
}  # fmt: skip
"""Type in the profile → type in the report; a node that has none of these only computes shapes."""
COMPUTED = "_kernel_time"
"""End of a profile's event of a node's computation; before it comes the node's name."""
_NARROWEST = ("int8", "bfloat16", "float16", "float32", "float64")
_MOVES = frozenset({"Cast", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that bring an input of bytes to the first float32 kernel, and compute nothing."""
_CONVERSIONS = frozenset({"Cast", "QuantizeLinear", "DequantizeLinear", "Transpose", "Reshape"})
"""Operators that multiply nothing: an int8 graph with no other in int8 is int8 in name only."""


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
        session, nodes = self.profiled_nodes(graph, size)
        return session, kernels_in(nodes)

    def profiled_nodes(
        self, graph: bytes, size: tuple[int, int]
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Open a session, and return the profile of every node that one black image ran."""
        with tempfile.TemporaryDirectory() as folder:
            session = self.session(graph, Path(folder) / "kernels")
            (given, *_) = session.get_inputs()
            try:
                session.run(None, {given.name: np.zeros((1, 3, *size), np.float32)})
            except Exception as error:  # a graph of the user's own raises what it likes
                raise BackendError(
                    f"{self.provider} cannot run the graph on an image of 1x3x{size[0]}x{size[1]}: "
                    f"{refusal(error)}; where the file leaves the sides of its input open and has "
                    "the channels last, declare them as ?xHxWx3"
                ) from error
            events = json.loads(Path(session.end_profiling()).read_text())
        return session, nodes_in(events)

    def arithmetic(self) -> str:
        """Measure the arithmetic of float32 products and convolutions: ieee, tf32 or bf16."""
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
    session = Start("CPUExecutionProvider", {}, "ORT_ENABLE_ALL", 1).session(byte_products())
    product = session.run(None, {"bytes": np.full((4, 64), 255, np.uint8)})[0]
    return bool((product != 64 * 255 * 127).any())


def require_no_crash(graph: bytes, level: str) -> None:
    """Raise `BackendError` if ONNX Runtime dies while it optimises a graph."""
    if died := trial(graph, level):
        raise BackendError(
            f"ONNX Runtime {died}, while it optimises this model in fp16 for the CPU; set "
            "'optimisation: basic' for this backend"
        )


def verified_session(
    start: Start, graph: bytes, checkpoint: Checkpoint, precision: Precision
) -> ONNXRuntimeSession:
    """Load the checkpoint's graph, run one image, and verify the provider and the types.

    Raises `MissingDependency` if the provider does not start, `BackendError` if the runtime cannot
    run the graph, or runs it elsewhere or otherwise.
    """
    arithmetic = start.arithmetic()
    if arithmetic != ("tf32" if precision == "tf32" else "ieee"):
        fix = "; set NVIDIA_TF32_OVERRIDE=0" if start.provider == PROVIDERS["tensorrt"] else ""
        raise BackendError(f"onnxruntime {precision}: products are computed in {arithmetic}{fix}")
    size = (checkpoint.height, checkpoint.width)
    session, kernels = start.profiled_session(graph, size)
    kernels.require(start.provider, precision)
    observed = {
        "precision": precision,
        "provider": start.provider,
        "float32 products": f"{arithmetic}, verified",
        **kernels.facts(precision),
        "threads": str(start.threads),
    }
    return ONNXRuntimeSession(session, outputs_of(session, checkpoint), observed)


def outputs_of(session: Any, checkpoint: Checkpoint) -> list[str]:
    """Name the checkpoint's outputs in a graph; raise `BackendError` if it has no such output."""
    return wanted_names(checkpoint.outputs, [each.name for each in session.get_outputs()])


@dataclass(slots=True, eq=False)
class ONNXRuntimeSession:
    """A graph loaded in one provider."""

    session: Any
    outputs: list[str]
    """Names of the wanted outputs."""
    observed: dict[str, str] = field(default_factory=dict)

    def predict(self, batch: Batch) -> Outputs:
        """Return the wanted outputs for (samples, 3, height, width) float32."""
        assert self.session is not None, "the session is closed"
        (given, *_) = self.session.get_inputs()
        fixed = given.shape[0] if given.shape and isinstance(given.shape[0], int) else None

        def run(part: Batch) -> Outputs:
            try:
                found = bounded_run(self.session, self.outputs, {given.name: part})
            except BackendError:
                raise
            except Exception as error:  # a graph may run on one image and fail on the next
                message = f"the graph fails on a batch of {len(part)}: {refusal(error)}"
                raise BackendError(message) from error
            return as_outputs(found)

        return in_pieces(batch, fixed, run, self._declared())

    def _declared(self) -> list[tuple[int | None, ...]]:
        shapes = {each.name: each.shape for each in self.session.get_outputs()}
        return [
            # a side that varies has a name in place of its length
            tuple(side if isinstance(side, int) else None for side in shapes[name])
            for name in self.outputs
        ]

    def effective(self) -> dict[str, str]:
        """Return the verified facts of the run."""
        return dict(self.observed)

    def close(self) -> None:
        """Free the runtime's memory."""
        self.session = None


@dataclass(frozen=True, slots=True)
class Kernels:
    """Counts of the nodes that one image went through, by type and provider."""

    counts: Counter[tuple[str, str, str]]
    """(operator, provider, type) → nodes; for a ``Cast`` the type that it writes."""
    assigned: Counter[str] = field(default_factory=Counter)
    """Provider → nodes, including those that compute shapes."""

    def require(self, provider: str, precision: Precision) -> None:
        """Raise `BackendError` if another provider computed, or another type was used."""
        elsewhere = {operator for operator, who, _ in self.counts if who != provider}
        if elsewhere:
            raise BackendError(
                f"{provider} left {', '.join(sorted(elsewhere))} to another provider; this model "
                "cannot be measured on it"
            )
        if precision == "int8" and not self._computing_in("int8").keys() - _CONVERSIONS:
            raise BackendError(
                "int8: every layer computes in float32, with weights and activations that are only "
                "rounded to int8; set 'optimisation: all', which fuses them"
            )
        other = {
            f"{operator} ({kind})"
            for operator, _, kind in self.counts
            if kind != "float32" and not (kind == "int8" and operator in _MOVES)
        }
        if precision in ("fp32", "tf32") and other:
            raise BackendError(
                f"{precision}: {', '.join(sorted(other))} did not compute in float32; export the "
                "model with float32 in every layer"
            )

    def facts(self, precision: Precision) -> dict[str, str]:
        """Describe for a report the nodes that computed in each type, and the casts."""
        facts = {}
        for kind in sorted({kind for _, _, kind in self.counts}):
            if nodes := self._computing_in(kind):
                facts[f"{kind} kernels"] = f"{nodes.total()}: {', '.join(sorted(nodes))}"
        casts = Counter[str]()
        for (operator, _, kind), count in self.counts.items():
            if operator == "Cast":
                casts[kind] += count
        if precision == "fp16" and not self._computing_in("float16"):
            rounded = "weights and some activations are" if casts["float16"] else "weights are"
            facts["float16"] = f"storage only: {rounded} rounded to it, every kernel is float32's"
        to_each = ", ".join(f"{count} to {kind}" for kind, count in sorted(casts.items()))
        placed = ", ".join(f"{count} on {who}" for who, count in sorted(self.assigned.items()))
        return {**facts, "casts": to_each or "none", "nodes": placed}

    def _computing_in(self, kind: str) -> Counter[str]:
        nodes = Counter[str]()
        for (operator, _, each), count in self.counts.items():
            if each == kind and operator != "Cast":
                nodes[operator] += count
        return nodes


def nodes_in(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep the events of a profile in which a node computed."""
    return [
        each for each in events if each.get("cat") == "Node" and each["name"].endswith(COMPUTED)
    ]


def kernels_in(events: Iterable[dict[str, Any]]) -> Kernels:
    """Count the nodes of an ONNX Runtime profile that write floating-point or 8-bit tensors.

    Single numbers (an attention's scale, from a shape) are left out: every provider leaves the
    arithmetic of shapes to the CPU.
    """
    counts, assigned = Counter[tuple[str, str, str]](), Counter[str]()
    for event in nodes_in(events):
        facts = event["args"]
        assigned[facts["provider"]] += 1
        written = _tensors(facts["output_type_shape"])
        if any(math.prod(shape) > 1 for shape in written.values()):
            read = {} if facts["op_name"] == "Cast" else _tensors(facts["input_type_shape"])
            # a fused integer kernel reads or writes float32 as well: its narrowest type counts
            kinds = sorted({*written, *read}, key=_NARROWEST.index)
            counts[facts["op_name"], facts["provider"], kinds[0]] += 1
    return Kernels(counts, assigned)


def _tensors(tensors: list[dict[str, list[int]]]) -> dict[str, list[int]]:
    """Map each type to the shape of one tensor of that type."""
    return {_TYPES[kind]: each[kind] for each in tensors for kind in each if kind in _TYPES}
