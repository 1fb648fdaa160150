"""Metrics of boxes against pycocotools, faster-coco-eval and torchmetrics; weights of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from alignkit.tasks.detection.box_tables import FoundBoxes, TrueBoxes, starts_of
from alignkit.tasks.detection.detection_answers import BOX_METRICS, BoxTallies, DetectionAnswers
from tests.tasks.boxes_at_random import coco_metrics, random_answers, resampled

LIBRARIES = ("pycocotools", "faster_coco_eval")
CASES = {
    "boxes at random": random_answers(1),
    "scores that tie": random_answers(2, levels=4),
    "one score": random_answers(3, levels=1),
    "only crowds": random_answers(4, crowds=1.0),
    "classes that the data does not have": random_answers(5, outside=1),
    "one image": random_answers(6, images=1),
    "more than 100 boxes of a class": random_answers(7, images=4, classes=1, found_a_image=400),
}


def plain(answers: DetectionAnswers, weights: Sequence[int] | None = None) -> dict[str, np.ndarray]:
    drawn = np.ones(len(answers)) if weights is None else np.asarray(weights)
    found = answers.metrics_of(drawn.astype(np.float32)[:, None])
    return {name: value[..., 0] for name, value in found.items()}


def assert_metrics_are(found: dict[str, np.ndarray], expected: dict) -> None:
    for name, value in expected.items():
        # the libraries and this sum the same numbers in another order
        np.testing.assert_allclose(found[name], value, rtol=0, atol=2e-15, err_msg=name)


def boxes(rows: Sequence[Sequence[tuple]]) -> FoundBoxes:
    """Make found boxes of images: (corners, score, class) each."""
    flat = [box for image in rows for box in image]
    return FoundBoxes(
        starts_of([len(image) for image in rows]),
        np.array([box[0] for box in flat], np.float32).reshape(-1, 4),
        np.array([box[1] for box in flat], np.float32),
        np.array([box[2] for box in flat], np.int64),
    )


def objects(rows: Sequence[Sequence[tuple]]) -> TrueBoxes:
    """Make objects of images: (corners, class, crowd) each."""
    flat = [box for image in rows for box in image]
    return TrueBoxes(
        starts_of([len(image) for image in rows]),
        np.array([box[0] for box in flat], np.float64).reshape(-1, 4),
        np.array([box[1] for box in flat], np.int64),
        np.array([box[2] for box in flat], np.bool_),
    )


def answers_of(found: FoundBoxes, truth: TrueBoxes, classes: Sequence[str] = ("cat", "dog")):
    n = len(found.starts) - 1
    ids = tuple(map(str, range(n)))
    unusable = np.zeros((n, 2), np.int64)
    return DetectionAnswers(ids, found, truth, unusable, tuple(classes), (), 0.25)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", CASES)
def test_average_precision_is_that_of_the_libraries(case: str, library: str) -> None:
    assert_metrics_are(plain(CASES[case]), coco_metrics(CASES[case], library))


@pytest.mark.parametrize("library", LIBRARIES)
def test_many_random_data_sets_have_the_average_precision_of_the_libraries(library: str) -> None:
    for seed in range(100, 120):
        answers = random_answers(seed, images=8, classes=3, levels=seed % 5 * 3)
        assert_metrics_are(plain(answers), coco_metrics(answers, library))


@pytest.mark.slow  # the library takes some seconds to import
def test_average_precision_is_that_of_torchmetrics() -> None:
    from torchmetrics.detection import MeanAveragePrecision

    answers = CASES["boxes at random"]
    metric = MeanAveragePrecision(backend="faster_coco_eval", class_metrics=True)
    found, truth = answers.found, answers.truth
    for image in range(len(answers)):
        own = slice(*found.starts[image : image + 2])
        true = slice(*truth.starts[image : image + 2])
        metric.update(
            [
                {
                    "boxes": torch.from_numpy(found.corners[own]).double(),
                    "scores": torch.from_numpy(found.scores[own]),
                    "labels": torch.from_numpy(found.classes[own]),
                }
            ],
            [
                {
                    "boxes": torch.from_numpy(truth.corners[true]),
                    "labels": torch.from_numpy(truth.classes[true]),
                    "iscrowd": torch.from_numpy(truth.crowd[true].astype(np.int64)),
                }
            ],
        )
    theirs = metric.compute()
    ours = plain(answers)
    # torchmetrics returns float32
    assert ours["map"] == pytest.approx(theirs["map"].item(), abs=1e-7)
    assert ours["map50"] == pytest.approx(theirs["map_50"].item(), abs=1e-7)
    np.testing.assert_allclose(ours["ap"], theirs["map_per_class"].numpy(), atol=1e-7)


def test_images_without_objects_or_boxes_count() -> None:
    cat = ((0, 0, 10, 10), 0, False)
    found = boxes([[((0, 0, 10, 10), 0.9, 0)], [((5, 5, 9, 9), 0.95, 0)], [], []])
    answers = answers_of(found, objects([[cat], [], [cat], []]))
    metrics = plain(answers)
    for library in LIBRARIES:
        assert_metrics_are(metrics, coco_metrics(answers, library))
    assert metrics["recall.micro"] == 0.5
    assert metrics["precision.micro"] == 0.5
    # the dog has no object: it is in no average
    assert np.isnan(metrics["ap"][1])
    assert np.isnan(metrics["recall"][1])
    np.testing.assert_array_equal(answers.quality(), [1, 0, 0, 1])


def test_no_box_at_all_is_a_value_and_no_object_is_none() -> None:
    cat = ((0, 0, 10, 10), 0, False)
    nothing = answers_of(boxes([[], []]), objects([[cat], []]))
    assert plain(nothing)["map"] == 0 == plain(nothing)["recall.micro"]
    assert np.isnan(plain(nothing)["precision.micro"])
    empty = answers_of(boxes([[((0, 0, 10, 10), 0.9, 0)], []]), objects([[], []]))
    assert np.isnan(plain(empty)["map"])
    assert plain(empty)["precision.micro"] == 0


def test_recall_and_precision_count_boxes_from_the_threshold_on() -> None:
    cat, dog = ((0, 0, 10, 10), 0, False), ((20, 0, 30, 10), 1, False)
    found = boxes(
        [
            [
                ((0, 0, 10, 10), 0.9, 0),
                ((0, 0, 10, 9), 0.8, 0),
                ((40, 0, 50, 10), 0.25, 1),
                ((20, 0, 30, 10), 0.2499, 1),
            ]
        ]
    )
    answers = answers_of(found, objects([[cat, dog]]))
    assert answers.counts().true_positive == (1, 0)
    assert answers.counts().predicted == (2, 1)
    assert answers.counts().support == (1, 1)
    assert answers.quality()[0] == 1 / 4
    metrics = plain(answers)
    assert metrics["recall.macro"] == 0.5
    assert metrics["precision.macro"] == 0.25
    assert metrics["precision.micro"] == 1 / 3


def test_a_box_in_a_crowd_is_neither_right_nor_wrong() -> None:
    crowd = ((0, 0, 100, 100), 0, True)
    found = boxes([[((10, 10, 20, 20), 0.9, 0), ((30, 30, 40, 40), 0.8, 0)]])
    answers = answers_of(found, objects([[crowd]]))
    assert answers.counts().predicted == (0, 0) == answers.counts().support
    assert answers.quality()[0] == 1


def test_weights_are_the_images_so_many_times() -> None:
    for seed in range(8):
        answers = random_answers(seed, images=12, classes=3)
        weights = np.random.default_rng(seed).multinomial(12, [1 / 12] * 12)
        drawn = resampled(answers, weights)
        found = plain(answers, weights)
        for library in LIBRARIES:
            assert_metrics_are(found, coco_metrics(drawn, library))
        for name in BOX_METRICS:
            np.testing.assert_allclose(found[name], plain(drawn)[name], rtol=0, atol=2e-15)


def test_all_draws_at_once_are_those_one_by_one() -> None:
    answers = random_answers(11, images=40, levels=30)
    weights = np.random.default_rng(0).multinomial(40, [1 / 40] * 40, size=300)
    together = answers.metrics_of(np.ascontiguousarray(weights.T.astype(np.float32)))
    for index in range(0, 300, 37):
        alone = plain(answers, weights[index])
        for name, value in together.items():
            np.testing.assert_allclose(value[..., index], alone[name], rtol=0, atol=2e-15)


def test_weights_of_two_are_the_plain_metrics() -> None:
    answers = CASES["boxes at random"]
    once, twice = plain(answers), plain(answers, [2] * len(answers))
    for name, value in once.items():
        np.testing.assert_allclose(twice[name], value, rtol=0, atol=2e-15)


def test_a_draw_without_any_object_of_a_class_leaves_it_out() -> None:
    cat, dog = ((0, 0, 10, 10), 0, False), ((20, 0, 30, 10), 1, False)
    found = boxes([[((0, 0, 10, 10), 0.9, 0)], []])
    metrics = plain(answers_of(found, objects([[cat], [dog]])), [2, 0])
    assert metrics["map"] == 1
    assert np.isnan(metrics["ap"][1])


def test_tallies_of_parts_join_to_those_of_the_whole() -> None:
    answers = random_answers(13, images=20, levels=8)
    parts = [answers.rows(np.arange(*ends)) for ends in ((0, 7), (7, 7), (7, 20))]
    joined = BoxTallies.joined([part.tallies() for part in parts])
    ones = np.ones((20, 1), np.float32)
    for name, value in answers.metrics_of(ones).items():
        np.testing.assert_array_equal(joined.metrics_of(ones)[name], value)


def test_images_without_labels_have_no_metrics() -> None:
    answers = random_answers(14)
    nothing = objects([[] for _ in answers.ids])
    unlabelled = replace(answers, truth=nothing, classes=(), outside=answers.outputs)
    assert not unlabelled.labelled
    assert unlabelled.metrics_of(np.ones((len(answers), 1), np.float32)) == {}
    assert np.isnan(unlabelled.quality()).all()
    assert unlabelled.counts().support == ()
