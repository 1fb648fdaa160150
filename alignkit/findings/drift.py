"""`alignkit.compare.Drift` as the record holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from alignkit.compare import drift
from alignkit.record import ClassDrift, DriftFacts, ErrorFacts, Estimate, LogitDistance

if TYPE_CHECKING:
    from alignkit.compare import Drift
    from alignkit.compare.cell_pairs import CellPair
    from alignkit.compare.metrics import LogitDistance as Distance
    from alignkit.compare.predictions import Predictions


def drift_facts(
    reference: Sequence[Predictions], candidate: Sequence[Predictions], resamples: int
) -> DriftFacts:
    """`alignkit.compare.drift` as the record holds it."""
    found = drift(reference=reference, candidate=candidate, resamples=resamples)
    return DriftFacts(
        **change_facts(found),
        mcnemar_p=found.mcnemar_p,
        logits=logit_facts(found.logits),
        classes=tuple(ClassDrift.of(each) for each in found.classes),
        non_finite=found.logits.non_finite,
        errors={name: ErrorFacts.of(each) for name, each in found.errors.items()},
    )


def change_facts(found: Drift | CellPair) -> dict[str, Any]:
    """The fields of `alignkit.record.ChangeFacts`, which any two cells of a row have."""
    return {
        "n": found.n * found.seeds,
        "metrics": {name: Estimate.of(each) for name, each in found.metrics.items()},
        "churn": Estimate.of(found.churn),
        "right_to_wrong": found.flips.right_to_wrong,
        "wrong_to_right": found.flips.wrong_to_right,
        "wrong_to_wrong": found.flips.wrong_to_wrong,
        "detectable": found.detectable,
        "p_values": found.p_values,
    }


def logit_facts(found: Distance) -> LogitDistance:
    """`alignkit.compare.metrics.LogitDistance` as the record holds it."""
    return LogitDistance(
        max_abs=found.max_abs,
        mean_abs=found.mean_abs,
        cosine=found.cosine,
        reason=found.reason,
        p50=found.p50,
        p99=found.p99,
        p99_9=found.p99_9,
        compared=found.compared,
        inside={f"{tolerance:.0e}": count for tolerance, count in found.inside.items()},
        same_top={str(k): count for k, count in found.same_top.items()},
    )
