"""`MultiLabelAnswers`: scores of the labels of images, and those above their thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from alignkit.annotations import LabelSet
from alignkit.arrays import FloatArray, Labels, Logits
from alignkit.compare.answers import RatioOfSums, Weights
from alignkit.compare.idle_answers import SEVERAL
from alignkit.compare.linear_answers import LinearAnswers, between
from alignkit.compare.logit_sums import logit_distance
from alignkit.compare.metrics import ClassCountArrays, mean_apart, ratio
from alignkit.compare.parquet_file import ids_of, numbers_of
from alignkit.errors import DataError
from alignkit.record import LogitDistance
from alignkit.record.stored import Stored
from alignkit.samples import Samples
from alignkit.tasks import ClassMap, Scores
from alignkit.tasks.answers_file import read_answers, write_answers
from alignkit.tasks.class_sums import ClassSums, class_ratios, mean_of_defined
from alignkit.tasks.probabilities import (
    above,
    doubtful,
    probabilities,
    reach_of,
    score_limits,
)

if TYPE_CHECKING:
    from alignkit.tasks import Records

_AVERAGES = tuple(
    f"{ratio}.{average}"
    for ratio in ("recall", "precision", "f1")
    for average in ("macro", "micro")
)
_Marked = npt.NDArray[np.bool_]


class _About(Stored):
    task: Literal["multi-label"] = "multi-label"
    classes: tuple[str, ...]
    outside: tuple[str, ...]
    limits: tuple[float, ...]
    scores: Scores
    assumed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LabelTallies:
    """Labels and scores of images, (n, classes) each."""

    sums: ClassSums
    truth: _Marked
    scores: Logits
    class_means: ClassVar[Mapping[str, str]] = {"map": "ap"}

    @staticmethod
    def ratios(
        true_positive: FloatArray, predicted: FloatArray, support: FloatArray
    ) -> dict[str, FloatArray]:
        """Compute the averages of ratios of counts."""
        return class_ratios(true_positive, predicted, support, _AVERAGES)

    def metrics_of(self, weights: Weights) -> dict[str, FloatArray]:
        """Compute ratios of counts of labels, ``map``, and by class ``ap``, recall and precision.

        ``map`` is the mean over the labels that an image of the draw has. Nothing without labels.
        """
        if not self.truth.shape[1]:
            return {}
        each = zip(self.truth.T, self.scores.T, strict=True)
        precisions = np.stack([average_precision(*both, weights) for both in each])
        ratios = class_ratios(*self.sums.weighted(weights), (*_AVERAGES, "recall", "precision"))
        return {"map": mean_of_defined(precisions), **ratios, "ap": precisions}

    @classmethod
    def joined(cls, parts: Sequence[LabelTallies]) -> LabelTallies:
        """Join those of different images, in the order given."""
        truth, scores = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("truth", "scores")
        )
        return cls(ClassSums.joined([part.sums for part in parts]), truth, scores)


@dataclass(frozen=True, eq=False)
class MultiLabelAnswers(LinearAnswers):
    """Scores and true labels of images; see `alignkit.compare.answers.Answers`."""

    ids: tuple[str, ...]
    truth: _Marked
    """(n, classes): whether the image has the label."""
    scores: Logits
    """(n, outputs) float32, as the model gave them."""
    classes: tuple[str, ...]
    """Names of the data's labels; empty if those of the images are not known."""
    outside: tuple[str, ...]
    """Names of the model's other labels. An image that gets one is less right, and adds to no class
    of the data."""
    limits: tuple[float, ...]
    """(outputs,): the probability above which an image has the label."""
    kind: Scores
    assumed: bool = False
    """Whether nothing but their values says that the scores are logits."""

    def __post_init__(self) -> None:
        n, outputs = len(self.ids), len(self.outputs)
        if self.truth.shape != (n, len(self.classes)) or self.scores.shape != (n, outputs):
            raise DataError(
                f"{n} images of {len(self.classes)} labels need truth ({n}, {len(self.classes)}) "
                f"and scores ({n}, {outputs}), not {self.truth.shape} and {self.scores.shape}"
            )
        if len(self.limits) != outputs:
            raise DataError(f"{outputs} outputs need as many thresholds, not {len(self.limits)}")
        super().__post_init__()

    def finite(self) -> _Marked:
        """Tell, (n,), whether every score of an image is finite."""
        return np.asarray(np.isfinite(self.scores).all(axis=1))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The name of each column of the scores."""
        return self.classes + self.outside

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics that are one number."""
        return ("map", *_AVERAGES)

    @cached_property
    def probabilities(self) -> FloatArray:
        """Return (n, outputs)."""
        return probabilities(self.scores, self.kind)

    @cached_property
    def given(self) -> _Marked:
        """Mark, (n, outputs), the labels above their thresholds; a NaN is above none."""
        return above(self.scores, self.limits, self.kind)

    @cached_property
    def _tallies(self) -> LabelTallies:
        known = len(self.classes)
        given = self.given[:, :known]
        both = (given & self.truth, given, self.truth)
        sums = ClassSums(*(each.astype(np.int64) for each in both))
        return LabelTallies(sums, self.truth, self.scores[:, :known])

    def rows(self, indices: Labels) -> MultiLabelAnswers:
        """Select the images at ``indices``, in that order."""
        ids = tuple(self.ids[index] for index in indices)
        return replace(self, ids=ids, truth=self.truth[indices], scores=self.scores[indices])

    def unlike(self, other: MultiLabelAnswers) -> str:
        """Say why both cannot be compared although the ids agree; empty if they can."""
        if (self.limits, self.kind) != (other.limits, other.kind):
            return "the two have different thresholds"
        apart = np.flatnonzero((self.truth != other.truth).any(axis=1))
        if not len(apart):
            return ""
        first = self.ids[apart[0]]
        return f"the labels of {len(apart)} of {len(self)} images disagree, first {first!r}"

    def tallies(self) -> LabelTallies:
        """Return the true labels, and the scores of the data's labels."""
        return self._tallies

    def raw_rows(self) -> Logits:
        """Return the scores, (n, outputs) float32."""
        return self.scores

    @classmethod
    def kinds_of(cls, seeds: Sequence[MultiLabelAnswers]) -> dict[str, Sequence[str] | FloatArray]:
        """Give the number of each image's labels, and how near a score is to its threshold, (n,).

        The latter is the least distance in probability, averaged over seeds.
        """
        first = seeds[0]
        distances = (np.abs(each.probabilities - np.array(each.limits)) for each in seeds)
        nearest: FloatArray = np.mean([each.min(axis=1) for each in distances], axis=0)
        truth = {"number of labels": first.truth.sum(axis=1).astype(np.float64)}
        return {**(truth if first.labelled else {}), "distance from a threshold": nearest}

    def measures_of(self, other: MultiLabelAnswers) -> dict[str, RatioOfSums]:
        """Count labels that appear or vanish, an image: ``label_churn``."""
        changed = (self.given != other.given).sum(axis=1)
        return {"label_churn": RatioOfSums(changed.astype(np.float64))}

    def differs(self, other: MultiLabelAnswers) -> _Marked:
        """Tell, (n,), whether a score differs: an average precision may change by it."""
        same = np.isclose(self.scores, other.scores, rtol=0, atol=0, equal_nan=True)
        return np.asarray(~same.all(axis=1))

    def misread(self, *others: MultiLabelAnswers) -> str:
        """See `Answers.misread`: by the scores of all images of all sides."""
        if not self.assumed:
            return ""
        reaches = (reach_of(each.scores) for each in (self, *others))
        return doubtful(reaches, "the scores of all images")

    def as_read(self) -> MultiLabelAnswers:
        """See `Answers.as_read`."""
        return replace(self, assumed=False)

    def one_answer(self, other: MultiLabelAnswers) -> str:
        """Say that all images have the same labels, or none, on both sides; empty if not."""
        both = np.concatenate([self.given, other.given])
        if not both.any():
            return "no image has a label above its threshold on either side"
        if len(self) < SEVERAL or (both != both[0]).any():
            return ""
        return f"all {len(self)} images have the same labels on both sides: {self.said(0)}"

    def changed(self, other: MultiLabelAnswers) -> _Marked:
        """Tell, (n,), whether a label appears or vanishes."""
        found: _Marked = (self.given != other.given).any(axis=1)
        return found

    def leads(self, other: MultiLabelAnswers) -> FloatArray:
        """Compute each score's distance from its threshold, on the side where it is here."""
        beyond = other.scores.astype(np.float64) - score_limits(self.limits, self.kind)
        leads: FloatArray = np.where(self.given, beyond, -beyond)
        leads[np.isnan(self.scores)] = np.nan
        return leads

    def toward(self, other: MultiLabelAnswers, share: float) -> MultiLabelAnswers:
        """Mix the scores: own at 0, the other's at 1."""
        return replace(self, scores=between(self.scores, other.scores, share))

    def quality(self) -> FloatArray:
        """Compute the Jaccard index of each image's labels, (n,); 1 if it has and gets none."""
        if not self.labelled:
            return np.full(len(self), np.nan)
        truth = np.pad(self.truth, ((0, 0), (0, len(self.outside))))
        either = (self.given | truth).sum(axis=1)
        both = (self.given & truth).sum(axis=1).astype(np.float64)
        found: FloatArray = np.divide(both, either, out=np.ones(len(self)), where=either > 0)
        return found

    def counts(self) -> ClassCountArrays:
        """Count images per class; empty without labels."""
        return self._tallies.sums.counts()

    def apart(self, other: MultiLabelAnswers) -> FloatArray:
        """Compute each image's mean |Δ score|, (n,); NaN where one is not finite."""
        return mean_apart(self.scores, other.scores)

    def truth_said(self, index: int) -> str:
        """List the true labels of an image; empty without labels."""
        return (", ".join(self._names(self.truth[index])) or "no label") if self.labelled else ""

    def said(self, index: int) -> str:
        """List the labels of an image."""
        return ", ".join(self._names(self.given[index])) or "no label"

    def _names(self, marked: _Marked) -> list[str]:
        return [self.outputs[at] for at in np.flatnonzero(marked)]

    def to_parquet(self, path: Path, **besides: FloatArray) -> None:
        """Write ``id, label_0, …, score_0, …``; the metadata holds names and thresholds."""
        columns = {f"label_{at}": each.astype(np.int8) for at, each in enumerate(self.truth.T)}
        columns |= {f"score_{at}": each for at, each in enumerate(self.scores.T)}
        about = _About(
            classes=self.classes,
            outside=self.outside,
            limits=self.limits,
            scores=self.kind,
            assumed=self.assumed,
        )
        write_answers(path, self.ids, columns, about, besides)

    @classmethod
    def from_parquet(cls, path: Path) -> MultiLabelAnswers:
        """Read a file of `to_parquet`, bit for bit; raise `DataError` for any other file."""
        table, about = read_answers(path, _About)
        truth = np.zeros((table.num_rows, len(about.classes)), np.bool_)
        for at in range(truth.shape[1]):
            truth[:, at] = numbers_of(table, f"label_{at}", path)
        scores = np.zeros((table.num_rows, len(about.limits)), np.float32)
        for at in range(scores.shape[1]):
            scores[:, at] = numbers_of(table, f"score_{at}", path)
        names = about.classes, about.outside
        try:
            return cls(
                ids_of(table, path), truth, scores, *names,
                about.limits, about.scores, about.assumed,
            )  # fmt: skip
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    @classmethod
    def distance(
        cls, pairs: Sequence[tuple[MultiLabelAnswers, MultiLabelAnswers]]
    ) -> LogitDistance:
        """Compare the logits of all pairs; probabilities are none."""
        if pairs[0][0].kind != "sigmoid":
            reason = "the model's outputs are probabilities, and no logits"
            return LogitDistance(None, None, None, reason)
        both = (np.concatenate([pair[side].scores for pair in pairs]) for side in (0, 1))
        return logit_distance(*both)

    def columns_beside(self, other: MultiLabelAnswers) -> dict[str, FloatArray]:
        """Compute each image's greatest |Δ score|: ``runtime_max_abs``."""
        change = self.scores.astype(np.float64) - other.scores
        return {"runtime_max_abs": np.abs(change).max(axis=1)}


