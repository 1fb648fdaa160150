"""Boxes at random, and their metrics by pycocotools, faster-coco-eval and torchmetrics."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from alignkit.tasks.detection.box_tables import FoundBoxes, TrueBoxes, starts_of
from alignkit.tasks.detection.detection_answers import DetectionAnswers

NAMES = ("cat", "dog", "bird", "fish", "newt")


def random_answers(
    seed: int = 0,
    images: int = 30,
    classes: int = 4,
    *,
    levels: int = 0,
    crowds: float = 0.1,
    outside: int = 0,
    found_a_image: int = 12,
) -> DetectionAnswers:
    """Make boxes near the objects and elsewhere; ``levels`` is the number of different scores."""
    draw = np.random.default_rng(seed)
    numbers = draw.poisson(3, images)
    corners = _corners(draw, int(numbers.sum()))
    of_class = draw.integers(0, classes, len(corners))
    truth = TrueBoxes(starts_of(numbers), corners, of_class, draw.random(len(corners)) < crowds)
    found: list[list[Any]] = [[] for _ in range(images)]
    for image, box, index in zip(truth.images, corners, of_class, strict=True):
        for _ in range(draw.integers(0, 4)):
            moved = box + draw.normal(0, 0.07, 4) * np.tile(box[2:] - box[:2], 2)
            wrong = draw.random() < 0.1
            found[image].append((moved, draw.integers(0, classes + outside) if wrong else index))
    for image in range(images):
        for box in _corners(draw, draw.integers(0, found_a_image)):
            found[image].append((box, draw.integers(0, classes + outside)))
    rows = [
        sorted(((draw.random() if not levels else draw.integers(1, levels + 1) / levels, *each)
                for each in of_image), key=lambda row: -np.float32(row[0]))
        for of_image in found
    ]  # fmt: skip
    flat = [row for of_image in rows for row in of_image]
    boxes = np.array([row[1] for row in flat], np.float32).reshape(-1, 4)
    return DetectionAnswers(
        ids=tuple(f"{index:04}" for index in range(images)),
        found=FoundBoxes(
            starts_of([len(each) for each in rows]),
            np.hstack([np.minimum(boxes[:, :2], boxes[:, 2:] - 1), boxes[:, 2:]]),
            np.array([row[0] for row in flat], np.float32),
            np.array([row[2] for row in flat], np.int64),
        ),
        truth=truth,
        unusable=np.zeros((images, 2), np.int64),
        classes=NAMES[:classes],
        outside=NAMES[classes : classes + outside],
        score=0.25,
    )


def _corners(draw: np.random.Generator, count: int) -> np.ndarray:
    begin = draw.uniform(0, 200, (count, 2))
    return np.hstack([begin, begin + draw.uniform(5, 80, (count, 2))])


def as_coco(answers: DetectionAnswers) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the annotations and the detections as COCO's JSON documents have them."""
    truth, found = answers.truth, answers.found
    annotations = [
        {
            "id": index + 1, "image_id": int(image), "category_id": int(of_class),
            "bbox": _sides(box), "area": float(np.prod(box[2:] - box[:2])), "iscrowd": int(crowd),
        }
        for index, (image, box, of_class, crowd) in enumerate(
            zip(truth.images, truth.corners, truth.classes, truth.crowd, strict=True)
        )
    ]  # fmt: skip
    detections = [
        {"image_id": int(image), "category_id": int(of_class), "bbox": _sides(box),
         "score": float(score)}
        for image, box, of_class, score in zip(
            found.images, found.corners.astype(np.float64), found.classes, found.scores, strict=True
        )
        if of_class < len(answers.classes)
    ]  # fmt: skip
    document = {
        "images": [{"id": i, "width": 400, "height": 400} for i in range(len(answers))],
        "categories": [{"id": i, "name": name} for i, name in enumerate(answers.classes)],
        "annotations": annotations,
    }
    return document, detections


def _sides(box: np.ndarray) -> list[float]:
    return [float(each) for each in (box[0], box[1], box[2] - box[0], box[3] - box[1])]


def coco_metrics(answers: DetectionAnswers, library: str) -> dict[str, Any]:
    """Compute mAP, and AP by class, by ``pycocotools`` or ``faster_coco_eval``."""
    document, detections = as_coco(answers)
    if library == "pycocotools":
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval as Evaluation
    else:
        from faster_coco_eval import COCO
        from faster_coco_eval import COCOeval_faster as Evaluation
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = document
        truth.createIndex()
        found = truth.loadRes(detections) if detections else _empty(truth, COCO)
        evaluation = Evaluation(truth, found, "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
    # thresholds, recalls, classes; all areas, 100 boxes
    return by_class(np.asarray(evaluation.eval["precision"])[..., 0, 2])


def _empty(truth: Any, kind: Any) -> Any:
    nothing = kind()
    nothing.dataset = {**truth.dataset, "annotations": []}
    nothing.createIndex()
    return nothing


def by_class(precision: np.ndarray) -> dict[str, Any]:
    """Average as the summary of COCO does: over all that is defined, above -1."""

    def mean(values: np.ndarray) -> float:
        return float(values[values > -1].mean()) if (values > -1).any() else np.nan

    classes = range(precision.shape[2])
    return {
        "map": mean(precision),
        "map50": mean(precision[0]),
        "ap": [mean(precision[..., index]) for index in classes],
        "ap50": [mean(precision[0, :, index]) for index in classes],
    }


def resampled(answers: DetectionAnswers, weights: Sequence[int]) -> DetectionAnswers:
    """Take each image as often as its weight, with ids of their own."""
    places = np.repeat(np.arange(len(answers)), weights)
    return replace(
        answers,
        ids=tuple(f"{index:05}" for index in range(len(places))),
        found=answers.found.rows(places),
        truth=answers.truth.rows(places),
        unusable=answers.unusable[places],
    )
