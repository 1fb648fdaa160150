"""`ClassifierTally`: a classifier's predictions along two paths and their mixtures, added up.

Of an image stay its class, margin and greatest logits on both paths, some hundred bytes; of the
logits stay sums. Quantiles of |Δ logit| are those of a histogram, up to 0.8 % too great.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Logits
from alignkit.compare.bootstrap import joined_groups
from alignkit.compare.class_answers import class_name, one_class
from alignkit.compare.histogram import Bins, added, histogram_of, quantile_of
from alignkit.compare.idle_answers import NO_COMPARISON, changed_share
from alignkit.compare.logit_sums import QUANTILES, TOP, LogitSums
from alignkit.compare.margins import RankedChange, changes, drift_of_lost, margins_lost, worst
from alignkit.compare.metrics import by_class, predicted_classes
from alignkit.compare.predictions import Predictions
from alignkit.compare.score_rows import ScoreRows, added_rows
from alignkit.compare.stored_fields import BITS
from alignkit.predict.given_model import Opened
from alignkit.record import Estimate
from alignkit.record.diff_document import ClassFlips, PredictionDrift, StageFlips
from alignkit.record.stored import STRICT
from alignkit.samples import Samples
from alignkit.studies.diff.diff_predictions import MixedPair, nothing_drifts
from alignkit.task_facts import OutputScale

if TYPE_CHECKING:
    from alignkit.tasks import Records

_RANKED = 20
"""Pairs of classes that the record names."""


@dataclass(slots=True, eq=False)
class _Alone:
    """The reference with one part of the candidate."""

    __pydantic_config__ = STRICT

    flipped: Annotated[npt.NDArray[np.bool_], BITS]
    """Of each image."""
    judged: Annotated[npt.NDArray[np.bool_], BITS]
    """Those with finite outputs in both; no other one flips."""
    sums: LogitSums


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Of each image what stays of its logits along one path."""

    __pydantic_config__ = STRICT

    predicted: Annotated[npt.NDArray[np.int32], BITS]
    """(n,), see `alignkit.compare.metrics.predicted_classes`."""
    greatest: Annotated[npt.NDArray[np.float32], BITS]
    """(n, 5, or all if there are fewer), in rising order."""
    finite: Annotated[npt.NDArray[np.bool_], BITS]
    """(n,), whether all logits of an image are finite, also those that are not kept."""

    @classmethod
    def of(cls, logits: Logits) -> _Rows:
        kept = min(TOP, logits.shape[1])
        return cls(
            predicted_classes(logits).astype(np.int32),
            np.sort(np.partition(logits, -kept, axis=1)[:, -kept:], axis=1),
            np.asarray(np.isfinite(logits).all(axis=1)),
        )

    @classmethod
    def joined(cls, parts: Sequence[_Rows]) -> _Rows:
        return cls(
            *(np.concatenate([getattr(each, one.name) for each in parts]) for one in fields(cls))
        )


