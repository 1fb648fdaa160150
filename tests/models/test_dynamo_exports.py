"""Graphs of torch's newer exporter: weights in a file beside them, outputs named by their nodes."""

import numpy as np
import pytest
import torch

from alignkit.backends.onnxruntime import ONNXRuntimeBackend
from alignkit.models.entry_faults import entry_faults
from alignkit.models.joined_graph import in_one_file
from alignkit.models.model_fit import given_checkpoint
from alignkit.models.user_model import UserModel
from alignkit.tasks import ClassMap
from alignkit.tasks.detection import Detection
from alignkit.tasks.segmentation import Segmentation
from alignkit.workspace import Workspace
from tests.task_case import squash

SIZE = (32, 48)
CLASSES = ("sky", "road", "car")


class Segmenter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.layer(images)
        return {"out": found, "aux": found[:, :1] * 2}


class Detector(torch.nn.Module):
    """One output (n, 4 + 3, 24), as Ultralytics has it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 7, 8, stride=8)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        rows = self.layer(images).flatten(2)
        return torch.cat([rows[:, :4].abs() * 20 + 5, rows[:, 4:].sigmoid()], dim=1)


def exported(module, file, *, batches, **names):
    torch.manual_seed(0)
    example = torch.rand(2 if batches else 1, 3, *SIZE)
    free = {"dynamic_shapes": ({0: torch.export.Dim("n")},)} if batches else {}
    torch.onnx.export(module, (example,), file, dynamo=True, verbose=False, **free, **names)
    assert file.with_name(f"{file.name}.data").is_file()
    return file


@pytest.mark.slow  # the exporter takes some seconds to import
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize(
    ("made", "task", "names"),
    [
        (Detector, Detection(), {}),
        (Segmenter, Segmentation(output="out"), {"output_names": ["out", "aux"]}),
    ],
)
def test_the_exports_give_the_outputs_of_the_module(tmp_path, made, task, names, batches):
    torch.manual_seed(1)
    module = made().eval()
    file = exported(module, tmp_path / "model.onnx", batches=batches, **names)
    given = UserModel("mine", "path", onnx=file, task=task)
    assert not entry_faults(given, CLASSES, SIZE)
    assert given.recognised(CLASSES)
    checkpoint = given_checkpoint(given, CLASSES, SIZE)
    images = np.random.default_rng(2).random((5, 3, *SIZE), np.float32)
    whole = in_one_file(file, Workspace(tmp_path / "kept"))
    session = ONNXRuntimeBackend().open(checkpoint, whole, "fp32")
    found = session.predict(images)
    session.close()
    with torch.inference_mode():
        returned = module(torch.from_numpy(images))
    expected = returned["out"] if isinstance(returned, dict) else returned
    np.testing.assert_allclose(found[0], expected.numpy(), atol=1e-5)
    places = [squash(SIZE[1], SIZE[0], SIZE[1], SIZE[0])] * len(images)
    records = task.decode(found, places, ClassMap(CLASSES))
    assert len(records) == len(images)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_outputs_without_names_are_those_of_their_nodes_and_the_choice_is_asked_for(tmp_path):
    file = exported(Segmenter().eval(), tmp_path / "model.onnx", batches=True)
    given = UserModel("mine", "path", onnx=file, task=Segmentation(output="out"))
    ((key, message),) = entry_faults(given, CLASSES, SIZE)
    assert key == "onnx"
    assert "it has no output 'out'" in message
