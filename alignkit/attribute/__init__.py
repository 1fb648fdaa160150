"""Attribution of a drift to stages and kinds of images: shares of pixels, answers and metrics.

Every mixture of the two paths is run on the same images. If at most four factors differ, the full
factorial is computed and each factor's share is its Shapley value; if more differ, each is swapped
alone and the remainder is the interaction. Either way the shares (with the interaction, in the
second case) add up to the whole. Intervals are paired percentile bootstrap intervals: images are
resampled, with all their mixtures and models.

Inside decode there are switches: chroma upsampling, inverse DCT and rounding of colours. Some
decoders are a known setting of them: OpenCV, Pillow, torchvision and torchpipe contain
libjpeg-turbo and offer no switch, simplejpeg contains it too and offers two, and nvjpeg-model has
all three. If a decoder's pixels equal, image by image, those of a decoder with switches, that one
replaces it here, and two decoders can be mixed switch by switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.attribute.attributed_mixtures import (
    MixtureResults,
    Sessions,
    mix_stages,
    observe,
    task_of,
)
from alignkit.attribute.mixture_records import CellSession, ModelSession
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
from alignkit.decoders import DECODERS, Decoder
from alignkit.decoders.decoder_switches import Switches, switches_of
from alignkit.outcome import Skipped
from alignkit.plugins import name_of
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images
from alignkit.preprocess.stage_mixtures import (
    FACTORIAL_LIMIT,
    FromCandidate,
    LeftOut,
    StageMixtures,
    make_stage_mixtures,
    mixtures,
)
from alignkit.record import AttributionFacts, Estimate, FactorShare
from alignkit.record.blame_facts import AttributedUnit
from alignkit.samples import Samples
from alignkit.task_facts import MetricFacts, TaskFacts, Unit

NOTHING_DIFFERS = "the paths do not differ in any stage"
_UNITS: dict[str, AttributedUnit] = {"pixels": "grey levels", "logits": "value"}
"""Units of the metrics that no task has of its own."""
_TASK_UNITS: dict[Unit, AttributedUnit] = {
    "share": "fraction", "points": "fraction", "px": "px", "value": "value",
}  # fmt: skip
_UNDEFINED = "it has no value in some mixture"


def attribute(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    models: Sequence[Sessions] = (),
    *,
    decoder_switches: bool = False,
    resamples: int = RESAMPLES,
) -> dict[str, AttributionFacts]:
    """Divide the drift between two paths, and two runtimes, among the stages that differ.

    The result has a row for each metric that was measured, or whose absence has a reason.
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
        about = _about(mixed, len(samples))
        return {
            name: _absent(about, metric, (), NOTHING_DIFFERS, value=0.0)
            for name, metric in attributed(task).items()
        }
    observed = observe(samples, mixed, reference.normalise, mixtures(factors), models)
    return measure(observed, mixed, task, resamples).attributions(factors)


@dataclass(frozen=True, slots=True, eq=False)
class MixtureValues:
    """Every metric of every mixture: the input for shares among any of their factors."""

    about: dict[str, Any]
    """Fields that all rows of the two paths have."""
    wanted: tuple[FromCandidate, ...]
    metrics: dict[str, MetricFacts]
    """By name, in the order of the rows."""
    values: dict[str, FloatArray]
    """(mixtures, 1 + resamples): the sample itself first."""
    absent: dict[str, str]
    """Metric → why it has no values."""

    def attributions(self, factors: Sequence[str]) -> dict[str, AttributionFacts]:
        """Compute the shares of ``factors``; all `mixtures` of them must have values."""
        found = {}
        for name, metric in self.metrics.items():
            if name in self.absent:
                found[name] = _absent(self.about, metric, factors, self.absent[name])
            else:
                of_mixture = dict(zip(self.wanted, self.values[name], strict=True))
                found[name] = _attribution(self.about, metric, factors, of_mixture)
        return found

    def divided(
        self, factors: Sequence[str], instead: str, parts: tuple[str, str]
    ) -> dict[str, AttributionFacts]:
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
            found[metric] = attribution.model_copy(update={"shares": listed})
        return found


def measure(
    observed: MixtureResults, mixed: StageMixtures, task: TaskFacts, resamples: int
) -> MixtureValues:
    """Compute every metric that can be computed, in the sample and in each resample."""
    metrics, values = attributed(task), metric_values(observed, task, resamples)
    absent = {name: why_absent(name, observed) for name in metrics if name not in values}
    about = _about(mixed, len(observed.rows), len(observed.left_out))
    return MixtureValues(about, observed.wanted, metrics, values, absent)


def _about(mixed: StageMixtures, images: int, left_out: int = 0) -> dict[str, Any]:
    reference, candidate = (each.name for each in mixed.paths)
    return {
        "reference": reference, "candidate": candidate, "images": images, "left_out": left_out,
        "notes": mixed.notes,
    }  # fmt: skip


def not_attributed(reference: str, candidate: str, reason: str) -> AttributionFacts:
    """Make the row of two paths that cannot be mixed on these images."""
    about = {"reference": reference, "candidate": candidate, "images": 0}
    return _absent(about, PIXEL_DISTANCE, (), reason)


def _absent(
    about: dict[str, Any],
    metric: MetricFacts,
    factors: Sequence[str],
    reason: str,
    value: float | None = None,
) -> AttributionFacts:
    nothing = Estimate(value, value, value, reason)
    return AttributionFacts(
        **about, **_kind(metric, factors), interaction=nothing, total=nothing, reason=reason
    )


