"""A model's predictions along two paths and their mixtures: the effect of a difference.

No labels are needed. Every image that all mixtures prepare is predicted along the reference, along
the candidate, and along the reference with one part of the candidate at a time, in batches of the
same images, so that equal tensors give equal logits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Logits
from alignkit.attribute.attributed_mixtures import Mixed, MixStages
from alignkit.attribute.mixture_records import ModelSession, mixture_records
from alignkit.compare.bootstrap import mean_estimate
from alignkit.compare.margins import margin_drift, moved_most
from alignkit.compare.metrics import logit_distance, predicted_classes
from alignkit.compare.predictions import Predictions, class_name
from alignkit.compare.statistics import rule_of_three
from alignkit.errors import NothingCompared
from alignkit.isolation import Limits
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images, run_isolated
from alignkit.preprocess.stage_mixtures import (
    FromCandidate,
    LeftOut,
    MixedImage,
    make_stage_mixtures,
)
from alignkit.record import Estimate
from alignkit.record.diff_document import ClassFlips, PredictionDrift, StageFlips
from alignkit.samples import Samples
from alignkit.tasks import Record
from alignkit.text.numbers import count, estimated, grouped, percent

_BATCH = 32
_RANKED = 20
"""Pairs of classes that the record names."""
REFERENCE: FromCandidate = frozenset()
KnownRecords: TypeAlias = dict[tuple[str, ...], Sequence[Record]]
"""Ids of a batch → the records of the reference."""


@dataclass(frozen=True, slots=True, eq=False)
class MixedRecords:
    """Records of the images that all mixtures prepare, by mixture."""

    ids: tuple[str, ...]
    records: dict[FromCandidate, list[Record]]
    """Mixture → one an image: the empty one is the reference, the greatest the candidate."""
    left_out: tuple[tuple[str, str], ...]
    """(id, reason) of the other images."""

    @property
    def candidate(self) -> FromCandidate:
        """The mixture that is the candidate as it is."""
        return max(self.records, key=len)

    @property
    def alone(self) -> tuple[str, ...]:
        """The parts that were taken from the candidate one at a time, where there are several."""
        parts = tuple(next(iter(each)) for each in self.records if len(each) == 1)
        return parts if len(self.candidate) > 1 else ()

    def logits(self, taken: FromCandidate) -> Logits:
        """Stack the records of a classifier, (images, outputs)."""
        return np.stack(self.records[taken])

    def left_out_fields(self) -> dict[str, Any]:
        """Return the fields of `PredictionDrift` about images that were left out."""
        return {
            "left_out": len(self.left_out),
            "left_out_reason": "; ".join(": ".join(each) for each in self.left_out[:1]),
        }


def predict_mixtures(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    session: ModelSession,
    *,
    limits: Limits,
    threads: int | None = None,
    known: KnownRecords | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> MixedRecords:
    """Predict along both paths, and with each part of the candidate alone.

    ``known`` maps the ids of a batch to the reference's records, so that the next candidate's
    images are not predicted on the reference again; it is filled. Raise `NothingCompared` if no
    image can be prepared by all of them.
    """
    mixtures = make_stage_mixtures(reference, candidate)
    alone = [frozenset({factor}) for factor in mixtures.factors]
    wanted = tuple(dict.fromkeys((REFERENCE, *alone, frozenset(mixtures.factors))))
    work = MixStages(mixtures, frozenset(wanted))
    images = encoded_images(samples, changed="fail")
    # one image a task: its tensors may take ten megabytes
    parts = run_isolated(
        work, mixtures.paths, images, processes=threads, limits=limits, images_a_task=1
    )
    records: dict[FromCandidate, list[Record]] = {each: [] for each in wanted}
    ids: list[str] = []
    left_out: list[tuple[str, str]] = []
    made = enumerate(_each(parts))
    while some := list(islice(made, _BATCH)):
        whole = [(index, each) for index, each in some if not isinstance(each, LeftOut)]
        left_out += [
            (samples.ids[index], each.reason) for index, each in some if isinstance(each, LeftOut)
        ]
        if whole:
            shown, tensors = samples.take([index for index, _ in whole]), [e for _, e in whole]
            found = _predicted(session, shown, tensors, wanted, known)
            for taken, block in zip(wanted, found, strict=True):
                records[taken].extend(block)
            ids += shown.ids
        advance(len(some))
    if not ids:
        reason = f"; the first, {left_out[0][0]}: {left_out[0][1]}" if left_out else ""
        raise NothingCompared(f"no image could be prepared for the model{reason}")
    return MixedRecords(tuple(ids), records, tuple(left_out))


def _predicted(
    session: ModelSession,
    samples: Samples,
    images: Sequence[MixedImage],
    wanted: Sequence[FromCandidate],
    known: KnownRecords | None,
) -> list[Sequence[Record]]:
    """Predict a batch in each mixture, the reference only if its records are not ``known``."""
    before = None if known is None else known.get(samples.ids)
    if before is None:
        found = mixture_records(session, samples, images, wanted)
        if known is not None:
            known[samples.ids] = found[wanted.index(REFERENCE)]
        return found
    # mixtures of equal pixels share arrays
    new = [
        each
        for each in wanted
        if any(one.tensors[each] is not one.tensors[REFERENCE] for one in images)
    ]
    made = dict(zip(new, mixture_records(session, samples, images, new), strict=True))
    return [made.get(each, before) for each in wanted]


def _each(parts: Iterable[list[Mixed]]) -> Iterator[Mixed]:
    for part in parts:
        yield from part


def prediction_drift(predicted: MixedRecords, outputs: Sequence[str]) -> PredictionDrift:
    """Reduce a classifier's logits to churn, distances, margins, flips and the worst images."""
    reference = before = predicted.logits(REFERENCE)
    after = predicted.logits(predicted.candidate)
    # NaN on both paths would look like the same class
    judged = _finite(before, after)
    ids = tuple(name for name, kept in zip(predicted.ids, judged, strict=True) if kept)
    before, after = before[judged], after[judged]
    one, other = predicted_classes(before), predicted_classes(after)
    flipped = one != other
    pair = [(_unlabelled(ids, before, outputs), _unlabelled(ids, after, outputs))]
    pairs = Counter(zip(one[flipped].tolist(), other[flipped].tolist(), strict=True))
    return PredictionDrift(
        n=len(ids),
        non_finite=len(predicted.ids) - len(ids),
        **predicted.left_out_fields(),
        flips=int(flipped.sum()),
        churn=churn(flipped),
        logits=logit_distance(before, after),
        margins=margin_drift(pair),
        stages=tuple(
            _alone(factor, reference, predicted.logits(frozenset({factor})))
            for factor in predicted.alone
        ),
        classes=tuple(
            ClassFlips(
                before=class_name(outputs, was), after=class_name(outputs, now), images=images
            )
            for (was, now), images in pairs.most_common(_RANKED)
        ),
        moved=moved_most(pair),
    )


