"""ONNX graphs that round as another arithmetic does, and compute in float32 otherwise.

A 16-bit kernel multiplies 16-bit operands, sums in float32 and rounds its output once, however many
nodes it fuses. `rounded_at_kernels` makes the graph of such kernels: 16-bit weights in float32, and
a cast to 16 bits and back behind every tensor that leaves its kernel. As in hardware, float16
overflows to infinity and keeps subnormals.

TF32 is float32 with 10 bits of mantissa; only the operands of products are rounded to it.
`rounded_operands` rounds them to the nearest, ties away from zero, as ``cvt.rna.tf32.f32`` does
(NVIDIA, Parallel Thread Execution ISA, *cvt*). The first GPUs with TF32 have no other rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    numpy_helper,
    shape_inference,
)

from alignkit.errors import BackendError

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.arrays import FloatArray

ROUNDING = "alignkit round "
"""Beginning of the name of every node that rounds."""
_WIDTHS = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_OTHER_PRODUCTS = frozenset({"Attention", "DeformConv", "Einsum", "GRU", "LSTM", "RNN"})
"""Operators whose inner products a rewritten graph cannot reach."""
_WHOLE = frozenset({TensorProto.INT32, TensorProto.INT64})
_NUDGE, _SPLIT = 1 + 2.0**-30, 2.0**42 + 1


def named_nodes(graph: ModelProto) -> ModelProto:
    """Give every node a name of its own, by which a built engine lists it."""
    taken = {node.name for node in graph.graph.node}
    if len(taken) < len(graph.graph.node) or "" in taken:
        for number, node in enumerate(graph.graph.node):
            node.name = f"{node.op_type}-{number}"
    return graph


def bfloat16_graph(half: ModelProto, original: ModelProto) -> ModelProto:
    """Return the float16 graph ``half`` with bfloat16 in place of float16.

    Its weights are those of ``original``, the float32 graph that ``half`` was converted from: a
    weight that was rounded to float16 first could round to another bfloat16.
    """
    exact = {name: value for name, value, _ in _constants(original)}
    made = ModelProto()
    made.CopyFrom(half)
    for name, value, tensor in list(_constants(made)):
        if tensor.data_type == TensorProto.FLOAT16:
            source = exact.get(name)
            source = value if source is None or source.dtype != np.float32 else source
            bits = _bfloat16_bits(source.astype(np.float32))
            tensor.CopyFrom(
                helper.make_tensor(
                    tensor.name, TensorProto.BFLOAT16, value.shape, bits.tobytes(), raw=True
                )
            )
    for node in made.graph.node:
        if node.op_type == "Cast" and _target(node).i == TensorProto.FLOAT16:
            _target(node).i = TensorProto.BFLOAT16
    del made.graph.value_info[:]  # of float16; a parser infers them
    return made


# Roundings are put into the graph and not into an executor of our own: ONNX Runtime casts to 16
# bits as IEEE says, in every bit, at every level of optimisation.
def rounded_at_kernels(
    typed: ModelProto,
    half: ModelProto,
    precision: Literal["fp16", "bf16"],
    kernels: Sequence[Sequence[str]] | None,
    original: ModelProto | None = None,
) -> tuple[ModelProto, dict[str, str]]:
    """Make the float32 graph of a 16-bit one whose tensors round where they leave a kernel.

    ``typed`` has 16-bit tensors between float32 inputs and outputs, and ``half`` is the same graph
    in float16. ``kernels`` holds the names of the nodes that each kernel of an
    engine computes, in order; a node of several belongs to the last, and one of none is a kernel by
    itself. With ``None`` every node is one. The arithmetic of shapes rounds nowhere, as runtimes
    keep it exact; it has the constants of ``original``, the graph in float32, if that is given.
    Returns the graph, with facts for a report. Raises `BackendError` for a graph with branches or
    loops.
    """
    width = _WIDTHS[precision]
    _require_flat(typed)
    shapes = _shape_arithmetic(typed)
    exact = {name: value for name, value, _ in _constants(original)} if original else {}
    narrow = _float16_tensors(half) - shapes
    owner = {name: number for number, names in enumerate(kernels or ()) for name in names}
    made = ModelProto()
    made.CopyFrom(typed)
    nodes = list(made.graph.node)
    # a node of no kernel keeps its name, which may be "1", beside the kernels' numbers
    kernel_of: dict[str, int | str] = {node.name: owner.get(node.name, node.name) for node in nodes}
    leaving = _leaving(nodes, kernel_of)
    for name, value, tensor in list(_constants(made)):
        if tensor.data_type == width:
            kept = exact.get(name, value) if name in shapes else value
            tensor.CopyFrom(numpy_helper.from_array(kept.astype(np.float32), tensor.name))
    del made.graph.node[:], made.graph.value_info[:]
    rounded = 0
    for node in nodes:
        made.graph.node.append(node)
        placed = made.graph.node[-1]
        casts = node.op_type == "Cast"
        for index, name in enumerate(node.output):
            # a graph that casts to 16 bits rounds there, whatever kernel the cast is fused into
            if name in narrow and (casts or name in leaving) and node.op_type != "Constant":
                placed.output[index] = f"{name} exact"
                made.graph.node.extend(_cast_there_and_back(f"{name} exact", name, width))
                rounded += 1
        # between two float32 tensors nothing is left to cast; to an integer there still is
        if casts and _target(placed).i == width and node.output[0] in shapes:
            _target(placed).i = TensorProto.FLOAT  # of a whole number
        elif casts and (_target(placed).i == width or _widens(node, narrow)):
            placed.op_type = "Identity"
            del placed.attribute[:]
    return made, _kernel_facts(nodes, owner, kernels, rounded)


def rounded_operands(graph: ModelProto) -> tuple[ModelProto, dict[str, str]]:
    """Round both operands of every convolution and matrix product of a float32 graph to TF32.

    Returns the graph, with facts for a report. An operand below 1.2e-38 keeps more bits than TF32
    has, and an infinite one becomes NaN. Raises `BackendError` for a graph with branches, loops or
    products inside other operators.
    """
    _require_flat(graph)
    if inner := {node.op_type for node in graph.graph.node} & _OTHER_PRODUCTS:
        raise BackendError(f"tf32 cannot be simulated inside {', '.join(sorted(inner))}")
    made = ModelProto()
    made.CopyFrom(graph)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
    nodes = list(made.graph.node)
    del made.graph.node[:], made.graph.value_info[:]
    done: set[str] = set()
    for name, value in (("nudge", _NUDGE), ("split", _SPLIT)):
        made.graph.initializer.append(numpy_helper.from_array(np.float64(value), ROUNDING + name))
    for node in nodes:
        operands = list(node.input)[:2] if node.op_type in _PRODUCTS else []
        for index, name in enumerate(operands):
            node.input[index] = f"{name} in tf32"
            if name in done:
                continue
            done.add(name)
            if name in weights:
                rounded = numpy_helper.from_array(to_tf32(weights[name]), f"{name} in tf32")
                made.graph.initializer.append(rounded)
            else:
                made.graph.node.extend(_tf32_nodes(name, f"{name} in tf32"))
        made.graph.node.append(node)
    products = sum(node.op_type in _PRODUCTS for node in nodes)
    return made, {"tf32 operands": f"{len(done)} tensors of {products} products"}


def to_tf32(values: FloatArray) -> npt.NDArray[np.float32]:
    """Round float32 values to 10 bits of mantissa, ties away from zero; NaN and infinity stay."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    nearest = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), nearest.view(np.float32), values).astype(np.float32)


