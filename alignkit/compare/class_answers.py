"""`ClassAnswers`: all that classes decide in a classifier's answers, whatever is kept of logits."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Answers
from alignkit.compare.bootstrap import indicators, stacked
from alignkit.compare.idle_answers import SEVERAL
from alignkit.compare.metrics import (
    METRICS,
    NO_PREDICTION,
    ClassCountArrays,
    averages,
    class_counts,
    metrics_with_classes,
)
from alignkit.compare.parquet_file import ids_of, numbers_of, read_parquet
from alignkit.errors import DataError
from alignkit.task_facts import OutputScale

if TYPE_CHECKING:
    from scipy import sparse

    from alignkit.compare.answers import Weights


@dataclass(frozen=True, eq=False)
class ClassTallies:
    """One class an image, by label and as predicted."""

    labels: Labels
    """(n,), 0..classes-1; (0,) if the images have no labels."""
    predicted: Labels
    """(n,); ``NO_PREDICTION`` (-1) and outputs outside the classes are in no class."""
    classes: int
    """0 if the images have no labels."""

    def __len__(self) -> int:
        return len(self.predicted)

    @property
    def sums(self) -> ClassTallies:
        """Return the tallies themselves: an image counts once in its class."""
        return self

    @cached_property
    def _members(self) -> sparse.csr_matrix:
        """Mark of each class the images that are right, those predicted as it, and its own."""
        everyone = np.ones(len(self.predicted), np.bool_)
        labels = self.labels if self.classes else np.full(len(self.predicted), -1)
        return stacked(
            [
                indicators(labels, self.classes, self.predicted == labels),
                indicators(self.predicted, self.classes, everyone),
                indicators(labels, self.classes, everyone),
            ]
        )

    def metrics_of(self, weights: Weights) -> dict[str, FloatArray]:
        """Compute `METRICS`, and ``recall`` and ``precision`` by class; nothing without labels."""
        return metrics_with_classes(*self.weighted(weights)) if self.classes else {}

    def weighted(self, weights: Weights) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Count true positives, predictions and support by weight, (classes, draws) each."""
        counted = (self._members @ weights).astype(np.float64)
        right, predicted, support = counted.reshape(3, self.classes, weights.shape[1])
        return right, predicted, support

    def picked(self, images: Labels) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Count those of some images, (classes, images) each."""
        counted = self._members[:, images].toarray().astype(np.float64)
        right, predicted, support = counted.reshape(3, self.classes, len(images))
        return right, predicted, support

    def differing(self, other: ClassTallies) -> Labels:
        """Find the images that are predicted as another class."""
        known = self.predicted != other.predicted if self.classes else np.zeros(0, np.bool_)
        return np.flatnonzero(known)

    @staticmethod
    def ratios(
        true_positive: FloatArray, predicted: FloatArray, support: FloatArray
    ) -> dict[str, FloatArray]:
        """Compute `alignkit.compare.metrics.averages`."""
        return averages(true_positive, predicted, support)

    @classmethod
    def joined(cls, parts: Sequence[ClassTallies]) -> ClassTallies:
        """Join those of different images, in the order given."""
        labels, predicted = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("labels", "predicted")
        )
        return replace(parts[0], labels=labels, predicted=predicted)


_CLASSES_KEY, _OUTSIDE_KEY = b"classes", b"outside"  # metadata keys of the Parquet file


class ClassAnswers(Answers):
    """One class an image, in the order of the data set.

    Images without labels have no class: all names of the model's outputs are ``outside``.
    """

    labels: Labels
    """(n,) int64, index into ``classes``; (0,) if the images have no labels."""
    outside: tuple[str, ...]
    """Names of the model's further outputs: classes without an image in the data. An image that is
    predicted as one of them counts as wrong, and adds to no class of the data."""

    @property
    def scale(self) -> OutputScale | None:
        """Scale of the model's outputs; ``None`` where none are kept, as of class ids."""
        return None

    def __post_init__(self) -> None:
        n, classes = len(self.ids), len(self.classes)
        labels = n if self.labelled else 0
        if self.labels.shape != (labels,):
            raise DataError(
                f"{n} images of {classes} classes need labels ({labels},), not {self.labels.shape}"
            )
        super().__post_init__()
        if labels and not (self.labels.min() >= 0 and self.labels.max() < classes):
            raise DataError(f"a label is not in 0..{classes - 1}")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The name of each of the model's outputs."""
        return self.classes + self.outside

    @property
    @abstractmethod
    def predicted(self) -> Labels:
        """Return (n,) int64, index into ``outputs``.

        See `alignkit.compare.metrics.predicted_classes`.
        """

    @abstractmethod
    def margins_for(self, classes: Labels) -> FloatArray:
        """Subtract the greatest other logit from that of each image's class in ``classes``, (n,).

        NaN where a logit is not finite, or there is no other output.
        """

    @abstractmethod
    def top_chances(self) -> FloatArray:
        """Return the softmax of the two greatest logits, (n, 2); see `metrics.top_chances`."""

    @abstractmethod
    def moved_beside(self, other: Self) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Compute each image's greatest |Δ logit|, NaN if unknown, and whether one differs.

        Both are (n,).
        """

    def margins(self) -> FloatArray:
        """Subtract the second logit from the first, as `margins_for` does."""
        return self.margins_for(self.predicted)

    def counts(self) -> ClassCountArrays:
        """Count confusions per class, once; there is no class if the images have no labels."""
        return self._counts

    @cached_property
    def _counts(self) -> ClassCountArrays:
        if not self.labelled:
            return ClassCountArrays((), (), ())
        return class_counts(self.labels, self.predicted, len(self.classes))

    @property
    def metric_names(self) -> tuple[str, ...]:
        """`alignkit.compare.metrics.METRICS`."""
        return METRICS

    @cached_property
    def _tallies(self) -> ClassTallies:
        return ClassTallies(self.labels, self.predicted, len(self.classes))

    def tallies(self) -> ClassTallies:
        """Return the labels and the predicted classes."""
        return self._tallies

    @classmethod
    def kinds_of(cls, seeds: Sequence[Self]) -> dict[str, Sequence[str] | FloatArray]:
        """Give the class of each image, and its softmax margin, (n,) 0..1, averaged over seeds."""
        first = seeds[0]
        margins: FloatArray = np.mean(
            [-np.diff(each.top_chances())[:, 0] for each in seeds], axis=0
        )
        truth = {"class": [first.classes[label] for label in first.labels]}
        return {**(truth if first.labelled else {}), "margin of the reference": margins}

    def changed(self, other: ClassAnswers) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether the predicted class is another one."""
        changed: npt.NDArray[np.bool_] = self.predicted != other.predicted
        return changed

    def one_answer(self, other: Self) -> str:
        """Name the class that all of several images have on both sides; empty if they differ."""
        return one_class(self.outputs, self.predicted, other.predicted)

    def quality(self) -> FloatArray:
        """Return 1 where the predicted class is the label, else 0; NaN without labels."""
        if not self.labelled:
            return np.full(len(self), np.nan)
        right: FloatArray = (self.predicted == self.labels).astype(np.float64)
        return right

    def commonest(self) -> int | None:
        """Count the images of the commonest class; ``None`` without labels."""
        return int(np.bincount(self.labels).max()) if len(self.labels) else None

    def truth_said(self, index: int) -> str:
        """Name the class of an image; empty without labels."""
        return self.classes[self.labels[index]] if self.labelled else ""

    def said(self, index: int) -> str:
        """Name the predicted class."""
        return class_name(self.outputs, int(self.predicted[index]))

    def unlike(self, other: ClassAnswers) -> str:
        """Say how many labels of the same images disagree; empty if none does."""
        disagreeing = np.flatnonzero(self.labels != other.labels)
        if not len(disagreeing):
            return ""
        return (
            f"the labels of {len(disagreeing)} of {len(self)} images disagree, first "
            f"{self.ids[disagreeing[0]]!r}"
        )

    def _truth_of(self, indices: Labels) -> dict[str, Any]:
        """Select ids and labels of some images."""
        ids = tuple(self.ids[index] for index in indices)
        return {"ids": ids, "labels": self.labels[indices] if self.labelled else self.labels}

    def _write(
        self, path: Path, columns: Mapping[str, Any], besides: Mapping[str, Any], **metadata: str
    ) -> None:
        """Write ids, labels, predicted classes, and columns (n,); names go into the metadata."""
        import pyarrow as pa
        from pyarrow import parquet

        written = {"id": pa.array(self.ids, pa.string())}
        if self.labelled:
            written["label"] = self.labels
        written["predicted"] = self.predicted
        written |= columns
        for name, values in besides.items():
            # null: a reader's mean leaves it out
            written[name] = pa.array(values, mask=~np.isfinite(values))
        names = {_CLASSES_KEY: json.dumps(self.classes)}
        extra = {name.encode(): text for name, text in metadata.items()}
        if self.outside:
            names[_OUTSIDE_KEY] = json.dumps(self.outside)
        parquet.write_table(pa.table(written).replace_schema_metadata(names | extra), path)

    @classmethod
    def from_parquet(cls, path: Path) -> Self:
        """Read a file of `to_parquet`, bit for bit; raise `DataError` for any other file."""
        return cls.of_table(read_parquet(path), path)

    @classmethod
    def of_table(cls, table: Any, path: Path) -> Self:
        """Read the table of a file."""
        metadata = table.schema.metadata or {}
        classes = _names(metadata, _CLASSES_KEY, path)
        outside = _names(metadata, _OUTSIDE_KEY, path) if _OUTSIDE_KEY in metadata else ()
        logits = cls._stored_logits(table, path, len(classes) + len(outside))
        labels = numbers_of(table, "label", path) if classes else np.zeros(0)
        if not np.isfinite(labels).all():
            raise DataError(f"{path} has images without a label")
        made: Callable[..., Self] = cls  # a dataclass whose third field is what is kept of logits
        try:
            return made(ids_of(table, path), labels.astype(np.int64), logits, classes, outside)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    @classmethod
    @abstractmethod
    def _stored_logits(cls, table: Any, path: Path, outputs: int) -> npt.NDArray[Any]:
        """Read what is kept of the logits, (n, …); raise `DataError` if a column is missing."""


def _names(metadata: Mapping[bytes, bytes], key: bytes, path: Path) -> tuple[str, ...]:
    """Read names of outputs from a file's metadata."""
    stored = metadata.get(key)
    if stored is None:
        raise DataError(f"{path} holds no predictions: its metadata has no class names")
    try:
        names = json.loads(stored)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the class names of {path} are no JSON ({error})") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"the class names of {path} are no list of names")
    return tuple(names)


def one_class(outputs: Sequence[str], before: npt.NDArray[Any], after: npt.NDArray[Any]) -> str:
    """Name the class that all of several images, (n,), have on both sides; empty if they differ."""
    if len(before) < SEVERAL or not (before == before[0]).all() or (after != before).any():
        return ""
    name = class_name(outputs, int(before[0]))
    return (
        f"all {len(before)} images are {name} on both sides; give images of several classes, or "
        "look at the model's input and normalisation"
    )


def class_name(outputs: Sequence[str], predicted: int) -> str:
    """Name the predicted class, an index into the model's outputs, in words.

    >>> class_name(("cat", "truck"), 1), class_name(("cat", "truck"), NO_PREDICTION)
    ('truck', 'no prediction')
    """
    return "no prediction" if predicted == NO_PREDICTION else outputs[predicted]
