"""Limits that hold nothing: those that the same images with a planted fault would keep, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from alignkit.experiment.rule_option import Rule

Faults: TypeAlias = Mapping[str, Mapping[str, float]]
"""Control → its `alignkit.record.Control.differences`."""


BLANK = "planted fault: with one even colour"
UNSCALED = "planted fault: with values of 0 to 1"
"""As a tensor that is not normalised. A limit must fail these two by themselves: the others change
no grey or symmetric image."""


def loose_limit(rule: Rule, faults: Faults) -> dict[str, float]:
    """Return the planted faults that a rule on pixels passes, if they are all or one of those two.

    The faults are at the end of a path; in grey levels a stage before may bear no more than that.
    """
    metric, limit = rule.measured, rule.warn if rule.fail is None else rule.fail
    if metric.kind != "pixel" or limit is None:
        return {}
    last = "normalise" if metric.stage == "normalise" else "colour"
    values = {name: each.get(f"{last}.{metric.field}") for name, each in faults.items()}
    known = {name: value for name, value in values.items() if value is not None}
    below = metric.worse == "below"
    kept = [name for name, value in known.items() if (limit <= value if below else limit >= value)]
    if not kept or (len(kept) < len(known) and not {BLANK, UNSCALED} & {*kept}):
        return {}
    return {name: known[name] for name in kept}
