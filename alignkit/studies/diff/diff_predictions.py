"""A model's predictions along two paths and their mixtures: the effect of a difference.

No labels are needed. Every image that all mixtures prepare is predicted along the reference, along
the candidate, and along the reference with one part of the candidate at a time, in batches of the
same images, so that equal tensors give equal logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from alignkit.attribute.mixture_records import ModelSession, mixture_records
from alignkit.compare.margins import no_margins
from alignkit.preprocess import Preprocess
from alignkit.preprocess.stage_mixtures import (
    FromCandidate,
    MixedImage,
    StageMixtures,
    make_stage_mixtures,
)
from alignkit.record import Estimate, LogitDistance
from alignkit.record.diff_document import PredictionDrift
from alignkit.samples import Samples
from alignkit.tasks import Record
from alignkit.text.numbers import count, estimated, grouped

REFERENCE: FromCandidate = frozenset()
KnownRecords: TypeAlias = dict[tuple[str, ...], Sequence[Record]]
"""Ids of a batch → the records of the reference."""


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
        factors = self.mixtures.factors
        return factors if len(factors) > 1 else ()

    @property
    def alone(self) -> range:
        """The indices in ``wanted`` of those mixtures."""
        return range(1, 1 + len(self.factors_alone))


def predicted_batch(
    session: ModelSession,
    samples: Samples,
    images: Sequence[MixedImage],
    wanted: Sequence[FromCandidate],
    known: KnownRecords,
) -> list[Sequence[Record]]:
    """Predict a batch in each mixture, the reference only if its records are not ``known``.

    ``known``, which is filled, spares the next candidate the predictions on the reference.
    """
    before = known.get(samples.ids)
    if before is None:
        found = mixture_records(session, samples, images, wanted)
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


def flips_sentence(drift: PredictionDrift, model: str) -> str:
    """Say how many predictions change, with what so few images could not show."""
    lost = ""
    if drift.non_finite:
        images = f"{grouped(drift.non_finite)} of {count(drift.non_finite + drift.n, 'image')}"
        lost = f"{images} have an output that is NaN or infinite; of the others, "
    if drift.churn.value is None:
        return f"{lost if drift.n else ''}{model}: {drift.churn.reason}"
    changed = f"{lost}{grouped(drift.flips)} of {count(drift.n, 'prediction')} of {model}"
    verb = "changes" if drift.flips == 1 else "change"
    if drift.flips and drift.churn.low is not None:
        return f"{changed} {verb} ({estimated(drift.churn, 1, share=True)})"
    return f"{changed} {verb}; {drift.churn.reason}"


def nothing_drifts(facts: Mapping[str, Any], reason: str, *, margins: bool) -> PredictionDrift:
    """Describe predictions that show nothing: no number but how many there are, and why."""
    none = Estimate(None, None, None, reason)
    return PredictionDrift(
        **facts,
        flips=0,
        churn=none,
        logits=LogitDistance(None, None, None, reason),
        margins=no_margins(reason) if margins else None,
        stages=(),
        classes=(),
        moved=(),
    )