def _bfloat16_bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round finite float32 values to bfloat16, ties to even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    nearest = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (nearest >> np.uint32(16)).astype(np.uint16)


def _constants(graph: ModelProto) -> Iterator[tuple[str, npt.NDArray[Any], TensorProto]]:
    """Yield (name, values, tensor) of all weights and constants; 16-bit values as they are."""
    for tensor in graph.graph.initializer:
        yield tensor.name, numpy_helper.to_array(tensor), tensor
    for node in graph.graph.node:
        for attribute in node.attribute:
            if attribute.type == attribute.TENSOR:
                yield node.output[0], numpy_helper.to_array(attribute.t), attribute.t


def _require_flat(graph: ModelProto) -> None:
    for node in graph.graph.node:
        if any(each.type in (each.GRAPH, each.GRAPHS) for each in node.attribute):
            raise BackendError(
                f"the graph's node {node.name} ({node.op_type}) holds a graph itself"
            )


def _float16_tensors(half: ModelProto) -> frozenset[str]:
    graph = shape_inference.infer_shapes(half).graph
    known = {each.name: each.type.tensor_type.elem_type for each in graph.value_info}
    known |= {each.name: each.type.tensor_type.elem_type for each in graph.output}
    if missing := [
        name for node in graph.node for name in node.output if name and name not in known
    ]:
        raise BackendError(f"the type of the graph's tensor {missing[0]} cannot be inferred")
    return frozenset(name for name, kind in known.items() if kind == TensorProto.FLOAT16)


