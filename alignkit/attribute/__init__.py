"""Attribution of a drift to stages and kinds of images: shares of pixels, answers and metrics.

Every mixture of the two paths is run on the same images. If at most four factors differ, the full
factorial is computed and each factor's share is its Shapley value; if more differ, each is swapped
alone and the remainder is the interaction. Either way the shares (with the interaction, in the
second case) add up to the whole. Intervals are paired percentile bootstrap intervals: images are
resampled, with all their mixtures and models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.attribute.attributed_mixtures import MixtureResults, Sessions, observe, task_of
from alignkit.attribute.shares import (
    PIXEL_DISTANCE,
    attributed,
    interaction,
    metric_values,
    shares,
    why_absent,
)
from alignkit.compare.bootstrap import RESAMPLES
from alignkit.compare.statistics import FEW_DEFINE, percentile_interval, rests_on_one
from alignkit.preprocess import Preprocess
from alignkit.preprocess.stage_mixtures import (
    FACTORIAL_LIMIT,
    FromCandidate,
    make_stage_mixtures,
    mixtures,
)
from alignkit.record import AttributionFacts, Estimate, FactorShare
from alignkit.record.blame_facts import AttributedUnit
from alignkit.samples import Samples
from alignkit.task_facts import MetricFacts, TaskFacts, Unit
from alignkit.text.numbers import plain, points

Method = Literal["shapley", "one-at-a-time"]
NOTHING_DIFFERS = "the paths do not differ in any stage"
_ROUNDING = 1e-9
"""Greatest remainder of a zero after sums of floats."""
_UNITS: dict[str, AttributedUnit] = {"pixels": "grey levels", "logits": "value"}
"""Units of the metrics that no task has of its own."""
_TASK_UNITS: dict[Unit, AttributedUnit] = {
    "share": "fraction", "points": "fraction", "px": "px", "value": "value",
}  # fmt: skip
_UNDEFINED = "it has no value in some mixture"


@dataclass(frozen=True, slots=True)
class Attribution:
    """One metric's change from the reference to the candidate, divided among the factors."""

    metric: MetricFacts
    """One of `attributed`."""
    method: Method
    shares: tuple[FactorShare, ...]
    """Shares in the order of the stages, without stages that do not differ."""
    interaction: Estimate
    """The total less the sum of the factors' effects alone: beside the shares for
    ``one-at-a-time``, divided among them for ``shapley``."""
    total: Estimate
    reason: str = ""
    """Why there are no shares."""


@dataclass(frozen=True, slots=True)
class PathAttribution:
    """The attributions of every metric for one reference and one candidate."""

    reference: str
    candidate: str
    images: int
    """Number of images that every mixture could prepare."""
    left_out: tuple[tuple[str, str], ...]
    """(id, reason) of the other images."""
    notes: tuple[str, ...]
    """Why some stages were not swapped by themselves, one sentence for each."""
    metrics: dict[str, Attribution]
    """By name."""


def attribute(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    models: Sequence[Sessions] = (),
    *,
    decoder_switches: bool = False,
    resamples: int = RESAMPLES,
) -> PathAttribution:
    """Divide the drift between two paths, and two runtimes, among the stages that differ.

    ``models`` holds a model per seed, each in all its runtimes, see `Sessions`; without a model
    only pixels are attributed. ``decoder_switches`` divides ``decode`` among the options in which
    two decoders of one class differ.

    Raises `ConfigError` if the paths prepare different sizes, `NothingCompared` if no image can be
    prepared by every mixture.
    """
    mixed = make_stage_mixtures(reference, candidate, decoder_switches=decoder_switches)
    # ``backend``, ``precision``, …: the facts in which the sessions of a model differ
    runtime_factors = sorted({factor for model in models for taken in model for factor in taken})
    factors = (*mixed.factors, *runtime_factors)
    task = task_of(models)
    if not factors:
        none = {
            name: _absent(metric, (), NOTHING_DIFFERS, value=0.0)
            for name, metric in attributed(task).items()
        }
        return PathAttribution(reference.name, candidate.name, len(samples), (), (), none)
    observed = observe(samples, mixed, reference.normalise, mixtures(factors), models)
    metrics = measure(observed, task, resamples).attributions(factors)
    images, left_out = len(observed.rows), observed.left_out
    return PathAttribution(reference.name, candidate.name, images, left_out, mixed.notes, metrics)


