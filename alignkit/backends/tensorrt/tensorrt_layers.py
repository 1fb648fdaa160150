"""Layers of a built engine: their types, the operations they fuse, and the ONNX nodes they compute.

Two texts of the library name them: the log of a verbose build, which needs no GPU, and the JSON of
the engine inspector, which needs one. TensorRT 10 writes a tensor's type as ``Format/Datatype``,
e.g. ``Channel major FP16 format where channel % 8 == 0``; TensorRT 11 as ``DataType``, and
TensorRT-RTX as ``Datatype``, e.g. ``Half``.

Beside an engine lies ``layers.json``, a list of objects with the fields of `EngineLayer` in the
order of execution, made by `write_layers` and read by `read_layers`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import BackendError
from alignkit.stored_file import write_atomically

if TYPE_CHECKING:
    from alignkit.backends import Precision

LAYERS_FILE = "layers.json"
_TYPES = {
    "float": "float32", "fp32": "float32", "half": "float16", "fp16": "float16",
    "bfloat16": "bfloat16", "bf16": "bfloat16", "int8": "int8", "fp8": "float8",
    "int32": "", "int64": "", "bool": "", "uint8": "",
}  # fmt: skip
"""The library's word → its type; empty for types that no network computes in."""
_TYPE_KEYS = ("datatype", "format/datatype")
"""Keys of a tensor's type in lower case; the first that is present is read."""
_TYPE_OF_PRECISION = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "int8": "int8"}
_MOVES = frozenset(
    {
        "reformat", "noop", "constant", "shuffle", "shapehosttodevice", "signal", "wait",
        "shape_call",
    }
)  # fmt: skip
"""Kinds of layers that copy, convert or synchronise, and compute nothing."""
_MOVING_OPERATIONS = frozenset({"Move", "Repl", "Conc", "Resh", "Tran", "Slic", "Cast"})
"""Operations of generated kernels that copy or convert; every other operation computes."""
_PRODUCTS = re.compile("corr|conv|gemm|matmul|matrix", re.IGNORECASE)
"""Kinds that multiply by weights; a generated kernel's operations are ``Corr`` and ``Fc``."""
_GENERATED = re.compile(r"__myl_((?:[A-Z][a-z0-9]+)+)_myl")
_LINE = re.compile(
    r"^Name: (?P<name>.*), LayerType: (?P<kind>\w+), Inputs: \[(?P<inputs>.*)\], "
    r"Constants: \[(?P<constants>.*)\], Outputs: \[(?P<outputs>.*)\], TacticName: .*, "
    r"StreamId: \d+, (?:.*, )?Metadata: (?P<metadata>.*)$"
)
_TENSOR = re.compile(
    r"\{ Name: (.*?), Dimensions: \[([-\d,]*)\], Strides: .*?, Datatype: (\w+), Format: .*?\}"
)
_NODE = re.compile(r"\[ONNX Layer: (.*?)\](?:__\w+)?(?=[\x1e\x1f]|\[ONNX Layer: |$)")
"""A node in the metadata; a suffix such as ``__gemm_from_conv1x1`` says how it was rewritten."""


@dataclass(frozen=True, slots=True)
class LayerTensor:
    """A tensor that a layer reads or writes."""

    name: str
    """The library's name. Only those of the network's inputs and outputs are the graph's: an inner
    tensor may have the name of one that it was fused away from."""
    type: str
    """``float32``, ``float16``, ``bfloat16``, ``float8`` or ``int8``; empty for shapes, indices and
    truth values."""
    shape: tuple[int, ...] = ()
    """Axes as in the graph, whatever their order in memory; -1 where the batch size is open."""


