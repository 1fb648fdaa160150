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

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Labels, Logits
from alignkit.attribute.attributed_mixtures import Mixed, MixStages
from alignkit.attribute.mixture_logits import mixture_logits
from alignkit.backends import Session
from alignkit.compare.bootstrap import mean_estimate
from alignkit.compare.margins import margin_drift, moved_most
from alignkit.compare.metrics import logit_distance, predicted_classes
from alignkit.compare.predictions import Predictions, class_name
from alignkit.compare.statistics import rule_of_three
from alignkit.errors import NothingCompared
from alignkit.isolation import Limits
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images, run_isolated
from alignkit.preprocess.stage_mixtures import FromCandidate, LeftOut, make_stage_mixtures
from alignkit.record import Estimate
from alignkit.record.diff_document import ClassFlips, PredictionDrift, StageFlips
from alignkit.samples import Samples
from alignkit.text.numbers import count, estimated, grouped, percent

_BATCH = 32
_RANKED = 20
"""Pairs of classes that the record names."""
_REFERENCE: FromCandidate = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MixedLogits:
    """Logits of the images that all mixtures prepare, by mixture."""

    ids: tuple[str, ...]
    logits: dict[FromCandidate, Logits]
    """Mixture → (images, outputs): the empty one is the reference, the greatest the candidate."""
    left_out: tuple[tuple[str, str], ...]
    """(id, reason) of the other images."""


def predict_mixtures(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    session: Session,
    *,
    limits: Limits,
    threads: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> MixedLogits:
    """Predict along both paths, and with each part of the candidate alone.

    Raise `NothingCompared` if no image can be prepared by all of them.
    """
    mixtures = make_stage_mixtures(reference, candidate)
    alone = [frozenset({factor}) for factor in mixtures.factors]
    wanted = tuple(dict.fromkeys((_REFERENCE, *alone, frozenset(mixtures.factors))))
    work = MixStages(mixtures, frozenset(wanted))
    images = encoded_images(samples, changed="fail")
    # one image a task: its tensors may take ten megabytes
    parts = run_isolated(
        work, mixtures.paths, images, processes=threads, limits=limits, images_a_task=1
    )
    blocks: list[list[Logits]] = []
    ids: list[str] = []
    left_out: list[tuple[str, str]] = []
    made = zip(samples.ids, _each(parts), strict=True)
    while some := list(islice(made, _BATCH)):
        whole = [(name, each) for name, each in some if not isinstance(each, LeftOut)]
        left_out += [(name, each.reason) for name, each in some if isinstance(each, LeftOut)]
        if whole:
            names, tensors = [name for name, _ in whole], [each for _, each in whole]
            blocks.append(mixture_logits(session, names, tensors, wanted))
            ids += names
        advance(len(some))
    if not blocks:
        reason = f"; the first, {left_out[0][0]}: {left_out[0][1]}" if left_out else ""
        raise NothingCompared(f"no image could be prepared for the model{reason}")
    joined = (np.concatenate(each) for each in zip(*blocks, strict=True))
    return MixedLogits(tuple(ids), dict(zip(wanted, joined, strict=True)), tuple(left_out))


def _each(parts: Iterable[list[Mixed]]) -> Iterator[Mixed]:
    for part in parts:
        yield from part


def prediction_drift(predicted: MixedLogits, outputs: Sequence[str]) -> PredictionDrift:
    """Reduce the logits to churn, distances, margins, flips and the worst images."""
    before = predicted.logits[_REFERENCE]
    full = max(predicted.logits, key=len)
    after = predicted.logits[full]
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
        left_out=len(predicted.left_out),
        left_out_reason="; ".join(": ".join(each) for each in predicted.left_out[:1]),
        flips=int(flipped.sum()),
        churn=_churn(one, other),
        logits=logit_distance(before, after),
        margins=margin_drift(pair),
        stages=tuple(
            _alone(factor, predicted.logits[_REFERENCE], predicted.logits[frozenset({factor})])
            for factor in _in_order(predicted.logits)
            if len(full) > 1
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


def _in_order(logits: Iterable[FromCandidate]) -> list[str]:
    return [next(iter(each)) for each in logits if len(each) == 1]


def _finite(before: Logits, after: Logits) -> npt.NDArray[np.bool_]:
    """Mark the images, (n,), whose outputs are finite on both sides."""
    return np.asarray((np.isfinite(before) & np.isfinite(after)).all(axis=1))


def _alone(factor: str, before: Logits, after: Logits) -> StageFlips:
    judged = _finite(before, after)
    before, after = before[judged], after[judged]
    one, other = predicted_classes(before), predicted_classes(after)
    return StageFlips(
        factor=factor,
        flips=int((one != other).sum()),
        churn=_churn(one, other),
        mean_abs=logit_distance(before, after).mean_abs,
    )


def _churn(one: Labels, other: Labels) -> Estimate:
    if not len(one):
        return Estimate(None, None, None, "no image has finite outputs on both paths")
    flipped = one != other
    if flipped.any():
        return mean_estimate(flipped.astype(np.float64))
    # no resample holds a flip that no image shows: its interval would be zero wide
    unseen = percent(min(1.0, rule_of_three(len(one))))
    return Estimate(0.0, None, None, f"a share of up to {unseen} may show in none of {len(one)}")


def _unlabelled(ids: tuple[str, ...], logits: Logits, outputs: Sequence[str]) -> Predictions:
    return Predictions(ids, np.zeros(0, np.int64), logits, (), tuple(outputs))
