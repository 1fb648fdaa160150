"""Advice, checked: the drift expected after a change, and the drift measured after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignkit.attribute import Attribution, attribute
from alignkit.attribute.facts import NAMES, amount
from alignkit.attribute.hybrid import differing_stages
from alignkit.attribute.mixture_metrics import Metric
from alignkit.attribute.mixtures import Sessions
from alignkit.compare.bootstrap import RESAMPLES
from alignkit.statistics import Estimate

if TYPE_CHECKING:
    from alignkit.preprocess import Preprocess
    from alignkit.samples import Samples


@dataclass(frozen=True, slots=True)
class Mitigation:
    """One metric before and after an advised change of the serving stack."""

    metric: Metric
    changed: tuple[str, ...]
    """Stages in which the advised stack is not the serving one."""
    before: Estimate
    """Reference to candidate."""
    expected: float | None
    """What is left of ``before`` without the shares of the changed stages."""
    after: Estimate
    """Reference to advised, measured on the same images."""

    @property
    def confirmed(self) -> bool | None:
        """Whether the drift got no larger than expected, its interval considered."""
        if self.after.low is None or self.expected is None:
            return None
        return abs(self.expected) >= self.after.low if self._distance else self._inside

    @property
    def _distance(self) -> bool:
        """Whether the metric cannot be negative."""
        return self.metric in ("pixels", "logits", "churn")

    @property
    def _inside(self) -> bool:
        assert self.after.low is not None
        assert self.after.high is not None
        assert self.expected is not None
        return self.after.low <= self.expected <= self.after.high

    def sentence(self, advised: str) -> str:
        """What the change was to do and what it did."""
        name = NAMES[self.metric]
        if self.before.value is None or self.expected is None or self.after.value is None:
            return f"{name}: {self.before.reason or self.after.reason or 'not measured'}"
        words = [amount(self.metric, each) for each in
                 (self.before.value, self.expected, self.after.value)]  # fmt: skip
        return (
            f"{name} {words[0]} before; serving with {advised} ({', '.join(self.changed)} changed) "
            f"was expected to leave {words[1]} and left {words[2]}"
        )


def check_mitigation(
    reference: Preprocess,
    candidate: Preprocess,
    advised: Preprocess,
    samples: Samples,
    models: Sequence[Sessions],
    *,
    resamples: int = RESAMPLES,
) -> dict[Metric, Mitigation]:
    """Measure what serving with ``advised`` in place of ``candidate`` does, metric by metric.

    ``models`` were trained on ``reference``. The same images are used before and after only where
    every stack decodes them. Raises as `alignkit.attribute.attribute` does.
    """
    before = attribute(reference, candidate, samples, models, resamples=resamples)
    after = attribute(reference, advised, samples, models, resamples=resamples)
    changed = differing_stages(candidate, advised)
    found = {}
    for metric, attribution in before.metrics.items():
        total = attribution.total
        expected = _expected(attribution, changed)
        left = after.metrics[metric].total
        found[metric] = Mitigation(metric, changed, total, expected, left)
    return found


def _expected(attribution: Attribution, changed: Sequence[str]) -> float | None:
    """The total without the shares of the changed stages: what they cost is taken to be gone."""
    if attribution.total.value is None:
        return None
    gone = [
        share.effect.value or 0.0
        for share in attribution.shares
        if {*share.factor.split("+")} & {*changed}
    ]
    return attribution.total.value - sum(gone)
