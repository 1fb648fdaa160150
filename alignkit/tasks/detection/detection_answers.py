"""`DetectionAnswers`: the boxes that a model found on images, with the objects that these show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Answers, RatioOfSums, Weights
from alignkit.compare.idle_answers import SEVERAL
from alignkit.compare.metrics import ClassCountArrays
from alignkit.errors import DataError
from alignkit.tasks.class_sums import ClassSums, class_ratios, mean_of_defined
from alignkit.tasks.detection.box_pairs import BoxPairs, match_boxes
from alignkit.tasks.detection.box_precision import ClassCurve, average_precisions, class_curves
from alignkit.tasks.detection.box_tables import FoundBoxes, TrueBoxes
from alignkit.tasks.detection.detection_file import read_detections, write_detections
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


def by_image(found: FoundBoxes, chosen: npt.NDArray[np.bool_]) -> FloatArray:
    """Count the chosen boxes of each image, (images,)."""
    return _count(found, np.flatnonzero(chosen))


def _count(found: FoundBoxes, boxes: Labels, values: FloatArray | None = None) -> FloatArray:
    """Count boxes, or add up their values, by image."""
    images = found.images[boxes]
    counted = np.bincount(images, values, minlength=len(found.starts) - 1)
    return counted.astype(np.float64)


def box_measures(
    first: FoundBoxes, second: FoundBoxes, pairs: BoxPairs, score: float
) -> dict[str, RatioOfSums]:
    """Compute the measures of boxes; the shares are of boxes whose score is at least ``score``.

    ``boxes.lost`` of the first side's, ``boxes.won`` of the second's, ``boxes.class_changed`` of
    the first's, ``boxes.crossed`` of both sides'; ``box.shift`` in pixels and ``box.iou`` are means
    over the matches.
    """
    own = by_image(first, first.scores >= score)
    others = by_image(second, second.scores >= score)
    lost, won = _count(first, pairs.lost), _count(second, pairs.won)
    crossed = _count(first, pairs.lost[pairs.lost_below])
    crossed += _count(second, pairs.won[pairs.won_below])
    another = _another_class(first, second, pairs)
    matches = _count(first, pairs.first)
    return {
        "boxes.lost": RatioOfSums(lost, own),
        "boxes.won": RatioOfSums(won, others),
        "boxes.class_changed": RatioOfSums(_count(first, pairs.first[another]), own),
        "boxes.crossed": RatioOfSums(crossed, own + others),
        "box.shift": RatioOfSums(_count(first, pairs.first, pairs.shifts), matches),
        "box.iou": RatioOfSums(_count(first, pairs.first, pairs.ious), matches),
    }


def changed_images(first: FoundBoxes, second: FoundBoxes, pairs: BoxPairs) -> npt.NDArray[np.bool_]:
    """Tell, (images,), whether a box was lost or won, or changed its class."""
    another = pairs.first[_another_class(first, second, pairs)]
    changes = _count(first, pairs.lost) + _count(second, pairs.won) + _count(first, another)
    changed: npt.NDArray[np.bool_] = changes > 0
    return changed


def movement(first: FoundBoxes, second: FoundBoxes, pairs: BoxPairs) -> FloatArray:
    """Average 1 - IoU over the boxes of each image, (images,); 1 for a box alone or renamed."""
    apart = np.where(_another_class(first, second, pairs), 1.0, 1.0 - pairs.ious)
    alone = _count(first, pairs.lost) + _count(second, pairs.won)
    boxes = alone + _count(first, pairs.first)
    moved = alone + _count(first, pairs.first, apart)
    return np.divide(moved, boxes, out=np.zeros_like(boxes), where=boxes > 0)


def _another_class(first: FoundBoxes, second: FoundBoxes, pairs: BoxPairs) -> npt.NDArray[np.bool_]:
    another: npt.NDArray[np.bool_] = first.classes[pairs.first] != second.classes[pairs.second]
    return another


_TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, eq=False)
class DetectionAnswers(Answers):
    """The found and the true boxes of images; see `alignkit.compare.answers.Answers`."""

    no_logits: ClassVar[str] = (
        "boxes have no logits to compare; their measures are lost, won and shifted boxes"
    )

    ids: tuple[str, ...]
    found: FoundBoxes
    truth: TrueBoxes
    """Without an object if the images have no labels."""
    unusable: Labels
    """(n, 2): boxes that were left out, of each image: not finite, and without an area."""
    classes: tuple[str, ...]
    """Names of the data's classes; empty if the images have no labels."""
    outside: tuple[str, ...]
    """Names of the model's other classes, whose boxes add to no metric."""
    score: float
    """The least score of a box that counts."""
    _matched: WeakKeyDictionary[DetectionAnswers, BoxPairs] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )

    def __post_init__(self) -> None:
        n, names = len(self.ids), len(self.outputs)
        sizes = (len(self.found.starts) - 1, len(self.truth.starts) - 1, len(self.unusable))
        if sizes != (n, n, n) or self.unusable.shape != (n, 2):
            raise DataError(f"{n} images need as many lists of boxes, not {sizes}")
        super().__post_init__()
        for boxes, known in ((self.found, names), (self.truth, len(self.classes))):
            if len(boxes.classes) and not 0 <= boxes.classes.min() <= boxes.classes.max() < known:
                raise DataError(f"a class of a box is not in 0..{known - 1}")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The name of each class that a box may have."""
        return self.classes + self.outside

    def finite(self) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether every box and score of an image is finite."""
        finite: npt.NDArray[np.bool_] = self.unusable[:, 0] == 0
        return finite

    def rows(self, indices: Labels) -> DetectionAnswers:
        """Select the images at ``indices``, in that order."""
        return replace(
            self,
            ids=tuple(self.ids[index] for index in indices),
            found=self.found.rows(indices),
            truth=self.truth.rows(indices),
            unusable=self.unusable[indices],
        )

    def unlike(self, other: DetectionAnswers) -> str:
        """Say that thresholds or objects of the same images disagree; empty if none does."""
        if self.score != other.score:
            return f"boxes count from a score of {self.score} here and of {other.score} there"
        if not self.truth.equals(other.truth):
            return "the objects of the same images disagree"
        return ""

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Those of `BOX_METRICS`."""
        return BOX_METRICS

    @cached_property
    def _tallies(self) -> BoxTallies:
        return tally(self.found, self.truth, len(self.classes), self.score)

    def tallies(self) -> BoxTallies:
        """Return the matches of the boxes with the truth."""
        return self._tallies

    def counts(self) -> ClassCountArrays:
        """Count, by class, right boxes, boxes that count, and objects, at an IoU of 0.5."""
        return self._tallies.sums.counts()

    def quality(self) -> FloatArray:
        """Divide the right boxes of an image by all boxes and missed objects; NaN without labels.

        1 for an image without either.
        """
        return self._tallies.quality() if self.labelled else np.full(len(self), np.nan)

    def _pairs(self, other: DetectionAnswers) -> BoxPairs:
        # every number of a pair needs them
        if other not in self._matched:
            self._matched[other] = match_boxes(self.found, other.found, self.score)
        return self._matched[other]

    def measures_of(self, other: DetectionAnswers) -> dict[str, RatioOfSums]:
        """Measure lost, won, crossed and shifted boxes."""
        return box_measures(self.found, other.found, self._pairs(other), self.score)

    def changed(self, other: DetectionAnswers) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether a box was lost or won, or changed its class."""
        return changed_images(self.found, other.found, self._pairs(other))

    def one_answer(self, other: DetectionAnswers) -> str:
        """Say that no image has a box that counts on either side; empty if one has."""
        if not any((each.found.scores >= each.score).any() for each in (self, other)):
            return f"no image has a box with a score of {self.score:g} on either side"
        boxes = {
            each.found.scores[start:stop].tobytes() + each.found.corners[start:stop].tobytes()
            for each in (self, other)
            for start, stop in pairwise(each.found.starts.tolist())
        }
        alike = len(self) >= SEVERAL and len(boxes) == 1
        return f"all {len(self)} images have the same boxes on both sides" if alike else ""

    def rated(self, other: DetectionAnswers) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether the answer changed, or an object is found by a box that moved."""
        changed, labelled = self.changed(other), self.labelled
        return changed | (self.quality() != other.quality()) if labelled else changed

    def differs(self, other: DetectionAnswers) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether any box, score or class is another one."""
        return self.found.differing(other.found)

    def apart(self, other: DetectionAnswers) -> FloatArray:
        """Average 1 - IoU over the boxes of an image, (n,), 0..1; lost and won ones have 1.

        NaN where a side is not finite, 0 for two images without a box.
        """
        moved = movement(self.found, other.found, self._pairs(other))
        return np.where(self.finite() & other.finite(), moved, np.nan)

    @classmethod
    def kinds_of(cls, seeds: Sequence[DetectionAnswers]) -> dict[str, Sequence[str] | FloatArray]:
        """Give the number of objects, and of boxes that count, of each image, over all seeds."""
        first = seeds[0]
        boxes = np.mean([by_image(e.found, e.found.scores >= e.score) for e in seeds], axis=0)
        objects = np.diff(first.truth.starts).astype(np.float64)
        return {**({"objects": objects} if first.labelled else {}), "boxes": boxes}

    def truth_said(self, index: int) -> str:
        """Count the objects of an image by class: ``3× cat, 1× dog``; empty without labels."""
        own = slice(*self.truth.starts[index : index + 2])
        return self._counted(self.truth.classes[own]) if self.labelled else ""

    def _counted(self, classes: Labels) -> str:
        numbers = np.bincount(classes, minlength=len(self.outputs))
        named = (f"{numbers[at]}{_TIMES} {self.outputs[at]}" for at in np.flatnonzero(numbers))
        return ", ".join(named) or "no box"

    def said(self, index: int) -> str:
        """Count the boxes of an image by class: ``3× cat, 1× dog``, and those not finite."""
        own = slice(*self.found.starts[index : index + 2])
        said = self._counted(self.found.classes[own][self.found.scores[own] >= self.score])
        # boxes without an area lie in the padding, of which a letterbox has many
        broken = self.unusable[index, 0]
        return f"{said} ({broken} not finite)" if broken else said

    def drawn(self, index: int, beside: DetectionAnswers | None = None) -> dict[str, Any]:
        """Return the boxes of an image that count, and its objects, as JSON values."""
        own = self.rows(np.array([index]))
        other = None if beside is None else beside.rows(np.array([index])).found
        drawn = {"boxes": drawn_found(own.found, self.outputs, self.score, other)}
        if self.labelled:
            drawn["truth"] = drawn_truth(own.truth, self.classes)
        return drawn

    def to_parquet(self, path: Path, **besides: FloatArray) -> None:
        """Write a row for each image; see `alignkit.tasks.detection.detection_file`."""
        names = self.classes, self.outside
        boxes = self.found, self.truth, self.unusable
        write_detections(path, self.ids, *boxes, names=names, score=self.score, besides=besides)

    @classmethod
    def from_parquet(cls, path: Path) -> DetectionAnswers:
        """Read a file of `to_parquet`, bit for bit; raise `DataError` for any other file."""
        return cls(*read_detections(path))


