"""A number that few of many images define is unsure, however many images there are."""

import math
from dataclasses import replace

import numpy as np
import pytest

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.statistics import rule_of_three
from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.judge import judge
from alignkit.record import MatrixEntry, Measurements
from alignkit.tasks.detection import Detection
from alignkit.tasks.multi_label import MultiLabel
from alignkit.tasks.segmentation import Segmentation
from tests.tasks.boxes_at_random import random_answers
from tests.tasks.test_multi_label import answered as labelled
from tests.tasks.test_segmentation import answered as segmented

IMAGES = 200


def boxes(few: int):
    """Objects and boxes of two classes in the first images alone."""
    made = random_answers(images=few, classes=2, crowds=0)
    empty = IMAGES - few

    def padded(table):
        return replace(table, starts=np.append(table.starts, np.full(empty, table.starts[-1])))

    return replace(
        made,
        ids=tuple(f"{row:04}" for row in range(IMAGES)),
        found=padded(made.found),
        truth=padded(made.truth),
        unusable=np.zeros((IMAGES, 2), np.int64),
        score=0.3,
    )


def masks(few: int):
    """The third class has some of the 77 pixels of the first images alone."""
    truth = np.random.default_rng(0).integers(0, 2, (IMAGES, 7, 11)).astype(np.uint8)
    truth[:few, 2:4] = 2
    outputs = np.random.default_rng(1).normal(size=(IMAGES, 3, 7, 11)).astype(np.float32)
    return segmented(outputs, truth)


def labels(few: int):
    """The third label is true of the first images alone."""
    true = np.random.default_rng(0).random((IMAGES, 3)) < 0.5
    true[:, 2] = np.arange(IMAGES) < few
    return labelled(np.random.default_rng(1).normal(size=(IMAGES, 3)).astype(np.float32), true)


def judged(one, metric, task, copies=None, **limits):
    entry = MatrixEntry(
        trained_with="a", evaluated_with="b", backend="torch", precision="fp32", state="measured",
        aligned=False, seeds=(0,),
        drift=drift([one], [one], draws=SharedDraws(200, copies=copies or {})),
    )  # fmt: skip
    gate = Gate(rules=(Rule(metric=metric, **limits),))
    [found] = judge(gate, Measurements(matrix=(entry,), task=task.facts()), controls=()).rules
    return found


@pytest.mark.parametrize(
    ("made", "task", "metric", "classes", "images"),
    [
        # a mean over C classes moves by 1 / C of what its smallest class does; of the four images
        # with boxes three have objects, and two the rarer class
        (boxes, Detection(), "map50", 2, 2),
        (boxes, Detection(), "map", 2, 2),
        (boxes, Detection(), "recall.macro", 2, 2),
        (boxes, Detection(), "recall.micro", 1, 3),
        (masks, Segmentation(), "miou", 3, 3),
        (masks, Segmentation(), "recall.macro", 3, 3),
        (labels, MultiLabel(), "map", 3, 3),
    ],
)
def test_a_margin_counts_the_images_that_define_the_value(made, task, metric, classes, images):
    one = made(4 if made is boxes else images)
    found = judged(one, metric, task, margin=0.01)
    assert found.state == "inconclusive"
    unseen = rule_of_three(images) / classes
    assert found.needed.images == math.ceil(IMAGES * unseen / 0.01)
    # as many images of the kind that defines it as the rule of three asks for: 3.69 / 0.2 = 19
    assert judged(made(100), metric, task, margin=0.2).state == "pass"


def test_a_class_of_masks_has_images_and_not_pixels():
    found = judged(masks(3), "recall[car]", Segmentation(), margin=0.05)
    assert found.state == "inconclusive"
    assert found.needed.images == math.ceil(3 * rule_of_three(3) / 0.05)


def test_a_share_of_boxes_needs_images_with_boxes():
    assert judged(boxes(4), "boxes.lost", Detection(), fail=0.02).state == "inconclusive"
    assert judged(boxes(IMAGES), "boxes.lost", Detection(), fail=0.02).state == "pass"


def test_copies_of_the_images_that_define_it_are_one():
    one = masks(4)
    copies = {one.ids[row]: one.ids[0] for row in (1, 2, 3)}
    found = judged(one, "recall[car]", Segmentation(), copies, margin=0.05)
    assert found.needed.images == math.ceil(rule_of_three(1) / 0.05)
