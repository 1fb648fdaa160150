"""Rules, values and verdicts in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from alignkit.experiment.rule_option import Rule
from alignkit.judge.evidence import BASELINE, Evidence, Observed
from alignkit.judge.matrix_words import NOTHING_MOVED, matrix_sentence
from alignkit.judge.measured_models import measured_part
from alignkit.record import (
    Control,
    Estimate,
    RuleOutcome,
    VerdictState,
)
from alignkit.text.names import QUICK_LOOK, Names, place_in_words
from alignkit.text.numbers import (
    MINUS,
    estimated,
    grouped,
    plain,
    shorten,
    significant,
    written,
)

SEVERITY: tuple[VerdictState, ...] = ("error", "fail", "inconclusive", "warn", "pass")
NOTHING_CHANGED = "nothing of it changed since it was approved"
NOT_LOOKED_AT = f"not looked at: {NOTHING_CHANGED}"
_JUDGED = ("data", "evaluate", "gate", "models", "preprocess", "train")
"""Keys of a file that decide what is judged, and by which rules."""


def limits(rule: Rule) -> str:
    """Word a rule: ``macro recall within ±1 pp``, ``decode: mean absolute difference, fail …``."""
    metric = rule.measured
    unit = "share" if rule.relative else metric.unit
    side = {"below": "below", "above": "above"}[metric.worse]
    words = []
    if rule.margin is not None:
        sign = {"both": "±", "drop": MINUS, "rise": "+"}[rule.direction]
        words.append(f"within {sign}{_amount(rule.margin, unit)}")
    for name, limit in (("warn", rule.warn), ("fail", rule.fail)):
        if limit is not None:
            one_way = "" if rule.direction == "both" else f"{rule.direction} "
            words.append(f"{name} {one_way}{side} {_amount(limit, unit)}")
    relative = " of its value" if rule.relative else ""
    against = ", against the baseline" if rule.against == BASELINE else ""
    mode = " (cumulative)" if rule.mode == "cumulative" else ""
    where = "".join(f", {kind} {value}" for kind, value in (rule.where or {}).items())
    return f"{metric.words}{mode}{where}: {', '.join(words)}{relative}{against}"


def in_words(rule: Rule, seen: Observed, state: VerdictState) -> str:
    """Word a value with its interval, or the reason why there is none."""
    if seen.different or seen.perfect or seen.unchanged:
        return seen.different or ("identical" if seen.perfect else NOT_LOOKED_AT)
    if seen.value is None:
        bound = "" if seen.at_least is None else _amount(seen.at_least, rule.measured.unit)
        reason = seen.reason or "not measured"
        return f"at least {bound}; {reason}" if bound else reason
    metric = rule.measured
    unit = "share" if rule.relative else metric.unit
    if metric.kind == "latency":
        return _slower(seen, relative=rule.relative)
    if not metric.signed:
        value = ", ".join(filter(None, (_amount(seen.value, unit), seen.amount)))
    else:
        change = Estimate(seen.value, seen.low, seen.high)
        value = estimated(change, unit=" %" if rule.relative else " pp")
    return value + _unseen(rule, seen, state)


def _unseen(rule: Rule, seen: Observed, state: VerdictState) -> str:
    """Word the flips that so few images may not show; empty if they decide nothing."""
    # smaller than a tenth of the margin decides nothing, nor smaller than a limit
    decides = state == "inconclusive" and seen.unseen > (rule.fail or math.inf)
    if seen.unseen < (rule.margin or math.inf) / 10 and not decides:
        return ""
    size = f"{plain(100 * seen.unseen, 2)} {'%' if rule.relative else 'pp'}"
    # a rule that passed has counted them
    few = f"too few images to rule out ±{size} of flips not seen"
    return f"; {few}" if state == "inconclusive" else f"; flips not seen are less than ±{size}"


def settled_by(images: int | None, seeds: int | None) -> str:
    """Say which sample would settle an inconclusive outcome; empty if none is known."""
    if images is None and seeds is None:
        return ""
    if images is None:
        return f"about {seeds} seeds would settle it; more images alone would not"
    either = "" if seeds is None else f" or {seeds} seeds"
    return f"about {grouped(images)} images{either} would settle it"


def worst_first(outcomes: Sequence[RuleOutcome]) -> list[RuleOutcome]:
    """Order outcomes by severity; those of one state stay in the order of the file."""
    return sorted(outcomes, key=lambda each: SEVERITY.index(each.state))


def remark(outcome: RuleOutcome) -> str:
    """Return the cause, what would settle it and the waiver, as far as they are known."""
    waived = outcome.waived and f"waived {outcome.waived}"
    settled = settled_by(outcome.needed, outcome.needed_seeds)
    return "; ".join(filter(None, (outcome.cause, settled, waived)))


def explained(outcome: RuleOutcome) -> str:
    """Return what was observed, the limit, and what is known of why."""
    return "; ".join(filter(None, (f"{outcome.observed} ({outcome.limit})", remark(outcome))))


def _slower(seen: Observed, *, relative: bool) -> str:
    """Word a slowdown: ``+12 % [+9, +16]`` of the reference's time, or in milliseconds."""
    assert seen.value is not None
    assert seen.low is not None
    assert seen.high is not None
    scale, unit = (100, "%") if relative else (1, "ms")
    value, low, high = (written(scale * each, "+.3g") for each in (seen.value, seen.low, seen.high))
    return f"{value} {unit} [{low}, {high}]"


