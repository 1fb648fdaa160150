"""Answers that are no classes along two paths, against a run's and the same by hand."""

import json

import numpy as np
import onnxruntime
import pytest

import alignkit
from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.experiment.yaml_argument import path_of
from alignkit.gate import run_or_check
from alignkit.predict.given_model import given_model, given_task
from alignkit.progress import NoProgress
from alignkit.record.diff_document import DiffRecord
from alignkit.report.notebook import diff_html
from alignkit.studies.diff.diff_arguments import model_and_side
from alignkit.studies.diff.diff_summary import diff_summary
from alignkit.workspace import Context, Workspace
from tests.photos import encoded, photo
from tests.runner import test_detection_run as squares
from tests.runner.test_dense_runs import write_graph

OPENCV = {"preset": "ultralytics-letterbox", "size": 96}
CENTRED = {
    "name": "centred", **OPENCV, "normalise": {"mean": [0.4, 0.4, 0.4], "std": [1, 1, 1]},
}  # fmt: skip
PATHS = [{"name": name, "preset": f"{name}-train", "size": 32} for name in ("opencv", "pillow")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photographs, and a small model of masks, of labels, and one whose output is not finite."""
    root = tmp_path_factory.mktemp("answers")
    (root / "images").mkdir()
    for index in range(6):
        image = photo("china" if index % 2 else "flower", 61 + index, 97)
        (root / "images" / f"{index}.jpg").write_bytes(encoded(image))
    draws = np.random.default_rng(0)
    kernel = draws.normal(size=(2, 3, 3, 3)).astype(np.float32)
    convolution = ("Conv", ["images", "kernel"], {"pads": [1] * 4})
    write_graph(root / "masks.onnx", [convolution], [2, 32, 32], kernel=kernel)
    pooled = [convolution, ("GlobalAveragePool", ["Conv"], {})]
    flat = [*pooled, ("Flatten", ["GlobalAveragePool"], {})]
    write_graph(root / "labels.onnx", flat, [2], kernel=kernel * 5)
    by = np.array([np.nan, 1], np.float32)
    scaled = [*flat, ("Mul", ["Flatten", "by"], {})]
    write_graph(root / "nan.onnx", scaled, [2], kernel=kernel, by=by)
    (root / "own.py").write_text(
        "def brightness(outputs, sample):\n    return float(outputs['output'].mean())\n"
    )
    return root


def outputs(folder, model):
    """Both paths' outputs of the images in the order of their names, by ONNX Runtime alone."""
    session = onnxruntime.InferenceSession(str(folder / model))
    files = sorted((folder / "images").iterdir())
    sides = []
    for each in PATHS:
        made = path_of(each, "path")
        batch = [made.normalise(made.taps(file.read_bytes()).last[None]) for file in files]
        sides.append(session.run(None, {"images": np.concatenate(batch)})[0])
    return sides


def compared(folder, model, task, paths=PATHS) -> DiffRecord:
    images = folder / "images"
    return alignkit.diff(images, *paths, model=folder / model, task=task).record


def test_boxes_change_as_in_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    squares.write_images(tmp_path / "squares")
    squares.write_detector(tmp_path / "patches.onnx")
    (tmp_path / "squares.yaml").write_text(squares.EXPERIMENT)
    context = Context(Workspace(tmp_path / "reports"), NoProgress())
    run, _ = run_or_check(load_experiment(tmp_path / "squares.yaml"), context)
    (entry,) = [e for e in run.matrix if (e.evaluated_with, e.precision) == ("centred", "fp32")]
    record = alignkit.diff(
        "squares/images", OPENCV, CENTRED, model="patches.onnx", task="detection"
    ).record
    found = record.pairs[0].predictions
    expected = {name: each.value for name, each in entry.drift.measures.items()}
    assert expected["boxes.won"] > 0
    values = {name: each.value for name, each in found.measures.items()}
    assert values == pytest.approx(expected, rel=1e-5)
    assert found.churn.value == pytest.approx(entry.drift.churn.value)
    assert found.moved[0].before != found.moved[0].after
    assert record.task.name == "detection"
    summary = diff_summary(record)
    assert "lost boxes: " in summary
    assert "logit" not in summary + diff_html(record)
    assert "boxes above 0.001 are kept" in summary


def test_masks_change_in_the_pixels_that_another_class_has(folder):
    record = compared(folder, "masks.onnx", {"name": "segmentation", "changed": 0})
    found = record.pairs[0].predictions
    before, after = (side.argmax(axis=1) for side in outputs(folder, "masks.onnx"))
    # each image is 97 pixels wide and of its own height, taken by the nearest cell
    shares = []
    for index, (a, b) in enumerate(zip(before, after, strict=True)):
        rows, columns = (
            np.floor((np.arange(side) + 0.5) * 32 / side).astype(int) for side in (61 + index, 97)
        )
        shares.append((a != b)[rows[:, None], columns].mean())
    assert found.flips == np.count_nonzero(shares) > 0
    assert found.measures["pixel_churn"].value == pytest.approx(np.mean(shares), rel=0.02)


def test_labels_change_where_a_score_crosses_the_threshold(folder):
    found = compared(folder, "labels.onnx", "multi-label").pairs[0].predictions
    before, after = (side > 0 for side in outputs(folder, "labels.onnx"))
    assert found.n == 6
    assert found.flips == (before != after).any(axis=1).sum()
    assert found.stages == () or {each.factor for each in found.stages} >= {"resize"}


def test_an_own_score_is_measured_without_labels(folder, monkeypatch):
    monkeypatch.chdir(folder)
    task = {"name": "score", "score": "own.py:brightness"}
    found = compared(folder, "labels.onnx", task).pairs[0].predictions
    before, after = (side.mean(axis=1) for side in outputs(folder, "labels.onnx"))
    apart = found.measures["score.brightness.apart"].value
    assert apart == pytest.approx(np.abs(after - before).mean(), rel=1e-4)


def test_outputs_that_are_no_numbers_are_counted_and_not_judged(folder):
    record = compared(folder, "nan.onnx", "multi-label")
    found = record.pairs[0].predictions
    assert (found.n, found.non_finite, found.measures) == (0, 6, {})
    assert found.churn.value is None
    assert "nan.onnx: nothing was compared: no image has finite" in diff_summary(record)


def test_the_page_shows_measures_and_no_logits(folder, tmp_path):
    images = folder / "images"
    made = alignkit.diff(
        images, *PATHS, model=folder / "masks.onnx", task="segmentation", page=tmp_path
    )
    page = made.page.read_text()
    assert "Changed pixels: " in page
    assert "Δ logit" not in page
    assert "margin" not in page
    assert "--task segmentation" in json.loads((tmp_path / "record.json").read_text())["command"]


def test_the_task_is_the_experiments_unless_one_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    squares.write_images(tmp_path / "squares")
    squares.write_detector(tmp_path / "patches.onnx")
    (tmp_path / "squares.yaml").write_text(squares.EXPERIMENT)
    experiment = load_experiment(tmp_path / "squares.yaml")
    (own, _), (given, _) = (
        model_and_side("patches.onnx", task, experiment) for task in ("", "segmentation")
    )
    assert own.task.facts().name == "detection"
    assert given.task.facts().name == "segmentation"


@pytest.mark.parametrize(
    ("model", "task", "said"),
    [
        ("masks.onnx", "", "for another kind of model, as .*--task detection"),
        ("masks.onnx", "detecton", "did you mean 'detection'"),
        ("masks.onnx", "{name: detection, scor: 0.3}", "scor: detection has no such option"),
        ("labels.onnx", "segmentation", "expected logits"),
        (None, "detection", "add --model"),
    ],
)
def test_a_task_that_does_not_fit_is_refused_before_the_images_are_read(folder, model, task, said):
    with pytest.raises(ConfigError, match=said):
        alignkit.diff(folder / "images", *PATHS, model=model and folder / model, task=task)


def test_a_model_keeps_the_task_it_is_given(folder):
    model = given_model(str(folder / "masks.onnx"), given_task("segmentation"))
    assert model.task == given_task("{name: segmentation}")
