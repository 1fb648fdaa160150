"""Bad models: refused before any work, or by a runtime, which fails their own cells."""

from __future__ import annotations

import os
import pickle
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from alignkit.backends.onnx_graph import refusal
from alignkit.backends.onnxruntime.onnxruntime_int8 import quantise
from alignkit.errors import AlignkitError, BackendError, ConfigError
from alignkit.experiment import load_experiment
from alignkit.models.user_model import UserModel
from alignkit.progress import NoProgress
from alignkit.runner import run_experiment
from alignkit.workspace import Context, Workspace

REFUSED = {
    "size": r"takes inputs of \?x3x48x48, and the path gives \?x3x32x32; change the path's size",
    "classes": r"has 12 outputs, and the data has 10 classes; name the 12 outputs in order as the",
    "double": r"double\.onnx gives float64 outputs \(.*\), .* compared in float32; export it in float32$",
    "argmax": r"argmax\.onnx: it gives whole numbers, .*; export it without a final argmax",
    "truncated": r"is no ONNX file, or it is damaged: its fields",
    "empty": r"empty\.onnx is no ONNX file: it is empty: a download or copy was cut; fetch it again$",
    "malicious": r"it is a pickle that would run code .*save the weights alone",
}
REASONS = {
    "custom": r"cannot load the graph: .*my\.ops:Warp.* is not a registered function/op$",
    "kernel": r"cannot load the graph: Could not find an implementation for Sqrt\(13\) node",
    "opset": r"cannot load the graph: .* Current official support .* is till opset \d+\.$",
    "hidden": r"hidden\.onnx: it gives float32 \(30, 12\) for 30 images of 10 classes, not float32 "
    r"\(30, 10\); export the model with one row of float32 logits an image$",
    "inside": r"inside\.onnx: fp32: Cast \(float64\), Sqrt \(float64\) did not compute in float32; "
    "export the model with float32 in every layer$",
}
YAML = """
name: bad
data: {{name: digits-on-photos, train: 10, eval: 30, seed: 0}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
  pillow: {{preset: pillow-train, size: 32}}
models:
{models}
evaluate: {{backends: [{backends}], resamples: 200}}
"""


def graph(
    *first, opset=17, domain="", image=(3, 32, 32), classes: int = 10, told: int | None = 10,
    gives=TensorProto.FLOAT,
) -> bytes:  # fmt: skip
    """An average over each channel and a product with weights, after the nodes ``first``."""
    weights = np.random.default_rng(0).normal(size=(3, classes)).astype(np.float32)
    described = helper.make_graph(
        [
            *first,
            helper.make_node("GlobalAveragePool", ["x"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["flat"]),
            helper.make_node("MatMul", ["flat", "weights"], ["product"]),
            helper.make_node("Cast", ["product"], ["logits"], to=gives),
        ],
        "small",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ("n", *image))],
        [helper.make_tensor_value_info("logits", gives, ("n", told))],
        [numpy_helper.from_array(weights, "weights")],
    )
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    made: bytes = helper.make_model(
        described, opset_imports=opsets, ir_version=8
    ).SerializeToString()
    return made


def node(operator: str, given="images", gives="x", **options):
    return helper.make_node(operator, [given], [gives], **options)


def write_models(folder: Path) -> None:
    class Malicious:
        def __reduce__(self):
            return os.system, (f"touch {folder}/executed",)

    same = node("Identity")
    narrow = [node("Cast", gives="narrow", to=TensorProto.BFLOAT16), node("Sqrt", "narrow", "root")]
    wide = [node("Cast", gives="wide", to=TensorProto.DOUBLE), node("Sqrt", "wide", "root")]
    back = node("Cast", "root", to=TensorProto.FLOAT)
    for name, content in {
        "good": graph(same),
        "custom": graph(node("Warp", domain="my.ops"), domain="my.ops"),
        "kernel": graph(*narrow, back),
        "opset": graph(same, opset=99),
        "size": graph(same, image=(3, 48, 48)),
        "classes": graph(same, classes=12, told=12),
        "hidden": graph(same, classes=12, told=None),
        "inside": graph(*wide, back),
        "double": graph(same, gives=TensorProto.DOUBLE),
        "argmax": graph(same, gives=TensorProto.INT64),
        "empty": b"",
        "truncated": graph(same)[:150],
    }.items():
        (folder / f"{name}.onnx").write_bytes(content)
    (folder / "malicious.pt").write_bytes(pickle.dumps(Malicious(), protocol=2))


