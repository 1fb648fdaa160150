"""Answers of which no change could show: none is finite, or every image has the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Labels
from alignkit.compare.bootstrap import drawn_units, mean_estimate
from alignkit.compare.statistics import rule_of_three, unseen_change
from alignkit.record import Drift, Estimate, LogitDistance
from alignkit.text.numbers import count, grouped, percent

if TYPE_CHECKING:
    from alignkit.compare.answers import Answers, AnyAnswers

NO_COMPARISON = "nothing was compared"
SEVERAL = 8
"""Number of images from which on one answer for all means that it tells nothing apart."""


def nothing_answered(pairs: Sequence[tuple[Answers, Answers]]) -> str:
    """Say why no pair of answers can show a change, by the first pair; empty if one pair can."""
    reasons = [_nothing(*pair) for pair in pairs]
    return f"{NO_COMPARISON}: {reasons[0]}" if all(reasons) else ""


def _nothing(before: AnyAnswers, after: AnyAnswers) -> str:
    if not (before.finite() | after.finite()).any():
        return "no image has finite outputs"
    if misread := before.misread(after):
        return misread
    reason = before.one_answer(after)
    # a task of another package may define a change otherwise
    return reason if reason and not before.changed(after).any() else ""


def not_finite(pairs: Sequence[tuple[Answers, Answers]]) -> int:
    """Count the images, over all pairs, with an output on either side that is not finite."""
    return sum(int((~(a.finite() & b.finite())).sum()) for a, b in pairs)


def finite_once(pairs: Sequence[tuple[AnyAnswers, AnyAnswers]]) -> tuple[int, int]:
    """Count the images whose outputs are finite on one side alone, and their changed answers."""
    lost = [(a.finite() != b.finite(), a, b) for a, b in pairs]
    found = [
        (int(each.sum()), int((each & a.changed(b)).sum())) for each, a, b in lost if each.any()
    ]
    return sum(once for once, _ in found), sum(changed for _, changed in found)


def nothing_compared(
    pairs: Sequence[tuple[Answers, Answers]], whole: Mapping[str, Any], reason: str
) -> Drift:
    """Describe answers that could show no change: no number is given, and why."""
    none = Estimate(None, None, None, reason)
    told = {
        "metrics": dict.fromkeys(whole["metrics"], none),
        "measures": dict.fromkeys(whole["measures"], none),
        "churn": none,
        "p_values": {},
        **dict.fromkeys(("right_to_wrong", "wrong_to_right", "wrong_to_wrong", "detectable")),
    }
    return Drift(
        **{**whole, **told},
        errors={},
        classes=(),
        mcnemar_p=None,
        logits=LogitDistance(None, None, None, reason),
        non_finite=not_finite(pairs),
    )


def none_moved(units: int, supports: Sequence[int] = ()) -> str:
    """Say which share may change although none of the images, or groups, does (95 %)."""
    share = percent(min(1.0, unseen_change(units, supports)))
    return f"none of {grouped(units)}; up to {share} unseen"


def changed_share(
    changed: npt.NDArray[np.bool_], groups: Labels | None, unit: str = "different image"
) -> Estimate:
    """Estimate the share of images, (n,), that changed; with the reason where there is no interval.

    ``groups`` are those that a draw takes whole, `alignkit.compare.bootstrap.joined_groups`; a
    ``unit`` is one of them in words.
    """
    if not len(changed):
        return Estimate(None, None, None, "no image has finite outputs on both paths")
    if changed.any() and not changed.all():
        return mean_estimate(changed.astype(np.float64), groups)
    # no resample holds what no image shows: its interval would be zero wide
    units = drawn_units(len(changed), groups)
    unseen = percent(min(1.0, rule_of_three(units)))
    of = f"{units}" if groups is None else count(units, unit)
    kept = " keep its answer and" * bool(changed.all())
    reason = f"a share of up to {unseen} may{kept} show in none of {of}"
    return Estimate(float(changed.all()), None, None, reason)