def _kind(metric: MetricFacts, factors: Sequence[str]) -> dict[str, Any]:
    return {
        "metric": metric.name,
        "unit": _UNITS.get(metric.name) or _TASK_UNITS[metric.unit],
        "method": "shapley" if len(factors) <= FACTORIAL_LIMIT else "one-at-a-time",
    }


def _attribution(
    about: dict[str, Any],
    metric: MetricFacts,
    factors: Sequence[str],
    values: dict[FromCandidate, FloatArray],
) -> AttributionFacts:
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
    return AttributionFacts(
        **about,
        **_kind(metric, factors),
        shares=listed,
        interaction=_estimate(interaction(factors, values)),
        total=_estimate(whole - reference),
    )


def _estimate(values: FloatArray) -> Estimate:
    if np.isnan(values[0]):
        return Estimate(None, None, None, _UNDEFINED)
    if rests_on_one(values[1:]):
        return Estimate(float(values[0]), None, None, FEW_DEFINE)
    low, high = percentile_interval(values[None, 1:])[:, 0]
    return Estimate(float(values[0]), float(low), float(high))


@dataclass(frozen=True, slots=True)
class DecodeModels:
    """The models whose changed predictions are divided among the switches."""

    sessions: Sequence[ModelSession]
    """One for each seed, all in the same runtime."""
    backend: str
    precision: str


def attribute_decode(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    models: DecodeModels | None = None,
    *,
    resamples: int = RESAMPLES,
) -> tuple[AttributionFacts, ...] | Skipped:
    """Divide the effect of decode among its switches: on the pixels, and on the predictions.

    They are ``decode.upsampling``, ``decode.dct`` and ``decode.colour``; all later stages are the
    reference's. `Skipped` if a decoder has no known setting, if its pixels differ from those of its
    setting or cannot be compared on any image, or if the settings agree.
    """
    if reference.decode == candidate.decode:
        return Skipped("the two decoders are the same")
    settings = _settings(reference, candidate, samples)
    if isinstance(settings, Skipped):
        return settings
    paths = (
        replace(reference, decode=settings[0]),
        replace(reference, name=candidate.name, decode=settings[1]),
    )
    sessions = (
        [{frozenset[str](): _of_reference(each)} for each in models.sessions] if models else []
    )
    divided = attribute(*paths, samples, sessions, decoder_switches=True, resamples=resamples)
    runtimes: dict[str, dict[str, str]] = {"pixels": {}}
    if models:
        runtime = {"backend": models.backend, "precision": models.precision}
        runtimes |= dict.fromkeys(divided_metrics(task_of(sessions)), runtime)
    return tuple(
        divided[metric].model_copy(update={"metric": f"{metric}.decode", **runtime})
        for metric, runtime in runtimes.items()
        if divided[metric].shares
    )


def divided_metrics(task: TaskFacts) -> tuple[str, ...]:
    """Name the metrics of predictions that are divided among the switches."""
    return (*(("logits",) if task.class_scores else ()), "churn", task.matrices[0])


def _of_reference(session: ModelSession) -> ModelSession:
    # these mixtures end at another candidate: the reference with the other's decoder
    return session.without_candidate() if isinstance(session, CellSession) else session


def _settings(
    reference: Preprocess, candidate: Preprocess, samples: Samples
) -> tuple[Switches, Switches] | Skipped:
    """Return the switches of the two decoders, proven on these images and different."""
    both = switches_of(reference.decode, candidate.decode)
    if isinstance(both, Skipped):
        return both
    proven = frozenset(range(len(samples)))  # narrowed to the images that prove both settings
    for path, setting in zip((reference, candidate), both, strict=True):
        equal = _equal(reference, path.decode, setting, samples)
        if isinstance(equal, Skipped):
            return equal
        proven &= equal
    known_as = name_of(both[0], DECODERS)
    if not proven:
        return Skipped(
            f"none of {len(samples)} images is decoded by both decoders and by {known_as}, so that "
            "nothing is known of their switches"
        )
    if both[0] == both[1]:
        return Skipped(
            "the two decoders are libjpeg-turbo with the same switches, their pixels equal "
            f"{known_as}'s on {len(proven)} of {len(samples)} images"
        )
    return both


def _equal(
    path: Preprocess, decoder: Decoder, setting: Switches, samples: Samples
) -> frozenset[int] | Skipped:
    """Return the indices of the images that the setting and the decoder decode to equal pixels.

    `Skipped` if they decode any image differently.
    """
    if decoder == setting:
        return frozenset(range(len(samples)))
    mixed = make_stage_mixtures(replace(path, decode=decoder), replace(path, decode=setting))
    both = (frozenset[str](), frozenset({"decode"}))
    equal = set()
    all_made = mix_stages(mixed, both, encoded_images(samples))
    for index, (sample, made) in enumerate(zip(samples.ids, all_made, strict=True)):
        if isinstance(made, LeftOut):
            continue
        # mixtures of equal pixels share one array
        if made.tensors[both[0]] is not made.tensors[both[1]]:
            names = type(decoder).__name__, name_of(setting, DECODERS)
            return Skipped(f"{names[0]} and {names[1]} decode {sample} differently")
        equal.add(index)
    return frozenset(equal)
