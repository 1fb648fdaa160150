"""Formats of a detector's outputs: the shapes of each, and how its candidates are read.

Boxes come as pixels of the model's input, corners first, and a class as the model's own index. A
candidate is any box that the model gives, whatever its score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import numpy.typing as npt

from alignkit.errors import BackendError
from alignkit.tasks.probabilities import probabilities, require_shares
from alignkit.text.numbers import significant

if TYPE_CHECKING:
    from alignkit.tasks import Outputs, OutputShape

Floats = npt.NDArray[np.float32]
Kind = Literal["auto", "sigmoid", "softmax", "as-is"]
"""How scores become probabilities; ``auto`` is as the format has it."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The boxes that a model gives for one image."""

    corners: Floats
    """(k, 4): left, top, right, bottom in pixels of the model's input."""
    scores: Floats
    """(k,)."""
    classes: Floats
    """(k,): whole numbers."""


@dataclass(frozen=True, slots=True)
class DetectorFacts:
    """All that a format needs to know of the model."""

    classes: int
    """Number of the model's classes."""
    scores: Kind
    first_label: int
    """Label of the model's first class, of formats with labels."""


class BoxFormat(Protocol):
    """Format of outputs."""

    words: str
    suppressed: bool
    """Whether the model has suppressed boxes that overlap, or gives none."""

    def find(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        """Name the outputs that `candidates` takes, in its order; none if they do not fit."""
        ...

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Tell whether a batch's outputs, in the order of `find`, have its shapes."""
        ...

    def candidates(
        self, outputs: Outputs, image: int, size: tuple[int, int], reading: DetectorFacts
    ) -> Candidates:
        """Read one image of a batch, whose input has ``size`` (width, height).

        Raise `BackendError` if the outputs are of another number of classes.
        """
        ...


class TorchvisionFormat:
    """Padded lists of boxes, labels and scores; rows of NaN are no boxes."""

    words = (
        "boxes (n, k, 4) as corners in pixels, labels (n, k) and scores (n, k), so named, as "
        "torchvision's detectors have them"
    )
    suppressed = True
    _parts = (("box",), ("label", "class"), ("score", "conf"))

    def find(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        found = []
        # by name: torchvision's detectors do not agree in their order
        for words, sides in zip(self._parts, ((None, 4), (None,), (None,)), strict=True):
            named = [e for e in outputs if any(word in e.name.lower() for word in words)]
            if len(named) != 1:
                return ()
            shape = named[0].shape
            # an export for one image has no axis of images
            if not (_may_be(shape, *sides) or _may_be(shape, None, *sides)):
                return ()
            found.append(named[0].name)
        return tuple(found)

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        if [len(shape) for shape in shapes] != [3, 2, 2]:
            return False
        return shapes[0] == (*shapes[1], 4) and shapes[1] == shapes[2]

    def candidates(
        self,
        outputs: Outputs,
        image: int,
        size: tuple[int, int],  # noqa: ARG002 - boxes are in pixels
        reading: DetectorFacts,
    ) -> Candidates:
        boxes, labels, scores = (each[image] for each in outputs)
        given = ~(np.isnan(boxes).all(axis=1) & np.isnan(labels) & np.isnan(scores))
        classes = labels[given] - np.float32(reading.first_label)
        require_shares(scores[given], "its scores", _NO_SCORES)
        return Candidates(boxes[given], scores[given], classes)


class EndToEndFormat:
    """Rows of corners, score and class, suppressed by the model."""

    words = (
        "one output (n, k, 6) of corners in pixels, score and class, as Ultralytics exports its "
        "end-to-end models and those with nms=True"
    )
    suppressed = True

    def find(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        shape = outputs[0].shape if len(outputs) == 1 else None
        # six channels before the anchors are two classes of the other format
        return (outputs[0].name,) if shape and len(shape) == 3 and shape[2] == 6 else ()

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        return len(shapes) == 1 and len(shapes[0]) == 3 and shapes[0][2] == 6

    def candidates(
        self,
        outputs: Outputs,
        image: int,
        size: tuple[int, int],  # noqa: ARG002 - boxes are in pixels
        reading: DetectorFacts,  # noqa: ARG002 - classes are counted from 0
    ) -> Candidates:
        rows = outputs[0][image]
        require_shares(rows[:, 4], "its scores", _NO_SCORES)
        wrong = rows[:, 5] != np.floor(rows[:, 5])
        if (wrong & np.isfinite(rows[:, 5])).any():
            raise BackendError(
                f"the last of six numbers of a box is {significant(float(rows[wrong][0, 5]))}, and "
                f"a class is a whole number: the rows are no {self.words}; {_NO_SCORES}"
            )
        return Candidates(rows[:, :4], rows[:, 4], rows[:, 5])


class UltralyticsFormat:
    """Centres, sides and the scores of all classes, by anchor."""

    words = (
        "one output (n, 4 + classes, anchors) of centres and sides in pixels and of scores, as "
        "Ultralytics exports it; overlapping boxes are then suppressed"
    )
    suppressed = False

    def find(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        shape = outputs[0].shape if len(outputs) == 1 else None
        if not shape or len(shape) != 3:
            return ()
        # with dynamic=True the file states neither side, and a batch shows them
        rows, anchors = shape[1] or 5, shape[2] or math.inf
        # YOLOv5's (n, anchors, 5 + classes) has the axes the other way round
        return (outputs[0].name,) if 4 < rows < anchors else ()

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        return len(shapes) == 1 and len(shapes[0]) == 3 and 4 < shapes[0][1] < shapes[0][2]

    def candidates(
        self,
        outputs: Outputs,
        image: int,
        size: tuple[int, int],  # noqa: ARG002 - boxes are in pixels
        reading: DetectorFacts,
    ) -> Candidates:
        columns = outputs[0][image]
        require_classes(len(columns) - 4, reading.classes)
        kind = "as-is" if reading.scores == "auto" else reading.scores
        scores = as_probabilities(columns[4:].T, kind)
        # an anchor is one box, of the class that fits it best
        return _best(_corners(columns[:4].T), scores)


class Yolov5Format:
    """Centres, sides, objectness and the scores of all classes, by anchor."""

    words = (
        "one output (n, anchors, 5 + classes) of centres and sides in pixels, objectness and "
        "scores, as YOLOv5 exports it; a box has the product of the two, and overlapping boxes are "
        "then suppressed"
    )
    suppressed = False

    def find(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        shape = outputs[0].shape if len(outputs) == 1 else None
        if not shape or len(shape) != 3:
            return ()
        anchors, columns = shape[1] or math.inf, shape[2] or 6
        return (outputs[0].name,) if 5 < columns < anchors else ()

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        return len(shapes) == 1 and len(shapes[0]) == 3 and 5 < shapes[0][2] < shapes[0][1]

    def candidates(
        self,
        outputs: Outputs,
        image: int,
        size: tuple[int, int],  # noqa: ARG002 - boxes are in pixels
        reading: DetectorFacts,
    ) -> Candidates:
        rows = outputs[0][image]
        require_classes(rows.shape[1] - 5, reading.classes)
        kind = "as-is" if reading.scores == "auto" else reading.scores
        # objectness is a probability of its own, whatever the scores are
        sure = as_probabilities(rows[:, 4:5], "as-is" if kind == "as-is" else "sigmoid")
        return _best(_corners(rows[:, :4]), sure * as_probabilities(rows[:, 5:], kind))


class DetrFormat:
    """Scores of all classes and boxes as shares of the input, by query."""

    words = (
        "logits (n, queries, classes), or one more for no object, and boxes (n, queries, 4) of "
        "centres and sides as shares of the input, as transformers' DETR and its kin have them"
    )
    suppressed = True

    def find(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        boxes = [e for e in outputs if "box" in e.name.lower() and _may_be(e.shape, None, None, 4)]
        logits = [
            e
            for e in outputs
            if ("logit" in e.name.lower() or (len(outputs) == 2 and e not in boxes))
            and _may_be(e.shape, None, None, None)
        ]
        return (logits[0].name, boxes[0].name) if len(logits) == len(boxes) == 1 else ()

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        return (
            len(shapes) == 2
            and [len(shape) for shape in shapes] == [3, 3]
            and shapes[1] == (*shapes[0][:2], 4)
        )

    def candidates(
        self, outputs: Outputs, image: int, size: tuple[int, int], reading: DetectorFacts
    ) -> Candidates:
        logits, boxes = (each[image] for each in outputs)
        _require_of_input(boxes)
        corners = _corners(boxes) * np.array([*size, *size], np.float32)
        kind = reading.scores
        if kind == "auto":
            kind = "softmax" if logits.shape[1] == reading.classes + 1 else "sigmoid"
        without = 1 if kind == "softmax" else 0
        require_classes(logits.shape[1] - without, reading.classes)
        scores = as_probabilities(logits, kind)
        if without:
            # the last class is no object
            return _best(corners, scores[:, :-1])
        # a query may be several boxes, each of another class; as many as queries are taken
        flat = np.where(np.isnan(scores), np.inf, scores).ravel()
        best = np.argsort(-flat, kind="stable")[: len(logits)]
        query, of_class = np.divmod(best, scores.shape[1])
        return Candidates(corners[query], scores[query, of_class], of_class.astype(np.float32))


_LOGITS = "write the task's 'scores: sigmoid'"
_NO_SCORES = (
    "keypoints, angles or masks beside the boxes are read by a function of your own alone, in the "
    "task 'score' (docs/tasks.md)"
)
_FARTHEST = 2.0
"""Greatest centre or side of a box as a share of the input; a box may stick out of it."""


def _require_of_input(boxes: Floats) -> None:
    """Raise `BackendError` for boxes, (k, 4), that are no shares of the input."""
    if (farthest := float(np.nan_to_num(np.abs(boxes)).max(initial=0))) > _FARTHEST:
        raise BackendError(
            f"its boxes reach {significant(farthest)}, and they are shares of the input, from 0 to "
            "1, in DETR's format; export them so, or as corners in pixels with the outputs named "
            "boxes, labels and scores"
        )


def require_classes(given: int, known: int) -> None:
    """Raise `BackendError` if the outputs have another number of classes than the model."""
    if given != known:
        raise BackendError(
            f"its outputs have scores of {given} classes, and the model has {known}; name the "
            "classes that it was trained with, or say what 'scores' are"
        )


def as_probabilities(scores: Floats, kind: Kind) -> Floats:
    """Return (k, classes) float32; ``softmax`` is over the classes.

    Raise `BackendError` for scores that are probabilities by their kind, and not by their values.
    """
    if kind == "as-is":
        require_shares(scores, "its class scores", f"for logits, {_LOGITS}; {_NO_SCORES}")
        return scores
    if kind == "sigmoid":
        return probabilities(scores, "sigmoid").astype(np.float32)
    # the greatest exponent is 0, so that none overflows
    powers = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    shares: Floats = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares


def _may_be(shape: tuple[int | None, ...] | None, *sides: int | None) -> bool:
    """Tell whether a declared shape may be this one; ``None`` is any side, or any shape."""
    if shape is None:
        return True
    pairs = zip(shape, sides, strict=False)
    return len(shape) == len(sides) and all(a == b or None in (a, b) for a, b in pairs)


def _corners(boxes: Floats) -> Floats:
    """Map centres and sides to corners, (k, 4) float32, with the libraries' own order of steps."""
    half = boxes[:, 2:] / np.float32(2)
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)


def _best(corners: Floats, scores: Floats) -> Candidates:
    """Choose the class of the greatest score, (k, classes); a NaN among them is the greatest."""
    classes = scores.argmax(axis=1)
    best = np.take_along_axis(scores, classes[:, None], axis=1)[:, 0]
    return Candidates(corners, best, classes.astype(np.float32))
