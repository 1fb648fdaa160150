"""Answers that are no classes along two paths and their mixtures: boxes, masks, labels, scores.

No labels are needed: the task says which answers changed, and measures by how much. A lot's answers
travel and are stored as the task's own Parquet files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pydantic import Base64Bytes

from alignkit.compare import drift
from alignkit.compare.answers import Answers
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.class_changes import groups_of
from alignkit.compare.idle_answers import changed_share, nothing_answered
from alignkit.compare.margins import MOST_MOVED
from alignkit.predict.decoder import joined
from alignkit.predict.given_model import Opened
from alignkit.record import Estimate
from alignkit.record.diff_document import PredictionDrift, StageFlips
from alignkit.record.numeric_facts import MovedImage
from alignkit.record.stored import STRICT
from alignkit.samples import Samples
from alignkit.studies.diff.diff_predictions import MixedPair, nothing_drifts

if TYPE_CHECKING:
    from alignkit.tasks import Records


@dataclass(slots=True, eq=False)
class AnswersTally:
    """Answers to images, in their order. It is stored as it is."""

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
        files = [opened.decoder.packed(samples, _in_array(each)) for each in found]
        return cls(samples.ids, files)

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


def _share(changed: npt.NDArray[np.bool_], judged: Answers, draws: SharedDraws) -> Estimate:
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
