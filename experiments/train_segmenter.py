"""Train a small segmenter on `objects-on-photos` for experiments/segmentation.yaml.

    python experiments/train_segmenter.py segmenter.onnx

torchvision's LR-ASPP head on a backbone of eight convolutions: some three minutes on two cores.
Images are squashed to 192 x 192 and normalised as ImageNet's: the preset `opencv-train`. The
exported model has one output, (images, classes, 192, 192): a score for each class and pixel.
"""

import argparse
import time
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn
from torchvision.models.segmentation.lraspp import LRASPPHead

from alignkit.annotations import Mask
from alignkit.datasets.objects_on_photos import ObjectsOnPhotos
from alignkit.samples import Samples

SIZE, CLASSES = 192, 11
BATCH, RATE = 16, 4e-3
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def convolution(inside: int, outside: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """Return a convolution of 3 x 3 with batch normalisation."""
    weights = nn.Conv2d(inside, outside, 3, stride, dilation, dilation, bias=False)
    return nn.Sequential(weights, nn.BatchNorm2d(outside), nn.ReLU())


class Segmenter(nn.Module):
    """Images (n, 3, 192, 192), normalised, to scores (n, 11, 192, 192)."""

    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(convolution(3, 16, 2), convolution(16, 24))
        self.coarse = nn.Sequential(
            convolution(24, 48, 2), convolution(48, 48), convolution(48, 96, 2),
            convolution(96, 96), convolution(96, 96, dilation=2), convolution(96, 96, dilation=4),
        )  # fmt: skip
        self.head = LRASPPHead(24, 96, CLASSES, 96)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        fine = self.fine(images)
        scores = self.head({"low": fine, "high": self.coarse(fine)})
        return nn.functional.interpolate(scores, scale_factor=2.0, mode="bilinear")


def loaded(samples: Samples) -> tuple[torch.Tensor, torch.Tensor]:
    """Return all images, (n, 3, 192, 192) uint8, and masks, (n, 192, 192) int64."""
    images, masks = [], []
    for index, truth in enumerate(samples.annotations):
        assert isinstance(truth, Mask)
        encoded = np.frombuffer(samples.read(index), np.uint8)
        image = cv2.resize(cv2.imdecode(encoded, cv2.IMREAD_COLOR_RGB), (SIZE, SIZE))
        mask = cv2.resize(truth.read(), (SIZE, SIZE), interpolation=cv2.INTER_NEAREST)
        images.append(torch.from_numpy(image).permute(2, 0, 1))
        masks.append(torch.from_numpy(mask))
    return torch.stack(images), torch.stack(masks).long()


def normalised(images: torch.Tensor) -> torch.Tensor:
    """Return float32 images as the network takes them."""
    mean, std = (torch.tensor(each).view(1, 3, 1, 1) for each in (MEAN, STD))
    return (images.float() / 255 - mean) / std


def train(model: Segmenter, samples: Samples, epochs: int) -> None:
    """Train in place, with shifts of up to 8 pixels; deterministic for a number of threads."""
    images, masks = loaded(samples)
    steps = epochs * (len(images) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    # nineteen of twenty pixels are background
    weights = torch.tensor([0.2] + [1.0] * (CLASSES - 1))
    random = torch.Generator().manual_seed(0)
    began = time.monotonic()
    for epoch in range(epochs):
        total = 0.0
        model.train()
        order = torch.randperm(len(images), generator=random)
        for batch in order[: len(order) // BATCH * BATCH].view(-1, BATCH):
            move = torch.randint(-8, 9, (2,), generator=random).tolist()
            seen, truth = (each[batch].roll(move, (-2, -1)) for each in (images, masks))
            scores = model(normalised(seen).contiguous(memory_format=torch.channels_last))
            loss = nn.functional.cross_entropy(scores, truth, weights)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        mean = total / (steps // epochs)
        print(f"epoch {epoch + 1}: loss {mean:.3f}, {time.monotonic() - began:.0f} s", flush=True)


def rated(model: Segmenter, samples: Samples) -> str:
    """Return the mean IoU of the classes, and the share of right pixels."""
    model.eval()
    images, masks = loaded(samples)
    counts = torch.zeros(CLASSES, CLASSES)
    with torch.inference_mode():
        for seen, truth in zip(images.split(50), masks.split(50), strict=True):
            found = model(normalised(seen)).argmax(1)
            pairs = torch.bincount((truth * CLASSES + found).flatten(), minlength=CLASSES**2)
            counts += pairs.view(CLASSES, CLASSES)
    right = counts.diagonal()
    iou = right / (counts.sum(0) + counts.sum(1) - right)
    return f"mIoU {iou.mean():.3f}, pixel accuracy {right.sum() / counts.sum():.4f}"


def main() -> None:
    """Train, rate and write the model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, help="ONNX file to write")
    parser.add_argument("--quick", action="store_true", help="a worse model in a tenth of the time")
    chosen = parser.parse_args()
    images, epochs = (250, 4) if chosen.quick else (1000, 10)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    data = ObjectsOnPhotos(truth="mask", train=images)
    model = Segmenter().to(memory_format=torch.channels_last)
    train(model, data.training(), epochs)
    print(rated(model, data.evaluation()))
    model = model.eval().to(memory_format=torch.contiguous_format)
    torch.onnx.export(
        model, (torch.zeros(1, 3, SIZE, SIZE),), chosen.file, dynamo=False,
        input_names=["images"], output_names=["scores"],
        dynamic_axes={"images": {0: "batch"}, "scores": {0: "batch"}},
    )  # fmt: skip


if __name__ == "__main__":
    main()