def joined_labels(
    ids: Sequence[str],
    records: Records,
    samples: Samples,
    classes: ClassMap,
    limits: tuple[float, ...],
    kind: Scores | None,
) -> MultiLabelAnswers:
    """Join the scores of images with their labels; raise `DataError` for other annotations.

    Scores of no known ``kind`` are taken for logits.
    """
    known = dict(zip(samples.ids, samples.annotations, strict=True)) if samples.annotations else {}
    names = classes.classes if known else ()
    outside = classes.outside if known else classes.classes + classes.outside
    truth = np.zeros((len(ids), len(names)), np.bool_)
    for index, each in enumerate(ids if known else ()):
        given = known[each]
        if not isinstance(given, LabelSet):
            raise DataError(f"{each}: a {type(given).__name__} is no set of labels; choose another "
                            "task")  # fmt: skip
        wrong = [label for label in given.labels if not 0 <= label < len(names)]
        if wrong:
            raise DataError(f"{each}: label {wrong[0]} is not in 0..{len(names) - 1}")
        truth[index, list(given.labels)] = True
    scores = np.asarray(records, np.float32).reshape(len(ids), len(names) + len(outside))
    read: Scores = kind or "sigmoid"
    return MultiLabelAnswers(tuple(ids), truth, scores, names, outside, limits, read, kind is None)