@dataclass(frozen=True, slots=True, eq=False)
class MixtureValues:
    """Every metric of every mixture: the input for shares among any of their factors."""

    wanted: tuple[FromCandidate, ...]
    metrics: dict[str, MetricFacts]
    """By name, in the order of the rows."""
    values: dict[str, FloatArray]
    """(mixtures, 1 + resamples): the sample itself first."""
    absent: dict[str, str]
    """Metric → why it has no values."""

    def attributions(self, factors: Sequence[str]) -> dict[str, Attribution]:
        """Compute the shares of ``factors``; all `mixtures` of them must have values."""
        found = {}
        for name, metric in self.metrics.items():
            if name in self.absent:
                found[name] = _absent(metric, factors, self.absent[name])
            else:
                of_mixture = dict(zip(self.wanted, self.values[name], strict=True))
                found[name] = _attribution(metric, factors, of_mixture)
        return found

    def divided(
        self, factors: Sequence[str], instead: str, parts: tuple[str, str]
    ) -> dict[str, Attribution]:
        """Compute the shares of ``factors``, the last of them in two ``parts``.

        The first part is the share of ``instead`` in place of the last factor, the second is the
        rest. All `mixtures` of both must have values.
        """
        found = self.attributions(factors)
        *others, last = factors
        for metric, attribution in found.items():
            if metric in self.absent:
                continue
            values = dict(zip(self.wanted, self.values[metric], strict=True))
            own, before = shares(factors, values)[last], shares([*others, instead], values)[instead]
            nothing, first, whole = (values[frozenset(each)] for each in ((), {instead}, {last}))
            every = values[frozenset(factors)] - values[frozenset([*others, instead])]
            listed = (
                *attribution.shares[:-1],
                FactorShare(parts[0], _estimate(before), _estimate(first - nothing)),
                FactorShare(
                    parts[1], _estimate(own - before), _estimate(whole - first), _estimate(every)
                ),
            )
            found[metric] = replace(attribution, shares=listed)
        return found


def measure(observed: MixtureResults, task: TaskFacts, resamples: int) -> MixtureValues:
    """Compute every metric that can be computed, in the sample and in each resample."""
    metrics, values = attributed(task), metric_values(observed, task, resamples)
    absent = {name: why_absent(name, observed) for name in metrics if name not in values}
    return MixtureValues(observed.wanted, metrics, values, absent)


def _absent(
    metric: MetricFacts, factors: Sequence[str], reason: str, value: float | None = None
) -> Attribution:
    nothing = Estimate(value, value, value, reason)
    return Attribution(metric, _method(factors), (), nothing, nothing, reason)


def _method(factors: Sequence[str]) -> Method:
    return "shapley" if len(factors) <= FACTORIAL_LIMIT else "one-at-a-time"


def _attribution(
    metric: MetricFacts, factors: Sequence[str], values: dict[FromCandidate, FloatArray]
) -> Attribution:
    """Divide a metric's change; ``values`` holds (1 + resamples,) per mixture, the sample first."""
    reference, whole = values[frozenset()], values[frozenset(factors)]
    parts = shares(factors, values)
    listed = tuple(
        FactorShare(
            factor,
            _estimate(parts[factor]),
            _estimate(values[frozenset({factor})] - reference),
            None
            if (rest := frozenset(factors) - {factor}) not in values
            else _estimate(whole - values[rest]),
        )
        for factor in factors
    )
    return Attribution(
        metric,
        _method(factors),
        listed,
        _estimate(interaction(factors, values)),
        _estimate(whole - reference),
    )


