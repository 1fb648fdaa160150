"""`TopRows`: the predicted class of each image with its five greatest logits, of all its logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels, Logits
from alignkit.compare.logit_sums import TOP
from alignkit.compare.metrics import predicted_classes, top_classes


@dataclass(frozen=True, slots=True, eq=False)
class TopRows:
    """Of each image its class and its greatest logits: 45 bytes."""

    predicted: npt.NDArray[np.int32]
    """(n,), see `alignkit.compare.metrics.predicted_classes`."""
    classes: npt.NDArray[np.int32]
    """(n, 5, or all if there are fewer), the greatest logit first, the first class if tied."""
    logits: npt.NDArray[np.float32]
    """(n, 5), of ``classes``; where one of an image is NaN, its place says nothing."""
    finite: npt.NDArray[np.bool_]
    """(n,), whether all logits of an image are finite, also those that are not kept."""

    def __len__(self) -> int:
        """Count the images."""
        return len(self.predicted)

    @classmethod
    def of(cls, logits: Logits) -> TopRows:
        """Reduce (images, outputs) logits."""
        images, outputs = logits.shape
        kept = min(TOP, outputs)
        ranked = np.where(np.isnan(logits), -np.inf, logits)
        chosen = np.ones(logits.shape, np.bool_)
        if kept < outputs:
            chosen = top_classes(ranked, kept)
        classes = np.nonzero(chosen)[1].reshape(images, kept)
        # stable, so that the first of equal ones stays first
        order = np.argsort(-np.take_along_axis(ranked, classes, axis=1), axis=1, kind="stable")
        classes = np.take_along_axis(classes, order, axis=1)
        return cls(
            predicted_classes(logits).astype(np.int32),
            classes.astype(np.int32),
            np.take_along_axis(logits, classes, axis=1),
            np.asarray(np.isfinite(logits).all(axis=1)),
        )

    @classmethod
    def joined(cls, parts: Sequence[TopRows]) -> TopRows:
        """Join those of different images, in the order given."""
        return cls(
            *(np.concatenate([getattr(each, one.name) for each in parts]) for one in fields(cls))
        )

    def rows(self, indices: Labels | npt.NDArray[np.bool_]) -> TopRows:
        """Select images."""
        return TopRows(*(getattr(self, one.name)[indices] for one in fields(self)))

    def margins(self) -> FloatArray:
        """Subtract the second logit from the first, (n,); NaN where a logit is not finite.

        NaN too where there is no other output. They are those of
        `alignkit.compare.margins.margins_of` for the predicted class.
        """
        if self.logits.shape[1] < 2:
            return np.full(len(self), np.nan)
        first, second = self.logits[:, :2].astype(np.float64).T
        with np.errstate(invalid="ignore"):  # infinite logits
            margins: FloatArray = np.where(self.finite, first - second, np.nan)
        return margins
