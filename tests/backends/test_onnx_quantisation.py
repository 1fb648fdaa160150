"""int8 graphs: what lies behind the last weights stays in float32."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from alignkit.backends.onnx_quantisation import quantise_for_cpu, quantise_for_tensorrt

SIDE = 16


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
