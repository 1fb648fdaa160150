"""Engines that the real TensorRT-RTX builds, on machines with and without a GPU."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from alignkit.backends import BACKENDS, QUANTISED_GRAPH, EngineBuilder
from alignkit.backends.onnx_graph import graph_of, products
from alignkit.backends.onnxruntime.onnxruntime_session import Start
from alignkit.backends.simulated import SimulatedBackend
from alignkit.backends.tensorrt import TensorRTRTXBackend, tensorrt_session
from alignkit.backends.tensorrt.tensorrt_build import EngineOptions, build_engine, message_logger
from alignkit.backends.tensorrt.tensorrt_layers import read_layers, require
from alignkit.backends.torch import TorchBackend
from alignkit.engines import engine_parts
from alignkit.errors import BackendError, MissingDependency
from alignkit.models.checkpoint import Calibration, EngineSource
from alignkit.plugins import NO_GPU, gpu_present
from tests.backends.model import trained_model

pytest.importorskip("tensorrt_rtx_bindings", reason="tensorrt-rtx is not installed")
RTX = TensorRTRTXBackend(batch=(1, 90, 90))
OPTIONS = EngineOptions("tensorrt-rtx", (1, 8, 8), (32, 32), tf32=False)
MULTIPLIED = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "int8": "int8"}


@pytest.fixture(scope="module")
def source():
    model = trained_model()
    return EngineSource(model.checkpoint, model.onnx, Calibration("seen", lambda: model.seen))


def operators(onnx_file, *kinds):
    return {node.name for node in onnx.load(onnx_file).graph.node if node.op_type in kinds}


@pytest.mark.parametrize("precision", RTX.precisions)
def test_a_trained_checkpoint_becomes_an_engine_whose_products_have_the_precision(
    precision, source, tmp_path
):
    RTX.build(source, precision, tmp_path)
    layers = read_layers(tmp_path)
    multiplying = [each for each in layers if each.multiplies]
    assert len(multiplying) == 5
    assert {kind for each in multiplying for kind in each.read_types} == {MULTIPLIED[precision]}
    # each convolution and the last product is in exactly one of them
    weighted = operators(source.onnx, "Conv", "Gemm")
    assert sorted(n for each in multiplying for n in each.nodes if n in weighted) == sorted(
        weighted
    )
    assert [each.name for each in layers[-1].outputs] == ["logits"]
    assert layers[-1].outputs[0].type == "float32"
    facts = RTX.described(tmp_path)
    assert facts.size == (tmp_path / "model.engine").stat().st_size > 100_000
    assert sum(facts.layers[MULTIPLIED[precision]].values()) >= 5


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_a_second_build_has_the_same_layers(precision, source, tmp_path):
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        RTX.build(source, precision, folder)
    first, second = map(RTX.described, folders)
    assert first.fingerprint == second.fingerprint
    assert (first.layers, first.size) == (second.layers, second.size)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_the_network_before_the_build_has_the_types_of_the_graph(precision, source, tmp_path):
    RTX.build(source, precision, tmp_path)
    file = tmp_path / "model.onnx" if precision == "int8" else source.onnx
    library = BACKENDS["tensorrt-rtx"].library()
    logger = message_logger(library)
    network = library.Builder(logger).create_network(0)
    parser = library.OnnxParser(network, logger)
    assert parser.parse(graph_of(file, precision))
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    products = [each for each in layers if each.type.name in ("CONVOLUTION", "MATRIX_MULTIPLY")]
    written = {each.get_output(0).dtype.name for each in products}
    assert len(products) == 5
    # an int8 product is float32's between quantise and dequantise, until the build fuses them
    assert written == {"HALF" if precision == "fp16" else "FLOAT"}
    quantised = [each for each in layers if each.type.name == "QUANTIZE"]
    assert len(quantised) == (5 if precision == "int8" else 0)
    assert {each.get_output(0).dtype.name for each in quantised} <= {"INT8"}


def test_layers_of_another_precision_are_refused(source):
    built = build_engine(graph_of(source.onnx, "fp32"), OPTIONS)
    with pytest.raises(BackendError, match="tensorrt-rtx fp16: no layer computes in float16"):
        require("fp16", built.layers, "tensorrt-rtx")
    assert {each.type for layer in built.layers for each in layer.outputs} == {"float32"}
    assert build_engine(products(), OPTIONS).layers


@pytest.mark.parametrize("graph", [b"", b"no graph", products()[:200]])
def test_bytes_that_are_no_graph_are_refused_in_the_parsers_words(graph):
    with pytest.raises(BackendError, match=r"tensorrt-rtx cannot (parse|build) the .+: .+"):
        build_engine(graph, OPTIONS)


def test_a_profile_that_does_not_fit_the_graph_is_refused(source):
    options = replace(OPTIONS, size=(48, 48))  # the graph takes 32
    with pytest.raises(BackendError, match=r"tensorrt-rtx (cannot build|refuses the profile)"):
        build_engine(graph_of(source.onnx, "fp32"), options)


def test_int8_is_symmetric_per_channel_and_around_products_alone(source, tmp_path):
    RTX.build(source, "int8", tmp_path)
    graph = onnx.load(tmp_path / "model.onnx").graph
    values = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    types = {each.name: each.data_type for each in graph.initializer}
    pairs = [n for n in graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    assert all(types[n.input[2]] == TensorProto.INT8 for n in pairs)
    assert all(not values[n.input[2]].any() for n in pairs)  # zero point 0
    # the input of a product; its other input is its weights
    for node in graph.node:
        if node.op_type in ("Conv", "Gemm"):
            made_by = {n.output[0]: n for n in graph.node}
            activation, weights = (made_by[name] for name in node.input[:2])
            assert {activation.op_type, weights.op_type} == {"DequantizeLinear"}
            assert values[weights.input[1]].shape == (values[weights.input[0]].shape[0],)
            assert types[node.input[2]] == TensorProto.FLOAT
    assert sum(n.op_type == "QuantizeLinear" for n in pairs) == 5


def test_the_int8_graph_predicts_nearly_as_the_model_does(source, tmp_path):
    RTX.build(source, "int8", tmp_path)
    model = trained_model()
    start = Start("CPUExecutionProvider", {}, "ORT_DISABLE_ALL", 1)
    session = start.session((tmp_path / "model.onnx").read_bytes())
    logits = session.run(None, {session.get_inputs()[0].name: model.batch})[0]
    reference = model.predict(TorchBackend(), "fp32")
    assert np.abs(logits - reference).max() <= 0.1 * np.abs(reference).max()
    assert not np.array_equal(logits, reference)


def test_an_int8_session_names_the_graph_that_a_simulation_executes_unfused(monkeypatch):
    folder = trained_model().file(RTX, "int8")

    class Read:
        """An engine as the inspector of a machine with a GPU would describe it."""

        def layers(self):
            return read_layers(folder)

    monkeypatch.setattr(tensorrt_session.Engine, "read", lambda backend, serialised: Read())
    monkeypatch.setattr(tensorrt_session, "_arithmetic", lambda engine: "ieee")
    facts = tensorrt_session.open_engine("tensorrt-rtx", folder, "int8", RTX.batch).effective()
    session = trained_model().open(SimulatedBackend(quantised_for="tensorrt"), "int8")
    session.close()
    assert facts[QUANTISED_GRAPH] == session.effective()[QUANTISED_GRAPH]
    assert facts["calibration"] == "100 images"


@pytest.mark.skipif(gpu_present(), reason="of a machine without an NVIDIA GPU")
def test_without_a_gpu_engines_are_built_and_never_opened(source, tmp_path):
    assert isinstance(RTX, EngineBuilder)
    assert not BACKENDS["tensorrt-rtx"].missing()
    for precision in RTX.precisions:
        assert RTX.cannot_build(precision) == ""
        assert NO_GPU in RTX.impossible(precision)
        with pytest.raises(MissingDependency, match=f"tensorrt-rtx {precision}: running an engine"):
            RTX.open(source.checkpoint, tmp_path, precision)


@pytest.mark.parametrize(
    ("capabilities", "runs"),
    [((), True), (("8.9",), True), (("12.0",), True), (("8.0",), False), (("9.0",), False),
     (("9.0", "8.6"), True)],
)  # fmt: skip
def test_a_gpu_outside_the_support_matrix_is_refused_by_its_capability(
    monkeypatch, capabilities, runs
):
    monkeypatch.setattr("alignkit.backends.tensorrt.gpu_present", lambda: True)
    monkeypatch.setattr("alignkit.machine.compute_capabilities", lambda: capabilities)
    reason = RTX.impossible("fp16")
    assert (reason == "") == runs
    assert runs or ("compute capability " + ", ".join(capabilities) in reason)


def test_an_engine_is_the_same_on_every_machine_and_its_cells_are_not(source):
    parts = engine_parts(RTX, source, "fp16")
    assert "device" not in parts
    assert "quantiser" not in parts
    assert "quantiser" in engine_parts(RTX, source, "int8")
    assert json.dumps(parts, default=str)
    assert RTX.compiler()  # the GPU, which the plan puts into the keys of cells


@pytest.mark.gpu
@pytest.mark.parametrize("precision", RTX.precisions)
def test_an_engine_agrees_with_torch_and_says_which_it_was(precision):
    model = trained_model()
    reference = model.predict(TorchBackend(), "fp32")
    session = model.open(RTX, precision)
    logits = session.predict(model.batch)[0]
    tolerance = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 1e-2, "int8": 0.15}[precision]
    assert np.abs(logits - reference).max() <= tolerance * np.abs(reference).max()
    engine = RTX.described(model.file(RTX, precision))
    assert session.effective()["engine"] == f"SHA-256 {engine.sha256}"
    session.close()