def drawn_found(
    found: FoundBoxes, names: Sequence[str], score: float, beside: FoundBoxes | None
) -> list[dict[str, Any]]:
    """List the boxes of an image whose score is at least ``score``.

    With those of another answer ``beside`` them each has its ``kind``, and a match its ``shift``.
    """
    counted = np.flatnonzero(found.scores >= score).tolist()
    drawn = {
        box: {
            "corners": found.corners[box].tolist(),
            "class": names[found.classes[box]],
            "score": float(found.scores[box]),
        }
        for box in counted
    }
    if beside is None:
        return list(drawn.values())
    pairs = match_boxes(found, beside, score)
    for box in pairs.lost.tolist():
        drawn[box]["kind"] = "alone"
    matches = zip(pairs.first.tolist(), pairs.second.tolist(), pairs.shifts.tolist(), strict=True)
    for box, other, shift in matches:
        same = found.classes[box] == beside.classes[other]
        drawn[box] |= {"kind": "matched" if same else "class changed", "shift": shift}
    return list(drawn.values())


def drawn_truth(truth: TrueBoxes, names: Sequence[str]) -> list[dict[str, Any]]:
    """List the objects of an image."""
    each = zip(truth.corners.tolist(), truth.classes.tolist(), truth.crowd.tolist(), strict=True)
    return [
        {"corners": corners, "class": names[of_class], **({"kind": "crowd"} if crowd else {})}
        for corners, of_class, crowd in each
    ]
