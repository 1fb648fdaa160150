"""Time and memory of comparing two sides of a detector's boxes: matching, mAP, 2,000 resamples.

Each side has 5,000 images with 300 boxes: three near each object, the others anywhere, as many
objects as COCO has a picture. The drift of all metrics and measures is computed once, in a process
of its own; targets are 60 s and 2 GB. That resampled values are those of the resampled images is
tested: tests/tasks/test_detection_metrics.py.

    python benchmarks/detection.py [--images N] [--boxes N] [--classes N ...] [--resamples N]
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
from dataclasses import replace

import numpy as np
from figures import Figure, cost, show

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.tasks.detection.box_tables import FoundBoxes, TrueBoxes, starts_of
from alignkit.tasks.detection.detection_answers import DetectionAnswers

OBJECTS = 7.3
"""Objects an image, the mean of COCO's."""
NEAR = 3
"""Boxes near each object."""


def one_side(images: int, boxes: int, classes: int) -> DetectionAnswers:
    draw = np.random.default_rng(0)
    numbers = np.minimum(draw.poisson(OBJECTS, images), boxes // NEAR)
    objects = int(numbers.sum())
    image = np.repeat(np.arange(images), numbers)
    corners = corners_at_random(draw, objects)
    # an image shows few classes
    shown = draw.integers(0, classes, (images, 3))
    of_class = shown[image, draw.integers(0, 3, objects)]
    sides = np.tile(corners[:, 2:] - corners[:, :2], 2)
    found = [
        (image, corners + draw.normal(0, 0.08 * rank, corners.shape) * sides, of_class,
         draw.beta(3, 2 * rank, objects))
        for rank in range(1, NEAR + 1)
    ]  # fmt: skip
    others = np.repeat(np.arange(images), boxes - NEAR * numbers)
    count = len(others)
    anywhere = np.where(
        draw.random(count) < 0.5,
        shown[others, draw.integers(0, 3, count)],
        draw.integers(0, classes, count),
    )
    found.append((others, corners_at_random(draw, count), anywhere, draw.beta(1, 20, count)))
    parts = (np.concatenate(each) for each in zip(*found, strict=True))
    return DetectionAnswers(
        ids=tuple(map(str, range(images))),
        found=in_order(*parts, images),
        truth=TrueBoxes(starts_of(numbers), corners, of_class, draw.random(objects) < 0.01),
        unusable=np.zeros((images, 2), np.int64),
        classes=tuple(f"class {index}" for index in range(classes)),
        outside=(),
        score=0.25,
    )


def corners_at_random(draw: np.random.Generator, count: int) -> np.ndarray:
    begin = draw.uniform(0, 500, (count, 2))
    return np.hstack([begin, begin + draw.uniform(20, 150, (count, 2))])


def in_order(image, corners, classes, scores, images: int) -> FoundBoxes:
    scores = scores.astype(np.float32)
    order = np.lexsort((-scores, image))
    sorted_corners = corners[order].astype(np.float32)
    sorted_corners[:, 2:] = np.maximum(sorted_corners[:, 2:], sorted_corners[:, :2] + 1)
    starts = starts_of(np.bincount(image, minlength=images))
    return FoundBoxes(starts, sorted_corners, scores[order], classes[order])


def moved(answers: DetectionAnswers) -> DetectionAnswers:
    """Move corners by 2 pixels and scores by 5 %."""
    draw, found = np.random.default_rng(1), answers.found
    corners = found.corners + draw.normal(0, 2, found.corners.shape)
    scores = (found.scores * np.exp(draw.normal(0, 0.05, len(found.scores)))).clip(0, 1)
    boxes = in_order(found.images, corners, found.classes, scores, len(answers))
    return replace(answers, found=boxes)


def measure(images: int, boxes: int, classes: int, resamples: int) -> tuple[float, float, float]:
    """Return seconds of the clock and of processors, and the peak of memory in GB."""
    before = one_side(images, boxes, classes)
    after = moved(before)
    spent = cost(lambda: drift([before], [after], draws=SharedDraws(resamples)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return spent.wall, spent.cpu, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=5_000)
    parser.add_argument("--boxes", type=int, default=300)
    parser.add_argument("--classes", type=int, nargs="+", default=[80, 1])
    parser.add_argument("--resamples", type=int, default=2_000)
    given = parser.parse_args()
    figures = []
    for classes in given.classes:
        size = (given.images, given.boxes, classes, given.resamples)
        # the peak of memory is that of a process
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            wall, cpu, peak = pool.apply(measure, size)
        of = f"drift of {given.images} images × {given.boxes} boxes, {classes} classes"
        figures += [
            Figure(f"{of}, of the clock", [wall], at_most=60, unit="s"),
            Figure(f"{of}, of processors", [cpu], unit="s"),
            Figure(f"{of}, peak of memory", [peak], at_most=2, unit="GB"),
        ]
    show(figures)


if __name__ == "__main__":
    main()
