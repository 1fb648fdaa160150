"""TensorRT, as far as it goes without its library and a GPU: nothing here pretends to be an engine.

Tests that need both are marked gpu, and stand in docs/gpu.md; test_tensorrt_rtx.py builds engines.
"""

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from alignkit.backends import BACKENDS, tensorrt
from alignkit.backends.onnx_graph import graph_of, products
from alignkit.backends.tensorrt import TensorRTBackend, TensorRTRTXBackend
from alignkit.backends.tensorrt.tensorrt_layers import (
    facts_of,
    layers_in_inspection,
    layers_in_log,
    read_layers,
    require,
    write_layers,
)
from alignkit.backends.torch import TorchBackend
from alignkit.engines import engine_parts
from alignkit.errors import BackendError, ConfigError, MissingDependency
from alignkit.models.checkpoint import EngineSource
from alignkit.plugins import gpu_present
from tests.backends.model import trained_model

TYPINGS = Path(__file__).parents[2] / "typings" / "tensorrt.pyi"
without_gpu = pytest.mark.skipif(gpu_present(), reason="of a machine without an NVIDIA GPU")


@pytest.fixture(scope="module")
def source():
    return EngineSource(trained_model().checkpoint, trained_model().onnx)


@without_gpu
def test_without_a_gpu_every_precision_says_so_and_nothing_is_built_or_opened(source, tmp_path):
    for precision in TensorRTBackend.precisions:
        assert "NVIDIA GPU" in TensorRTBackend().impossible(precision)
        with pytest.raises(MissingDependency, match=f"tensorrt {precision}: .*NVIDIA GPU"):
            TensorRTBackend().build(source, precision, tmp_path)
        with pytest.raises(MissingDependency, match=f"tensorrt {precision}: .*NVIDIA GPU"):
            TensorRTBackend().open(source.checkpoint, tmp_path, precision)
    assert not list(tmp_path.iterdir())


def test_a_precision_that_a_strongly_typed_network_does_not_choose_is_refused():
    for backend in (TensorRTBackend(), TensorRTRTXBackend()):
        assert "strongly typed" in backend.impossible("bf16")
        assert "strongly typed" in backend.cannot_build("bf16")


def test_fp16_is_in_the_graph_and_float32_graphs_are_handed_over_as_they_are(source):
    half = onnx.load_from_string(graph_of(source.onnx, "fp16")).graph
    assert {each.data_type for each in half.initializer} == {TensorProto.FLOAT16}
    for edge in (*half.input, *half.output):
        assert edge.type.tensor_type.elem_type == TensorProto.FLOAT
    for precision in ("fp32", "tf32"):
        assert graph_of(source.onnx, precision) == source.onnx.read_bytes()


def test_the_graph_of_products_is_float32_with_fixed_shapes():
    graph = onnx.load_from_string(products()).graph
    shapes = {
        edge.name: [axis.dim_value for axis in edge.type.tensor_type.shape.dim]
        for edge in graph.input
    }
    assert shapes == {"matrix": [1024, 64], "image": [1, 64, 32, 32]}


def test_an_engine_depends_on_library_device_timings_and_profile(source, tmp_path, monkeypatch):
    parts = engine_parts(TensorRTBackend(), source, "fp16")
    assert parts["precision"] == "fp16"
    monkeypatch.setattr(tensorrt, "_device", lambda: "NVIDIA X, driver 1")
    elsewhere = engine_parts(TensorRTBackend(), source, "fp16")
    timings = tmp_path / "timing.cache"
    timings.write_bytes(b"timings")
    others = [
        engine_parts(TensorRTBackend(batch=(1, 8, 8)), source, "fp16"),
        engine_parts(TensorRTBackend(timing_cache=timings), source, "fp16"),
        engine_parts(TensorRTBackend(), replace(source, onnx=timings), "fp16"),
    ]
    monkeypatch.setitem(
        BACKENDS, "tensorrt", replace(BACKENDS["tensorrt"], distributions=("numpy",))
    )
    others.append(engine_parts(TensorRTBackend(), source, "fp16"))
    keys = [json.dumps(each, sort_keys=True, default=str) for each in (parts, elsewhere, *others)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("batch", [(0, 1, 2), (4, 2, 8), (1, 9, 8)])
def test_a_profile_that_is_none_is_refused(batch):
    with pytest.raises(ConfigError, match=r"smallest, usual, greatest"):
        TensorRTBackend(batch=batch)


def test_a_timing_cache_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="there is no file"):
        TensorRTBackend(timing_cache=tmp_path / "timing.cache")


