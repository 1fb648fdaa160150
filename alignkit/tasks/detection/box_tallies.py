"""Metrics of found boxes under weights of images: mAP, and recall and precision at a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Weights
from alignkit.tasks.class_sums import ClassSums, class_ratios, mean_of_defined
from alignkit.tasks.detection.box_precision import ClassCurve, average_precisions, class_curves
from alignkit.tasks.detection.box_tables import FoundBoxes, TrueBoxes
from alignkit.tasks.detection.truth_matches import TruthMatches, match_truth

BOX_METRICS = (
    "map50",
    "map",
    "recall.macro",
    "recall.micro",
    "precision.macro",
    "precision.micro",
)


@dataclass(frozen=True, eq=False)
class BoxTallies:
    """As much of found boxes as their metrics need."""

    sums: ClassSums
    """Boxes from the threshold on, right at an IoU of 0.5."""
    matches: TruthMatches

    class_means: ClassVar[Mapping[str, str]] = {"map50": "ap50", "map": "ap"}

    @staticmethod
    def ratios(
        true_positive: FloatArray, predicted: FloatArray, support: FloatArray
    ) -> dict[str, FloatArray]:
        """Compute those of `BOX_METRICS` that are ratios of counts."""
        return class_ratios(true_positive, predicted, support, BOX_METRICS)

    @cached_property
    def _curves(self) -> tuple[ClassCurve, ...]:
        images, classes = self.sums.support.shape
        return class_curves(self.matches, images=images, classes=classes)

    def metrics_of(self, weights: Weights) -> dict[str, FloatArray]:
        """Compute `BOX_METRICS`, and ``recall, precision, ap50, ap`` by class.

        There is nothing without labels. Those of COCO are averaged over the classes of which the
        draw has an object.
        """
        if not self.sums.support.shape[1]:
            return {}
        right, boxes, objects = self.sums.weighted(weights)
        ratios = class_ratios(right, boxes, objects, (*BOX_METRICS, "recall", "precision"))
        at_half, mean = average_precisions(self._curves, weights, objects)
        averages = {"map50": mean_of_defined(at_half), "map": mean_of_defined(mean)}
        return {**averages, **ratios, "ap50": at_half, "ap": mean}

    def quality(self) -> FloatArray:
        """Divide right boxes by all boxes and missed objects, (n,); 1 for an image without."""
        right, boxes, objects = (
            each.sum(axis=1).astype(np.float64)
            for each in (self.sums.true_positive, self.sums.predicted, self.sums.support)
        )
        union = boxes + objects - right
        rated: FloatArray = np.divide(right, union, out=np.ones_like(union), where=union > 0)
        return rated

    @classmethod
    def joined(cls, parts: Sequence[BoxTallies]) -> BoxTallies:
        """Join those of different images, in the order given."""
        images = [len(part.sums.support) for part in parts]
        matches = TruthMatches.joined([part.matches for part in parts], images)
        return cls(ClassSums.joined([part.sums for part in parts]), matches)


def tally(found: FoundBoxes, truth: TrueBoxes, classes: int, score: float) -> BoxTallies:
    """Match boxes with the truth, and count those whose score is at least ``score``."""
    matches = match_truth(found, truth, classes)
    images = len(truth.starts) - 1
    counted = (matches.scores >= score) & ~matches.ignored[0]

    def count(images_of: Labels, classes_of: Labels) -> Labels:
        places = images_of * classes + classes_of
        return np.bincount(places, minlength=images * classes).reshape(images, classes)

    right = counted & matches.matched[0]
    single = ~truth.crowd
    sums = ClassSums(
        true_positive=count(matches.images[right], matches.classes[right]),
        predicted=count(matches.images[counted], matches.classes[counted]),
        support=count(truth.images[single], truth.classes[single]),
    )
    return BoxTallies(sums, matches)
