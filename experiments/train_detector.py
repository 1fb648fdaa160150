"""Train a small detector on `objects-on-photos` for experiments/detection.yaml.

    python experiments/train_detector.py detector.onnx

torchvision's FCOS on a backbone of seven convolutions. Images are letterboxed to 224 x 224 as
Ultralytics does, and it trains on parts of a quarter of that area, each around a digit: they cost a
quarter and hold more of what is to be learnt. The exported model takes any size, as an export with
``dynamic=True`` does, and has one output of the form that Ultralytics' models have, (images, 4 +
classes, places): centre, width and height in pixels of the input, then a score for each class.
"""

import argparse
import time
from collections import OrderedDict
from pathlib import Path

import cv2
import numpy as np
import onnx
import torch
from torch import nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.fcos import FCOS, FCOSHead
from torchvision.ops import box_area

from alignkit.annotations import Boxes
from alignkit.datasets.objects_on_photos import ObjectsOnPhotos
from alignkit.samples import Samples

SIZE, PART, CLASSES, WIDTH = 224, 112, 10, 32
STRIDES = (8, 16)
"""Pixels of the input between two places of each map."""
MARGIN = 16
"""Pixels by which a part may lie outside its image."""
LEAST = 0.4
"""Share of a digit's box that a part must hold to be trained to find it."""
BATCH, RATE = 8, 4e-3


def letterbox(encoded: bytes) -> tuple[np.ndarray, float, int, int]:
    """Return (224, 224, 3) uint8 RGB, the scale, and the padding on the left and above."""
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR_RGB)
    height, width = image.shape[:2]
    scale = SIZE / max(height, width)
    wide, tall = round(width * scale), round(height * scale)
    left, top = round((SIZE - wide) / 2 - 0.1), round((SIZE - tall) / 2 - 0.1)
    padded = np.full((SIZE, SIZE, 3), 114, np.uint8)
    padded[top : top + tall, left : left + wide] = cv2.resize(image, (wide, tall))
    return padded, scale, left, top


def convolution(inside: int, outside: int, stride: int) -> nn.Sequential:
    """Return a convolution of 3 x 3 with batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()
    )


class Backbone(nn.Module):
    """Two maps of features, of one eighth and one sixteenth of the sides."""

    out_channels = WIDTH

    def __init__(self) -> None:
        super().__init__()
        self.early = nn.Sequential(
            convolution(3, 16, 2), convolution(16, 32, 2), convolution(32, 32, 1)
        )
        self.eighth = nn.Sequential(convolution(32, WIDTH, 2), convolution(WIDTH, WIDTH, 1))
        self.sixteenth = nn.Sequential(convolution(WIDTH, WIDTH, 2), convolution(WIDTH, WIDTH, 1))

    def forward(self, images: torch.Tensor) -> OrderedDict[str, torch.Tensor]:
        fine = self.eighth(self.early(images))
        coarse = self.sixteenth(fine)
        fine = fine + nn.functional.interpolate(coarse, scale_factor=2.0, mode="nearest")
        return OrderedDict(fine=fine, coarse=coarse)


class Detector(nn.Module):
    """The network for inference: images (n, 3, h, w) in 0..1 to (n, 14, places).

    The sides of the images are any multiples of 16 pixels.
    """

    def __init__(self) -> None:
        super().__init__()
        backbone = Backbone()
        anchors = AnchorGenerator(((4,), (8,)), ((1.0,), (1.0,)))
        self.fcos = FCOS(
            backbone, CLASSES, anchor_generator=anchors, fixed_size=(PART, PART),
            head=FCOSHead(WIDTH, 1, CLASSES, num_convs=2),
            image_mean=[0.0, 0.0, 0.0], image_std=[1.0, 1.0, 1.0],
        )  # fmt: skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = [*self.fcos.backbone(images).values()]
        found = self.fcos.head(maps)
        grids = [grid(each, stride) for each, stride in zip(maps, STRIDES, strict=True)]
        places, sides = (torch.cat(parts) for parts in zip(*grids, strict=True))
        before, after = (found["bbox_regression"] * sides).split(2, dim=2)
        centre, size = places + (after - before) / 2, before + after
        scores = (found["cls_logits"].sigmoid() * found["bbox_ctrness"].sigmoid()).sqrt()
        return torch.cat([centre, size, scores], dim=2).transpose(1, 2)


def grid(features: torch.Tensor, stride: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each place of a map and the side of its anchor, in pixels of the input."""
    rows, columns = (torch.arange(features.shape[axis]) * float(stride) for axis in (2, 3))
    down, across = torch.meshgrid(rows, columns, indexing="ij")
    places = torch.stack([across.flatten(), down.flatten()], dim=1)
    return places, torch.full_like(places[:, :1], stride / 2)


