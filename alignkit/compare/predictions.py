"""`Predictions`: one model's logits of images, in a fixed order; its spread over seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np

from alignkit.arrays import FloatArray, Labels, Logits
from alignkit.compare.metrics import (
    NO_PREDICTION,
    ClassCountArrays,
    class_counts,
    predicted_classes,
)
from alignkit.compare.parquet_file import ids_of, numbers_of, read_parquet
from alignkit.errors import DataError, NothingCompared
from alignkit.record import NoiseFloor

_CLASSES_KEY, _OUTSIDE_KEY = b"classes", b"outside"  # metadata keys of the Parquet file


@dataclass(frozen=True, eq=False)
class Predictions:
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
        if len(set(self.ids)) != n:  # pairs of models are matched by id
            raise DataError("the ids of predictions must be unique")
        if labels and not (self.labels.min() >= 0 and self.labels.max() < classes):
            raise DataError(f"a label is not in 0..{classes - 1}")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labelled(self) -> bool:
        """Whether the images have labels."""
        return bool(self.classes)

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

    @property
    def non_finite(self) -> int:
        """Count the samples with a NaN or infinite logit."""
        return int((~np.isfinite(self.logits)).any(axis=1).sum())

    def counts(self) -> ClassCountArrays:
        """Count confusions per class, once; there is no class if the images have no labels."""
        return self._counts

    def metrics(self) -> dict[str, float | None]:
        """Compute each of `alignkit.compare.metrics.METRICS`; ``None`` where nothing defines it."""
        return self.counts().metrics()

    @cached_property
    def _counts(self) -> ClassCountArrays:
        if not self.labelled:
            return ClassCountArrays((), (), ())
        return class_counts(self.labels, self.predicted, len(self.classes))

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


def aligned(reference: Predictions, candidate: Predictions) -> tuple[Predictions, Predictions]:
    """Restrict both to the ids they share, in the reference's order.

    Raise `NothingCompared` if they share none, `DataError` if classes or labels disagree.
    """
    if (reference.classes, reference.outside) != (candidate.classes, candidate.outside):
        raise DataError("predictions of different classes cannot be compared; evaluate both models "
                        "on the same data set")  # fmt: skip
    if reference.ids != candidate.ids:
        place = {name: index for index, name in enumerate(candidate.ids)}
        shared = np.array([name in place for name in reference.ids], np.bool_)
        reference = reference.rows(np.flatnonzero(shared))
        candidate = candidate.rows(np.array([place[name] for name in reference.ids], np.int64))
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
    return {
        name: math.fsum(values) / len(values) if values else None
        for name, values in _metrics_of_all(seeds).items()
    }


def _metrics_of_all(seeds: Sequence[Predictions]) -> dict[str, list[float]]:
    """Map each metric to its values, one for each seed; to none at all if a seed has no value."""
    metrics = [each.metrics() for each in seeds]
    found = {}
    for name in metrics[0] if metrics else ():
        values = [value for each in metrics if (value := each[name]) is not None]
        # a mean or a range over fewer seeds would be that of another set of models
        found[name] = values if len(values) == len(seeds) else []
    return found


def noise_floor(preprocess: str, trainings: Mapping[int, Predictions]) -> NoiseFloor:
    """Compare the models of several seeds, seed → predictions, on the same images.

    Their differences come from the seeds alone; differences of rows must exceed them.
    Raise `NothingCompared` for one seed or no image, `DataError` if the images are not the same in
    the same order.
    """
    models = list(trainings.values())
    if len(models) < 2:
        raise NothingCompared("one seed only: train with two seeds or more to see what a seed does")
    if any(each.ids != models[0].ids for each in models):
        raise DataError("a noise floor needs every seed's predictions of the same images")
    if not len(models[0]):
        raise NothingCompared("no image was predicted")
    churns = [
        float(np.mean(one.predicted != other.predicted)) for one, other in combinations(models, 2)
    ]
    return NoiseFloor(
        preprocess=preprocess,
        seeds=tuple(trainings),
        metrics={
            name: max(values) - min(values)
            for name, values in _metrics_of_all(models).items()
            if values
        },
        churn=sum(churns) / len(churns),
    )
