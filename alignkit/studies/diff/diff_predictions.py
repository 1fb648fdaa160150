"""A model's predictions along two paths and their mixtures, added up: the effect of a difference.

No labels are needed. Every image that all mixtures prepare is predicted along the reference, along
the candidate, and along the reference with one part of the candidate at a time.

Of class scores stay an image's classes, the share of its margin that is lost, and sums; quantiles
of |Δ logit| are those of a histogram, up to 0.8 % too great. Other answers (boxes, masks, labels,
scores) stay as the task's own Parquet files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from pydantic import Base64Bytes

from alignkit.arrays import FloatArray, Logits
from alignkit.compare import drift
from alignkit.compare.answers import Answers
from alignkit.compare.bootstrap import SharedDraws, joined_groups
from alignkit.compare.class_answers import class_name, one_class
from alignkit.compare.class_changes import groups_of
from alignkit.compare.histogram import Bins, added, histogram_of, quantile_of
from alignkit.compare.idle_answers import NO_COMPARISON, changed_share, nothing_answered
from alignkit.compare.logit_sums import QUANTILES, LogitSums, ScoreRows, added_rows
from alignkit.compare.margins import (
    MOST_MOVED,
    RankedChange,
    changes,
    drift_of_lost,
    margins_lost,
    no_margins,
    worst,
)
from alignkit.compare.metrics import by_class, predicted_classes
from alignkit.compare.predictions import Predictions
from alignkit.compare.stored_fields import BITS
from alignkit.predict.decoder import joined
from alignkit.predict.given_model import Opened
from alignkit.preprocess import Preprocess
from alignkit.preprocess.stage_mixtures import FromCandidate, StageMixtures, make_stage_mixtures
from alignkit.record import Estimate, LogitDistance
from alignkit.record.diff_document import ClassFlips, PredictionDrift, StageFlips
from alignkit.record.drift_facts import MovedImage
from alignkit.record.stored import STRICT, Count, Real
from alignkit.samples import Samples
from alignkit.task_facts import OutputScale

if TYPE_CHECKING:
    from alignkit.tasks import Records

REFERENCE: FromCandidate = frozenset()
_RANKED = 20
"""Pairs of classes that the record names."""
_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class MixedPair:
    """The mixtures of two paths that are predicted."""

    mixtures: StageMixtures

    @classmethod
    def of(cls, reference: Preprocess, candidate: Preprocess) -> MixedPair:
        """Return those of two paths; raise `ConfigError` if their sizes differ."""
        return cls(make_stage_mixtures(reference, candidate))

    @cached_property
    def wanted(self) -> tuple[FromCandidate, ...]:
        """The reference, each part of the candidate alone, and the candidate, each once."""
        factors = self.mixtures.factors
        alone = (frozenset({factor}) for factor in factors)
        return tuple(dict.fromkeys((REFERENCE, *alone, frozenset(factors))))

    @property
    def candidate(self) -> int:
        """The index in ``wanted`` of the mixture that is the candidate as it is."""
        return len(self.wanted) - 1

    @property
    def factors_alone(self) -> tuple[str, ...]:
        """The parts that are taken from the candidate one at a time, where there are several."""
        return self.mixtures.factors if len(self.mixtures.factors) > 1 else ()

    @property
    def alone(self) -> range:
        """The indices in ``wanted`` of those mixtures."""
        return range(1, 1 + len(self.factors_alone))


def nothing_drifts(facts: Mapping[str, Any], reason: str, *, margins: bool) -> PredictionDrift:
    """Describe predictions that show nothing: no number but how many there are, and why."""
    return PredictionDrift(
        **facts,
        flips=0,
        churn=Estimate(None, None, None, reason),
        logits=LogitDistance(None, None, None, reason),
        margins=no_margins(reason) if margins else None,
        stages=(),
        classes=(),
        moved=(),
    )


@dataclass(slots=True, eq=False)
class _Alone:
    """The reference with one part of the candidate."""

    __pydantic_config__ = STRICT

    flipped: Annotated[_Mask, BITS]
    """Of each image."""
    judged: Annotated[_Mask, BITS]
    """Those with finite outputs in both; no other one flips."""
    absolute: Real
    """Sum of |Δ logit| of the judged images."""
    values: Count

    @classmethod
    def of(cls, before: Logits, after: Logits) -> _Alone:
        judged = _finite(before, after)
        left, right = before[judged], after[judged]
        flipped = np.zeros(len(judged), np.bool_)
        flipped[judged] = predicted_classes(by_class(left)) != predicted_classes(by_class(right))
        return cls(flipped, judged, float(_distance(left, right).sum()), left.size)

    @classmethod
    def joined(cls, parts: Sequence[_Alone]) -> _Alone:
        return cls(
            np.concatenate([each.flipped for each in parts]),
            np.concatenate([each.judged for each in parts]),
            sum(each.absolute for each in parts),
            sum(each.values for each in parts),
        )


@dataclass(slots=True, eq=False)
class ClassifierTally:
    """Predictions of images, in their order. It is stored as it is."""

    __pydantic_config__ = STRICT

    ids: tuple[str, ...]
    judged: Annotated[_Mask, BITS]
    """(n,), the images with finite outputs on both paths."""
    before: Annotated[npt.NDArray[np.int32], BITS]
    """(n,), see `alignkit.compare.metrics.predicted_classes`."""
    after: Annotated[npt.NDArray[np.int32], BITS]
    lost: Annotated[FloatArray, BITS]
    """(n,), see `alignkit.compare.margins`; NaN of an image that is not judged."""
    outputs: Annotated[Logits, BITS]
    """(1 or 2, outputs): judged logits of either path, and the first that are others."""
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
        lost = np.full(len(before), np.nan)
        lost[judged] = margins_lost((one, other))[1]
        left, right = before[judged], after[judged]
        distance = _distance(left, right).astype(np.float32)
        return cls(
            ids=samples.ids,
            judged=judged,
            before=predicted_classes(by_class(before)).astype(np.int32),
            after=predicted_classes(by_class(after)).astype(np.int32),
            lost=lost,
            outputs=_unlike(np.concatenate([left, right]).astype(np.float32)),
            sums=LogitSums.of(left.astype(np.float64), right.astype(np.float64)),
            histogram=histogram_of(distance) if distance.size else np.zeros(1, np.int64),
            alone=tuple(_Alone.of(before, logits[each]) for each in pair.alone),
            moved=changes((one, other)),
            declared=one.declared,
            rows=(one.score_rows, other.score_rows),
        )

    @classmethod
    def joined(cls, tallies: Sequence[ClassifierTally]) -> ClassifierTally:
        """Add up those of different images, in the order given."""
        # all arrays at once: to add them one by one would copy them as often
        return cls(
            ids=tuple(name for each in tallies for name in each.ids),
            judged=np.concatenate([each.judged for each in tallies]),
            before=np.concatenate([each.before for each in tallies]),
            after=np.concatenate([each.after for each in tallies]),
            lost=np.concatenate([each.lost for each in tallies]),
            outputs=_unlike(np.concatenate([each.outputs for each in tallies])),
            sums=reduce(LogitSums.plus, (each.sums for each in tallies)),
            histogram=reduce(added, (each.histogram for each in tallies)),
            alone=tuple(map(_Alone.joined, zip(*(e.alone for e in tallies), strict=True))),
            moved=worst(change for each in tallies for change in each.moved),
            declared=tallies[0].declared,
            rows=(
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

        def share(flipped: _Mask, judged: _Mask) -> Estimate:
            ids = [name for name, kept in zip(self.ids, judged, strict=True) if kept]
            return changed_share(flipped, joined_groups(ids, None, copies))

        one, other = self.before[self.judged], self.after[self.judged]
        facts = {"n": len(one), "non_finite": len(self.ids) - len(one), **left_out}
        if reason := self._nothing(one, other, opened):
            return nothing_drifts(facts, f"{NO_COMPARISON}: {reason}", margins=True)
        flipped = one != other
        pairs = Counter(zip(one[flipped].tolist(), other[flipped].tolist(), strict=True))
        greatest = self.sums.max_abs
        quantiles = (min(quantile_of(self.histogram, each), greatest) for each in QUANTILES)
        return PredictionDrift(
            **facts,
            flips=int(flipped.sum()),
            churn=share(flipped, self.judged),
            logits=self.sums.distance(tuple(quantiles)),
            margins=drift_of_lost(self.lost[self.judged], ~flipped),
            stages=tuple(
                StageFlips(
                    factor=factor,
                    flips=int(each.flipped.sum()),
                    churn=share(each.flipped[each.judged], each.judged),
                    mean_abs=each.absolute / each.values if each.values else None,
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

    def _nothing(
        self, before: npt.NDArray[np.int32], after: npt.NDArray[np.int32], opened: Opened
    ) -> str:
        """Say what `alignkit.compare.idle_answers.nothing_answered` does of all logits."""
        if not len(before):
            return "no image has finite outputs on both paths"
        named = one_class(opened.outputs, before, after)
        if len(before) > 1 and len(self.outputs) == 1:
            return named or "all images have the same outputs on both sides"
        misread = "" if self.declared else self.rows[0].misread(added_rows(self.rows))
        return misread or named

    @property
    def scale(self) -> OutputScale:
        """Scale of the logits of the reference."""
        return self.declared or self.rows[0].scale


def _finite(before: Logits, after: Logits) -> _Mask:
    """Mark the images, (n,), whose outputs are finite on both sides."""
    return np.asarray((np.isfinite(before) & np.isfinite(after)).all(axis=1))


def _distance(left: Logits, right: Logits) -> FloatArray:
    # in float64, as float16 and large float32 logits round their differences
    return np.abs(right.astype(np.float64) - left.astype(np.float64))


def _unlike(rows: Logits) -> Logits:
    """Return the first of some rows, and the first that is another, if there is one."""
    others = rows[(rows != rows[:1]).any(axis=1)]
    return np.concatenate([rows[:1], others[:1]])


@dataclass(slots=True, eq=False)
class AnswersTally:
    """Answers that are no classes to images, in their order. It is stored as it is."""

    __pydantic_config__ = STRICT

    ids: tuple[str, ...]
    files: list[Base64Bytes]
    """Of each mixture, see `AnswerDecoder.packed`."""

    @classmethod
    def of(
        cls, samples: Samples, found: Sequence[Records], pair: MixedPair, opened: Opened
    ) -> AnswersTally:
        """Keep the records of some images, one list for each mixture."""
        assert len(found) == len(pair.wanted)
        return cls(samples.ids, [opened.decoder.packed(samples, _in_array(each)) for each in found])

    @classmethod
    def joined(cls, tallies: Sequence[AnswersTally]) -> AnswersTally:
        """Join those of different images, in the order given."""
        own = zip(*(each.files for each in tallies), strict=True)
        ids = tuple(sample for each in tallies for sample in each.ids)
        return cls(ids, [joined(each) for each in own])

    def drift(
        self,
        pair: MixedPair,
        left_out: Mapping[str, Any],
        opened: Opened,
        samples: Samples,
        copies: Mapping[str, str],
    ) -> PredictionDrift:
        """Reduce them to the answers that change, the task's measures and the images moved most."""
        before, *others = (opened.decoder.unpacked(self.ids, samples, each) for each in self.files)
        after = others[-1] if others else before
        judged, other = _judged(before, after)
        facts = {"n": len(judged), "non_finite": len(before) - len(judged), **left_out}
        if reason := nothing_answered([(judged, other)]):
            return nothing_drifts(facts, reason, margins=False)
        changed = judged.changed(other)
        draws = SharedDraws(copies=copies)
        return PredictionDrift(
            **facts,
            flips=int(changed.sum()),
            churn=_share(changed, judged, draws),
            logits=type(judged).distance([(judged, other)]),
            margins=None,
            measures=drift([judged], [other], draws=draws).measures,
            stages=tuple(
                _alone(factor, before, others[index - 1], draws)
                for factor, index in zip(pair.factors_alone, pair.alone, strict=True)
            ),
            classes=(),
            moved=_moved(judged, other),
        )