def _estimate(values: FloatArray) -> Estimate:
    if np.isnan(values[0]):
        return Estimate(None, None, None, _UNDEFINED)
    if rests_on_one(values[1:]):
        return Estimate(float(values[0]), None, None, FEW_DEFINE)
    low, high = percentile_interval(values[None, 1:])[:, 0]
    return Estimate(float(values[0]), float(low), float(high))


def attribution_facts(
    found: PathAttribution, *, backend: str = "", precision: str = ""
) -> tuple[AttributionFacts, ...]:
    """Make a row for each metric that was measured, or whose absence has a reason."""
    return tuple(_facts(found, each, backend, precision) for each in found.metrics.values())


def inside_decode_facts(
    found: PathAttribution,
    metrics: Sequence[str] = ("pixels",),
    *,
    backend: str = "",
    precision: str = "",
) -> tuple[AttributionFacts, ...]:
    """Make the rows ``pixels.decode``, ``churn.decode``, … of the metrics that have shares."""
    rows = [_facts(found, found.metrics[each], backend, precision) for each in metrics]
    return tuple(
        each.model_copy(update={"metric": f"{each.metric}.decode"}) for each in rows if each.shares
    )


def not_attributed(reference: str, candidate: str, reason: str) -> tuple[AttributionFacts, ...]:
    """Make the row of two paths that cannot be mixed on these images."""
    pixels = {"pixels": _absent(PIXEL_DISTANCE, (), reason)}
    return attribution_facts(PathAttribution(reference, candidate, 0, (), (), pixels))


def _facts(
    found: PathAttribution, attribution: Attribution, backend: str, precision: str
) -> AttributionFacts:
    return AttributionFacts(
        reference=found.reference,
        candidate=found.candidate,
        backend=backend,
        precision=precision,
        metric=attribution.metric.name,
        unit=_unit(attribution.metric),
        method=attribution.method,
        images=found.images,
        left_out=len(found.left_out),
        shares=attribution.shares,
        interaction=attribution.interaction,
        total=attribution.total,
        sentence=sentence(attribution),
        notes=found.notes,
        reason=attribution.reason,
    )


def sentence(attribution: Attribution) -> str:
    """Word an attribution as in ``Macro recall -2.0 pp: resize -1.9 pp, decode -0.1 pp``.

    Without shares it gives the reason.
    """
    name = attribution.metric.label
    if attribution.reason or attribution.total.value is None:
        return f"{name}: {attribution.reason or attribution.total.reason}"
    return f"{name} {amount(attribution.metric, attribution.total.value)}: {breakdown(attribution)}"


def breakdown(attribution: Attribution) -> str:
    """List the shares, greatest first: ``resize -1.9 pp, decode -0.1 pp, precision 0.0 pp``."""
    known = [(share.factor, share.effect.value or 0.0) for share in attribution.shares]
    # stable: equal shares stay in the order of the stages
    known.sort(key=lambda each: -abs(each[1]))
    parts = [f"{factor} {amount(attribution.metric, value)}" for factor, value in known]
    between = attribution.interaction.value
    if attribution.method == "one-at-a-time" and between is not None:
        parts.append(f"interaction {amount(attribution.metric, between)}")
    return ", ".join(parts)


def amount(metric: MetricFacts, value: float) -> str:
    """Write ``-1.9 pp``, ``0.53 grey levels``, ``1.2 px``, ``<0.1 pp``; the minus is a true one."""
    value = 0.0 if abs(value) < _ROUNDING else value  # or it would read as -0.0
    if metric.name == "churn":  # a distance, unlike a difference, has no sign
        return f"{plain(100 * value, 1)} pp"
    if metric.name in _UNITS or metric.unit == "px":
        return f"{plain(value, 2)} {_unit(metric)}"
    return plain(value, 3) if metric.unit == "value" else f"{points(value, 1)} pp"


def _unit(metric: MetricFacts) -> AttributedUnit:
    return _UNITS.get(metric.name) or _TASK_UNITS[metric.unit]
