"""`ImageOrder`: one order of the images for every array that the viewer reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignkit.errors import RecordError
from alignkit.record import RunRecord
from alignkit.record.pictures import pack

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.compare.image_table import ImageTable
    from alignkit.compare.predictions import Predictions


@dataclass(frozen=True, slots=True)
class ImageOrder:
    """One order of the images for every array."""

    ids: tuple[str, ...]
    places: dict[str, int]
    classes: int

    @classmethod
    def of(
        cls, tables: dict[str, ImageTable], read: dict[str, Predictions], record: RunRecord
    ) -> ImageOrder:
        names = [each.ids for each in tables.values()] + [each.ids for each in read.values()]
        names.append(tuple(image.id for image in record.worst))
        ids = tuple(dict.fromkeys(name for each in names for name in each))
        return cls(ids, {name: index for index, name in enumerate(ids)}, len(record.data.classes))

    def _spread(self, ids: tuple[str, ...], values: npt.NDArray[Any], missing: Any) -> Any:
        import numpy as np

        spread = np.full(len(self.ids), missing, values.dtype)
        spread[[self.places[name] for name in ids]] = values
        return spread

    def _small(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
        """Class indices, and what stands for an image that was not asked about.

        That is the greatest value of the least type that leaves two; the one below it stands for
        an answer that is no class. ``rows.js`` reads them so.
        """
        import numpy as np

        from alignkit.compare.metrics import NO_PREDICTION

        if self.classes > 65_534:
            raise RecordError(f"the viewer holds at most 65534 classes, not {self.classes}")
        dtype = np.uint8 if self.classes < 255 else np.uint16
        missing = int(np.iinfo(dtype).max)
        return np.where(values == NO_PREDICTION, missing - 1, values).astype(dtype), missing

    def labels(self, read: dict[str, Predictions]) -> npt.NDArray[Any] | None:
        known = list(read.values())
        if not known:
            return None
        found, missing = self._small(known[0].labels)
        spread: npt.NDArray[Any] = self._spread(known[0].ids, found, missing)
        for each in known[1:]:
            labels, _ = self._small(each.labels)
            spread[[self.places[name] for name in each.ids]] = labels
        return spread

    def predicted(self, predictions: Predictions) -> npt.NDArray[Any]:
        values, missing = self._small(predictions.predicted)
        spread: npt.NDArray[Any] = self._spread(predictions.ids, values, missing)
        return spread

    def margins(self, predictions: Predictions) -> npt.NDArray[Any]:
        """Greatest logit less the second greatest."""
        import numpy as np

        if len(predictions.classes) < 2:
            return np.full(len(self.ids), np.nan, np.float32)
        top = np.sort(predictions.logits, axis=1)[:, -2:]
        spread: npt.NDArray[Any] = self._spread(predictions.ids, top[:, 1] - top[:, 0], np.nan)
        return spread

    def measures(self, table: ImageTable) -> dict[str, Any]:
        """Max, mean and SSIM of the last pixels; max and mean of every stage."""
        import numpy as np

        from alignkit.compare.image_table import LAST

        def packed(values: npt.NDArray[Any]) -> dict[str, str]:
            return pack(self._spread(table.ids, values, np.nan))

        stages = {
            stage: {"stage": stage, "max": packed(values), "mean": packed(table.mean_abs[stage])}
            for stage, values in table.max_abs.items()
        }
        last = stages[LAST]
        return {
            "max": last["max"],
            "mean": last["mean"],
            "ssim": packed(table.ssim),
            "stages": list(stages.values()),
        }