# A mean of each image's AP would be quicker to resample, and is another number.
def average_precision(
    truth: npt.NDArray[np.bool_], scores: npt.NDArray[np.float32], weights: Weights
) -> FloatArray:
    """Compute it for each draw: (n,), (n,), (n, draws) → (draws,); NaN without a true image.

    The sum, over the scores from above, of the precision at the score times the recall that it
    adds; images of one score count together. This is scikit-learn's ``average_precision_score``
    with ``sample_weight``. A score of NaN ranks last. Weights are whole numbers, whose sums float32
    holds exactly up to 2²⁴.
    """
    from scipy import sparse

    ranked = np.where(np.isnan(scores), -np.inf, scores)
    order = np.argsort(-ranked, kind="stable")
    found, ranked = truth[order], ranked[order]
    # the last image of each score, and of these the ones that add to recall
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    lasts = ends[np.diff(np.cumsum(found)[ends], prepend=0) > 0] if len(ranked) else ends[:0]
    if not len(lasts):
        return np.full(weights.shape[1], np.nan)
    # between two of them, the numbers of images and of true ones are enough
    starts = np.append(0, lasts + 1)
    taken = [order[: starts[-1]], order[: starts[-1]][found[: starts[-1]]]]
    bounds = [starts, np.append(0, np.cumsum(found))[starts]]
    images, gained = (
        # a product, since a copy of the weights in order takes ten times as long
        (
            sparse.csr_matrix(
                (np.ones(len(which), np.float32), which, bound), shape=(len(lasts), len(truth))
            )
            @ weights
        ).astype(np.float64)
        for which, bound in zip(taken, bounds, strict=True)
    )
    all_images, true = np.cumsum(images, axis=0), np.cumsum(gained, axis=0)
    precision = np.divide(true, all_images, out=np.zeros_like(true), where=all_images > 0)
    return ratio((gained * precision).sum(axis=0), true[-1])
