"""`SegmentationAnswers`: class maps of images, with their counts by class."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from alignkit.annotations import IGNORED
from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Answers, RatioOfSums, Weights
from alignkit.compare.metrics import ClassCountArrays, ratio
from alignkit.compare.parquet_file import ids_of, numbers_of
from alignkit.errors import DataError
from alignkit.record.stored import Stored
from alignkit.tasks.answers_file import bytes_of, read_answers, write_answers
from alignkit.tasks.class_sums import ClassSums, class_ratios, mean_of_defined
from alignkit.tasks.probabilities import doubtful
from alignkit.tasks.segmentation.class_maps import (
    MapChange,
    from_png,
    map_change,
    png_size,
    same_values,
    shares,
)

_REACH = ("least", "most")
_RATIOS = ("recall.macro", "precision.macro", "recall", "precision", "iou")


class _About(Stored):
    task: Literal["segmentation"] = "segmentation"
    classes: tuple[str, ...]
    outside: tuple[str, ...]
    limit: float


def _of_counts(
    true_positive: FloatArray, predicted: FloatArray, support: FloatArray
) -> dict[str, FloatArray]:
    found = class_ratios(true_positive, predicted, support, (*_RATIOS, "top1"))
    # of pixels, this is the share whose class is right
    accuracy = found.pop("top1")
    return {"miou": mean_of_defined(found["iou"]), "pixel_accuracy": accuracy, **found}


@dataclass(frozen=True, slots=True, eq=False)
class PixelTallies:
    """Counts of pixels by class, of each image."""

    sums: ClassSums

    def metrics_of(self, weights: Weights) -> dict[str, FloatArray]:
        """Compute metrics of pixels: (draws,), and (classes, draws) by class; none without masks.

        A class counts in ``miou`` if a mask or a prediction has it.
        """
        if not self.sums.support.shape[1]:
            return {}
        return _of_counts(*self.sums.weighted(weights))

    @staticmethod
    def ratios(
        true_positive: FloatArray, predicted: FloatArray, support: FloatArray
    ) -> dict[str, FloatArray]:
        """Compute the metrics that are one number."""
        return {
            name: value
            for name, value in _of_counts(true_positive, predicted, support).items()
            if value.ndim == 1
        }

    @classmethod
    def joined(cls, parts: Sequence[PixelTallies]) -> PixelTallies:
        """Join those of different images, in the order given."""
        return cls(ClassSums.joined([part.sums for part in parts]))


@dataclass(frozen=True, eq=False)
class SegmentationAnswers(Answers):
    """Class maps in coordinates of the oriented image; see `alignkit.compare.answers.Answers`."""

    no_logits: ClassVar[str] = (
        "of a segmentation model the classes of pixels are kept, and no scores"
    )

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    """Names of the data's classes; empty if the images have no masks."""
    outside: tuple[str, ...]
    """Names of the model's other classes, whose indices follow."""
    maps: tuple[bytes, ...]
    """PNG of `alignkit.tasks.segmentation.class_maps.Classes`."""
    truths: tuple[bytes, ...]
    """PNG of the masks; empty if the images have none."""
    sums: ClassSums
    """Of the pixels that the mask knows; (n, 0) without masks. One that the class map does not know
    is predicted as no class."""
    pixels: Labels
    """(n,): pixels that the class map knows."""
    bounded: npt.NDArray[np.bool_]
    """(n,): whether the class map has neighbours of two classes."""
    whole: npt.NDArray[np.bool_]
    """(n,): whether all outputs are finite."""
    limit: float
    """Share of an image's pixels; if more changed, its answer changed."""
    reach: FloatArray
    """(n, 2), see `alignkit.tasks.segmentation.mask_records.MaskRecord`."""
    _changes: WeakKeyDictionary[SegmentationAnswers, list[MapChange]] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )

    def __post_init__(self) -> None:
        n, classes = len(self.ids), len(self.classes)
        sums, truths = self.sums.support.shape, len(self.truths)
        if len(self.maps) != n or sums != (n, classes) or truths != (n if classes else 0):
            raise DataError(
                f"{n} images of {classes} classes need as many class maps, masks and sums, not "
                f"{len(self.maps)}, {truths} and {sums}"
            )
        super().__post_init__()

    def finite(self) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether every output of an image is finite."""
        return self.whole

    @property
    def outputs(self) -> tuple[str, ...]:
        """The name of each class that the model knows."""
        return self.classes + self.outside

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics that are one number."""
        return ("miou", "pixel_accuracy", "recall.macro", "precision.macro")

    def rows(self, indices: Labels) -> SegmentationAnswers:
        """Select the images at ``indices``, in that order."""
        return replace(
            self,
            ids=tuple(self.ids[index] for index in indices),
            maps=tuple(self.maps[index] for index in indices),
            truths=tuple(self.truths[index] for index in indices) if self.truths else (),
            sums=self.sums.rows(indices),
            pixels=self.pixels[indices],
            bounded=self.bounded[indices],
            whole=self.whole[indices],
            reach=self.reach[indices],
        )

    def unlike(self, other: SegmentationAnswers) -> str:
        """Say why both cannot be compared although the ids agree; empty if they can."""
        if self.limit != other.limit:
            return "the two define a changed mask by different shares of pixels"
        sizes = zip(map(png_size, self.maps), map(png_size, other.maps), strict=True)
        truths = zip(self.truths, other.truths, strict=True)
        for word, same in (
            ("masks", [same_values(*pair) for pair in truths]),
            ("sizes", [mine == theirs for mine, theirs in sizes]),
        ):
            apart = [at for at, each in enumerate(same) if not each]
            if apart:
                return (
                    f"the {word} of {len(apart)} of {len(self)} images disagree, first "
                    f"{self.ids[apart[0]]!r}"
                )
        return ""

    def tallies(self) -> PixelTallies:
        """Return the counts of pixels by class."""
        return PixelTallies(self.sums)

    @classmethod
    def kinds_of(
        cls, seeds: Sequence[SegmentationAnswers]
    ) -> dict[str, Sequence[str] | FloatArray]:
        """Give the largest class of each mask, and the number of its classes, (n,)."""
        first = seeds[0]
        if not first.labelled:
            return {}
        support = first.sums.support
        return {
            "largest class": [first.classes[at] for at in support.argmax(axis=1)],
            "classes in the mask": (support > 0).sum(axis=1).astype(np.float64),
        }

    def measures_of(self, other: SegmentationAnswers) -> dict[str, RatioOfSums]:
        """Compute ``pixel_churn``, of the pixels that either knows, and ``boundary.shift``."""
        changes = np.array(self._changes_to(other), np.float64).reshape(-1, 3)
        compared, changed, shift = changes.T
        bounded = ~np.isnan(shift)
        return {
            "pixel_churn": RatioOfSums(changed, compared),
            "boundary.shift": RatioOfSums(
                np.where(bounded, shift, 0.0), bounded.astype(np.float64)
            ),
        }

    def differs(self, other: SegmentationAnswers) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether any pixel has another class, or is known to one alone."""
        pairs = zip(self.maps, other.maps, strict=True)
        return np.array([not same_values(*pair) for pair in pairs], np.bool_)

    def changed(self, other: SegmentationAnswers) -> npt.NDArray[np.bool_]:
        """Tell, (n,), whether more than ``limit`` of the pixels changed, of those either knows."""
        found: npt.NDArray[np.bool_] = self.apart(other) > self.limit
        return found

    def misread(self, *others: SegmentationAnswers) -> str:
        """See `Answers.misread`: by the outputs of all images of all sides."""
        every = np.concatenate([each.reach for each in (self, *others)])
        return doubtful(map(tuple, every.tolist()), "the outputs of all images")

    def as_read(self) -> SegmentationAnswers:
        """See `Answers.as_read`."""
        return replace(self, reach=np.zeros_like(self.reach))

    def one_answer(self, other: SegmentationAnswers) -> str:
        """Say that every pixel is of one class on both sides; empty if not."""
        if (self.bounded | other.bounded).any():
            return ""
        maps = (from_png(each) for answers in (self, other) for each in answers.maps)
        found = {int(each) for one in maps for each in np.unique(one)} - {IGNORED}
        if len(found) > 1:
            return ""
        names = dict(enumerate(self.outputs))
        name = names.get(found.pop(), "no prediction") if found else "unseen"
        return f"every pixel of every image is {name} on both sides"

    def apart(self, other: SegmentationAnswers) -> FloatArray:
        """Compute the share of changed pixels, (n,); 0 where neither side knows any pixel."""
        changes = self._changes_to(other)
        changed = np.array([each.changed for each in changes], np.float64)
        # at least 1: without a pixel that is known to either, none changed
        return changed / np.array([max(each.compared, 1) for each in changes], np.float64)

    def _changes_to(self, other: SegmentationAnswers) -> list[MapChange]:
        # every number of a pair needs them, and decoding takes most of the time
        if other not in self._changes:
            self._changes[other] = [
                self._unchanged(index) if one == two else map_change(from_png(one), from_png(two))
                for index, (one, two) in enumerate(zip(self.maps, other.maps, strict=True))
            ]
        return self._changes[other]

    def _unchanged(self, index: int) -> MapChange:
        shift = 0.0 if self.bounded[index] else float("nan")
        return MapChange(int(self.pixels[index]), 0, shift)

    def quality(self) -> FloatArray:
        """Compute the share of the mask's pixels that are right, (n,); NaN for a mask without any.

        A pixel that the model did not see is not right.
        """
        if not self.labelled:
            return np.full(len(self), np.nan)
        right, all_known = (
            each.sum(axis=1).astype(np.float64)
            for each in (self.sums.true_positive, self.sums.support)
        )
        return ratio(right, all_known)

    def above_constant(self) -> FloatArray | None:
        """See `Answers.above_constant`: by the mean recall of the classes in the mask.

        The share of right pixels shows no skill: most are background, and a model that looks for
        objects loses some of them.
        """
        if not self.labelled:
            return None
        present = self.sums.support > 0
        recalls = self.sums.true_positive / np.maximum(self.sums.support, 1)
        # one class of those in the mask is right everywhere, the others nowhere
        above: FloatArray = (recalls.sum(axis=1) - 1) / np.maximum(present.sum(axis=1), 1)
        above[~present.any(axis=1)] = 0.0
        return above

    def counts(self) -> ClassCountArrays:
        """Count pixels per class; empty without masks."""
        return self.sums.counts()

    def said(self, index: int) -> str:
        """Word the greatest classes of a map: ``62 % road, 30 % car``."""
        found = shares(from_png(self.maps[index]))
        greatest = [at for at in np.argsort(-found, kind="stable")[:3].tolist() if found[at] > 0]
        names = dict(enumerate(self.outputs))
        said = (f"{100 * found[at]:.0f} % {names.get(at, 'no prediction')}" for at in greatest)
        return ", ".join(said) or "no pixel"

    def drawn(
        self,
        index: int,
        beside: SegmentationAnswers | None = None,  # noqa: ARG002 - where they differ is seen
    ) -> dict[str, Any]:
        """Return the ``mask`` and the ``truth`` as PNG in base64, and the names of the classes."""
        masks = {"mask": self.maps[index]}
        if self.truths:
            masks["truth"] = self.truths[index]
        text = {name: base64.b64encode(each).decode() for name, each in masks.items()}
        return {**text, "classes": list(self.outputs)}

    def to_parquet(self, path: Path, **besides: FloatArray) -> None:
        """Write ``id, map, truth, pixels, bounded, whole, least, most, true_positive_0, …``.

        Maps are PNG.
        """
        import pyarrow as pa

        columns: dict[str, Any] = {"map": pa.array(self.maps, pa.large_binary())}
        if self.truths:
            columns["truth"] = pa.array(self.truths, pa.large_binary())
        columns["pixels"] = self.pixels
        columns |= {name: getattr(self, name).astype(np.int8) for name in ("bounded", "whole")}
        columns |= {name: self.reach[:, at] for at, name in enumerate(_REACH)}
        columns |= self.sums.columns()
        about = _About(classes=self.classes, outside=self.outside, limit=self.limit)
        write_answers(path, self.ids, columns, about, besides)

    @classmethod
    def from_parquet(cls, path: Path) -> SegmentationAnswers:
        """Read a file of `to_parquet`, bit for bit; raise `DataError` for any other file."""
        table, about = read_answers(path, _About)
        try:
            return cls(
                ids_of(table, path),
                about.classes,
                about.outside,
                bytes_of(table, "map", path),
                bytes_of(table, "truth", path) if about.classes else (),
                ClassSums.from_table(table, len(about.classes), path),
                numbers_of(table, "pixels", path).astype(np.int64),
                numbers_of(table, "bounded", path).astype(np.bool_),
                numbers_of(table, "whole", path).astype(np.bool_),
                about.limit,
                np.stack([numbers_of(table, name, path) for name in _REACH], axis=1),
            )
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    def columns_beside(self, other: SegmentationAnswers) -> dict[str, FloatArray]:
        """Compute each image's share of changed pixels: ``runtime_pixel_churn``."""
        return {"runtime_pixel_churn": self.apart(other)}
