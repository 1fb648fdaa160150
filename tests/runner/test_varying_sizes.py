"""A model of any input size and its export of one size, on Ultralytics' two letterboxes."""

from __future__ import annotations

import cv2
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from alignkit.cli import main
from alignkit.compare.predictions import Predictions
from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.gate import run_or_check
from alignkit.plan import make_plan
from alignkit.plan.required_models import require_models
from alignkit.progress import NoProgress
from alignkit.workspace import Context, Workspace
from tests.photos import encoded, photo

SHAPES = [(61, 97), (61, 97), (97, 61), (100, 100), (61, 97), (33, 500)]
EXPERIMENT = """
name: rect
data: {name: folder, root: photos}
preprocess:
  pt: {preset: ultralytics-letterbox-rect, size: 128}
  onnx: {preset: ultralytics-letterbox, size: 128}
models:
  - {name: any-size, onnx: any-size.onnx, classes: [a, b], preprocess: pt}
  - {name: one-size, onnx: one-size.onnx, classes: [a, b], preprocess: onnx}
evaluate: {backends: [onnxruntime, openvino], batch_size: 4, resamples: 200}
"""


def write_graph(file, *sides) -> None:
    """A convolution whose padding sees the border, the mean over all places, two classes."""
    draws = np.random.default_rng(0)
    weights = {
        "kernel": draws.normal(size=(8, 3, 5, 5)), "head": draws.normal(size=(8, 2)) * 5,
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["images", "kernel"], ["seen"], strides=[4, 4], pads=[2] * 4),
        helper.make_node("Relu", ["seen"], ["lit"]),
        helper.make_node("GlobalAveragePool", ["lit"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "head"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, *sides])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(each.astype(np.float32), name) for name, each in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rect")
    write_graph(folder / "any-size.onnx", "height", "width")
    write_graph(folder / "one-size.onnx", 128, 128)
    for index, shape in enumerate(SHAPES * 2):
        image = folder / "photos" / "ab"[index % 2] / f"{index:02}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(encoded(photo(("china", "flower")[index % 2], *shape), "PNG"))
    (folder / "rect.yaml").write_text(EXPERIMENT)
    return folder


@pytest.fixture(scope="module")
def run(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        context = Context(Workspace(folder / "reports"), NoProgress())
        return run_or_check(load_experiment(folder / "rect.yaml"), context)


def letterboxed(file, *, auto: bool) -> np.ndarray:
    """(1, 3, h, w) of an image: scaled, rounded, padded with 114, by OpenCV alone."""
    image = cv2.imread(str(file))[..., ::-1]
    height, width = image.shape[:2]
    ratio = min(128 / height, 128 / width)
    inner = round(width * ratio), round(height * ratio)
    across, down = ((128 - side) % 32 if auto else 128 - side for side in inner)
    borders = [round(sign * 0.1 + each / 2) for each in (down, across) for sign in (-1, 1)]
    padded = cv2.copyMakeBorder(
        cv2.resize(image, inner), *borders, cv2.BORDER_CONSTANT, value=(114,) * 3
    )
    return np.ascontiguousarray(padded.transpose(2, 0, 1)[None].astype(np.float32) / 255)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "auto"), [("pt", True), ("onnx", False)])
def test_each_images_logits_are_those_of_the_model_on_its_own_rectangle(run, folder, path, auto):
    record, root = run
    (cell,) = [
        each
        for each in record.cells
        if (each.evaluated_with, each.backend) == (path, "onnxruntime")
        and each.trained_with == "pt (model any-size)"
    ]
    answers = Predictions.from_parquet(root / cell.predictions.path)
    session = onnxruntime.InferenceSession(folder / "any-size.onnx")
    files = [folder / "photos" / each for each in answers.ids]
    tensors = [letterboxed(each, auto=auto) for each in files]
    assert len({each.shape for each in tensors}) == (4 if auto else 1)
    expected = [session.run(None, {"images": each})[0][0] for each in tensors]
    np.testing.assert_allclose(answers.logits, expected, atol=1e-4)