def _in_array(records: Any) -> Records:
    """Stack the rows of an array that were predicted one batch for each size."""
    rows = len(records) > 0 and all(isinstance(each, np.ndarray) for each in records)
    return np.stack(records) if rows else records


def _judged(before: Answers, after: Answers) -> tuple[Answers, Answers]:
    """Restrict both to the images whose outputs are finite on either side."""
    kept = np.flatnonzero(before.finite() & after.finite())
    return before.rows(kept), after.rows(kept)


def _alone(part: str, before: Answers, after: Answers, draws: SharedDraws) -> StageFlips:
    judged, other = _judged(before, after)
    changed = judged.changed(other)
    share = _share(changed, judged, draws)
    return StageFlips(factor=part, flips=int(changed.sum()), churn=share, mean_abs=None)


def _share(changed: _Mask, judged: Answers, draws: SharedDraws) -> Estimate:
    # groups of the answers' own are identities, or images that pairs join
    unit = "different image" if judged.groups() is None else "group of images"
    return changed_share(changed, groups_of(judged, draws), unit)


def _moved(before: Answers, after: Answers) -> tuple[MovedImage, ...]:
    """Name the images that changed, then those that moved most, and what both sides said."""
    changed, apart = before.changed(after), before.apart(after)
    apart = np.nan_to_num(apart, nan=np.inf)
    order = np.lexsort((-apart, ~changed))
    return tuple(
        MovedImage(before.ids[at], before.said(at), after.said(at), None, None, None)
        for at in order[:MOST_MOVED].tolist()
        if changed[at] or apart[at] > 0
    )