@dataclass(slots=True, eq=False)
class ClassifierTally:
    """Predictions of images, in their order. It is stored as it is."""

    __pydantic_config__ = STRICT

    ids: tuple[str, ...]
    before: _Rows
    after: _Rows
    lost: Annotated[FloatArray, BITS]
    """(n,), see `alignkit.compare.margins`; NaN of an image that is not judged."""
    sums: LogitSums
    histogram: Bins
    """Of |Δ logit|, see `alignkit.compare.histogram`."""
    alone: tuple[_Alone, ...]
    moved: list[RankedChange]
    declared: OutputScale | Literal[""]
    """See `alignkit.compare.predictions.Predictions.declared`."""
    rows: tuple[ScoreRows, ScoreRows]
    """Of both sides, the images that are judged."""

    @classmethod
    def of(
        cls, samples: Samples, found: Sequence[Records], pair: MixedPair, opened: Opened
    ) -> ClassifierTally:
        """Reduce the logits of some images, one array for each mixture of the ``pair``."""
        logits = [np.asarray(each) for each in found]
        before, after = logits[0], logits[pair.candidate]
        # NaN on both paths would look like the same class
        judged = _finite(before, after)
        shown = samples.take(np.flatnonzero(judged).tolist())
        one, other = (
            cast("Predictions", opened.decoder.unlabelled(shown.ids, each[judged], shown))
            for each in (before, after)
        )
        both = one, other
        lost = np.full(len(before), np.nan)
        lost[judged] = margins_lost(both)[1]
        left, right = (each[judged].astype(np.float64) for each in (before, after))
        distance = np.abs(right - left).astype(np.float32)
        return cls(
            samples.ids,
            _Rows.of(by_class(before)),
            _Rows.of(by_class(after)),
            lost,
            LogitSums.of(left, right),
            histogram_of(distance) if distance.size else np.zeros(1, np.int64),
            tuple(_alone(before, logits[each]) for each in pair.alone),
            changes(both),
            one.declared,
            (one.score_rows, other.score_rows),
        )

    @classmethod
    def joined(cls, tallies: Sequence[ClassifierTally]) -> ClassifierTally:
        """Add up those of different images, in the order given."""
        first, *others = tallies
        sums, histogram = first.sums, first.histogram
        for each in others:
            sums, histogram = sums.plus(each.sums), added(histogram, each.histogram)
        return cls(
            tuple(name for each in tallies for name in each.ids),
            _Rows.joined([each.before for each in tallies]),
            _Rows.joined([each.after for each in tallies]),
            np.concatenate([each.lost for each in tallies]),
            sums,
            histogram,
            tuple(map(_joined, zip(*(each.alone for each in tallies), strict=True))),
            worst(change for each in tallies for change in each.moved),
            first.declared,
            (
                added_rows(each.rows[0] for each in tallies),
                added_rows(each.rows[1] for each in tallies),
            ),
        )

    def drift(
        self,
        pair: MixedPair,
        left_out: Mapping[str, Any],
        opened: Opened,
        samples: Samples,  # noqa: ARG002 - nothing is asked about the images
        copies: Mapping[str, str],
    ) -> PredictionDrift:
        """Reduce them to churn, distances, margins, flips and the images that moved most."""

        def share(flipped: npt.NDArray[np.bool_], judged: npt.NDArray[np.bool_]) -> Estimate:
            ids = [name for name, kept in zip(self.ids, judged, strict=True) if kept]
            return changed_share(flipped, joined_groups(ids, None, copies))

        judged = self.before.finite & self.after.finite
        one, other = self.before.predicted[judged], self.after.predicted[judged]
        facts = {"n": len(one), "non_finite": len(judged) - len(one), **left_out}
        if reason := self._nothing(judged, opened):
            return nothing_drifts(facts, reason, margins=True)
        flipped = one != other
        pairs = Counter(zip(one[flipped].tolist(), other[flipped].tolist(), strict=True))
        return PredictionDrift(
            **facts,
            flips=int(flipped.sum()),
            churn=share(flipped, judged),
            logits=self.sums.distance(self._quantiles()),
            margins=drift_of_lost(self.lost[judged], ~flipped),
            stages=tuple(
                StageFlips(
                    factor=factor,
                    flips=int(each.flipped.sum()),
                    churn=share(each.flipped[each.judged], each.judged),
                    mean_abs=each.sums.mean_abs,
                )
                for factor, each in zip(pair.factors_alone, self.alone, strict=True)
            ),
            classes=tuple(
                ClassFlips(
                    before=class_name(opened.outputs, was),
                    after=class_name(opened.outputs, now),
                    images=images,
                )
                for (was, now), images in pairs.most_common(_RANKED)
            ),
            moved=tuple(image for _, image in self.moved),
        )

    def _nothing(self, judged: npt.NDArray[np.bool_], opened: Opened) -> str:
        """Say what `alignkit.compare.idle_answers.nothing_answered` does of all logits."""
        if not judged.any():
            return f"{NO_COMPARISON}: no image has finite outputs on both paths"
        sides = self.before, self.after
        reason = one_class(opened.outputs, *(each.predicted[judged] for each in sides))
        greatest = np.concatenate([each.greatest[judged] for each in sides])
        classes = np.concatenate([each.predicted[judged] for each in sides])
        # the same values of other classes, as of a Hardmax, are other logits
        alike = (greatest == greatest[0]).all() and (classes == classes[0]).all()
        if judged.sum() > 1 and alike:
            reason = reason or "all images have the same outputs on both sides"
        elif not self.declared:
            reason = self.rows[0].misread(added_rows(self.rows)) or reason
        return reason and f"{NO_COMPARISON}: {reason}"

    @property
    def scale(self) -> OutputScale:
        """Scale of the logits of the reference."""
        return self.declared or self.rows[0].scale

    def _quantiles(self) -> tuple[float, ...]:
        if not self.sums.compared:
            return ()
        greatest = self.sums.max_abs
        return tuple(min(quantile_of(self.histogram, each), greatest) for each in QUANTILES)


def _finite(before: Logits, after: Logits) -> npt.NDArray[np.bool_]:
    """Mark the images, (n,), whose outputs are finite on both sides."""
    return np.asarray((np.isfinite(before) & np.isfinite(after)).all(axis=1))


def _alone(before: Logits, after: Logits) -> _Alone:
    judged = _finite(before, after)
    left, right = before[judged], after[judged]
    flipped = np.zeros(len(judged), np.bool_)
    flipped[judged] = predicted_classes(by_class(left)) != predicted_classes(by_class(right))
    return _Alone(flipped, judged, LogitSums.of(left.astype(np.float64), right.astype(np.float64)))


def _joined(parts: Sequence[_Alone]) -> _Alone:
    sums = parts[0].sums
    for each in parts[1:]:
        sums = sums.plus(each.sums)
    flipped, judged = (
        np.concatenate(each) for each in zip(*((e.flipped, e.judged) for e in parts), strict=True)
    )
    return _Alone(flipped, judged, sums)
