"""How outputs name a rule's place and order outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.judge.words import settled_by
from alignkit.record import RuleOutcome, VerdictState

WORST_FIRST: tuple[VerdictState, ...] = ("error", "fail", "inconclusive", "warn", "pass")


def place(outcome: RuleOutcome) -> str:
    """``opencv against pillow``, ``pillow served with opencv, onnxruntime fp16``."""
    if not outcome.backend:
        return f"{outcome.evaluated_with} against {outcome.trained_with}"
    return (
        f"trained with {outcome.trained_with}, served with {outcome.evaluated_with} in "
        f"{outcome.backend} {outcome.precision}"
    )


def worst_first(outcomes: Sequence[RuleOutcome]) -> list[RuleOutcome]:
    """By severity; the file's order among equals."""
    return sorted(outcomes, key=lambda each: WORST_FIRST.index(each.state))


def explained(outcome: RuleOutcome) -> str:
    """What was observed, the limit, and what is known of why."""
    parts = [f"{outcome.observed} ({outcome.limit})"]
    if outcome.cause:
        parts.append(outcome.cause)
    if settled := settled_by(outcome.needed, outcome.needed_seeds):
        parts.append(settled)
    if outcome.waived:
        parts.append(f"waived {outcome.waived}")
    return "; ".join(parts)