def layer(kind, inputs, key="Format/Datatype"):
    return {"LayerType": kind, "Inputs": [{"Name": "x", key: each} for each in inputs]}


def information(*layers):
    return json.dumps({"Layers": layers})


TEN = information(
    layer("Reformat", ["Row major linear FP32 format"]),
    layer("CaskConvolution", ["Channel major FP16 format where channel % 8 == 0"]),
    layer("CaskGemmMatrixMultiply", ["Half"]),
    layer("Shuffle", ["Float"]),
    layer("PoolingV2", ["Half", "Int32"]),
)
ELEVEN = information(
    layer("Reformat", ["Float"], "DataType"),
    layer("CaskConvolution", ["Half"], "DataType"),
    layer("CaskGemmMatrixMultiply", ["Half"], "DataType"),
    layer("PoolingV2", ["Half"], "DataType"),
)


LISTED = """Layers:
Name: /0/Conv_myl0_2, LayerType: correlation, Inputs: [ { Name: x, Dimensions: [-1,4,32,32], Strides: [4096,1,128,4], StrideOrder: [3,0,2,1], Datatype: E8M0, Format: (NHWC) Channel major format }], Constants: [], Outputs: [], TacticName: , StreamId: 0, Metadata: [ONNX Layer: /0/Conv]
"""

RTX = ELEVEN.replace("DataType", "Datatype")


@pytest.mark.parametrize("told", [TEN, ELEVEN, RTX], ids=["10", "11", "rtx"])
def test_the_inspectors_layers_are_read_in_every_librarys_format(told):
    layers = layers_in_inspection(told)
    require("fp16", layers, "tensorrt")
    assert facts_of(layers) == {
        "float16 layers": "3: CaskConvolution, CaskGemmMatrixMultiply, PoolingV2"
    }
    with pytest.raises(BackendError, match="fp32: no layer computes in float32, but in float16"):
        require("fp32", layers, "tensorrt")


def test_an_engine_whose_layers_are_another_precisions_is_refused():
    float32 = layers_in_inspection(information(layer("CaskConvolution", ["Float"])))
    require("fp32", float32, "tensorrt")
    with pytest.raises(BackendError, match="fp16: no layer computes in float16"):
        require("fp16", float32, "tensorrt")
    mixed = information(layer("CaskConvolution", ["Float"]), layer("CaskConvolution", ["BFloat16"]))
    with pytest.raises(BackendError, match="fp32: layers compute in bfloat16"):
        require("fp32", layers_in_inspection(mixed), "tensorrt")
    pooled = information(layer("CaskConvolution", ["Float"]), layer("maxpool", ["Int8"]))
    with pytest.raises(BackendError, match="int8: no layer that multiplies computes in int8"):
        require("int8", layers_in_inspection(pooled), "tensorrt")


def test_what_the_library_does_not_say_is_never_guessed():
    with pytest.raises(BackendError, match="names the type 'E8M0'"):
        layers_in_inspection(information(layer("CaskConvolution", ["E8M0"])))
    with pytest.raises(BackendError, match="names alone"):
        layers_in_inspection(json.dumps({"Layers": ["CaskConvolution"]}))
    with pytest.raises(BackendError, match="names the type 'E8M0'"):
        layers_in_log([LISTED])
    with pytest.raises(BackendError, match="lists no layers"):
        layers_in_log(["Building"])
    with pytest.raises(BackendError, match="not readable"):
        layers_in_log(["Layers:\nName: a, LayerType: kgen"])
    with pytest.raises(BackendError, match="not readable"):
        layers_in_log([LISTED.replace("Datatype", "Kind")])


@pytest.fixture
def rtx_layers():
    """The log of the real TensorRT-RTX 1.7.1 for the tests' network, in fp16 and int8."""
    folder = Path(__file__).parent / "rtx_log"
    return {
        name: layers_in_log(["Building", (folder / f"{name}.txt").read_text()])
        for name in ("fp16", "int8")
    }


