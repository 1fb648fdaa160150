"""Torch modules of any task: their outputs are recognised by the names that they return."""

import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from alignkit.backends.onnxruntime import ONNXRuntimeBackend
from alignkit.engines.export import checked_objects, export_onnx
from alignkit.errors import BackendError, DataError
from alignkit.models.entry_faults import entry_faults
from alignkit.models.model_fit import given_checkpoint, output_names, require_own_code
from alignkit.models.user_model import UserModel
from alignkit.tasks import OutputShape
from alignkit.tasks.detection import Detection
from alignkit.tasks.segmentation import Segmentation
from alignkit.workspace import Workspace

SIZE = (16, 16)
CODE = """
import torch
from torch import nn


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 1)


class Detector(Body):
    def forward(self, images):
        found = []
        for image in images:
            # as many boxes as places above the mean: each image has another number
            rows = self.layer(image[None])[0].flatten(1).T[:12]
            kept = torch.where(rows[:, 0] > rows[:, 0].mean())[0]
            rows = rows[kept]
            corners = torch.cat([rows[:, :2].abs(), rows[:, :2].abs() + 5], dim=1)
            labels = torch.ones_like(kept)
            found.append({"scores": rows[:, 3].sigmoid(), "boxes": corners, "labels": labels})
        return found


class Segmenter(Body):
    def forward(self, images):
        out = self.layer(images)
        return {"out": out, "aux": out * 0.5}


def detector():
    return Detector()


def segmenter():
    return Segmenter()
"""


@pytest.fixture
def given(tmp_path, monkeypatch):
    (tmp_path / "own_nets.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_nets", raising=False)

    def made(name, task, **more):
        torch.manual_seed(0)
        conv = torch.nn.Conv2d(3, 4, 1)
        state = {f"layer.{key}": each for key, each in conv.state_dict().items()}
        torch.save(state, tmp_path / f"{name}.pt")
        return UserModel(
            name,
            "path",
            weights=tmp_path / f"{name}.pt",
            model=f"own_nets:{name}",
            task=task,
            **more,
        )

    yield made
    sys.modules.pop("own_nets", None)


def images(count):
    return np.random.default_rng(1).normal(size=(count, 3, *SIZE)).astype(np.float32)


def test_a_detector_that_returns_lists_needs_no_names_of_outputs(given):
    model = given("detector", Detection())
    require_own_code(model, ("cat", "dog"), SIZE)
    checkpoint = given_checkpoint(model, ("cat", "dog"), SIZE)
    assert checkpoint.outputs == ("boxes", "labels", "scores")


def test_the_main_head_of_a_segmenter_is_found_by_name(given):
    checkpoint = given_checkpoint(given("segmenter", Segmentation()), tuple("abcd"), SIZE)
    assert checkpoint.outputs == ("out",)


def test_without_labels_all_classes_of_a_model_are_outside(given):
    named = given_checkpoint(given("detector", Detection(), classes=("cat", "dog")), (), SIZE)
    assert (named.classes, named.outside) == (2, ("cat", "dog"))
    counted = given_checkpoint(given("segmenter", Segmentation()), (), SIZE)
    assert counted.outside == tuple(f"output {index}" for index in range(4))
    with pytest.raises(DataError, match="does not say how many outputs it has; name them"):
        output_names(given("detector", Detection()), SIZE)


def test_outputs_that_the_task_cannot_read_are_refused_where_a_run_begins(given):
    with pytest.raises(DataError, match=r"segmenter\.pt: .* are none that detection can decode"):
        require_own_code(given("segmenter", Detection()), ("cat",), SIZE)


def test_a_detector_is_exported_for_one_image_with_the_names_of_its_outputs(given, tmp_path):
    checkpoint = given_checkpoint(given("detector", Detection()), ("cat", "dog"), SIZE)
    file = export_onnx(checkpoint, Workspace(tmp_path / "kept"), images(3))
    graph = onnx.load(file).graph
    assert [each.name for each in graph.output] == ["boxes", "labels", "scores"]
    checked = (file.parent / "check.json").read_text()
    assert '"without_counterpart": 0' in checked


def test_objects_without_a_counterpart_are_found_in_any_order():
    boxes = np.random.default_rng(0).uniform(0, 9, (2, 50, 4)).astype(np.float32)
    scores = np.linspace(0.9, 0.1, 50, dtype=np.float32)[None].repeat(2, axis=0)
    turned = (boxes[:, ::-1], scores[:, ::-1])
    assert checked_objects((boxes, scores), turned, "m") == {
        "objects": 200, "without_counterpart": 0
    }  # fmt: skip
    fewer = (boxes[:, :40], scores[:, :40])
    with pytest.raises(BackendError, match=r"20 of the 180 of both have no counterpart"):
        checked_objects((boxes, scores), fewer, "m")
    wrong = boxes.copy()
    wrong[0, :5] += 1
    with pytest.raises(BackendError, match="no counterpart"):
        checked_objects((boxes, scores), (wrong, scores), "m")