def _amount(value: float, unit: str) -> str:
    if unit == "share":
        return f"{significant(100 * value, 4)} %"
    if unit == "points":
        return f"{significant(100 * value, 4)} pp"
    return f"{significant(value, 4)} {unit}".rstrip()


def replaced(overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the ``--set`` arguments that change what is judged, or by which rules."""
    return tuple(each for each in overrides if re.split(r"[.=]", each, maxsplit=1)[0] in _JUDGED)


def sentence(
    outcomes: Sequence[RuleOutcome],
    broken: Sequence[Control],
    doubts: Sequence[Control],
    evidence: Evidence,
) -> str:
    """State effect, interval and cause in one sentence; then name paths not run, and ``--set``.

    A quick look and models that failed come first, and nothing is called aligned then.
    """
    said = _sentence(outcomes, broken, doubts, evidence)
    first = [QUICK_LOOK] * bool(evidence.quick)
    first += [part] if (part := measured_part(evidence.cells)) else []
    if not first:
        return said
    rest = said.removeprefix(NOTHING_MOVED)
    return f"{'. '.join(first)}. {rest[:1].upper()}{rest[1:]}"


def _sentence(
    outcomes: Sequence[RuleOutcome],
    broken: Sequence[Control],
    doubts: Sequence[Control],
    evidence: Evidence,
) -> str:
    if broken:
        return (
            f"The measurement cannot be trusted: the control {broken[0].name!r} expected "
            f"{broken[0].expected} and observed {broken[0].observed}."
        )
    of_pixels = not evidence.matrix or any(
        each.state in ("fail", "error") and not each.backend for each in outcomes
    )
    found = _open(outcomes)
    said = (
        _of_rules(outcomes, evidence)
        if of_pixels
        else matrix_sentence(evidence, found[1] if found else "")
    )
    if doubts:
        first = doubts[0]
        rest = said.removeprefix(NOTHING_MOVED)
        said = f"No conclusion can be drawn: {first.observed}. {rest[:1].upper()}{rest[1:]}"
    left_out = dict(evidence.skipped)
    if evidence.baseline is not None:
        left_out |= dict.fromkeys(evidence.baseline.unchanged, NOTHING_CHANGED)
        for path, begin in evidence.baseline.begins.items():
            left_out[f"{path} before {begin}"] = NOTHING_CHANGED
    skipped = "; ".join(f"{path}: {reason}" for path, reason in left_out.items())
    sets = ", ".join(f"--set {shorten(each, 120)}" for each in replaced(evidence.overrides))
    also = f"Not run: {skipped}." if skipped else "", f"Not as in the file: {sets}." if sets else ""
    return " ".join(filter(None, (said, *also)))


def _of_rules(outcomes: Sequence[RuleOutcome], evidence: Evidence) -> str:
    names = Names(evidence.paths)
    if found := _open(outcomes):
        first, tally = found
        cause = f"; {first.cause}" if first.cause else ""
        comma = "," * bool(first.column.runtime)
        return (
            f"{tally}; the first, {first.metric}{comma or ' of'} {place_in_words(first, names)}: "
            f"{first.observed} ({first.limit}){cause}."
        )
    held = [each for each in outcomes if each.observed != NOT_LOOKED_AT]
    if not held:
        return f"Nothing was looked at: all {len(outcomes)} checks stand as they were approved."
    # each place once, though it has many rules
    compared = list({each.place: each for each in held}.values())
    repeated = {path.name for path in evidence.paths if path.same}
    # a place in a runtime has a comma of its own
    pairs = ("; " if any(each.backend for each in compared[:4]) else ", ").join(
        f"{place_in_words(each, names)}"
        f"{' (the same on purpose)' * (each.evaluated_with in repeated)}"
        for each in compared[:4]
    )
    more = f" and {len(compared) - 4} more" if len(compared) > 4 else ""
    return f"{NOTHING_MOVED}all {len(held)} checks hold: {pairs}{more}."


def _open(outcomes: Sequence[RuleOutcome]) -> tuple[RuleOutcome, str] | None:
    """Return the first of the worst outcomes and their number in words; ``None`` if all pass."""
    for state, verb in (
        ("error", "could not be measured"), ("fail", "failed"),
        ("inconclusive", "are inconclusive"), ("warn", "warn or are waived"),
    ):  # fmt: skip
        if found := [each for each in outcomes if each.state == state]:
            return found[0], f"{len(found)} of {len(outcomes)} checks {verb}"
    return None


def first_undecided(outcomes: Sequence[RuleOutcome], names: Names) -> list[str]:
    """Return a line for the first inconclusive rule, with how many others there are, if any is."""
    undecided = [each for each in worst_first(outcomes) if each.state == "inconclusive"]
    if not undecided:
        return []
    first, *others = undecided
    more = f"; {len(others)} more are inconclusive" if others else ""
    place = place_in_words(first, names)
    return [f"inconclusive  {first.metric}: {place}: {explained(first)}{more}"]
