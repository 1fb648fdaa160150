"""A whole run of a scripted detector, which takes a list of images as torchvision's do."""

from __future__ import annotations

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torchvision.ops import nms

from alignkit.cli import main
from alignkit.experiment import load_experiment
from alignkit.gate import run_or_check
from alignkit.progress import NoProgress
from alignkit.workspace import Context, Workspace
from tests.squares_case import COUNT, HEIGHT, PATCH, SIDE, STEP, WIDTH, write_images

EXPERIMENT = """
name: scripted
task: detection
data: {name: yolo, root: squares, classes: [dark, bright], eval_share: 1}
preprocess:
  opencv: {preset: ultralytics-letterbox, size: 96}
  pillow: {preset: ultralytics-letterbox, size: 96, decode: pillow}
models: [{name: squares, torchscript: squares.ts, preprocess: opencv}]
evaluate: {batch_size: 3, resamples: 200}
attribute: {images: none}
report: {worst: 1}
"""


class Squares(torch.nn.Module):
    """Dark and bright patches; as many boxes as an image has."""

    def __init__(self) -> None:
        super().__init__()
        self.share = torch.nn.Conv2d(3, 2, PATCH, STEP)
        each = 40 / (3 * PATCH**2)
        self.share.weight = torch.nn.Parameter(
            torch.tensor([-each, each])[:, None, None, None].repeat(1, 3, PATCH, PATCH)
        )
        self.share.bias = torch.nn.Parameter(torch.tensor([10.0, -30.0]))
        self.side, self.step = PATCH, STEP

    def forward(
        self, images: list[torch.Tensor]
    ) -> tuple[dict[str, torch.Tensor], list[dict[str, torch.Tensor]]]:
        losses: dict[str, torch.Tensor] = {}
        found: list[dict[str, torch.Tensor]] = []
        for image in images:
            share = self.share(image[None])[0].sigmoid()
            of_class, row, column = torch.where(share > 0.2)
            left, top = column * self.step, row * self.step
            boxes = torch.stack([left, top, left + self.side, top + self.side], dim=1).float()
            scores = share[of_class, row, column]
            kept = nms(boxes, scores, 0.3)
            rows = {"boxes": boxes[kept], "scores": scores[kept], "labels": of_class[kept] + 1}
            found.append(rows)
        return losses, found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "squares")
    with pytest.warns(DeprecationWarning, match=r"torch.jit"):
        torch.jit.script(Squares()).save("squares.ts")
    (tmp_path / "scripted.yaml").write_text(EXPERIMENT)
    return tmp_path


def expected(folder, index):
    """The module's boxes of an image, in its own pixels: letterboxed by OpenCV alone."""
    image = cv2.imread(str(folder / "squares/images/val" / f"{index}.jpg"))[..., ::-1]
    scale = SIDE / WIDTH
    inner = cv2.resize(image, (SIDE, round(HEIGHT * scale)))
    above = (SIDE - len(inner)) // 2
    padded = cv2.copyMakeBorder(
        inner, above, SIDE - len(inner) - above, 0, 0, cv2.BORDER_CONSTANT, value=(114,) * 3
    )
    tensor = torch.from_numpy(padded.transpose(2, 0, 1).astype(np.float32) / 255)
    with torch.inference_mode():
        (rows,) = Squares()([tensor])[1]
    corners = (rows["boxes"].numpy() - [0, above, 0, above]) / scale
    return corners.clip(0, [WIDTH, HEIGHT] * 2), rows["scores"].numpy(), rows["labels"].numpy() - 1


def test_its_boxes_are_those_of_the_module_and_its_lists_differ_in_length(folder):
    context = Context(Workspace(folder / "reports"), NoProgress())
    record, root = run_or_check(load_experiment(folder / "scripted.yaml"), context)
    assert [each.reason for each in record.cells] == ["", ""]
    (cell,) = [each for each in record.cells if each.evaluated_with == "opencv"]
    rows = pq.read_table(root / cell.predictions.path).to_pylist()
    assert len(rows) == COUNT
    for row in rows:
        index = int(row["id"].rpartition("/")[2].removesuffix(".jpg"))
        corners, scores, classes = expected(folder, index)
        found = np.array([row[side] for side in ("left", "top", "right", "bottom")]).T
        np.testing.assert_allclose(found, corners, atol=1e-3)
        np.testing.assert_allclose(row["score"], scores, atol=1e-4)
        assert row["class"] == classes.tolist()
    assert len({len(row["score"]) for row in rows}) > 1
    assert cell.metrics["map50"] > 0.1
    assert cell.batch.max_abs == 0


def test_check_says_that_its_outputs_are_known_when_it_runs(folder, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["alignkit", "check", "scripted.yaml"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "squares: its outputs are known when its code runs" in capsys.readouterr().out
