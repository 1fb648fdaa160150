"""TensorRT, as far as it goes without its library and a GPU: nothing here pretends to be an engine.

What needs both is marked gpu, and stands in docs/gpu.md.
"""

import ast
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from alignkit.backends import BACKENDS, tensorrt
from alignkit.backends.onnx_graph import graph_of, products
from alignkit.backends.tensorrt import TensorRTBackend
from alignkit.backends.tensorrt_session import facts_of, layers_by_type, require
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


def test_precisions_that_a_strongly_typed_network_does_not_choose_are_refused():
    for precision in ("bf16", "int8"):
        assert "strongly typed" in TensorRTBackend().impossible(precision)


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


@pytest.mark.parametrize("told", [TEN, ELEVEN], ids=["10", "11"])
def test_the_inspectors_layers_are_read_in_both_majors_formats(told):
    layers = layers_by_type(told)
    require("fp16", layers)
    assert facts_of(layers) == {
        "float16 layers": "3: CaskConvolution, CaskGemmMatrixMultiply, PoolingV2"
    }
    with pytest.raises(BackendError, match="fp32: no layer computes in float32, but in float16"):
        require("fp32", layers)


def test_an_engine_whose_layers_are_another_precisions_is_refused():
    float32 = layers_by_type(information(layer("CaskConvolution", ["Float"])))
    require("fp32", float32)
    with pytest.raises(BackendError, match="fp16: no layer computes in float16"):
        require("fp16", float32)
    mixed = information(layer("CaskConvolution", ["Float"]), layer("CaskConvolution", ["BFloat16"]))
    with pytest.raises(BackendError, match="fp32: layers compute in bfloat16"):
        require("fp32", layers_by_type(mixed))


def test_what_the_inspector_does_not_say_is_never_guessed():
    with pytest.raises(BackendError, match="names the type 'E8M0'"):
        layers_by_type(information(layer("CaskConvolution", ["E8M0"])))
    with pytest.raises(BackendError, match="names alone"):
        layers_by_type(json.dumps({"Layers": ["CaskConvolution"]}))


def test_the_table_names_it_unproven_with_its_extra():
    plugin = BACKENDS["tensorrt"]
    assert plugin.unproven
    assert plugin.gpu
    assert plugin.extra == "tensorrt"


def test_the_typings_name_what_the_library_has():
    """Of either major; skipped where the library is not."""
    library = pytest.importorskip("tensorrt", reason="tensorrt is not installed")
    for node in ast.parse(TYPINGS.read_text()).body:
        if isinstance(node, ast.ClassDef):
            owner = getattr(library, node.name)
            for member in node.body:
                name = (
                    _assigned(member)
                    if isinstance(member, ast.Assign | ast.AnnAssign)
                    else member.name
                )
                assert name == "__buffer__" or hasattr(owner, name), f"{node.name}.{name}"


def _assigned(member):
    return (member.targets[0] if isinstance(member, ast.Assign) else member.target).id


@pytest.mark.gpu
@pytest.mark.parametrize("precision", TensorRTBackend.precisions)
def test_an_engine_agrees_with_torch_and_says_what_it_computed_in(precision):
    pytest.importorskip("tensorrt", reason="tensorrt is not installed")
    model = trained_model()
    reference = model.predict(TorchBackend(), "fp32")
    session = model.open(TensorRTBackend(batch=(1, 90, 90)), precision)
    logits = session.predict(model.batch)
    tolerance = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 1e-2}[precision]
    assert np.abs(logits - reference).max() <= tolerance * np.abs(reference).max()
    assert session.effective()["precision"] == precision
    with pytest.raises(BackendError, match="1 to 90 images at once"):
        session.predict(np.concatenate([model.batch, model.batch]))
    session.close()
