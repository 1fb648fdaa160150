"""int8 graphs: what lies behind the last weights stays in float32."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from alignkit.backends.onnx_graph import names_read
from alignkit.backends.onnx_quantisation import quantise_for_cpu, quantise_for_tensorrt
from alignkit.errors import BackendError

SIDE = 16
WEIGHTS = {
    "two": np.full(1, 2, np.float32),
    "zero": np.zeros((), np.float32),
    "trips": np.array(3),
    "scales": np.array([1, 1, 2, 2], np.float32),
    "three": np.array([1, 4, -1]),
    "w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3, 1, 1),
    "W": np.linspace(-1, 1, 24, dtype=np.float32).reshape(1, 6, 4),
    "R": np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 6, 2),
}


class Joined(nn.Module):
    """Boxes in hundreds of pixels beside scores in 0..1, in one output, as detectors have them."""

    def __init__(self):
        super().__init__()
        self.early = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.heads = nn.Conv2d(8, 6, 1)

    def forward(self, images):
        found = self.heads(self.early(images)).flatten(2)
        return torch.cat([200 + 30 * found[:, :4], found[:, 4:].sigmoid()], dim=1)


class Activated(nn.Module):
    """An activation function right behind the last weights, and nodes behind it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3), nn.ReLU())

    def forward(self, images):
        return self.layers(images).mean((2, 3)).softmax(1)


def exported(model, folder, *, named=True):
    torch.manual_seed(0)
    file = folder / "model.onnx"
    for each in model.parameters():
        nn.init.normal_(each, std=0.3)
    torch.onnx.export(model.eval(), torch.zeros(1, 3, SIDE, SIDE), file, dynamo=False)
    graph = onnx.load(file)
    for node in graph.graph.node:
        node.name = node.name if named else ""
    onnx.save(graph, file)
    return file


def images(count=24):
    return np.random.default_rng(0).normal(size=(count, 3, SIDE, SIDE)).astype(np.float32)


def outputs(file, *, fused=True):
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if fused else level.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: each[None]})[0] for each in images()])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("named", [True, False], ids=["named", "nameless"])
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "unfused"])
def test_scores_beside_boxes_keep_their_values(tmp_path, named, fused):
    file = exported(Joined(), tmp_path, named=named)
    quantise_for_cpu(file, images(), tmp_path / "int8.onnx")
    exact, rounded = outputs(file), outputs(tmp_path / "int8.onnx", fused=fused)
    boxes, scores = exact[:, :4], exact[:, 4:]
    # with one scale for both, a score is a multiple of it
    step = (boxes.max() - min(0.0, boxes.min())) / 255
    assert step > 0.5
    assert np.abs(rounded[:, 4:] - scores).mean() < 0.02
    assert np.abs(rounded[:, :4] - boxes).mean() < step
    assert len(np.unique(rounded[:, 4:])) > 50


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_weights_and_activations_behind_them_are_quantised(tmp_path):
    file = exported(Activated(), tmp_path)
    quantise_for_cpu(file, images(), tmp_path / "int8.onnx")
    nodes = onnx.load(tmp_path / "int8.onnx").graph.node
    made_by = {name: node for node in nodes for name in node.output}
    kinds = Counter(node.op_type for node in nodes)
    assert kinds["Conv"] == 2
    assert kinds["Relu"] == 0  # uint8 that begins at 0 does its work
    last = [node for node in nodes if node.op_type in ("ReduceMean", "Softmax")]
    read = [made_by[node.input[0]].op_type for node in last]
    assert read == ["DequantizeLinear", "ReduceMean"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorrt_quantises_no_joined_output_either(tmp_path):
    file = exported(Joined(), tmp_path)
    quantise_for_tensorrt(file, images(), tmp_path / "int8.onnx")
    scores, rounded = (outputs(each)[:, 4:] for each in (file, tmp_path / "int8.onnx"))
    assert np.abs(rounded - scores).mean() < 0.02


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(","), outputs.split(","), **attributes)


