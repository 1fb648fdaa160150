"""Train a small segmenter on `objects-on-photos` for experiments/segmentation.yaml.

    python experiments/train_segmenter.py segmenter.onnx

Eight convolutions, and a score for each class from two maps of features. Images are squashed to
192 x 192 and normalised as ImageNet's: the preset `opencv-train`. It trains on parts of a ninth of
that area, each around a digit: they cost a ninth and hold more of what is to be learnt. The
exported model has one output, (images, classes, 192, 192): a score for each class and pixel.
"""

import argparse
import time
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn

from alignkit.annotations import Mask
from alignkit.datasets.objects_on_photos import ObjectsOnPhotos
from alignkit.samples import Samples

SIZE, PART, CLASSES = 192, 64, 11
BATCH, RATE = 16, 8e-3
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def convolution(inside: int, outside: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution of 3 x 3 with batch normalisation."""
    weights = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
    return nn.Sequential(weights, nn.BatchNorm2d(outside), nn.ReLU())


class Segmenter(nn.Module):
    """Images (n, 3, 192, 192), normalised, to scores (n, 11, 192, 192)."""

    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(convolution(3, 16, 2), convolution(16, 16))
        self.coarse = nn.Sequential(
            convolution(16, 32, 2), convolution(32, 32), convolution(32, 64, 2),
            convolution(64, 64), convolution(64, 64), convolution(64, 64),
        )  # fmt: skip
        self.heads = nn.ModuleList([nn.Conv2d(16, CLASSES, 1), nn.Conv2d(64, CLASSES, 1)])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        fine = self.fine(images)
        # the strokes from the one, their class from the other; nothing looks further than a part
        strokes, classes = self.heads[0](fine), self.heads[1](self.coarse(fine))
        classes = nn.functional.interpolate(classes, scale_factor=4.0, mode="bilinear")
        return nn.functional.interpolate(strokes + classes, scale_factor=2.0, mode="bilinear")


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
    """Train in place; deterministic for a number of threads."""
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
            seen, truth = parts(images[batch], masks[batch], random)
            scores = model(normalised(seen).contiguous(memory_format=torch.channels_last))
            loss = nn.functional.cross_entropy(scores, truth, weights)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        mean = total / (steps // epochs)
        print(f"epoch {epoch + 1}: loss {mean:.3f}, {time.monotonic() - began:.0f} s", flush=True)


def parts(
    images: torch.Tensor, masks: torch.Tensor, random: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a part of each image and its mask; it holds a drawn pixel of a digit if there is one."""
    seen, truth = [], []
    for image, mask in zip(images, masks, strict=True):
        strokes = mask.nonzero()
        pixel = torch.randint(SIZE, (2,), generator=random)
        if len(strokes):
            pixel = strokes[torch.randint(len(strokes), (1,), generator=random)][0]
        corner = pixel - torch.randint(PART, (2,), generator=random)
        top, left = corner.clamp(0, SIZE - PART).tolist()
        seen.append(image[:, top : top + PART, left : left + PART])
        truth.append(mask[top : top + PART, left : left + PART])
    return torch.stack(seen), torch.stack(truth)


def main() -> None:
    """Train and write the model; a run of the experiment rates it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, help="ONNX file to write")
    parser.add_argument("--quick", action="store_true", help="a worse model, sooner")
    chosen = parser.parse_args()
    images, epochs = (500, 16) if chosen.quick else (1000, 60)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    model = Segmenter().to(memory_format=torch.channels_last)
    train(model, ObjectsOnPhotos(truth="mask", train=images).training(), epochs)
    model = model.eval().to(memory_format=torch.contiguous_format)
    torch.onnx.export(
        model, (torch.zeros(1, 3, SIZE, SIZE),), chosen.file, dynamo=False,
        input_names=["images"], output_names=["scores"],
        dynamic_axes={"images": {0: "batch"}, "scores": {0: "batch"}},
    )  # fmt: skip


if __name__ == "__main__":
    main()
