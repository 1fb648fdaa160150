"""Answers that are no classes along two paths and their mixtures: boxes, masks, labels, scores.

No labels are needed: the task says which answers changed, and measures by how much.
"""

from __future__ import annotations

import numpy as np

from alignkit.compare import drift
from alignkit.compare.answers import Answers
from alignkit.predict.decoder import AnswerDecoder
from alignkit.preprocess.stage_mixtures import FromCandidate
from alignkit.record.diff_document import PredictionDrift, StageFlips
from alignkit.record.numeric_facts import MovedImage
from alignkit.samples import Samples
from alignkit.studies.diff.diff_predictions import REFERENCE, MixedRecords, churn

_MOVED = 20
"""Images that the record names."""


def answer_drift(
    predicted: MixedRecords, decoder: AnswerDecoder, samples: Samples
) -> PredictionDrift:
    """Reduce records to the answers that change, the task's measures and the images moved most."""

    def answers(taken: FromCandidate) -> Answers:
        return decoder.unlabelled(predicted.ids, predicted.records[taken], samples)

    before, after = answers(REFERENCE), answers(predicted.candidate)
    judged, other = _judged(before, after)
    changed = judged.changed(other)
    return PredictionDrift(
        n=len(judged),
        non_finite=len(before) - len(judged),
        **predicted.left_out_fields(),
        flips=int(changed.sum()),
        churn=churn(changed),
        logits=type(judged).distance([(judged, other)]),
        margins=None,
        measures=drift([judged], [other]).measures if len(judged) else {},
        stages=tuple(_alone(part, before, answers(frozenset({part}))) for part in predicted.alone),
        classes=(),
        moved=_moved(judged, other),
    )


def _judged(before: Answers, after: Answers) -> tuple[Answers, Answers]:
    """Restrict both to the images whose outputs are finite on either side."""
    kept = np.flatnonzero(before.finite() & after.finite())
    return before.rows(kept), after.rows(kept)


def _alone(part: str, before: Answers, after: Answers) -> StageFlips:
    judged, other = _judged(before, after)
    changed = judged.changed(other)
    return StageFlips(factor=part, flips=int(changed.sum()), churn=churn(changed), mean_abs=None)


def _moved(before: Answers, after: Answers) -> tuple[MovedImage, ...]:
    """Name the images that changed, then those that moved most, and what both sides said."""
    changed, apart = before.changed(after), before.apart(after)
    apart = np.nan_to_num(apart, nan=np.inf)
    order = np.lexsort((-apart, ~changed))
    return tuple(
        MovedImage(before.ids[at], before.said(at), after.said(at), None, None, None)
        for at in order[:_MOVED].tolist()
        if changed[at] or apart[at] > 0
    )
