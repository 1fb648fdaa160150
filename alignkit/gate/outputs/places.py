"""How outputs name a rule's place and order outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.judge.words import settled_by
from alignkit.record import RuleOutcome
from alignkit.record.stored import WORST_FIRST


def place(outcome: RuleOutcome) -> str:
    """Name the place of an outcome.

    ``opencv against pillow``, ``trained with pillow, served with opencv in onnxruntime fp16``.
    """
    if not outcome.backend:
        return f"{outcome.evaluated_with} against {outcome.trained_with}"
    return (
        f"trained with {outcome.trained_with}, served with {outcome.evaluated_with} in "
        f"{outcome.backend} {outcome.precision}"
    )


def worst_first(outcomes: Sequence[RuleOutcome]) -> list[RuleOutcome]:
    """Sort by severity; within one, keep the file's order."""
    return sorted(outcomes, key=lambda each: WORST_FIRST.index(each.state))


def explained(outcome: RuleOutcome) -> str:
    """Join the observed value, the limit and, if known, the cause and the remedy."""
    parts = [f"{outcome.observed} ({outcome.limit})"]
    if outcome.cause:
        parts.append(outcome.cause)
    if settled := settled_by(outcome.needed, outcome.needed_seeds):
        parts.append(settled)
    if outcome.waived:
        parts.append(f"waived {outcome.waived}")
    return "; ".join(parts)
