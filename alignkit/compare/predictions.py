"""`Predictions`: one model's logits of labelled images, in a fixed order."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from alignkit.arrays import FloatArray, Labels, Logits
from alignkit.compare.metrics import NO_PREDICTION, CountsByClass, class_counts, predicted_classes
from alignkit.errors import DataError, NothingCompared

_CLASSES_KEY = b"classes"  # the metadata key of the Parquet file


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits, labels and sample ids, in the order of the data set."""

    ids: tuple[str, ...]
    """Unique."""
    labels: Labels
    """(n,) int64, index into ``classes``."""
    logits: Logits
    """(n, classes) float32."""
    classes: tuple[str, ...]
    """Class names."""

    def __post_init__(self) -> None:
        n, classes = len(self.ids), len(self.classes)
        if self.labels.shape != (n,) or self.logits.shape != (n, classes):
            raise DataError(
                f"{n} images of {classes} classes need labels ({n},) and logits ({n}, {classes}), "
                f"not {self.labels.shape} and {self.logits.shape}"
            )
        if len(set(self.ids)) != n:
            raise DataError("the ids of predictions must be unique")
        if n and not (self.labels.min() >= 0 and self.labels.max() < classes):
            raise DataError(f"a label is not in 0..{classes - 1}")

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def predicted(self) -> Labels:
        """Return (n,) int64, see `alignkit.compare.metrics.predicted_classes`."""
        return predicted_classes(self.logits)

    @property
    def non_finite(self) -> int:
        """Count the samples with a NaN or infinite logit."""
        return int((~np.isfinite(self.logits)).any(axis=1).sum())

    def counts(self) -> CountsByClass:
        """Count confusions per class."""
        return class_counts(self.labels, self.predicted, len(self.classes))

    def rows(self, indices: Labels) -> Predictions:
        """Select the samples at ``indices``, in that order."""
        ids = tuple(self.ids[index] for index in indices)
        return Predictions(ids, self.labels[indices], self.logits[indices], self.classes)

    def to_parquet(self, path: Path, **besides: FloatArray) -> None:
        """Write columns ``id, label, predicted, logit_0, …``; the metadata holds the class names.

        ``besides`` are further columns (n,), null where not finite; `from_parquet` ignores them.
        """
        import pyarrow as pa
        from pyarrow import parquet

        columns = {"id": pa.array(self.ids, pa.string()), "label": self.labels}
        columns["predicted"] = self.predicted
        for index in range(len(self.classes)):
            columns[f"logit_{index}"] = self.logits[:, index]
        for name, values in besides.items():
            columns[name] = pa.array(values, mask=~np.isfinite(values))
        table = pa.table(columns).replace_schema_metadata({_CLASSES_KEY: json.dumps(self.classes)})
        parquet.write_table(table, path)

    @classmethod
    def from_parquet(cls, path: Path) -> Predictions:
        """Read a file of `to_parquet`, bit for bit; raise `DataError` for any other file."""
        import pyarrow as pa
        from pyarrow import parquet

        try:
            table = parquet.read_table(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{path} cannot be read as Parquet ({error})") from error
        stored = (table.schema.metadata or {}).get(_CLASSES_KEY)
        if stored is None:
            raise DataError(f"{path} holds no predictions: its metadata has no class names")
        classes = tuple(json.loads(stored))
        logits = np.empty((table.num_rows, len(classes)), np.float32)
        for index in range(len(classes)):
            logits[:, index] = table[f"logit_{index}"].to_numpy()
        labels = table["label"].to_numpy().astype(np.int64)
        return cls(tuple(table["id"].to_pylist()), labels, logits, classes)


def class_name(classes: Sequence[str], predicted: int) -> str:
    """Name the predicted class in words.

    >>> class_name(("cat", "truck"), 1), class_name(("cat", "truck"), NO_PREDICTION)
    ('truck', 'no prediction')
    """
    return "no prediction" if predicted == NO_PREDICTION else classes[predicted]


def aligned(reference: Predictions, candidate: Predictions) -> tuple[Predictions, Predictions]:
    """Restrict both to the ids they share, in the reference's order.

    Raise `NothingCompared` if they share none, `DataError` if classes or labels disagree.
    """
    if reference.classes != candidate.classes:
        raise DataError("predictions of different classes cannot be compared; evaluate both models "
                        "on the same data set")  # fmt: skip
    if reference.ids != candidate.ids:
        reference, candidate = _restricted(reference, candidate)
    if not len(reference):
        raise NothingCompared("the two predictions share no image")
    disagreeing = np.flatnonzero(reference.labels != candidate.labels)
    if len(disagreeing):
        raise DataError(
            f"the labels of {len(disagreeing)} of {len(reference)} images disagree, first "
            f"{reference.ids[disagreeing[0]]!r}; evaluate both models on the same data set"
        )
    return reference, candidate


def mean_metrics(seeds: Sequence[Predictions]) -> dict[str, float | None]:
    """Average each of `alignkit.compare.metrics.METRICS` over seeds.

    A metric that a seed does not define is ``None``. Without a seed the result is empty.
    """
    metrics = [each.counts().metrics() for each in seeds]
    names = metrics[0] if metrics else ()
    return {name: _mean([each[name] for each in metrics]) for name in names}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if len(known) == len(values) else None


def _restricted(reference: Predictions, candidate: Predictions) -> tuple[Predictions, Predictions]:
    place = {name: index for index, name in enumerate(candidate.ids)}
    kept = [index for index, name in enumerate(reference.ids) if name in place]
    theirs = [place[reference.ids[index]] for index in kept]
    return reference.rows(np.asarray(kept, np.int64)), candidate.rows(np.asarray(theirs, np.int64))