def test_a_real_log_names_types_fusions_and_the_nodes_of_the_graph(rtx_layers):
    first, *_ = (each for each in rtx_layers["fp16"] if each.multiplies)
    assert (first.kind, first.nodes) == ("correlation", ("/0/Conv", "/2/Relu"))
    assert first.inputs[0].shape == (-1, 4, 32, 32)
    assert [each.type for each in (*first.inputs, *first.outputs)] == ["float16", "float16"]
    assert first.constants[0].shape == (16, 4, 3, 3)
    last = rtx_layers["fp16"][-1]
    assert (last.kind, last.operations) == ("runtime_fusion", ("Fc", "Add", "Cast"))
    assert [each.name for each in last.outputs] == ["logits"]
    assert sum(each.multiplies for each in rtx_layers["fp16"]) == 5
    assert sum(each.multiplies for each in rtx_layers["int8"]) == 5


def test_rewritten_nodes_and_fused_attention_are_recognised():
    line = LISTED.replace("E8M0", "Half").replace("LayerType: correlation", "LayerType: kgen")
    rewritten = line.replace("[ONNX Layer: /0/Conv]", "[ONNX Layer: /a][ONNX Layer: /b]__gemm_of_x")
    (layer,) = layers_in_log([rewritten.replace("/0/Conv_myl0_2", "_gemm_mha_v2_myl0_18")])
    assert layer.nodes == ("/a", "/b")
    assert layer.multiplies
    assert not layer.moves
    with pytest.raises(BackendError, match="not readable"):
        layers_in_log([line.replace("[ONNX Layer: /0/Conv]", "[ONNX Layer: /0/Conv")])


def test_kernels_that_copy_or_convert_count_as_no_arithmetic(rtx_layers):
    moving = [(each.kind, each.operations) for each in rtx_layers["fp16"] if each.moves]
    assert moving == [("shape_call", ()), ("kgen", ("Cast", "Repl", "Conc"))]
    # it averages after it moves
    assert ("Move", "Mean") in {e.operations for e in rtx_layers["fp16"] if not e.moves}
    assert facts_of(rtx_layers["fp16"]) == {
        "float16 layers": "10: correlation, kgen, maxpool, runtime_fusion"
    }
    require("fp16", rtx_layers["fp16"], "tensorrt-rtx")
    require("int8", rtx_layers["int8"], "tensorrt-rtx")


def test_layers_that_are_stored_come_back_equal(rtx_layers, tmp_path):
    write_layers(tmp_path, rtx_layers["int8"])
    assert read_layers(tmp_path) == rtx_layers["int8"]


@pytest.mark.parametrize("module", ["tensorrt", "tensorrt_rtx_bindings"])
def test_the_typings_name_what_the_library_has_with_its_values(module):
    library = pytest.importorskip(module, reason=f"{module} is not installed")
    lines = TYPINGS.read_text().splitlines()
    newer = module != "tensorrt" or library.__version__.startswith("11")
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.ClassDef):
            _compare(getattr(library, node.name), node, lines, newer=newer)


def _compare(owner, node, lines, *, newer):
    for member in node.body:
        if isinstance(member, ast.ClassDef):
            _compare(getattr(owner, member.name), member, lines, newer=newer)
            continue
        assigned = isinstance(member, ast.Assign | ast.AnnAssign)
        name = _assigned(member) if assigned else member.name
        assert name == "__buffer__" or hasattr(owner, name), f"{node.name}.{name}"
        if isinstance(member, ast.Assign):
            other = re.search(r"# in 11: (\d+)", lines[member.lineno - 1])
            value = int(other[1]) if other and newer else member.value.value
            assert int(getattr(owner, name)) == value, f"{node.name}.{name}"


def _assigned(member):
    return (member.targets[0] if isinstance(member, ast.Assign) else member.target).id


@pytest.mark.gpu
@pytest.mark.parametrize("precision", TensorRTBackend.precisions)
def test_an_engine_agrees_with_torch_and_says_what_it_computed_in(precision):
    pytest.importorskip("tensorrt", reason="tensorrt is not installed")
    model = trained_model()
    reference = model.predict(TorchBackend(), "fp32")
    session = model.open(TensorRTBackend(batch=(1, 90, 90)), precision)
    logits = session.predict(model.batch)[0]
    tolerance = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 1e-2}[precision]
    assert np.abs(logits - reference).max() <= tolerance * np.abs(reference).max()
    assert session.effective()["precision"] == precision
    with pytest.raises(BackendError, match="1 to 90 images at once"):
        session.predict(np.concatenate([model.batch, model.batch]))
    session.close()
