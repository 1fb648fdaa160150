"""Runs of segmenters, of models of several labels and of own scores: from YAML to numbers."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from sklearn.metrics import jaccard_score, recall_score

from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.gate import run_or_check
from alignkit.plan.required_models import require_models
from alignkit.progress import NoProgress
from alignkit.record.document import artifact_file
from alignkit.report.write_report import ReportOptions, write_report
from alignkit.tasks import stored_answers
from alignkit.workspace import Context, Workspace
from tests.photos import encoded, photo

IDS = [f"{index}.jpg" for index in range(6)]
EXPERIMENT = """
name: {name}
task: {task}
data: {data}
preprocess:
  opencv: {{preset: opencv-train, size: 32}}
  pillow: {{preset: pillow-train, size: 32}}
models: [{{name: net, onnx: {graph}, preprocess: opencv}}]
evaluate: {{backends: [onnxruntime], batch_size: 4, resamples: 200}}
attribute: {{images: none}}
gate: {{rules: [{rules}]}}
"""
SCORES = """
def brightness(outputs, sample):
    return float(outputs["output"].mean())

def gaps(outputs, sample):
    return None if sample.id == "images/0.jpg" else float(outputs["output"].mean())

def unknown(outputs, sample):
    return float("nan") if sample.id == "images/1.jpg" else float(outputs["output"].mean())

def far(a, b):
    return bool(abs(a["output"] - b["output"]).max() > 1e9)
