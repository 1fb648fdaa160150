"""One order of a run's images, in which the page's script reads every array.

Of many images the page lists some, so that it does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.compare.answers import Answers
from alignkit.compare.answers import aligned as shared
from alignkit.compare.class_answers import ClassAnswers
from alignkit.compare.image_table import LAST, ImageTable
from alignkit.compare.metrics import NO_PREDICTION
from alignkit.errors import RecordError
from alignkit.record import RunRecord
from alignkit.record.picture_facts import pack
from alignkit.samples import choose
from alignkit.text.numbers import count, grouped

# The list is filtered in the browser, which would have to load every name of a million.
LISTED = 10_000
"""Images that a page lists at most."""
Both: TypeAlias = tuple[Answers, Answers]
"""Answers of the aligned cell and of another one of its row, with the same seed."""


def _indices(names: Iterable[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class ImageOrder:
    """One order of the images for every array."""

    ids: tuple[str, ...]
    places: dict[str, int]
    classes: dict[str, int]
    """Name of a class → its index: the data's classes, then further outputs of the models."""
    choice: str = ""
    """Description of the images that are listed; empty if all are."""

    @classmethod
    def of(
        cls,
        tables: Mapping[str, ImageTable],
        read: Mapping[str, Answers],
        record: RunRecord,
        compared: Sequence[Sequence[Both]],
    ) -> ImageOrder:
        """Order images as they first occur in any file; ``compared``: each comparison's seeds.

        Of more than `LISTED` images some are listed: those with pictures, the ones that moved
        most among the changed ones of each comparison, those whose pixels differ most on each pair
        of paths, and others by chance.
        """
        names = [each.ids for each in tables.values()] + [each.ids for each in read.values()]
        names.append(tuple(image.id for image in record.shown))
        ids = tuple(dict.fromkeys(name for each in names for name in each))
        outputs = (name for each in read.values() for name in each.outputs)
        classes = dict.fromkeys([*record.data.classes, *outputs])
        whole = cls(ids, _indices(ids), _indices(classes))
        return whole if len(ids) <= LISTED else whole._listed(tables, compared, names[-1])

    def _listed(
        self,
        tables: Mapping[str, ImageTable],
        compared: Sequence[Sequence[Both]],
        shown: Iterable[str],
    ) -> ImageOrder:
        changed = [_greatest(self._moved(seeds)) for seeds in compared]
        pixels = [
            _greatest(self.spread(each.ids, np.nan_to_num(each.mean_abs[LAST]), 0))
            for each in tables.values()
        ]
        # half of the list for what changed, a quarter for pixels; the rest is drawn by chance
        chosen = {self.places[name] for name in shown}
        chosen |= {*_in_turn(changed, LISTED // 2), *_in_turn(pixels, LISTED // 4)}
        others = [name for place, name in enumerate(self.ids) if place not in chosen]
        drawn = choose(others, max(0, LISTED - len(chosen)), seed=0)
        ids = tuple(name for place, name in enumerate(self.ids) if place in chosen or name in drawn)
        every = {place for some in changed for place in some}
        found = len(every & {self.places[name] for name in ids})
        share = "all" if found == len(every) else f"{grouped(found)} of the"
        choice = (
            f"{grouped(len(ids))} of {count(len(self.ids), 'image')} are listed: {share} "
            f"{grouped(len(every))} that changed in a comparison, those whose pixels differ most, "
            "and others by chance. The tables of this page count every image."
        )
        return ImageOrder(ids, _indices(ids), self.classes, choice)

    def spread(
        self, ids: Sequence[str], values: npt.NDArray[Any], missing: float
    ) -> npt.NDArray[Any]:
        """Return values of some images as those of all listed ones, ``missing`` for the others."""
        spread = np.full(len(self.ids), missing, values.dtype)
        at = np.array([self.places.get(name, -1) for name in ids], np.int64)
        spread[at[at >= 0]] = values[at >= 0]
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

    def labels(self, read: Mapping[str, ClassAnswers]) -> npt.NDArray[Any] | None:
        """Return each image's label from any file that has it; ``None`` if no file has labels."""
        spread = None
        for each in (predictions for predictions in read.values() if predictions.labelled):
            labels, missing = self._small(each.labels)
            own = self.spread(each.ids, labels, missing)
            spread = own if spread is None else np.where(own == missing, spread, own)
        return spread

    def predicted(self, predictions: ClassAnswers) -> npt.NDArray[Any]:
        """Return the predicted class of each image."""
        # two models may have other outputs; the last entry is that of NO_PREDICTION, -1
        shown = np.array([*(self.classes[name] for name in predictions.outputs), NO_PREDICTION])
        values, missing = self._small(shown[predictions.predicted])
        return self.spread(predictions.ids, values, missing)

    def margins(self, predictions: ClassAnswers) -> npt.NDArray[Any]:
        """Return the greatest logit less the second greatest; NaN for a single output."""
        margins = predictions.margins().astype(np.float32)
        return self.spread(predictions.ids, margins, np.nan)

    def shifts(self, seeds: Sequence[Both]) -> npt.NDArray[np.uint8]:
        """Rank the images whose answer changed by how far it moved at most, over seeds.

        1 to 255, the greatest; 0 for an image that did not change. The list sorts by it.
        """
        moved = self._moved(seeds)
        levels = np.unique(moved[moved > 0])
        ranks = np.searchsorted(levels, moved, side="right")
        return np.ceil(255 * ranks / max(len(levels), 1)).astype(np.uint8)

    def _moved(self, seeds: Sequence[Both]) -> npt.NDArray[np.float64]:
        """Return how far each image's changed answer moved at most, over seeds; 0 if none did."""
        moved = np.zeros(len(self.ids))
        for both in seeds:
            if set(both[0].ids).isdisjoint(both[1].ids):
                continue
            before, after = shared(*both)
            distance = np.nan_to_num(before.apart(after), nan=np.inf)
            changed = np.where(before.changed(after), distance, 0)
            moved = np.maximum(moved, self.spread(before.ids, changed, 0))
        return moved

    def measures(self, table: ImageTable) -> dict[str, Any]:
        """Return SSIM of the last pixels; max and mean of every stage."""

        def packed(values: npt.NDArray[Any]) -> dict[str, str]:
            return pack(self.spread(table.ids, values, np.nan))

        stages = [
            {"stage": stage, "max": packed(values), "mean": packed(table.mean_abs[stage])}
            for stage, values in table.max_abs.items()
        ]
        return {"last": LAST, "ssim": packed(table.ssim), "stages": stages}


def _greatest(values: npt.NDArray[Any]) -> list[int]:
    """Return the places of the values above 0, greatest first, in order where they are equal."""
    places: list[int] = np.argsort(-values, kind="stable")[: np.count_nonzero(values > 0)].tolist()
    return places


def _in_turn(ranked: Sequence[Sequence[int]], most: int) -> list[int]:
    """Take places from each ranking in turn, at most so many different ones."""
    turns = chain.from_iterable(zip_longest(*ranked))
    return list(islice(dict.fromkeys(each for each in turns if each is not None), most))
