"""`ScoreTallies`: the numbers of images, with their means under weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.compare.answers import Weights
from alignkit.compare.metrics import ratio


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTallies:
    """Scores of images, (n, names) each."""

    names: tuple[str, ...]
    values: FloatArray
    """NaN where the function gave none, or NaN itself."""
    defined: npt.NDArray[np.bool_]
    """Whether the function gave a value."""

    def metrics_of(self, weights: Weights) -> dict[str, FloatArray]:
        """Compute ``score.NAME``, (draws,): the mean over the images that have the score.

        NaN if the score of one of them is not finite, as it has no mean then.
        """
        found = {}
        for name, values, defined in zip(self.names, self.finite.T, self.defined.T, strict=True):
            drawn = weights[defined].astype(np.float64)
            found[f"score.{name}"] = ratio(values[defined] @ drawn, drawn.sum(axis=0))
        return found

    @property
    def finite(self) -> FloatArray:
        """The scores with NaN for infinity: a weight of 0 times infinity would warn."""
        return np.where(np.isfinite(self.values), self.values, np.nan)

    @classmethod
    def joined(cls, parts: Sequence[ScoreTallies]) -> ScoreTallies:
        """Join those of different images, in the order given."""
        values, defined = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("values", "defined")
        )
        return cls(parts[0].names, values, defined)