def flips_sentence(drift: PredictionDrift, model: str) -> str:
    """Say how many predictions change, with what so few images could not show."""
    if not drift.n:
        return f"no prediction of {model} is judged: {drift.churn.reason}"
    changed = f"{grouped(drift.flips)} of {count(drift.n, 'prediction')} of {model}"
    verb = "changes" if drift.flips == 1 else "change"
    if drift.flips:
        return f"{changed} {verb} ({estimated(drift.churn, 1, share=True)})"
    return f"{changed} {verb}; {drift.churn.reason}"


def _finite(before: Logits, after: Logits) -> npt.NDArray[np.bool_]:
    """Mark the images, (n,), whose outputs are finite on both sides."""
    return np.asarray((np.isfinite(before) & np.isfinite(after)).all(axis=1))


def _alone(factor: str, before: Logits, after: Logits) -> StageFlips:
    judged = _finite(before, after)
    before, after = before[judged], after[judged]
    flipped = predicted_classes(before) != predicted_classes(after)
    return StageFlips(
        factor=factor,
        flips=int(flipped.sum()),
        churn=churn(flipped),
        mean_abs=logit_distance(before, after).mean_abs,
    )


def churn(flipped: npt.NDArray[np.bool_]) -> Estimate:
    """Estimate the share of images, (n,), that change; with the reason where there is none."""
    if not len(flipped):
        return Estimate(None, None, None, "no image has finite outputs on both paths")
    if flipped.any():
        return mean_estimate(flipped.astype(np.float64))
    # no resample holds a flip that no image shows: its interval would be zero wide
    unseen = percent(min(1.0, rule_of_three(len(flipped))))
    return Estimate(
        0.0, None, None, f"a share of up to {unseen} may show in none of {len(flipped)}"
    )


def _unlabelled(ids: tuple[str, ...], logits: Logits, outputs: Sequence[str]) -> Predictions:
    return Predictions(ids, np.zeros(0, np.int64), logits, (), tuple(outputs))
