"""`Predictions`: one model's logits of images, in a fixed order: the `Answers` of classifiers.

`ClassIds` are those of a model that gives the class itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels, Logits
from alignkit.compare.class_answers import ClassAnswers
from alignkit.compare.linear_answers import LinearAnswers, between
from alignkit.compare.logit_sums import ScoreRows, added_rows, logit_distance
from alignkit.compare.metrics import (
    NO_PREDICTION,
    by_class,
    mean_apart,
    predicted_classes,
    top_chances,
)
from alignkit.compare.parquet_file import numbers_of, read_parquet
from alignkit.errors import DataError
from alignkit.record import Estimate, LogitDistance
from alignkit.task_facts import OutputScale


@dataclass(frozen=True, eq=False)
class Predictions(ClassAnswers, LinearAnswers):
    """Logits, labels and sample ids, in the order of the data set."""

    ids: tuple[str, ...]
    """Unique."""
    labels: Labels
    logits: Logits
    """(n, outputs) float32; (n, 1) of a model whose only output is the logit of the second of two
    classes: distances are those of what the model gives."""
    classes: tuple[str, ...]
    """Names of the data's classes; empty if the images have no labels."""
    outside: tuple[str, ...] = ()
    declared: OutputScale | Literal[""] = ""
    """Scale of the logits by the task's options or the model's file; empty if neither says it."""

    def __post_init__(self) -> None:
        expected = len(self.ids), len(self.outputs)
        if self.logits.shape not in [(expected[0], each) for each in _widths(expected[1])]:
            raise DataError(
                f"{expected[0]} images of {expected[1]} outputs need logits {expected}, not "
                f"{self.logits.shape}"
            )
        super().__post_init__()

    @cached_property
    def predicted(self) -> Labels:
        """See `alignkit.compare.metrics.predicted_classes`."""
        return predicted_classes(self._by_class)

    @property
    def _by_class(self) -> Logits:
        return by_class(self.logits) if len(self.outputs) > 1 else self.logits

    def finite(self) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether every logit of an image is finite."""
        return np.asarray(np.isfinite(self.logits).all(axis=1))

    @cached_property
    def score_rows(self) -> ScoreRows:
        """Sums over all rows."""
        return ScoreRows.of(self.logits)

    @property
    def scale(self) -> OutputScale:
        """Scale of the logits, by all images if nothing says it."""
        return self.declared or self.score_rows.scale

    def misread(self, *others: Predictions) -> str:
        """See `Answers.misread`."""
        if self.declared:
            return ""
        return self.score_rows.misread(added_rows(each.score_rows for each in (self, *others)))

    def as_read(self) -> Predictions:
        """See `Answers.as_read`."""
        return replace(self, declared=self.scale)

    def one_answer(self, other: Predictions) -> str:
        """See `Answers.one_answer`; also of few images whose logits are all the same."""
        if said := super().one_answer(other):
            return said
        alike = len(self) > 1 and all(
            (each.logits == self.logits[0]).all() for each in (self, other)
        )
        return f"all {len(self)} images have the same outputs on both sides" if alike else ""

    def margins_for(self, classes: Labels) -> FloatArray:
        """See `alignkit.compare.margins.margins_of`."""
        from alignkit.compare.margins import margins_of

        return margins_of(self._by_class, classes)

    def top_chances(self) -> FloatArray:
        """See `alignkit.compare.metrics.top_chances`."""
        return top_chances(self._by_class)

    def raw_rows(self) -> Logits:
        """Return the logits, (n, outputs) float32."""
        return self.logits

    def leads(self, other: Predictions) -> FloatArray:
        """Compute half of each logit's distance from that of the class predicted here.

        Both logits may move by e, so that their difference changes by 2 e; (n, outputs). An only
        logit has its own distance from 0, (n, 1).
        """
        logits, rows = other.logits.astype(np.float64), np.arange(len(self))
        if logits.shape[1] < len(self.outputs):
            lone = np.where(self.predicted[:, None] == 1, logits, -logits)
            lone[self.predicted == NO_PREDICTION] = np.nan
            return lone
        with np.errstate(invalid="ignore"):  # infinite logits that are equal
            leads: FloatArray = (logits[rows, self.predicted, None] - logits) / 2
        leads[rows, self.predicted] = np.inf
        unknown = np.isnan(logits).any(axis=1) | (self.predicted == NO_PREDICTION)
        leads[unknown] = np.nan
        return leads

    def toward(self, other: Predictions, share: float) -> Predictions:
        """Mix the logits: own at 0, the other's at 1."""
        return replace(self, logits=between(self.logits, other.logits, share))

    def apart(self, other: Predictions) -> FloatArray:
        """Compute each image's mean |Δ logit|; NaN where a logit is not finite."""
        return mean_apart(self.logits, other.logits)

    @classmethod
    def distance(cls, pairs: Sequence[tuple[Predictions, Predictions]]) -> LogitDistance:
        """Compare the logits of all pairs; see `alignkit.compare.logit_sums.logit_distance`."""
        if len(pairs) == 1:  # no copies: they are the largest arrays of a run
            return logit_distance(pairs[0][0].logits, pairs[0][1].logits)
        both = (np.concatenate([pair[side].logits for pair in pairs]) for side in (0, 1))
        return logit_distance(*both)

    def moved_beside(self, other: Predictions) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """See `alignkit.compare.margins.moves_of`."""
        from alignkit.compare.margins import moves_of

        return moves_of(self.logits, other.logits)

    @classmethod
    def pair_facts(
        cls,
        pairs: Sequence[tuple[Predictions, Predictions]],
        changes: Mapping[str, Estimate],  # noqa: ARG003 - margins need none
        groups: Labels | None,  # noqa: ARG003
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
        return replace(self, logits=self.logits[indices], **self._truth_of(indices))

    def to_parquet(self, path: Path, **besides: FloatArray) -> None:
        """Write columns ``id, label, predicted, logit_0, …``; the metadata holds the class names.

        There is no ``label`` if the images have none, and no ``logit_0`` beside an only logit.

        ``besides`` are further columns (n,), null where not finite; `from_parquet` ignores them.
        """
        first = len(self.outputs) - self.logits.shape[1]
        columns = {f"logit_{first + at}": each for at, each in enumerate(self.logits.T)}
        self._write(path, columns, besides, declared=self.declared)

    @classmethod
    def of_table(cls, table: Any, path: Path) -> Self:
        """Read the table of a file."""
        found = (table.schema.metadata or {}).get(b"declared", b"").decode()
        scales: tuple[OutputScale, ...] = get_args(OutputScale)
        known = (each for each in scales if each == found)
        return replace(super().of_table(table, path), declared=next(known, ""))

    @classmethod
    def _stored_logits(cls, table: Any, path: Path, outputs: int) -> Logits:
        found = sum(name.startswith("logit_") for name in table.column_names)
        if found not in _widths(outputs):
            raise DataError(f"{path} has not one column of logits for each output of its model")
        logits = np.empty((table.num_rows, found), np.float32)
        for index in range(found):
            logits[:, index] = numbers_of(table, f"logit_{outputs - found + index}", path)
        return logits


def _widths(outputs: int) -> tuple[int, ...]:
    """Return how many logits an image may have: two classes may have an only one."""
    return (1, 2) if outputs == 2 else (outputs,)


@dataclass(frozen=True, eq=False)
class ClassIds(ClassAnswers):
    """Classes, labels and sample ids, in the order of the data set; no score is known."""

    no_logits: ClassVar[str] = "the model gives a class without scores"
    no_leads: ClassVar[str] = no_logits

    ids: tuple[str, ...]
    """Unique."""
    labels: Labels
    kept: Labels
    """(n,) int64, index into ``outputs``."""
    classes: tuple[str, ...]
    """Names of the data's classes; empty if the images have no labels."""
    outside: tuple[str, ...] = ()

    @property
    def predicted(self) -> Labels:
        """The class of each image, (n,)."""
        return self.kept

    def finite(self) -> npt.NDArray[np.bool_]:
        """Tell, (n,), that each class is a number."""
        return np.ones(len(self), np.bool_)

    def margins_for(self, classes: Labels) -> FloatArray:
        """Return NaN, (n,): no margin is known."""
        return np.full(len(classes), np.nan)

    def top_chances(self) -> FloatArray:
        """Return NaN, (n, 2): no score is known."""
        return np.full((len(self), 2), np.nan)

    def moved_beside(self, other: Self) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """See `ClassAnswers.moved_beside`: no |Δ logit| is known."""
        return np.full(len(self), np.nan), self.changed(other)

    @classmethod
    def kinds_of(cls, seeds: Sequence[Self]) -> dict[str, Sequence[str] | FloatArray]:
        """Give the class of each image."""
        first = seeds[0]
        truth = {"class": [first.classes[label] for label in first.labels]}
        return {**truth} if first.labelled else {}

    def apart(self, other: Self) -> FloatArray:
        """Return 1 where the class is another one, else 0."""
        return self.changed(other).astype(np.float64)

    def columns_beside(self, other: Self) -> dict[str, FloatArray]:  # noqa: ARG002
        """Return no column."""
        return {}

    def rows(self, indices: Labels) -> Self:
        """Select the samples at ``indices``, in that order."""
        return replace(self, kept=self.kept[indices], **self._truth_of(indices))

    def to_parquet(self, path: Path, **besides: FloatArray) -> None:
        """Write ``id, label, predicted``; ``besides`` are further columns, as of `Predictions`."""
        self._write(path, {}, besides)

    @classmethod
    def _stored_logits(cls, table: Any, path: Path, outputs: int) -> Labels:
        found: Labels = numbers_of(table, "predicted", path).astype(np.int64)
        if len(found) and not 0 <= found.min() <= found.max() < outputs:
            raise DataError(f"{path}: a class is not in 0..{outputs - 1}")
        return found


def read_class_answers(path: Path) -> ClassAnswers:
    """Read a classifier's answers, with or without scores; raise `DataError` for another file."""
    table = read_parquet(path)
    scored = table.schema.get_field_index("logit_0") >= 0
    return (Predictions if scored else ClassIds).of_table(table, path)
