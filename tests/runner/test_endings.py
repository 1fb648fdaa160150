"""A run in which models failed says how many could be measured, and each reason once."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from alignkit.experiment import load_experiment
from alignkit.progress import NoProgress
from alignkit.report.terminal_view import summary
from alignkit.report.write_report import ReportOptions, write_report
from alignkit.runner import run_experiment
from alignkit.workspace import Context, Workspace

YAML = """\
name: four
data: {{name: folder, root: {root}}}
preprocess:
  one: {{decode: pillow, resize: {{name: pillow, size: 16}}}}
  other: {{same: true, decode: pillow, resize: {{name: pillow, size: 16}}}}
models:
  - {{name: right, onnx: {root}/../right.onnx, preprocess: one}}
  - {{name: broken, onnx: {root}/../broken.onnx, preprocess: one}}
  - {{name: again, onnx: {root}/../broken.onnx, preprocess: one}}
  - {{name: torn, onnx: {root}/../torn.onnx, preprocess: one}}
evaluate: {{backends: [onnxruntime], resamples: 200}}
gate: {{informational: true, rules: [{{metric: churn, fail: 0.1}}]}}
"""


def write_graph(file, operator=""):
    """Write a model that answers by the mean of red and of green, or one with an unknown operator."""
    weights = np.zeros((3 * 16 * 16, 2), np.float32)
    weights[:256, 0] = weights[256:512, 1] = 1 / 256
    node = helper.make_node(operator or "MatMul", ["f", "w"], ["y"], domain="own" * bool(operator))
    made = helper.make_graph(
        [helper.make_node("Flatten", ["x"], ["f"]), node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3, 16, 16))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n", 2))],
        [numpy_helper.from_array(weights, "w")],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(made, opset_imports=sets, ir_version=8)
    file.write_bytes(model.SerializeToString())


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("four")
    for channel, name in enumerate(("red", "tint")):
        (folder / "data" / name).mkdir(parents=True)
        for index in range(10):
            pixels = np.zeros((20, 20, 3), np.uint8)
            pixels[..., channel] = 100 + index
            Image.fromarray(pixels).save(folder / "data" / name / f"{index}.png")
    for name, operator in (("right", ""), ("broken", "Nope"), ("torn", "Nada")):
        write_graph(folder / f"{name}.onnx", operator)
    (folder / "four.yaml").write_text(YAML.format(root=folder / "data"))
    workspace = Workspace(folder / "reports")
    experiment = load_experiment(folder / "four.yaml")
    record, run = run_experiment(experiment, Context(workspace, NoProgress()))
    write_report(run, ReportOptions())
    return record, run


def test_the_first_line_counts_the_models_and_nothing_is_called_aligned(ran):
    record, run = ran
    assert record.verdict.state == "error"
    assert record.verdict.exit_code == 3
    first, second, *_ = summary(record, run / "index.html").splitlines()
    assert first == "four: ERROR (1 of 4 models could be measured)"
    assert second.startswith("3 of 4 checks could not be measured: churn, trained with one ")
    shown = [(run / name).read_text() for name in ("index.html", "summary.md", "results.json")]
    for text in (*shown, summary(record, run / "index.html")):
        assert "1 of 4 models could be measured" in text
        assert "Aligned" not in text
        assert "Informational" not in text  # its exit code is an error's
    sentence = json.loads(shown[2])["said"][0]
    assert sentence.startswith("1 of 4 models could be measured. 3 of 4 checks could not")
