"""`TopPredictions`: of each image its class and the five greatest logits, without the others.

An image takes 61 bytes, whatever the number of classes. All that classes decide is that of
`Predictions`, to the last digit, and so are margins and softmax of the class. Distances of logits
need all of them, and are not computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels, Logits
from alignkit.compare.class_answers import ClassAnswers
from alignkit.compare.logit_sums import NONE_FINITE, TOP
from alignkit.compare.margins import drift_of_lost, margins_lost, moved_most
from alignkit.compare.metrics import top_chances
from alignkit.compare.parquet_file import numbers_of, read_parquet
from alignkit.compare.predictions import ClassIds, Predictions
from alignkit.compare.top_rows import TopRows
from alignkit.errors import DataError
from alignkit.record import Estimate, LogitDistance, MarginDrift
from alignkit.task_facts import TOP_LOGITS
from alignkit.text.numbers import count

_FALLEN = "is not among the other side's five greatest logits"


def top_records(logits: Logits) -> npt.NDArray[Any]:
    """Reduce (images, outputs) logits to a row of each image, (images,); see `kept_type`."""
    # rows are summed in the same order, whatever the layout in memory
    logits = np.ascontiguousarray(logits)
    top = TopRows.of(logits)
    found = np.empty(len(logits), kept_type(logits.shape[1]))
    for name in ("predicted", "classes", "logits", "finite"):
        found[name] = getattr(top, name)
    found["chances"] = top_chances(logits)
    return found


def kept_type(outputs: int) -> np.dtype[Any]:
    """Return the type of an image's row: fields of `TopRows`, and `top_chances`."""
    kept = min(TOP, outputs)
    return np.dtype(
        [
            ("predicted", np.int32),
            ("classes", np.int32, (kept,)),
            ("logits", np.float32, (kept,)),
            ("finite", np.bool_),
            ("chances", np.float64, (2,)),
        ]
    )


