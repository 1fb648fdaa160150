"""One order of a run's images, in which the page's script reads every array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from alignkit.compare.answers import Answers, AnyAnswers
from alignkit.compare.answers import aligned as shared
from alignkit.compare.image_table import LAST, ImageTable
from alignkit.compare.margins import margins_of
from alignkit.compare.metrics import NO_PREDICTION
from alignkit.compare.predictions import Predictions
from alignkit.errors import RecordError
from alignkit.record import RunRecord
from alignkit.record.picture_facts import pack


def _indices(names: Iterable[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class ImageOrder:
    """One order of the images for every array."""

    ids: tuple[str, ...]
    places: dict[str, int]
    classes: dict[str, int]
    """Name of a class → its index: the data's classes, then further outputs of the models."""

    @classmethod
    def of(
        cls, tables: Mapping[str, ImageTable], read: Mapping[str, Answers], record: RunRecord
    ) -> ImageOrder:
        """Order images as they first occur in any file."""
        names = [each.ids for each in tables.values()] + [each.ids for each in read.values()]
        names.append(tuple(image.id for image in record.shown))
        ids = tuple(dict.fromkeys(name for each in names for name in each))
        outputs = (name for each in read.values() for name in each.outputs)
        classes = dict.fromkeys([*record.data.classes, *outputs])
        return cls(ids, _indices(ids), _indices(classes))

    def spread(
        self, ids: tuple[str, ...], values: npt.NDArray[Any], missing: float
    ) -> npt.NDArray[Any]:
        """Return values of some images as those of all, ``missing`` for the others."""
        spread = np.full(len(self.ids), missing, values.dtype)
        spread[[self.places[name] for name in ids]] = values
        return spread

    def _small(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
        """Return class indices, and the value of an image that was not asked about.

        That is the greatest value of the least type that leaves two; the one below it means an
        answer that is no class. ``rows.js`` reads them so.
        """
        if len(self.classes) > 65_534:
            raise RecordError(f"the viewer holds at most 65534 classes, not {len(self.classes)}")
        dtype = np.uint8 if len(self.classes) < 255 else np.uint16
        missing = int(np.iinfo(dtype).max)
        return np.where(values == NO_PREDICTION, missing - 1, values).astype(dtype), missing

    def labels(self, read: Mapping[str, Predictions]) -> npt.NDArray[Any] | None:
        """Return each image's label from any file that has it; ``None`` if no file has labels."""
        spread = None
        for each in (predictions for predictions in read.values() if predictions.labelled):
            labels, missing = self._small(each.labels)
            if spread is None:
                spread = self.spread(each.ids, labels, missing)
            spread[[self.places[name] for name in each.ids]] = labels
        return spread

    def predicted(self, predictions: Predictions) -> npt.NDArray[Any]:
        """Return the predicted class of each image."""
        # two models may have other outputs; the last entry is that of NO_PREDICTION, -1
        shown = np.array([*(self.classes[name] for name in predictions.outputs), NO_PREDICTION])
        values, missing = self._small(shown[predictions.predicted])
        return self.spread(predictions.ids, values, missing)

    def margins(self, predictions: Predictions) -> npt.NDArray[Any]:
        """Return the greatest logit less the second greatest; NaN for a single output."""
        margins = margins_of(predictions.logits, predictions.predicted).astype(np.float32)
        return self.spread(predictions.ids, margins, np.nan)

    def shifts(self, seeds: Sequence[tuple[AnyAnswers, AnyAnswers]]) -> npt.NDArray[np.uint8]:
        """Rank the images whose answer changed by how far it moved at most, over seeds.

        1 to 255, the greatest; 0 for an image that did not change. The list sorts by it.
        """
        shift = np.zeros(len(self.ids))
        for both in seeds:
            if set(both[0].ids).isdisjoint(both[1].ids):
                continue
            before, after = shared(*both)
            changed = np.flatnonzero(before.changed(after))
            at = [self.places[before.ids[place]] for place in changed]
            moved = before.apart(after)[changed]
            shift[at] = np.maximum(shift[at], np.nan_to_num(moved, nan=np.inf))
        levels = np.unique(shift[shift > 0])
        ranks = np.searchsorted(levels, shift, side="right")
        return np.ceil(255 * ranks / max(len(levels), 1)).astype(np.uint8)

    def measures(self, table: ImageTable) -> dict[str, Any]:
        """Return SSIM of the last pixels; max and mean of every stage."""

        def packed(values: npt.NDArray[Any]) -> dict[str, str]:
            return pack(self.spread(table.ids, values, np.nan))

        stages = [
            {"stage": stage, "max": packed(values), "mean": packed(table.mean_abs[stage])}
            for stage, values in table.max_abs.items()
        ]
        return {"last": LAST, "ssim": packed(table.ssim), "stages": stages}
