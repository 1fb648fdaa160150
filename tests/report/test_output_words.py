"""What a model's outputs are is one fact, and each surface says it in its words."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from alignkit.experiment.yaml_argument import named_paths
from alignkit.predict.given_model import given_model, given_task
from alignkit.progress import NoProgress
from alignkit.record.diff_document import write_diff_record
from alignkit.record.document import read_record, write_record
from alignkit.report.diff_page import render_diff
from alignkit.report.notebook import run_html
from alignkit.report.terminal_view import summary
from alignkit.report.write_report import ReportOptions, write_report
from alignkit.studies.diff import DiffRequest, diff
from alignkit.studies.diff.diff_summary import diff_summary
from alignkit.task_facts import CLASSIFICATION
from tests.predict.test_given_answers import FLOAT, ONE, SCORES, SIDE, node, written
from tests.run_pair import write_small_run
from tests.studies.diff.test_diff import FILES, samples_of

SHOWN = {
    "logits": "logit", "probabilities": "probability", "percent": "percentage", "levels": "level",
    "scores": "score",
}  # fmt: skip
SOFTMAX = [*SCORES, node("Softmax", "z", "p", axis=1)]
SIGMOID = [*SCORES, node("Sigmoid", "z", "p")]
MODELS = {
    # name of the case: nodes of the graph, its outputs and weights, the task, the word for the outputs
    "logits": (SCORES, [5], {}, "", "logits"),
    "one logit": (SCORES, [1], ONE, "", "logits"),
    "logarithms": ([*SCORES, node("LogSoftmax", "z", "p", axis=1)], [5], {}, "", "logits"),
    "softmax": (SOFTMAX, [5], {}, "", "probabilities"),
    "softmax, hidden": (
        [*SOFTMAX, node("Mul", "p top", "y")], [5], {"top": np.float32(1)}, "", "probabilities",
    ),
    "percentages": (
        [*SOFTMAX, node("Mul", "p top", "y")], [5], {"top": np.float32(100)}, "", "percent",
    ),
    "levels": (
        [*SOFTMAX, node("Mul", "p top", "y")], [5], {"top": np.float32(255)}, "", "levels",
    ),
    "one probability": (SIGMOID, [1], ONE, "", "probabilities"),
    "one percentage": (
        [*SIGMOID, node("Mul", "p top", "y")], [1], {**ONE, "top": np.float32(100)},
        "{name: classification, scores: percent}", "percent",
    ),
    "labels, by an option": (
        SIGMOID, [5], {}, "{name: classification, scores: as-is}", "probabilities",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_diff_says_what_the_outputs_are(name, tmp_path):
    nodes, sides, weights, task, scale = MODELS[name]
    outputs = {nodes[-1].output[0]: (FLOAT, sides)}
    file = written(tmp_path / "model.onnx", nodes, outputs, weights=weights)
    model = given_model(str(file), given_task(task) if task else None)
    paths = named_paths(["pillow-train", "opencv-train"], size=SIDE)
    record = diff(DiffRequest(paths, samples_of(FILES), "files", model=model), NoProgress())
    assert record.task.scores == scale
    assert json.loads(record.model_dump_json())["task"]["scores"] == scale
    said = SHOWN[scale]
    told = diff_summary(record)
    assert f"{record.task.outputs}: mean |Δ|" in told
    assert f"max |Δ {said}|" in told
    write_diff_record(record, tmp_path / "record.json")
    page = render_diff(tmp_path).read_text()
    assert f"Max |Δ {said}|" in page
    if said != "logit":
        assert "Δ logit" not in told + page


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("scale", SHOWN)
def test_every_surface_of_a_run_says_what_the_outputs_are(scale, labelled, tmp_path):
    made = read_record(write_small_run(tmp_path, flipped=range(5)))
    data = made.data.model_copy(update={} if labelled else {"classes": ()})
    record = made.model_copy(update={"task": replace(made.task, scores=scale), "data": data})
    assert record.labelled is labelled
    write_record(record, tmp_path)
    write_report(tmp_path, ReportOptions())
    assert json.loads((tmp_path / "results.json").read_text())["task"]["scores"] == scale
    page = re.sub(
        r"<pre.*?</pre>|<style.*?</style>|<script.*?</script>", "",
        (tmp_path / "index.html").read_text(), flags=re.DOTALL,
    )  # fmt: skip
    text = page + (tmp_path / "summary.md").read_text() + summary(record, tmp_path)
    text += run_html(record)
    assert record.task.outputs in text.lower()
    assert labelled or f"Mean |Δ{SHOWN[scale]}|" in text
    assert ("logit" in text.lower()) is (scale == "logits")


def test_models_that_differ_have_scores():
    assert CLASSIFICATION.giving([]).scores == "logits"
    assert CLASSIFICATION.giving(["percent", "percent"]).outputs == "percentages"
    assert CLASSIFICATION.giving(["logits", "probabilities"]).output == "score"
    assert replace(CLASSIFICATION, class_scores=False).outputs == "outputs"
