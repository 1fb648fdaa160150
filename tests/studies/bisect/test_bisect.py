"""The first layer at which two runtimes, or two graphs, part."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from alignkit.engines.export import export_onnx
from alignkit.errors import ConfigError, DataError, NothingCompared
from alignkit.models.architectures import build_model
from alignkit.models.checkpoint import Calibration, Checkpoint
from alignkit.studies.bisect import as_text, bisect, drift_of, isolated_error
from alignkit.studies.bisect.bisect_inputs import BisectInputs, runtime_named
from alignkit.studies.bisect.layer_graph import (
    Activations,
    Layer,
    cut,
    isolated_graph,
    layers_of,
    load_graph,
    packed,
)
from alignkit.studies.bisect.layer_sides import ONNXSide, TorchSide, torch_layers
from alignkit.workspace import Workspace
from tests.backends.model import trained_model

LAYER = Layer("/4/Conv", "Conv", "out")


@pytest.fixture(scope="module")
def model():
    return trained_model()


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    """Blocks in blocks, layers called twice, sums of two inputs."""
    folder = tmp_path_factory.mktemp("resnet")
    torch.manual_seed(0)
    torch.save(build_model("resnet18", 5, 32, 32).state_dict(), folder / "weights.pt")
    checkpoint = Checkpoint("resnet18", 5, 32, 32, folder / "weights.pt", "resnet18")
    batch = np.random.default_rng(0).normal(size=(2, 3, 32, 32)).astype(np.float32)
    graph = load_graph(export_onnx(checkpoint, Workspace(folder), batch))
    return checkpoint, graph, batch


@pytest.fixture(scope="module")
def values(resnet):
    """Every tensor of that graph, by ONNX's own evaluator at one go."""
    _, graph, batch = resnet
    whole = onnx.ModelProto()
    whole.CopyFrom(graph)
    names = [layer.tensor for layer in layers_of(graph)]
    del whole.graph.output[:]
    whole.graph.output.extend(helper.make_tensor_value_info(each, 1, None) for each in names)
    found = ReferenceEvaluator(whole).run(None, {"images": batch})
    return dict(zip(names, found, strict=True))


def side(model, runtime="onnxruntime fp32", file=None, images=4) -> ONNXSide:
    batch = model.batch[:images]
    return ONNXSide(runtime_named(runtime), model.checkpoint, file or model.onnx, batch)


def run(reference, candidate, model, tolerance=1e-3):
    layers = layers_of(load_graph(model.onnx))
    return bisect(reference, candidate, layers, model="small", images=4, tolerance=tolerance)


def perturbed(model, node_name: str, folder, change):
    """The model's file with the weights of one node changed."""
    graph = onnx.load(model.onnx)
    node = next(each for each in graph.graph.node if each.name == node_name)
    for weights in graph.graph.initializer:
        if weights.name == node.input[1]:
            values = change(numpy_helper.to_array(weights).copy())
            weights.CopyFrom(numpy_helper.from_array(values, weights.name))
    file = folder / "faulty.onnx"
    onnx.save(graph, file)
    return file


def weighted(model) -> list[str]:
    graph = onnx.load(model.onnx)
    return [node.name for node in graph.graph.node if node.op_type in ("Conv", "Gemm")]