def test_a_graph_of_one_size_is_skipped_with_the_reason(folder, monkeypatch):
    pytest.importorskip("openvino", reason="needs the extra openvino")
    monkeypatch.chdir(folder)
    plan = make_plan(load_experiment(folder / "rect.yaml"))
    skipped = [each for each in plan.evaluations if each.skipped]
    reasons = {(each.training.given.name, each.runtime.name): each.skipped for each in skipped}
    assert all(each.unsuited and each.preprocess.name == "pt" for each in skipped)
    assert reasons.keys() == {
        ("one-size", "onnxruntime"), ("one-size", "openvino"), ("any-size", "openvino"),
    }  # fmt: skip
    assert (
        "takes inputs of ?x3x128x128 alone; export it with open height and width"
        in (reasons["one-size", "onnxruntime"])
    )
    assert reasons["any-size", "openvino"] == (
        "the size of pt's images varies, and openvino runs here on one size"
    )


def test_check_says_along_which_paths_a_graph_cannot_run(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["alignkit", "check", "rect.yaml"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    said = capsys.readouterr().out
    (line,) = [each for each in said.splitlines() if "in onnxruntime" in each]
    assert line == (
        "  one-size: along pt it is skipped in onnxruntime: the size of pt's images varies, and "
        "one-size.onnx takes inputs of ?x3x128x128 alone; export it with open height and width "
        "(torch.onnx.export: dynamic_shapes; Ultralytics: dynamic=True)"
    )
    elsewhere = "along pt it is skipped in openvino: the size of pt's images varies, and openvino"
    assert said.count(elsewhere) == 2
    plan = make_plan(load_experiment(folder / "rect.yaml"))
    assert all(each.skipped in said for each in plan.evaluations if each.unsuited)


@pytest.mark.slow
def test_the_first_batch_of_a_path_whose_size_varies_may_hold_one_image(run):
    record, _ = run
    checks = {each.evaluated_with: each.batch for each in record.cells
              if each.trained_with == "pt (model any-size)" and each.backend == "onnxruntime"}  # fmt: skip
    assert (checks["onnx"].images, checks["onnx"].batch, checks["onnx"].reason) == (4, 4, "")
    assert (checks["pt"].images, checks["pt"].max_abs) == (0, None)
    assert (
        checks["pt"].reason == "the first batch held one image, as no other beside it has its size"
    )


@pytest.mark.slow
def test_the_resize_alone_divides_predictions_and_pixels_are_not_divided(run):
    record, _ = run
    pixels, *predicted = record.attributions
    assert (pixels.metric, pixels.shares) == ("pixels", ())
    assert pixels.reason == "some mixture gives the model an input of another size"
    assert {each.metric for each in predicted} >= {"churn", "recall.macro"}
    for each in predicted:
        (share,) = each.shares
        assert (share.factor, share.effect.value) == ("resize", each.total.value)


@pytest.mark.slow
def test_the_pixels_are_said_to_be_of_other_shapes_from_resize_on(run):
    record, _ = run
    stages = {each.stage: each for each in record.pixels if each.mode == "cumulative"}
    assert (stages["orient"].images, stages["orient"].shape_mismatches) == (12, 0)
    # the square images alone have one size on both paths
    assert (stages["resize"].images, stages["resize"].shape_mismatches) == (2, 10)
    # the others are shown too, without a difference
    square = {"b/03.png", "b/09.png"}
    assert not {each.id for each in record.shown} <= square
    for each in record.shown:
        of_two_sizes = each.id not in square
        assert (each.max_abs is None, each.difference is None) == (of_two_sizes, of_two_sizes)
        assert (each.size_b is not None) == of_two_sizes


def test_a_graph_of_one_size_cannot_have_a_path_whose_size_varies(folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = EXPERIMENT.replace("onnx: one-size.onnx, classes: [a, b], preprocess: onnx",
                              "onnx: one-size.onnx, classes: [a, b], preprocess: pt")  # fmt: skip
    (folder / "wrong.yaml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        require_models(load_experiment(folder / "wrong.yaml"))
    message = str(refused.value)
    assert "models.1.onnx: the size of pt's images varies, and one-size.onnx takes" in message
    assert "Ultralytics: dynamic=True" in message