@dataclass(frozen=True, slots=True)
class EngineLayer:
    """One step of an engine; several layers may compute one ONNX node, and one layer several.

    The nodes are exact for layers that multiply by weights. A kernel that only copies, converts or
    quantises the input of a node lists that node too.
    """

    name: str
    kind: str
    """The library's ``LayerType``: ``correlation``, ``gemm``, ``maxpool``; ``kgen`` and
    ``runtime_fusion`` for generated kernels."""
    inputs: tuple[LayerTensor, ...]
    outputs: tuple[LayerTensor, ...]
    constants: tuple[LayerTensor, ...] = ()
    """Weights and scales; empty where the text does not list them."""
    operations: tuple[str, ...] = ()
    """The operations of a generated kernel in order, in the library's short words (``Mul``,
    ``Add``, ``Relu``, ``Roun``, ``Cast``); ``Etc`` if the library left some out. Empty for other
    kinds."""
    nodes: tuple[str, ...] = ()
    """Names of the ONNX nodes it was made from, in the library's order."""

    @property
    def moves(self) -> bool:
        """Whether it only copies, converts or synchronises."""
        return self.kind.lower() in _MOVES or (
            bool(self.operations) and _MOVING_OPERATIONS.issuperset(self.operations)
        )

    @property
    def multiplies(self) -> bool:
        """Whether it convolves or multiplies matrices."""
        generated = self.kind in ("kgen", "runtime_fusion")
        # fused attention is a generated kernel without a list of operations: _gemm_mha_v2
        named = self.name if generated and not self.operations else self.kind
        return bool(_PRODUCTS.search(named)) or not {"Corr", "Fc"}.isdisjoint(self.operations)

    @property
    def read_types(self) -> frozenset[str]:
        """Types of the tensors that it reads, weights and scales excluded."""
        return frozenset(each.type for each in self.inputs if each.type)

    @property
    def anonymous(self) -> dict[str, Any]:
        """Everything but the names, which the library may number differently in every build."""
        tensors = {
            name: [[each.type, list(each.shape)] for each in listed]
            for name, listed in (
                ("inputs", self.inputs),
                ("outputs", self.outputs),
                ("constants", self.constants),
            )
        }
        return {"kind": self.kind, "operations": self.operations, "nodes": self.nodes, **tensors}


def layers_in_log(messages: Sequence[str]) -> tuple[EngineLayer, ...]:
    """Read the layers in the messages of a verbose build; in the order of execution.

    Raises `BackendError` if no message lists them, or a line or a type cannot be read.
    """
    # up to the empty line, after which inputs and outputs follow
    listed = [text.split("\n\n")[0] for text in messages if text.startswith("Layers:")]
    layers = tuple(_of_line(line) for text in listed for line in text.split("\n")[1:] if line)
    if not layers:
        raise BackendError("the log of the build lists no layers; nothing says the precision")
    return layers


def layers_in_inspection(information: str) -> tuple[EngineLayer, ...]:
    """Read the layers in the JSON of an engine inspector.

    Raises `BackendError` if the engine was built without details or a type is unknown.
    """
    layers = []
    for layer in json.loads(information)["Layers"]:
        if not isinstance(layer, dict):
            raise BackendError("TensorRT's inspector gives names alone; nothing says the precision")
        name = layer.get("Name", "")
        tensors = {
            field: tuple(_inspected(each) for each in layer.get(field.capitalize(), ()))
            for field in ("inputs", "outputs", "constants")
        }
        nodes = _nodes(layer.get("Metadata", ""))
        kind = layer["LayerType"]
        layers.append(EngineLayer(name, kind, operations=_operations(name), nodes=nodes, **tensors))
    return tuple(layers)


def write_layers(folder: Path, layers: Sequence[EngineLayer]) -> None:
    """Write ``layers.json`` into an engine's folder."""
    text = json.dumps([asdict(each) for each in layers], indent=1)
    write_atomically(folder / LAYERS_FILE, text)


def read_layers(folder: Path) -> tuple[EngineLayer, ...]:
    """Read ``layers.json`` of an engine's folder."""

    def tensors(listed: list[dict[str, Any]]) -> tuple[LayerTensor, ...]:
        return tuple(LayerTensor(each["name"], each["type"], (*each["shape"],)) for each in listed)

    return tuple(
        EngineLayer(
            each["name"],
            each["kind"],
            tensors(each["inputs"]),
            tensors(each["outputs"]),
            tensors(each["constants"]),
            (*each["operations"],),
            (*each["nodes"],),
        )
        for each in json.loads((folder / LAYERS_FILE).read_text())
    )