def test_a_fault_planted_in_one_layer_is_named_exactly(model, tmp_path):
    def fault(weights):
        weights.flat[weights.size // 2] += 0.5 * np.abs(weights).max()
        return weights

    for planted in weighted(model)[::3]:  # the first, the last and between
        faulty = perturbed(model, planted, tmp_path, fault)
        found = run(side(model), side(model, file=faulty), model)
        assert found.first == planted
        before = [each for each in found.layers if each.name != planted]
        before = before[: [each.name for each in found.layers].index(planted)]
        assert all(each.max_abs == 0 for each in before)
        own = {each.name: each.isolated_relative for each in found.layers}
        assert own.pop(planted) > 1e-3
        assert max(own.values()) < 1e-6  # what comes after has its error from what came in


def test_a_fault_that_overflows_is_named_by_its_values(model, tmp_path):
    planted = weighted(model)[2]
    faulty = perturbed(model, planted, tmp_path, lambda weights: weights * np.float32(np.inf))
    found = run(side(model), side(model, file=faulty), model)
    first = next(each for each in found.layers if each.name == found.first)
    assert found.first == planted
    assert first.non_finite > 0


def test_a_changed_operator_is_named_exactly(model, tmp_path):
    graph = onnx.load(model.onnx)
    changed = [node for node in graph.graph.node if node.op_type == "Relu"][1]
    changed.op_type = "LeakyRelu"
    onnx.save(graph, tmp_path / "changed.onnx")
    found = run(side(model), side(model, file=tmp_path / "changed.onnx"), model)
    assert found.first == changed.name
    assert [each.name for each in found.layers if each.isolated_relative > 1e-6] == [changed.name]
    assert f"it starts at {changed.name} (Relu)" in as_text(found)
    assert "the layer itself is to blame" in as_text(found)


def test_a_layer_that_only_passes_on_what_came_in_is_not_blamed(model, tmp_path):
    planted = weighted(model)[0]
    faulty = perturbed(model, planted, tmp_path, lambda weights: weights * np.float32(1.01))
    later = layers_of(load_graph(model.onnx))[1:]
    found = bisect(
        side(model), side(model, file=faulty), later, model="x", images=4, tolerance=1e-3
    )
    assert found.first == later[0].name
    # the layer with the fault was not looked at: nothing held stands between it and this one
    assert found.layers[0].isolated_max_abs == found.layers[0].max_abs
    assert found.layers[1].exceeds_tolerance
    assert found.layers[1].isolated_max_abs == 0


def test_a_layer_of_another_shape_is_named(model, tmp_path):
    graph = onnx.load(model.onnx)
    pools = [node for node in graph.graph.node if node.op_type == "MaxPool"]
    strides = next(each for each in pools[0].attribute if each.name == "strides")
    strides.ints[:] = [1, 1]
    del graph.graph.value_info[:]
    onnx.save(graph, tmp_path / "strides.onnx")
    layers = layers_of(load_graph(model.onnx))
    upto = [each.name for each in layers].index(pools[0].name) + 1
    sides = side(model), side(model, file=tmp_path / "strides.onnx")
    found = bisect(*sides, layers[:upto], model="x", images=4, tolerance=1e-3)
    assert found.first == pools[0].name
    assert "against" in found.layers[-1].reason


def test_a_layer_alone_computes_what_it_does_in_the_graph(resnet, values):
    _, graph, batch = resnet
    held = Activations()
    held.keep("images", batch)
    kinds = set()
    for layer in layers_of(graph)[:20]:  # one shortcut of each kind
        expected = values[layer.tensor]
        alone, fed = isolated_graph(graph, layer.tensor, held.shapes, 2)
        onnx.checker.check_model(alone)
        given = {"alignkit_packed": packed(held, fed, 2)}
        [found] = ReferenceEvaluator(alone).run(None, given)
        assert np.array_equal(found, expected), layer.name
        kinds.add((layer.operator, len(fed)))
        held.keep(layer.tensor, expected)
    assert ("Add", 2) in kinds
    assert max(count for _, count in kinds) == 2


def test_what_is_kept_goes_with_its_holder():
    held = Activations()
    held.keep("a", np.arange(6.0).reshape(2, 3))
    held.keep("a", np.ones((2, 2)))
    [file] = held._files.values()
    assert held.read("a").shape == held.shapes["a"] == (2, 2)
    del held
    assert not file.parent.exists()


def test_weights_past_the_limit_of_a_file_are_refused(model, monkeypatch):
    monkeypatch.setattr("alignkit.studies.bisect.layer_graph._MAX_WEIGHTS", 1000)
    with pytest.raises(DataError, match="GiB of weights; a graph is taken apart up to"):
        load_graph(model.onnx)


def test_int8_has_no_error_of_a_layer_alone_and_says_why(model):
    seen = Calibration("seen", lambda: model.seen, "100")
    int8 = ONNXSide(
        runtime_named("onnxruntime int8"), model.checkpoint, model.onnx, model.batch[:4], seen
    )
    layers = layers_of(load_graph(model.onnx))[:2]
    found = bisect(side(model), int8, layers, model="x", images=4, tolerance=1e-3)
    assert found.layers[0].exceeds_tolerance
    assert "takes its scales from images" in found.layers[0].isolated_reason
    # many layers fail for one reason, which is said once
    table, _, blamed = as_text(found).partition("it starts at")
    assert table.count(": int8 takes") == 1
    assert "alone: int8 takes" in blamed


def test_a_graph_against_itself_parts_nowhere(model):
    found = run(side(model), side(model), model, tolerance=0)
    assert found.first is None
    assert all(each.max_abs == 0 for each in found.layers)
    assert found.layers[-1].shape == (4, 10)


def test_half_precision_parts_at_the_first_layer_below_its_rounding(model):
    layers = layers_of(load_graph(model.onnx))[:3]
    sides = side(model), side(model, "onnxruntime fp16")
    found = bisect(*sides, layers, model="small", images=4, tolerance=1e-6)
    assert found.first == layers[0].name
    assert all(2.0**-15 < each.relative < 2.0**-8 for each in found.layers)


def test_every_cut_computes_what_onnxs_own_interpreter_does(model):
    graph = load_graph(model.onnx)
    for layer in layers_of(graph):
        [expected] = ReferenceEvaluator(cut(graph, layer.tensor)).run(
            None, {"images": model.batch[:2]}
        )
        found = side(model, "onnxruntime optimisation=disabled", images=2).values(layer)
        assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


def test_a_cut_holds_only_what_leads_to_its_layer(model):
    graph = load_graph(model.onnx)
    first, last = (cut(graph, each.tensor) for each in (layers_of(graph)[0], layers_of(graph)[-1]))
    onnx.checker.check_model(last)
    assert len(first.graph.node) == 1
    assert len(first.graph.initializer) == 2
    assert len(last.graph.node) == len(graph.graph.node)


def test_torchs_layers_are_found_under_the_names_of_its_export(model):
    found = run(
        TorchSide(model.checkpoint, load_graph(model.onnx), model.batch[:4]), side(model), model
    )
    assert found.unmatched == ()
    assert found.first is None
    assert max(each.relative for each in found.layers) < 1e-5


def test_a_repeated_layer_and_nested_blocks_are_matched(resnet, values):
    checkpoint, graph, batch = resnet
    known = torch_layers(checkpoint, graph, batch)
    names = {layer.name for layer in layers_of(graph) if layer.tensor in known.shapes}
    assert {"/layer1/layer1.0/relu/Relu", "/layer1/layer1.0/relu_1/Relu"} <= names
    assert "/layer2/layer2.0/downsample/downsample.0/Conv" in names
    for layer in layers_of(graph):
        if layer.tensor in known.shapes:
            expected = values[layer.tensor]
            change = np.abs(known.read(layer.tensor) - expected).max()
            assert change < 1e-4 * np.abs(expected).max(), layer.name


def test_the_numbers_of_a_layer_equal_numpy():
    rng = np.random.default_rng(0)
    left = rng.normal(size=(3, 4, 5)).astype(np.float32)
    right = left + rng.normal(size=left.shape).astype(np.float32)
    right[0, 0, 0] = np.nan
    found = drift_of(LAYER, left, right, 1e9)
    kept = np.isfinite(right)
    gap = np.abs(left[kept].astype(np.float64) - right[kept])
    assert found.max_abs == gap.max()
    assert found.mean_abs == pytest.approx(gap.mean(), rel=1e-12)
    assert found.relative == pytest.approx(gap.max() / np.abs(left[kept]).max(), rel=1e-7)
    assert (found.non_finite, found.exceeds_tolerance, found.shape) == (1, True, (3, 4, 5))


def test_what_is_not_finite_on_both_sides_alike_is_no_difference():
    left = np.array([[1.0, np.nan, np.inf]], np.float32)
    assert drift_of(LAYER, left, left, 0).exceeds_tolerance is False
    assert drift_of(LAYER, left, left, 0).non_finite == 2
    assert drift_of(LAYER, left, -left, 10).exceeds_tolerance is True
    assert isolated_error(left, -left) == {
        "isolated_reason": "alone it gives values that are not finite"
    }


@pytest.mark.parametrize(("change", "past"), [(0, False), (1e-9, True)])
def test_a_reference_of_zeros_has_no_relative_difference(change, past):
    zeros = np.zeros((2, 2), np.float32)
    found = drift_of(LAYER, zeros, zeros + np.float32(change), 1e-3)
    assert (found.relative, found.exceeds_tolerance) == (None, past)
    assert "zero everywhere" in found.reason


def test_graphs_without_a_common_layer_have_nothing_to_compare(model, tmp_path):
    graph = onnx.load(model.onnx)
    for node in graph.graph.node:
        node.input[:] = [each if each == "images" else f"x{each}" for each in node.input]
        node.output[:] = [f"x{each}" for each in node.output]
    for each in (*graph.graph.initializer, *graph.graph.output):
        each.name = f"x{each.name}"
    onnx.save(graph, tmp_path / "renamed.onnx")
    with pytest.raises(NothingCompared, match="no layer to compare"):
        run(side(model), side(model, file=tmp_path / "renamed.onnx"), model)


def renamed_last(graph):
    """Negate the last layer's weights, and name its output otherwise."""
    node = graph.graph.node[-1]
    for weights in graph.graph.initializer:
        if weights.name in node.input[1:]:
            values = -numpy_helper.to_array(weights)
            weights.CopyFrom(numpy_helper.from_array(values, weights.name))
    node.output[0] = graph.graph.output[0].name = "other"


def added_last(operator):
    def change(graph):
        value = graph.graph.output[0].name
        graph.graph.node.append(onnx.helper.make_node(operator, [value], ["other"], name="added"))
        graph.graph.output[0].name = "other"

    return change


@pytest.mark.parametrize(
    ("change", "unmatched", "outputs"),
    [
        (renamed_last, 2, ("other",)),
        (added_last("Neg"), 1, ("other",)),
        (added_last("Sigmoid"), 1, ("other",)),
        (added_last("Identity"), 0, ()),  # another name of what was compared
        (lambda graph: None, 0, ()),
    ],
)
def test_an_output_that_was_not_compared_is_no_agreement(
    model, tmp_path, change, unmatched, outputs
):
    graph = onnx.load(model.onnx)
    change(graph)
    onnx.save(graph, tmp_path / "other.onnx")
    found = run(side(model), side(model, file=tmp_path / "other.onnx"), model)
    assert found.first is None
    assert (len(found.unmatched), found.outputs) == (unmatched, outputs)
    assert ("so that the answers may differ" in as_text(found)) == bool(outputs)
    assert ("no layer differs by more than 0.001" in as_text(found)) == (not unmatched)


def test_one_graph_in_one_runtime_has_nothing_to_compare(model, tmp_path):
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(model.onnx.read_bytes())
    layers = layers_of(load_graph(model.onnx))
    for file in (model.onnx, copy):
        with pytest.raises(NothingCompared, match="the same graph in onnxruntime fp32"):
            BisectInputs(side(model), side(model, file=file), layers, "small", 4)
    other = side(model, "onnxruntime optimisation=disabled")
    BisectInputs(side(model), other, layers, "small", 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("onnxruntim fp16", "did you mean 'onnxruntime'"),
        ("onnxruntime f16", "no precision and no KEY=VALUE"),
        ("onnxruntime optimization=basic", "no such option; did you mean 'optimisation'"),
        ("torch bf16", "follows the layers of an ONNX graph"),
    ],
)
def test_a_runtime_is_refused_with_what_to_write(text, message):
    with pytest.raises(ConfigError, match=message):
        runtime_named(text)


def test_a_runtime_is_read_as_the_report_names_it():
    found = runtime_named("onnxruntime optimisation=basic fp16")
    assert (found.name, found.precision) == ("onnxruntime optimisation=basic", "fp16")
    assert found.backend.optimisation == "basic"
