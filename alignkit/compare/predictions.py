"""`Predictions`: one model's logits of images, in a fixed order: the `Answers` of classifiers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels, Logits
from alignkit.compare.class_tallies import ClassTallies
from alignkit.compare.linear_answers import LinearAnswers, between
from alignkit.compare.logit_sums import logit_distance
from alignkit.compare.metrics import (
    METRICS,
    NO_PREDICTION,
    ClassCountArrays,
    class_counts,
    mean_apart,
    predicted_classes,
    softmax_margin,
)
from alignkit.compare.parquet_file import ids_of, numbers_of, read_parquet
from alignkit.errors import DataError
from alignkit.record import Estimate, LogitDistance

_CLASSES_KEY, _OUTSIDE_KEY = b"classes", b"outside"  # metadata keys of the Parquet file


@dataclass(frozen=True, eq=False)
class Predictions(LinearAnswers):
    """Logits, labels and sample ids, in the order of the data set.

    Images without labels have no class: all names of the model's outputs are ``outside``.
    """

    ids: tuple[str, ...]
    """Unique."""
    labels: Labels
    """(n,) int64, index into ``classes``; (0,) if the images have no labels."""
    logits: Logits
    """(n, outputs) float32."""
    classes: tuple[str, ...]
    """Names of the data's classes; empty if the images have no labels."""
    outside: tuple[str, ...] = ()
    """Names of the model's further outputs: classes without an image in the data. An image that is
    predicted as one of them counts as wrong, and adds to no class of the data."""

    def __post_init__(self) -> None:
        n, classes, outputs = len(self.ids), len(self.classes), len(self.outputs)
        labels = n if self.labelled else 0
        if self.labels.shape != (labels,) or self.logits.shape != (n, outputs):
            raise DataError(
                f"{n} images of {outputs} classes need labels ({labels},) and logits "
                f"({n}, {outputs}), not {self.labels.shape} and {self.logits.shape}"
            )
        super().__post_init__()
        if labels and not (self.labels.min() >= 0 and self.labels.max() < classes):
            raise DataError(f"a label is not in 0..{classes - 1}")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The name of each column of the logits."""
        return self.classes + self.outside

    @cached_property
    def predicted(self) -> Labels:
        """Return (n,) int64, index into ``outputs``.

        See `alignkit.compare.metrics.predicted_classes`.
        """
        return predicted_classes(self.logits)

    def finite(self) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether every logit of an image is finite."""
        return np.asarray(np.isfinite(self.logits).all(axis=1))

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

    def raw_rows(self) -> Logits:
        """Return the logits, (n, outputs) float32."""
        return self.logits

    @classmethod
    def kinds_of(cls, seeds: Sequence[Predictions]) -> dict[str, Sequence[str] | FloatArray]:
        """Give the class of each image, and its softmax margin, (n,) 0..1, averaged over seeds."""
        first = seeds[0]
        margins: FloatArray = np.mean([softmax_margin(each.logits) for each in seeds], axis=0)
        truth = {"class": [first.classes[label] for label in first.labels]}
        return {**(truth if first.labelled else {}), "margin of the reference": margins}

    def changed(self, other: Predictions) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether the predicted class is another one."""
        changed: npt.NDArray[np.bool_] = self.predicted != other.predicted
        return changed

    def leads(self, other: Predictions) -> FloatArray:
        """Compute half of each logit's distance from that of the class predicted here.

        Both logits may move by e, so that their difference changes by 2 e; (n, outputs).
        """
        logits, rows = other.logits.astype(np.float64), np.arange(len(self))
        with np.errstate(invalid="ignore"):  # infinite logits that are equal
            leads: FloatArray = (logits[rows, self.predicted, None] - logits) / 2
        leads[rows, self.predicted] = np.inf
        unknown = np.isnan(logits).any(axis=1) | (self.predicted == NO_PREDICTION)
        leads[unknown] = np.nan
        return leads

    def toward(self, other: Predictions, share: float) -> Predictions:
        """Mix the logits: own at 0, the other's at 1."""
        return replace(self, logits=between(self.logits, other.logits, share))

    def quality(self) -> FloatArray:
        """Return 1 where the predicted class is the label, else 0; NaN without labels."""
        if not self.labelled:
            return np.full(len(self), np.nan)
        right: FloatArray = (self.predicted == self.labels).astype(np.float64)
        return right

    def apart(self, other: Predictions) -> FloatArray:
        """Compute each image's mean |Δ logit|; NaN where a logit is not finite."""
        return mean_apart(self.logits, other.logits)

    def commonest(self) -> int | None:
        """Count the images of the commonest class; ``None`` without labels."""
        return int(np.bincount(self.labels).max()) if len(self.labels) else None

    def truth_said(self, index: int) -> str:
        """Name the class of an image; empty without labels."""
        return self.classes[self.labels[index]] if self.labelled else ""

    def said(self, index: int) -> str:
        """Name the predicted class."""
        return class_name(self.outputs, int(self.predicted[index]))

    def unlike(self, other: Predictions) -> str:
        """Say how many labels of the same images disagree; empty if none does."""
        disagreeing = np.flatnonzero(self.labels != other.labels)
        if not len(disagreeing):
            return ""
        return (
            f"the labels of {len(disagreeing)} of {len(self)} images disagree, first "
            f"{self.ids[disagreeing[0]]!r}"
        )

    @classmethod
    def distance(cls, pairs: Sequence[tuple[Predictions, Predictions]]) -> LogitDistance:
        """Compare the logits of all pairs; see `alignkit.compare.logit_sums.logit_distance`."""
        if len(pairs) == 1:  # no copies: they are the largest arrays of a run
            return logit_distance(pairs[0][0].logits, pairs[0][1].logits)
        both = (np.concatenate([pair[side].logits for pair in pairs]) for side in (0, 1))
        return logit_distance(*both)

    @classmethod
    def pair_facts(
        cls,
        pairs: Sequence[tuple[Predictions, Predictions]],
        changes: Mapping[str, Estimate],  # noqa: ARG003 - margins need none
    ) -> dict[str, Any]:
        """Compare the margins of all pairs."""
        from alignkit.compare.margins import margin_drift, moved_most

        return {"margins": margin_drift(pairs), "moved": moved_most(pairs)}

    def columns_beside(self, other: Predictions) -> dict[str, FloatArray]:
        """Compute each image's greatest |Δ logit|: ``runtime_max_abs``."""
        change = self.logits.astype(np.float64) - other.logits
        return {"runtime_max_abs": np.abs(change).max(axis=1)}

    def rows(self, indices: Labels) -> Predictions:
        """Select the samples at ``indices``, in that order."""
        ids = tuple(self.ids[index] for index in indices)
        labels = self.labels[indices] if self.labelled else self.labels
        return replace(self, ids=ids, labels=labels, logits=self.logits[indices])

    def to_parquet(self, path: Path, **besides: FloatArray) -> None:
        """Write columns ``id, label, predicted, logit_0, …``; the metadata holds the class names.

        There is no ``label`` if the images have none.

        ``besides`` are further columns (n,), null where not finite; `from_parquet` ignores them.
        """
        import pyarrow as pa
        from pyarrow import parquet

        columns = {"id": pa.array(self.ids, pa.string())}
        if self.labelled:
            columns["label"] = self.labels
        columns["predicted"] = self.predicted
        for index in range(len(self.outputs)):
            columns[f"logit_{index}"] = self.logits[:, index]
        for name, values in besides.items():
            # null: a reader's mean leaves it out
            columns[name] = pa.array(values, mask=~np.isfinite(values))
        metadata = {_CLASSES_KEY: json.dumps(self.classes)}
        if self.outside:
            metadata[_OUTSIDE_KEY] = json.dumps(self.outside)
        parquet.write_table(pa.table(columns).replace_schema_metadata(metadata), path)

    @classmethod
    def from_parquet(cls, path: Path) -> Predictions:
        """Read a file of `to_parquet`, bit for bit; raise `DataError` for any other file."""
        table = read_parquet(path)
        metadata = table.schema.metadata or {}
        classes = _names(metadata, _CLASSES_KEY, path)
        outside = _names(metadata, _OUTSIDE_KEY, path) if _OUTSIDE_KEY in metadata else ()
        outputs = len(classes) + len(outside)
        if sum(name.startswith("logit_") for name in table.column_names) != outputs:
            raise DataError(f"{path} has not one column of logits for each output of its model")
        logits = np.empty((table.num_rows, outputs), np.float32)
        for index in range(outputs):
            logits[:, index] = numbers_of(table, f"logit_{index}", path)
        labels = numbers_of(table, "label", path) if classes else np.zeros(0)
        if not np.isfinite(labels).all():
            raise DataError(f"{path} has images without a label")
        try:
            return cls(ids_of(table, path), labels.astype(np.int64), logits, classes, outside)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


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


def class_name(outputs: Sequence[str], predicted: int) -> str:
    """Name the predicted class, an index into the model's outputs, in words.

    >>> class_name(("cat", "truck"), 1), class_name(("cat", "truck"), NO_PREDICTION)
    ('truck', 'no prediction')
    """
    return "no prediction" if predicted == NO_PREDICTION else outputs[predicted]