def fingerprint(layers: Sequence[EngineLayer]) -> str:
    """Hash everything of the layers but the names: two builds of a graph may differ in these.

    TensorRT-RTX may number inner tensors in another way in the next build: 2 of 40 builds of one
    graph had other bytes and the same layers.
    """
    from alignkit.workspace import content_key

    return content_key([each.anonymous for each in layers])


def layers_by_type(layers: Sequence[EngineLayer]) -> dict[str, Counter[str]]:
    """Count the kinds of layers that compute on each type; layers that only move are left out."""
    counted: dict[str, Counter[str]] = {}
    for layer in layers:
        if not layer.moves:
            for kind in layer.read_types:
                counted.setdefault(kind, Counter())[layer.kind] += 1
    return counted


def require(precision: Precision, layers: Sequence[EngineLayer], backend: str) -> None:
    """Raise `BackendError` unless layers compute in the precision, and none in a narrower one.

    In int8 at least one layer that multiplies must read int8.
    """
    wanted = _TYPE_OF_PRECISION[precision]
    found = layers_by_type(layers)
    if wanted not in found:
        kinds = ", ".join(sorted(found)) or "nothing"
        raise BackendError(f"{backend} {precision}: no layer computes in {wanted}, but in {kinds}")
    if others := sorted(found.keys() - {wanted, "float32"}):
        raise BackendError(f"{backend} {precision}: layers compute in {', '.join(others)}")
    if precision == "int8" and not any(
        layer.multiplies and wanted in layer.read_types for layer in layers
    ):
        raise BackendError(f"{backend} int8: no layer that multiplies computes in int8")


def facts_of(layers: Sequence[EngineLayer]) -> dict[str, str]:
    """Describe for a report the layers that compute on each type."""
    return {
        f"{kind} layers": f"{names.total()}: {', '.join(sorted(names))}"
        for kind, names in sorted(layers_by_type(layers).items())
    }


def _of_line(line: str) -> EngineLayer:
    found = _LINE.match(line)
    if not found:
        raise BackendError(f"the log of the build names a layer as {line!r}, which is not readable")
    tensors = {field: _tensors(found[field]) for field in ("inputs", "outputs", "constants")}
    nodes = _nodes(found["metadata"])
    name, kind = found["name"], found["kind"]
    return EngineLayer(name, kind, operations=_operations(name), nodes=nodes, **tensors)


def _tensors(text: str) -> tuple[LayerTensor, ...]:
    found = _TENSOR.findall(text)
    if len(found) != text.count("{ Name: "):
        raise BackendError(f"the log of the build names tensors as {text!r}, which is not readable")
    return tuple(
        LayerTensor(name, _type(kind), tuple(int(axis) for axis in shape.split(",") if axis))
        for name, shape, kind in found
    )


def _nodes(metadata: str) -> tuple[str, ...]:
    found = tuple(_NODE.findall(metadata))
    if len(found) != metadata.count("[ONNX Layer: "):
        raise BackendError(f"a layer names its ONNX nodes as {metadata!r}, which is not readable")
    return found


def _operations(name: str) -> tuple[str, ...]:
    generated = _GENERATED.match(name)
    return tuple(re.findall("[A-Z][a-z0-9]+", generated[1])) if generated else ()


def _inspected(tensor: dict[str, Any]) -> LayerTensor:
    by_key = {key.lower(): value for key, value in tensor.items()}
    text = next((str(by_key[key]) for key in _TYPE_KEYS if by_key.get(key)), "")
    return LayerTensor(str(by_key.get("name", "")), _type(text), (*by_key.get("dimensions", ()),))


def _type(text: str) -> str:
    for word in re.findall(r"\w+", text.lower()):
        if word in _TYPES:
            return _TYPES[word]
    raise BackendError(f"the library names the type {text!r}, which alignkit cannot read")