def _shape_arithmetic(graph: ModelProto) -> frozenset[str]:
    """Name the tensors that do not depend on the images, and of which only whole numbers are used.

    Exporters compute paddings and sizes in floats, and cast the result.
    """
    nodes = graph.graph.node
    of_images = {each.name for each in graph.graph.input}
    of_images -= {each.name for each in graph.graph.initializer}
    for node in nodes:
        if node.op_type not in ("Shape", "Size") and of_images & {*node.input}:
            of_images |= {*node.output}
    used = {each.name for each in graph.graph.output}
    for node in reversed(nodes):
        whole = node.op_type == "Cast" and _target(node).i in _WHOLE
        if (
            not whole
            and node.op_type not in ("Shape", "Size")
            and (used | of_images) & {*node.output}
        ):
            used |= {*node.input}
    named = {*(name for node in nodes for name in node.output)}
    named |= {each.name for each in graph.graph.initializer}
    return frozenset(named - used - of_images)


def _leaving(nodes: Sequence[NodeProto], kernel_of: dict[str, int | str]) -> frozenset[str]:
    """Find the tensors that another kernel reads, or that the graph declares as cast."""
    source = {name: node for node in nodes for name in node.output}
    return frozenset(
        name
        for node in nodes
        for name in node.input
        if name in source
        # a cast's input has the declared type, also if the kernel before fuses the cast
        if node.op_type == "Cast" or kernel_of[source[name].name] != kernel_of[node.name]
    )


def _widens(node: NodeProto, narrow: frozenset[str]) -> bool:
    return node.input[0] in narrow and _target(node).i == TensorProto.FLOAT


def _target(cast: NodeProto) -> AttributeProto:
    """Return the attribute that holds the type a cast makes."""
    return next(each for each in cast.attribute if each.name == "to")


def _cast_there_and_back(source: str, name: str, width: int) -> list[NodeProto]:
    title = ROUNDING + name
    return [
        helper.make_node("Cast", [source], [title], f"{title}, down", to=width),
        helper.make_node("Cast", [title], [name], f"{title}, up", to=TensorProto.FLOAT),
    ]


# In float64, as ONNX has no cast to TF32 and BitCast needs opset 26, to which not every user's
# graph converts.
def _tf32_nodes(source: str, name: str) -> list[NodeProto]:
    """Make the nodes that round a float32 tensor to TF32, in float64.

    Veltkamp's splitting (Dekker, Numerische Mathematik 18, 1971) by 2^42 + 1 leaves the nearest
    number of 53 - 42 = 11 significant bits. 2^-30 of the value is added first, which moves a tie
    away from zero and is too little to move any other float32.
    """
    title = ROUNDING + source

    def node(kind: str, inputs: list[str], step: str, **options: int) -> NodeProto:
        return helper.make_node(kind, inputs, [f"{title} {step}"], f"{title} {step}", **options)

    return [
        node("Cast", [source], "wide", to=TensorProto.DOUBLE),
        node("Mul", [f"{title} wide", f"{ROUNDING}nudge"], "nudged"),
        node("Mul", [f"{title} nudged", f"{ROUNDING}split"], "scaled"),
        node("Sub", [f"{title} scaled", f"{title} nudged"], "rest"),
        node("Sub", [f"{title} scaled", f"{title} rest"], "nearest"),
        helper.make_node(
            "Cast", [f"{title} nearest"], [name], f"{title} back", to=TensorProto.FLOAT
        ),
    ]


def _kernel_facts(
    nodes: Sequence[NodeProto],
    owner: dict[str, int],
    kernels: Sequence[Sequence[str]] | None,
    rounded: int,
) -> dict[str, str]:
    if kernels is None:
        return {"roundings": f"{rounded}, behind every node"}
    alone = sorted({node.op_type for node in nodes if node.name not in owner} - {"Constant"})
    facts = {
        "roundings": f"{rounded}, where a tensor leaves one of {len(set(owner.values()))} kernels"
    }
    return {**facts, "nodes of no kernel": ", ".join(alone)} if alone else facts
