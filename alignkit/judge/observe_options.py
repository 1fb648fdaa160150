"""Values of rules about serving options under load, and about the headroom of a path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from alignkit.errors import ExitCode
from alignkit.experiment.rule_option import Rule
from alignkit.judge.evidence import Evidence, Observed
from alignkit.record.bench_facts import ServedLoad, ServingOption
from alignkit.record.tolerance_facts import MOST_CHECKED, PixelTolerance, SeedCurve
from alignkit.text.numbers import count, significant

if TYPE_CHECKING:
    from alignkit.compare.order_statistics import Percentile

_UNCHECKED = "line, not checked"
_LINES = (_UNCHECKED, "line, checked")


def of_options(rule: Rule, evidence: Evidence) -> list[Observed]:
    """Observe the speed of each option that the rule is about."""
    options = evidence.served or ()
    found = []
    for each in options:
        base = next((e for e in options if e.reference and e.row == each.row), None)
        if each.reference or not rule.covers(each.place):
            continue
        if base is None or _repeats(base, each, evidence):
            continue
        reason, missing = _untimed(each, base)
        if reason:
            found.append(Observed(*each.place.names, reason=reason, missing=missing))
        else:
            found.append(_speed(rule, each, base))
    return found


def _repeats(base: ServingOption, option: ServingOption, evidence: Evidence) -> bool:
    """Return whether an option is its reference under another name of the path."""
    same = base.column.runtime == option.column.runtime
    return same and evidence.alike(base.evaluated_with, option.evaluated_with)


def _untimed(option: ServingOption, base: ServingOption) -> tuple[str, ExitCode]:
    for each, subject in ((option, ""), (base, "the reference: ")):
        if each.state != "measured":
            missing = ExitCode.MISSING if each.state == "skipped" else ExitCode.CRASHED
            return f"{subject}{each.reason}", missing
    return "", ExitCode.PASS


def _speed(rule: Rule, option: ServingOption, base: ServingOption) -> Observed:
    """Observe the ratio of throughputs or TP99s, round by round."""
    at = option.place.names
    sides = [
        next((e for e in some.loads if e.clients == rule.load), None) for some in (base, option)
    ]
    before, after = sides
    if before is None or after is None:
        return Observed(*at, reason=f"it was not timed with {count(rule.load, 'client')}")
    field = rule.measured.field
    found = paired_ratio(field, before, after)
    unit = "requests/s" if field == "throughput" else "ms"
    values = [significant(median(_of_rounds(field, each))) for each in (before, after)]
    number = count(len(after.rounds), "round")
    rounds = f"{number} of {count(after.rounds[0].requests, 'request')}"
    cause = f"{' → '.join(values)} {unit}, {rounds}, {count(rule.load, 'client')}"
    cause += _slowest(before, after)
    unwatched = before.unwatched or after.unwatched
    if unwatched:
        cause += f"; not known whether the machine was busy: {unwatched}"
    few = [each.tp99_ms.reason for each in (before, after) if each.tp99_ms.value is None]
    busy = [each.contended for each in (before, after) if each.contended]
    doubt = few[0] if few and field == "tp99" else ""
    doubt = f"the machine was busy, which decides nothing: {busy[0]}" if busy else doubt
    if found.low is None:
        doubt = doubt or f"{number} are too few for an interval"
    return Observed(
        *at, value=found.value, low=found.low, high=found.high, n=after.requests, cause=cause,
        doubt=doubt,
    )  # fmt: skip


def paired_ratio(field: str, reference: ServedLoad, candidate: ServedLoad) -> Percentile:
    """Compute candidate over reference in ``throughput`` or ``tp99``: the median over rounds."""
    from alignkit.compare.order_statistics import percentile

    # paired, because the options take turns in a round and share its disturbances
    pairs = zip(_of_rounds(field, reference), _of_rounds(field, candidate), strict=True)
    return percentile([new / old for old, new in pairs], 50)


def _of_rounds(field: str, load: ServedLoad) -> list[float]:
    values = (each.throughput if field == "throughput" else each.tp99_ms for each in load.rounds)
    return [each for each in values if each is not None]


def _slowest(before: ServedLoad, after: ServedLoad) -> str:
    """Name the stage whose mean time changed most; empty if the sides have no stage in common."""
    both = before.stages_ms.keys() & after.stages_ms.keys()
    if not both:
        return ""
    stage = max(both, key=lambda each: abs(after.stages_ms[each] - before.stages_ms[each]))
    old, new = (significant(each.stages_ms[stage]) for each in (before, after))
    return f"; the mean of {stage} changed most, {old} → {new} ms"


def headrooms(rule: Rule, evidence: Evidence) -> list[Observed]:
    """Observe how much of its difference each path may have."""
    found = next((e for e in evidence.headrooms or () if e.budget == rule.bearable), None)
    if found is None:
        return []
    if found.reason:
        missing = ExitCode.NOTHING_COMPARED
        return [
            Observed(evidence.reference, rule.path or "any", reason=found.reason, missing=missing)
        ]
    return [
        _headroom(each, rule.bearable)
        for each in found.pixels
        if rule.path in (None, each.candidate)
        and not evidence.alike(each.reference, each.candidate)
    ]


def _headroom(path: PixelTolerance, budget: float) -> Observed:
    """Observe the least headroom of the seeds: bounds of 95 % on either side."""
    at = (path.trained_with, path.candidate, path.backend, path.precision)
    if not path.seeds:
        return Observed(*at, reason=path.reason, missing=ExitCode.NOTHING_COMPARED)
    low, high = headroom_bounds(path.seeds, budget)
    unchecked = [each.reason for each in path.seeds if each.source == _UNCHECKED]
    reasons = [each.limit.reason for each in path.seeds if each.limit.reason]
    said = [f"the network was run at 1 × alone: {each}" for each in unchecked[:1]]
    return Observed(
        *at, value=low, low=low, high=high, n=min(e.images for e in path.seeds),
        cause="; ".join([f"the curve is: {_sources(path.seeds)}", *said]),
        reason=(reasons or said or [""])[0],
    )  # fmt: skip


def headroom_bounds(seeds: Sequence[SeedCurve], budget: float) -> tuple[float | None, float | None]:
    """Return the multiple that is within the budget for every seed, and one that is not for some.

    Each at 95 % for all seeds together; ``None`` where none is shown.
    """
    lows = [low for each in seeds if (low := _least(each, budget)) is not None]
    highs = [high for each in seeds if (high := _exceeded(each, budget, len(seeds))) is not None]
    return min(lows) if len(lows) == len(seeds) else None, min(highs, default=None)


def _sources(seeds: Sequence[SeedCurve]) -> str:
    return ", ".join(dict.fromkeys(each.source for each in seeds))


def _least(curve: SeedCurve, budget: float) -> float | None:
    """Return the multiple that is shown to be within the budget, where networks were run."""
    from alignkit.compare.statistics import greatest_share

    value = curve.limit.value
    if value is None or value < 1:
        # a line that no network confirmed was measured at its ends alone
        return None if curve.source == _UNCHECKED else value
    # beyond the path a curve is continued, and a bend that the check misses would add to the
    # errors: only the network's own answers show more than 1
    last = next((each for each in curve.checks if each.factor == MOST_CHECKED), None)
    shown = last is not None and greatest_share(last.measured, last.images) <= budget
    return MOST_CHECKED if shown and value >= MOST_CHECKED else 1.0


def _exceeded(curve: SeedCurve, budget: float, seeds: int) -> float | None:
    """Return the least multiple of the curve's points that is shown to exceed the budget."""
    from alignkit.compare.statistics import exceeds

    first, last = (1.0, 1.0) if curve.source == _UNCHECKED else (0.0, MOST_CHECKED)
    points = [each for each in curve.points if first <= each.factor <= last]
    # one of several seeds is enough, and one of several points that need not rise in order; on a
    # line what changed stays changed, so that its points err together
    chances = seeds * (1 if curve.source in _LINES else max(1, len(points)))
    beyond = (e.factor for e in points if exceeds(e.changed, e.images, budget, chances))
    # the budget holds below it alone
    return math.nextafter(least, 0.0) if (least := min(beyond, default=None)) else None