"""


def write_graph(file, nodes, shape, **weights) -> None:
    made = [numpy_helper.from_array(np.asarray(each), name) for name, each in weights.items()]
    graph = helper.make_graph(
        [helper.make_node(kind, [*taken], ["scores" if last else kind], **options)
         for last, (kind, taken, options) in zip(
             [*[False] * (len(nodes) - 1), True], nodes, strict=True)],
        "net",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 32, 32])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", *shape])],
        made,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, file)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Photographs with masks and labels, and small models of each kind."""
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0)
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    lines = ["image,bright,blue"]
    for index, name in enumerate(IDS):
        image = photo("china" if index % 2 else "flower", 61 + index, 97)
        (tmp_path / "images" / name).write_bytes(encoded(image))
        mask = (image.mean(axis=2) > 120).astype(np.uint8)
        cv2.imwrite(str(tmp_path / "masks" / name.replace("jpg", "png")), mask)
        lines.append(f"images/{name},{int(image.mean() > 110)},{index % 2}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    (tmp_path / "own.py").write_text(SCORES)
    kernel = draws.normal(size=(2, 3, 3, 3)).astype(np.float32)
    convolution = ("Conv", ["images", "kernel"], {"pads": [1] * 4})
    write_graph("masks.onnx", [convolution], [2, 32, 32], kernel=kernel)
    pooled = [convolution, ("GlobalAveragePool", ["Conv"], {})]
    flat = [*pooled, ("Flatten", ["GlobalAveragePool"], {})]
    write_graph("labels.onnx", flat, [2], kernel=kernel * 5)
    write_graph("nan.onnx", [*flat, ("Mul", ["Flatten", "by"], {})], [2], kernel=kernel,
                by=np.array([np.nan, 1], np.float32))  # fmt: skip
    nan = ("Mul", ["Conv", "by"], {})
    write_graph("nan-masks.onnx", [convolution, nan], [2, 32, 32], kernel=kernel,
                by=np.full((1, 2, 1, 1), np.nan, np.float32))  # fmt: skip
    return tmp_path


def experiment(task: str, data: str, graph: str, *rules: str, name: str = "dense"):
    text = EXPERIMENT.format(name=name, task=task, data=data, graph=graph, rules=", ".join(rules))
    file = Path("dense.yaml")
    file.write_text(text)
    return load_experiment(file)


def measured(*given: str):
    """The record of a run, its folder, and the answers of each path."""
    found = experiment(*given)
    require_models(found)
    record, folder = run_or_check(found, Context(Workspace(Path("reports")), NoProgress()))
    answers = {
        cell.evaluated_with: stored_answers(record, artifact_file(folder, cell.predictions))
        for cell in record.cells
        if cell.predictions
    }
    return record, folder, answers


def page_of(folder) -> str:
    write_report(folder, ReportOptions())
    return (folder / "index.html").read_text()


MASKS = "{name: masks, root: ., classes: [dark, bright], eval_share: 1}"
LABELS = "{name: labels, root: ., annotations: labels.csv, eval_share: 1}"
UNLABELLED = "{name: images, root: images}"


def test_a_segmenter_has_the_iou_that_scikit_learn_computes_of_its_masks(folder):
    rules = "{metric: pixel_churn, fail: 0.001}", "{metric: miou, margin: 0.5}"
    record, run, answers = measured("segmentation", MASKS, "masks.onnx", *rules)
    served = answers["pillow"]
    from alignkit.tasks.segmentation.class_maps import from_png

    truth, found = (
        np.concatenate([from_png(each).ravel() for each in side])
        for side in (served.truths, served.maps)
    )
    cell = next(each for each in record.matrix if each.evaluated_with == "pillow")
    assert cell.metrics["miou"] == pytest.approx(jaccard_score(truth, found, average="macro"))
    before = np.concatenate([from_png(each).ravel() for each in answers["opencv"].maps])
    assert cell.drift.measures["pixel_churn"].value == pytest.approx((before != found).mean())
    assert {each.metric: each.state for each in record.verdict.rules}["pixel_churn"] == "fail"
    assert "Mean IoU" in page_of(run)


def test_labels_have_the_recall_that_scikit_learn_computes_of_them(folder):
    rule = "{metric: label_churn, fail: 2}"
    record, run, answers = measured("multi-label", LABELS, "labels.onnx", rule)
    served = answers["pillow"]
    cell = next(each for each in record.matrix if each.evaluated_with == "pillow")
    expected = recall_score(served.truth, served.scores > 0, average="micro", zero_division=0)
    assert cell.metrics["recall.micro"] == pytest.approx(expected)
    assert {each.state for each in record.verdict.rules} == {"pass"}
    assert "Changed labels" in page_of(run)


@pytest.mark.parametrize("data", [UNLABELLED, LABELS, MASKS])
def test_an_own_score_needs_no_labels(folder, data):
    task = "{name: score, score: 'own.py:brightness', better: less}"
    rule = "{metric: score.brightness, margin: 5}"
    record, run, answers = measured(task, data, "labels.onnx", rule)
    entry = next(each for each in record.matrix if each.evaluated_with == "pillow")
    values = {name: each.scores.values[:, 0] for name, each in answers.items()}
    assert entry.metrics["score.brightness"] == pytest.approx(values["pillow"].mean())
    apart = np.abs(values["pillow"] - values["opencv"])
    assert entry.drift.measures["score.brightness.apart"].value == pytest.approx(apart.mean())
    assert entry.drift.wrong_to_right == (values["pillow"] < values["opencv"]).sum()
    assert "brightness" in page_of(run)


def test_a_function_of_the_users_own_says_which_answers_changed(folder):
    task = "{name: score, score: 'own.py:brightness', changed: 'own.py:far'}"
    record, _, _ = measured(task, UNLABELLED, "labels.onnx", "{metric: churn, fail: 0}")
    assert {each.state for each in record.verdict.rules} == {"pass"}


def test_a_score_that_some_images_lack_is_the_mean_of_the_others(folder):
    record, _, answers = measured(
        "{name: score, score: 'own.py:gaps'}",
        MASKS,
        "labels.onnx",
        "{metric: score.gaps, margin: 9}",
    )
    entry = next(each for each in record.matrix if each.evaluated_with == "pillow")
    scores = answers["pillow"].scores
    known = scores.values[scores.defined]
    assert 0 < len(known) < scores.values.size
    assert entry.metrics["score.gaps"] == pytest.approx(known.mean())


def test_a_score_that_is_no_number_says_so_and_names_the_image(folder):
    task, rule = "{name: score, score: 'own.py:unknown'}", "{metric: score.unknown, margin: 9}"
    record, _, _ = measured(task, MASKS, "labels.onnx", rule)
    (entry,) = (each for each in record.matrix if each.drift)
    said = "the scores of 1 of 6 images are not finite, first that of 'images/1.jpg'"
    assert entry.drift.metrics["score.unknown"].reason == said
    assert entry.drift.measures["score.unknown.apart"].reason == said
    assert {each.state for each in record.verdict.rules} == {"error"}


@pytest.mark.parametrize(
    ("task", "data", "graph"),
    [("multi-label", LABELS, "nan.onnx"), ("segmentation", MASKS, "nan-masks.onnx")],
)
def test_outputs_that_are_no_numbers_are_counted_and_the_page_is_written(folder, task, data, graph):
    record, run, _ = measured(task, data, graph, "{metric: churn, fail: 0.1}")
    assert {each.non_finite for each in record.matrix} == {6}
    assert record.verdict.state != "pass"
    page_of(run)


@pytest.mark.parametrize(
    ("task", "data", "graph", "said"),
    [
        ("segmentation", MASKS, "labels.onnx", "expected logits"),
        ("multi-label", LABELS, "masks.onnx", "one score of each label"),
        ("multi-label", MASKS, "labels.onnx", "multi-label needs the labels of each image"),
        ("segmentation", LABELS, "masks.onnx", "segmentation needs a mask for each image"),
    ],
)
def test_a_model_or_data_that_do_not_fit_the_task_are_refused_first(
    folder, task, data, graph, said
):
    with pytest.raises(ConfigError, match=said):
        require_models(experiment(task, data, graph, "{metric: churn, fail: 0.1}"))


def test_masks_of_another_size_are_refused_with_both_sizes(folder):
    cv2.imwrite("masks/3.png", np.zeros((5, 7), np.uint8))
    with pytest.raises(Exception, match=r"3.*7 ?[x×] ?5") as raised:
        measured("segmentation", MASKS, "masks.onnx", "{metric: miou, margin: 0.5}")
    assert type(raised.value).__module__ == "alignkit.errors"