def tensor(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def written(folder, shape, *nodes):
    """Write a graph from ``x`` to ``y`` of this shape; its nodes have the names of their outputs."""
    for each in nodes:
        each.name = max(each.output)
    used = {name for each in nodes for name in names_read(each)}
    tensors = [numpy_helper.from_array(a, name) for name, a in WEIGHTS.items() if name in used]
    graph = helper.make_graph(
        nodes, "g", [tensor("x", (1, 3, SIDE, SIDE))], [tensor("y", shape)], tensors
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def rounded_after(file):
    """Names of the tensors that a quantised graph rounds to 8 bits."""
    nodes = onnx.load(file).graph.node
    return {each.input[0] for each in nodes if each.op_type == "QuantizeLinear"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_output_that_is_absent_is_not_the_absent_input_of_another_node(tmp_path):
    file = written(
        tmp_path,
        (1, 1, 2),
        node("Conv", "x,w", "heads"),
        node("Reshape", "heads,three", "rows"),
        node("Mul", "rows,two", "far"),
        node("Transpose", "far", "steps", perm=[2, 0, 1]),
        node("GRU", "steps,W,R", ",last", hidden_size=2),  # its first output is absent
        node("Resize", "x,,scales", "grown", mode="nearest"),  # its second input is
        node("Conv", "grown,w", "other"),
        node("ReduceMean", "other", "mean", keepdims=0),
        node("Add", "last,mean", "y"),
    )
    quantise_for_cpu(file, images(4), tmp_path / "int8.onnx")
    # neither far nor steps, which lie behind the last weights
    assert rounded_after(tmp_path / "int8.onnx") == {"x", "heads", "grown", "other"}


def chosen(kind, inside):
    """An If or a Loop that reads ``far`` of the graph around it, by this operator."""
    inputs = f"far,{'w' if kind == 'Conv' else ''}".strip(",")
    if inside == "If":
        branch = helper.make_graph(
            [node(kind, inputs, "t")], "then", [], [tensor("t", (1, None, SIDE, SIDE))]
        )
        return node("If", "which", "picked", then_branch=branch, else_branch=branch)
    body = helper.make_graph(
        [node(kind, inputs, "t"), node("Identity", "go_on", "still")],
        "body",
        [
            tensor("i", (), TensorProto.INT64),
            tensor("go_on", (), TensorProto.BOOL),
            tensor("before", (1, None, SIDE, SIDE)),
        ],
        [tensor("still", (), TensorProto.BOOL), tensor("t", (1, None, SIDE, SIDE))],
    )
    return node("Loop", "trips,which,x", "picked", body=body)


def branched(folder, kind, inside, *behind):
    return written(
        folder,
        (1, 4, SIDE, SIDE),
        node("Mul", "x,two", "far"),
        node("ReduceMean", "x", "mean", keepdims=0),
        node("Greater", "mean,zero", "which"),
        chosen(kind, inside),
        *behind,
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("inside", ["If", "Loop"])
def test_a_tensor_that_only_a_branch_reads_is_before_the_weights_behind_the_branch(
    tmp_path, inside
):
    behind = node("Conv", "picked,w", "heads"), node("Mul", "heads,two", "y")
    file = branched(tmp_path, "Abs", inside, *behind)
    quantise_for_cpu(file, images(), tmp_path / "int8.onnx")
    assert rounded_after(tmp_path / "int8.onnx") == {"x", "far", "picked", "heads"}
    exact, rounded = (outputs(each) for each in (file, tmp_path / "int8.onnx"))
    assert np.abs(exact - rounded).mean() < 0.05 * np.abs(exact).mean()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("quantise", [quantise_for_cpu, quantise_for_tensorrt])
@pytest.mark.parametrize("inside", ["If", "Loop"])
def test_a_graph_with_weights_in_branches_alone_is_not_called_int8(tmp_path, inside, quantise):
    file = branched(tmp_path, "Conv", inside, node("Mul", "picked,two", "y"))
    with pytest.raises(BackendError, match="quantises nothing of the graph: it has no convolution"):
        quantise(file, images(4), tmp_path / "int8.onnx")
