"""`PathAttribution` as rows of the record, each with its sentence."""

from __future__ import annotations

from typing import Literal

from alignkit.attribute import Attribution, PathAttribution
from alignkit.attribute.shares import Metric
from alignkit.record import AttributionFacts, Estimate
from alignkit.text.names import LABELS
from alignkit.text.numbers import plain, points

_ROUNDING = 1e-9
"""Greatest remainder of a zero after sums of floats."""


def attribution_facts(
    found: PathAttribution,
    *,
    backend: str = "",
    precision: str = "",
    inside_decode: PathAttribution | None = None,
) -> tuple[AttributionFacts, ...]:
    """Make a row for each metric that was measured, or whose absence has a reason.

    ``inside_decode``, the result of `alignkit.attribute.attribute_decode`, adds the row
    ``pixels.decode``.
    """
    rows = [_facts(found, each, backend, precision) for each in found.metrics.values()]
    if inside_decode is not None:
        row = _facts(inside_decode, inside_decode.metrics["pixels"], "", "")
        rows.append(row.model_copy(update={"metric": "pixels.decode"}))
    return tuple(rows)


def not_attributed(reference: str, candidate: str, reason: str) -> AttributionFacts:
    """Make the row of two paths that cannot be mixed on these images."""
    nothing = Estimate(None, None, None, reason)
    return AttributionFacts(
        reference=reference,
        candidate=candidate,
        metric="pixels",
        unit=unit_of("pixels"),
        method="shapley",
        images=0,
        interaction=nothing,
        total=nothing,
        sentence=f"{LABELS['pixels']}: {reason}",
        reason=reason,
    )


def _facts(
    found: PathAttribution, attribution: Attribution, backend: str, precision: str
) -> AttributionFacts:
    return AttributionFacts(
        reference=found.reference,
        candidate=found.candidate,
        backend=backend,
        precision=precision,
        metric=attribution.metric,
        unit=unit_of(attribution.metric),
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


def unit_of(metric: Metric) -> Literal["fraction", "grey levels", "logits"]:
    """Return the unit of a metric's attribution."""
    if metric == "pixels":
        return "grey levels"
    return "logits" if metric == "logits" else "fraction"


def sentence(attribution: Attribution) -> str:
    """Word an attribution as in ``Macro recall -2.0 pp: resize -1.9 pp, decode -0.1 pp``.

    Without shares it gives the reason.
    """
    name = LABELS[attribution.metric]
    if attribution.reason or attribution.total.value is None:
        return f"{name}: {attribution.reason or attribution.total.reason}"
    return f"{name} {amount(attribution.metric, attribution.total.value)}: {breakdown(attribution)}"


def breakdown(attribution: Attribution) -> str:
    """List the shares, greatest first: ``resize -1.9 pp, decode -0.1 pp, precision 0.0 pp``."""
    known = [(share.factor, share.effect.value or 0.0) for share in attribution.shares]
    known.sort(key=lambda each: -abs(each[1]))
    parts = [f"{factor} {amount(attribution.metric, value)}" for factor, value in known]
    between = attribution.interaction.value
    if attribution.method == "one-at-a-time" and between is not None:
        parts.append(f"interaction {amount(attribution.metric, between)}")
    return ", ".join(parts)


def amount(metric: Metric, value: float) -> str:
    """Write ``-1.9 pp``, ``0.53 grey levels`` or ``<0.1 pp``; the minus is a true one."""
    value = 0.0 if abs(value) < _ROUNDING else value
    if metric == "churn":  # a distance, unlike a difference, has no sign
        return f"{plain(100 * value, 1)} pp"
    unit = unit_of(metric)
    return f"{points(value, 1)} pp" if unit == "fraction" else f"{plain(value, 2)} {unit}"