def test_an_onnx_file_beside_a_module_has_outputs_of_the_same_names(given, tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Identity", ["images"], ["mask"])], "g",
        [helper.make_tensor_value_info("images", 1, ["n", 3, *SIZE])],
        [helper.make_tensor_value_info("mask", 1, ["n", 4, *SIZE])],
    )  # fmt: skip
    onnx.save(helper.make_model(graph), tmp_path / "one.onnx")
    model = given("segmenter", Segmentation(), onnx=tmp_path / "one.onnx")
    with pytest.raises(DataError, match=r"one\.onnx has the outputs mask, and .* has out, aux"):
        given_checkpoint(model, tuple("abcd"), SIZE)


def two_outputs(file, *, branch: bool):
    """Logits ``out`` (n, 2, 16, 16), and float64 ``extra`` that is made of them."""
    kernel = np.random.default_rng(0).normal(size=(2, 3, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["images", "kernel"], ["mask"]),
        helper.make_node("Cast", ["mask"], ["wide"], to=onnx.TensorProto.DOUBLE),
        helper.make_node("Sqrt", ["wide"], ["extra"]),
    ]
    if branch:  # reads a tensor of the graph around it
        yes, no = (
            helper.make_graph(
                [helper.make_node("Identity", ["mask"], [name])], name, [],
                [helper.make_tensor_value_info(name, 1, None)],
            )
            for name in ("yes", "no")
        )  # fmt: skip
        nodes.append(helper.make_node("If", ["true"], ["out"], then_branch=yes, else_branch=no))
    else:
        nodes.append(helper.make_node("Identity", ["mask"], ["out"]))
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("images", 1, ["n", 3, *SIZE])],
        [
            helper.make_tensor_value_info("extra", 11, ["n", 2, *SIZE]),
            helper.make_tensor_value_info("out", 1, ["n", 2, *SIZE]),
        ],
        [
            numpy_helper.from_array(kernel, "kernel"),
            numpy_helper.from_array(np.array(True), "true"),
        ],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, file)
    return kernel


@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_float64_output_that_is_not_read_is_no_fault_and_is_not_computed(
    tmp_path, branch, precision
):
    file = tmp_path / "two.onnx"
    kernel = two_outputs(file, branch=branch)
    model = UserModel("m", "path", onnx=file, task=Segmentation(output="out"))
    assert not entry_faults(model, ("a", "b"), SIZE)
    session = ONNXRuntimeBackend().open(model.checkpoint(("a", "b"), SIZE), file, precision)
    given = images(3)
    expected = np.einsum("nchw,oc->nohw", given, kernel[:, :, 0, 0])
    found = session.predict(given)[0]
    np.testing.assert_allclose(found, expected, atol=1e-5 if precision == "fp32" else 0.02)
    assert not [key for key in session.effective() if "float64" in key]
    session.close()
    asked = UserModel("m", "path", onnx=file, task=Segmentation(output="extra"))
    (fault,) = entry_faults(asked, ("a", "b"), SIZE)
    assert fault.message.startswith(f"{file} gives float64 outputs (extra), and outputs are")


def test_an_input_of_unknown_rank_is_refused_in_words(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Identity", ["images"], ["mask"])], "g",
        [helper.make_tensor_value_info("images", 1, None)],
        [helper.make_tensor_value_info("mask", 1, ["n", 3, *SIZE])],
    )  # fmt: skip
    onnx.save(helper.make_model(graph), tmp_path / "one.onnx")
    (fault,) = entry_faults(
        UserModel("m", "path", onnx=tmp_path / "one.onnx", task=Segmentation()), (), SIZE
    )
    assert fault.message == (
        f"{tmp_path}/one.onnx does not say how many sides its input 'images' has; declare it as "
        "?x3x16x16 (onnx.helper.make_tensor_value_info), or export it again"
    )


def test_tasks_count_the_classes_of_their_outputs():
    assert Detection().counted([OutputShape("y", (None, 84, 8400))]) == 80
    detr = [OutputShape("logits", (None, 100, 92)), OutputShape("pred_boxes", (None, 100, 4))]
    assert Detection().counted(detr) is None
    assert Detection(scores="softmax").counted(detr) == 91
    assert Segmentation().counted([OutputShape("y", (None, 1, 8, 8))]) == 2