def entry(folder: Path, name: str) -> str:
    given = f"onnx: {folder}/{name}.onnx"
    if name == "malicious":
        given = f"weights: {folder}/malicious.pt, model: small-cnn"
    return f"  - {{name: {name}, {given}, preprocess: opencv}}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(cells, folder) of one run with them all; OpenVINO's where it is installed."""
    folder = tmp_path_factory.mktemp("bad")
    write_models(folder)
    lines = [entry(folder, name) for name in ("good", *REASONS)]
    file = folder / "bad.yaml"
    backends = "onnxruntime, openvino" if find_spec("openvino") else "onnxruntime"
    file.write_text(YAML.format(models="\n".join(lines), backends=backends))
    record, _ = run_experiment(
        load_experiment(file), Context(Workspace(folder / "reports"), NoProgress())
    )
    return {
        (re.search(r"model (\w+)", c.trained_with)[1], c.backend): c for c in record.cells
    }, folder


def test_each_model_fails_its_own_cell_for_one_clear_reason(run):
    cells, _ = run
    assert cells["good", "onnxruntime"].state == "measured"
    for name, reason in REASONS.items():
        cell = cells[name, "onnxruntime"]
        assert cell.state == "failed", name
        assert re.search(reason, cell.reason), cell.reason
        assert "\n" not in cell.reason
        assert not re.search(r"\.(cc|h|cpp):\d+|ONNXRuntimeError", cell.reason)
        assert cell.traceback == ""  # it is the user's model, not a defect of alignkit


def test_all_models_whose_files_cannot_run_are_refused_at_once_with_their_reasons(tmp_path):
    write_models(tmp_path)
    file = tmp_path / "bad.yaml"
    lines = [entry(tmp_path, name) for name in ("good", *REFUSED)]
    file.write_text(YAML.format(models="\n".join(lines), backends="onnxruntime"))
    with pytest.raises(ConfigError) as refused:
        run_experiment(
            load_experiment(file), Context(Workspace(tmp_path / "reports"), NoProgress())
        )
    told = [line for line in str(refused.value).splitlines() if line.startswith(f"{file}:")]
    assert len(told) == len(REFUSED)
    for index, (line, reason) in enumerate(zip(told, REFUSED.values(), strict=True), 1):
        assert re.match(rf"{file}:\d+:\d+: models\.{index}\.\w+: ", line)  # the first is good
        assert re.search(reason, line), line
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "reports").exists()  # before anything is prepared


def test_openvino_names_the_operator_it_has_not(run):
    pytest.importorskip("openvino", reason="needs the extra openvino")
    cells, _ = run
    assert cells["good", "openvino"].state == "measured"
    assert re.search(
        r"cannot compile the graph: .*No conversion rule found for operations: my\.ops\.Warp$",
        cells["custom", "openvino"].reason,
    )


def test_a_graph_cut_anywhere_is_refused_or_fails_to_load(tmp_path):
    whole = graph(node("Identity"))
    for length in range(0, len(whole) - 8, 7):  # what is last, the opset, is the runtime's to miss
        (tmp_path / "cut.onnx").write_bytes(whole[:length])
        given = UserModel("cut", "path", onnx=tmp_path / "cut.onnx")
        with pytest.raises(AlignkitError, match=r"no ONNX file|has 0 inputs|is empty"):
            given.checkpoint(tuple("0123456789"), (32, 32))


def test_int8_refuses_what_the_runtime_cannot_load_before_it_quantises(tmp_path, capfd):
    write_models(tmp_path)
    with pytest.raises(BackendError, match=r"cannot load the graph: .*Warp"):
        quantise(tmp_path / "custom.onnx", np.zeros((2, 3, 32, 32), np.float32), tmp_path)
    assert capfd.readouterr().err == ""


def test_words_keep_what_is_not_a_place_in_the_librarys_source():
    assert refusal(ValueError("no kernel (for x)\n  at all")) == "no kernel (for x) at all"