@dataclass(frozen=True, eq=False)
class TopPredictions(ClassAnswers):
    """Classes, greatest logits, labels and sample ids, in the order of the data set."""

    no_logits: ClassVar[str] = TOP_LOGITS.no_logits
    no_leads: ClassVar[str] = TOP_LOGITS.no_logits

    ids: tuple[str, ...]
    """Unique."""
    labels: Labels
    kept: npt.NDArray[Any]
    """(n,) rows of `kept_type`."""
    classes: tuple[str, ...]
    """Names of the data's classes; empty if the images have no labels."""
    outside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        outputs = len(self.outputs)
        if self.kept.shape != (len(self),) or self.kept.dtype != kept_type(outputs):
            raise DataError(f"{len(self)} images of {outputs} outputs need a row of each image")
        least = self.kept["predicted"].min(initial=0), self.kept["classes"].min(initial=0)
        most = [self.kept[name].max(initial=-1) for name in ("predicted", "classes")]
        if least[0] < -1 or least[1] < 0 or max(most) >= outputs:
            raise DataError(f"a class is not in 0..{outputs - 1}")
        super().__post_init__()

    @cached_property
    def predicted(self) -> Labels:
        """See `alignkit.compare.metrics.predicted_classes`."""
        return self.kept["predicted"].astype(np.int64)

    def finite(self) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether every logit of an image was finite, also those not kept."""
        return np.asarray(self.kept["finite"])

    def bits(self) -> npt.NDArray[np.uint32]:
        """Return the bits of the logits that are kept, (n, 5)."""
        return np.asarray(self.kept["logits"].view(np.uint32))

    def margins_for(self, classes: Labels) -> FloatArray:
        """See `ClassAnswers.margins_for`: the least kept logit replaces one that is not kept."""
        if self.kept["logits"].shape[1] < 2:
            return np.full(len(self), np.nan)
        logits = self.kept["logits"].astype(np.float64)
        own = self.kept["classes"] == classes[:, None]
        other = np.where(own[:, 0], logits[:, 1], logits[:, 0])
        with np.errstate(invalid="ignore"):  # infinite logits
            margins: FloatArray = np.where(own, logits, logits[:, -1:]).max(axis=1) - other
        return np.where(self.kept["finite"], margins, np.nan)

    def holds(self, classes: Labels) -> npt.NDArray[np.bool_]:
        """See `ClassAnswers.holds`."""
        return np.asarray((self.kept["classes"] == classes[:, None]).any(axis=1))

    def top_chances(self) -> FloatArray:
        """See `ClassAnswers.top_chances`."""
        return np.asarray(self.kept["chances"])

    def apart(self, other: TopPredictions) -> FloatArray:
        """Compute how far each margin moved, to rank images; NaN where a logit is not kept."""
        before, after = self.margins(), other.margins_for(self.predicted)
        moved: FloatArray = np.where(other.holds(self.predicted), np.abs(before - after), np.nan)
        return moved

    def moved_beside(self, other: TopPredictions) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """See `ClassAnswers.moved_beside`: no greatest |Δ logit| is known."""
        left, right = self.kept, other.kept
        same = (left["classes"] == right["classes"]) & (
            (left["logits"] == right["logits"])
            | (np.isnan(left["logits"]) & np.isnan(right["logits"]))
        )
        return np.full(len(self), np.nan), ~same.all(axis=1)

    @classmethod
    def distance(cls, pairs: Sequence[tuple[TopPredictions, TopPredictions]]) -> LogitDistance:
        """Count the images of the same greatest classes; distances have a reason instead."""
        compared, same = 0, dict.fromkeys((k for k in (1, TOP) if k < len(pairs[0][0].outputs)), 0)
        for a, b in pairs:
            finite = a.finite() & b.finite()
            compared += int(finite.sum())
            for k in same:
                left, right = (np.sort(each.kept["classes"][finite, :k]) for each in (a, b))
                same[k] += int((left == right).all(axis=1).sum())
        if not compared:
            return LogitDistance(None, None, None, NONE_FINITE)
        counts = {str(k): n for k, n in same.items()}
        return LogitDistance(None, None, None, cls.no_logits, compared=compared, same_top=counts)

    @classmethod
    def pair_facts(
        cls,
        pairs: Sequence[tuple[TopPredictions, TopPredictions]],
        changes: Mapping[str, Estimate],  # noqa: ARG003 - margins need none
        groups: Labels | None,  # noqa: ARG003
    ) -> dict[str, Any]:
        """Compare the margins of all pairs."""
        return {"margins": _margin_drift(pairs), "moved": moved_most(pairs)}

    def columns_beside(self, other: TopPredictions) -> dict[str, FloatArray]:  # noqa: ARG002
        """Return no column, as no greatest |Δ logit| is known."""
        return {}

    def rows(self, indices: Labels) -> TopPredictions:
        """Select the samples at ``indices``, in that order."""
        return replace(self, kept=self.kept[indices], **self._truth_of(indices))

    def to_parquet(self, path: Path, **besides: FloatArray) -> None:
        """Write ``id, label, predicted, top1_class, top1_logit, …``, and ``margin`` for readers.

        ``besides`` are further columns (n,), null where not finite; `from_parquet` ignores them.
        """
        columns: dict[str, Any] = {"finite": self.kept["finite"].astype(np.uint8)}
        for name, field, place in self._columns(self.kept):
            columns[name] = self.kept[field][:, place]
        self._write(path, columns, {"margin": self.margins(), **besides})

    @staticmethod
    def _columns(kept: npt.NDArray[Any]) -> list[tuple[str, str, int]]:
        """List columns of the file with their field of ``kept`` and the place in it."""
        return [
            (f"top{place + 1}_{name}", field, place)
            for name, field in (("class", "classes"), ("logit", "logits"), ("chance", "chances"))
            for place in range(kept[field].shape[1])
        ]

    @classmethod
    def _stored_logits(cls, table: Any, path: Path, outputs: int) -> npt.NDArray[Any]:
        kept = np.empty(table.num_rows, kept_type(outputs))
        for name in ("predicted", "finite"):
            kept[name] = numbers_of(table, name, path)
        for name, field, place in cls._columns(kept):
            kept[field][:, place] = numbers_of(table, name, path)
        return kept


def read_class_answers(path: Path) -> ClassAnswers:
    """Read a classifier's answers, whichever were stored; raise `DataError` for any other file."""
    table = read_parquet(path)
    kinds = {"top1_class": TopPredictions, "logit_0": Predictions, "logit_1": Predictions}
    stored = (kind for name, kind in kinds.items() if table.schema.get_field_index(name) >= 0)
    return next(stored, ClassIds).of_table(table, path)


def _margin_drift(pairs: Sequence[tuple[TopPredictions, TopPredictions]]) -> MarginDrift:
    """Measure the shares of margins lost; a quantile is given if the logits kept decide it."""
    bounds, kept, unknown = [], [], 0
    for a, b in pairs:
        least = margins_lost((a, b))[1]
        fallen = ~b.holds(a.predicted) & np.isfinite(least)
        bounds.append(np.stack([least, np.where(fallen, 1e300, least)]))
        unknown += int(fallen.sum())
        kept.append(a.predicted == b.predicted)
    low, high = (drift_of_lost(each, np.concatenate(kept)) for each in np.concatenate(bounds, 1))
    if low == high:
        return low
    return replace(
        low,
        p50=low.p50 if low.p50 == high.p50 else None,
        p99=low.p99 if low.p99 == high.p99 else None,
        reason=f"the class of {count(unknown, 'image')} {_FALLEN}",
    )
