"""`DetectionAnswers`: the boxes that a model found on images, with the objects that these show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Answers, RatioOfSums
from alignkit.compare.idle_answers import SEVERAL
from alignkit.compare.metrics import ClassCountArrays
from alignkit.errors import DataError
from alignkit.tasks.detection.box_measures import box_measures, by_image, changed_images, movement
from alignkit.tasks.detection.box_pairs import BoxPairs, match_boxes
from alignkit.tasks.detection.box_tables import FoundBoxes, TrueBoxes
from alignkit.tasks.detection.box_tallies import BOX_METRICS, BoxTallies, tally
from alignkit.tasks.detection.detection_file import read_detections, write_detections
from alignkit.tasks.detection.drawn_boxes import drawn_found, drawn_truth

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
        """`alignkit.tasks.detection.box_tallies.BOX_METRICS`."""
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
        """Measure lost, won, crossed and shifted boxes: `alignkit.tasks.detection.box_measures`."""
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