def loaded(samples: Samples) -> tuple[torch.Tensor, list[dict[str, torch.Tensor]]]:
    """Return all images, (n, 3, 224, 224) uint8, and their boxes in pixels of the input."""
    images, targets = [], []
    for index, truth in enumerate(samples.annotations):
        assert isinstance(truth, Boxes)
        image, scale, left, top = letterbox(samples.read(index))
        corners = truth.corners * scale + [left, top, left, top]
        images.append(torch.from_numpy(image).permute(2, 0, 1))
        boxes = torch.from_numpy(corners.astype(np.float32))
        targets.append({"boxes": boxes, "labels": torch.from_numpy(truth.classes)})
    return torch.stack(images), targets


def train(model: Detector, samples: Samples, epochs: int) -> None:
    """Train in place; deterministic for a number of threads."""
    images, targets = loaded(samples)
    steps = epochs * (len(images) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    random = torch.Generator().manual_seed(0)
    began = time.monotonic()
    for epoch in range(epochs):
        total = 0.0
        model.train()
        order = torch.randperm(len(images), generator=random)
        for batch in order[: len(order) // BATCH * BATCH].view(-1, BATCH).tolist():
            losses = model.fcos(*parts(images[batch], [targets[each] for each in batch], random))
            loss = sum(losses.values())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        mean = total / (steps // epochs)
        print(f"epoch {epoch + 1}: loss {mean:.3f}, {time.monotonic() - began:.0f} s", flush=True)


def parts(
    images: torch.Tensor, targets: list[dict[str, torch.Tensor]], random: torch.Generator
) -> tuple[list[torch.Tensor], list[dict[str, torch.Tensor]]]:
    """Draw a part of each image, and the boxes in it; it holds a drawn digit if there is one."""
    drawn, found = [], []
    for image, target in zip(images, targets, strict=True):
        boxes = target["boxes"]
        least, most = torch.tensor([[-MARGIN] * 2, [SIZE - PART + MARGIN] * 2])
        if len(boxes):
            box = boxes[torch.randint(len(boxes), (1,), generator=random)][0].round().long()
            # a digit at the rim of the image leaves less room than a part and its margin
            least, most = (box[2:] - PART).clamp(least, most), box[:2].clamp(least, most)
        left, top = (least + (most - least) * torch.rand(2, generator=random)).long().tolist()
        padded = nn.functional.pad(image, (MARGIN,) * 4, value=114)
        rows, columns = slice(top + MARGIN, None), slice(left + MARGIN, None)
        drawn.append(padded[:, rows, columns][:, :PART, :PART].float() / 255)
        moved = boxes - torch.tensor([left, top, left, top])
        cut = moved.clamp(0, PART)
        kept = box_area(cut) >= LEAST * box_area(moved)
        found.append({"boxes": cut[kept], "labels": target["labels"][kept]})
    return drawn, found


def main() -> None:
    """Train and write the model; a run of the experiment rates it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, help="ONNX file to write")
    parser.add_argument("--quick", action="store_true", help="a worse model, sooner")
    chosen = parser.parse_args()
    images, epochs = (500, 10) if chosen.quick else (1000, 40)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    model = Detector()
    train(model, ObjectsOnPhotos(train=images).training(), epochs)
    export(model.eval(), chosen.file)


def export(model: Detector, file: Path) -> None:
    """Write the network as an ONNX file that takes images of any size."""
    torch.onnx.export(
        model, (torch.zeros(1, 3, SIZE, SIZE),), file, dynamo=False,
        input_names=["images"], output_names=["output0"],
        dynamic_axes={
            "images": {0: "batch", 2: "height", 3: "width"}, "output0": {0: "batch", 2: "places"},
        },
    )  # fmt: skip
    # torch leaves the output's second side open, which says how many classes there are
    onnx.save(onnx.shape_inference.infer_shapes(onnx.load(file), data_prop=True), file)


if __name__ == "__main__":
    main()
