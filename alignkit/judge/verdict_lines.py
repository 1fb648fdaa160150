"""A verdict in three lines: the rule that decides it, the cause, and the next step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from alignkit.judge.action_words import next_steps
from alignkit.judge.cause_words import cause_words, of_runtime, stage_words
from alignkit.judge.differences import stages_that_differ, stages_unshown
from alignkit.judge.headline import Headline, headline, headline_of
from alignkit.judge.matrix_words import (
    NOTHING_MOVED,
    compared_entries,
    effect_words,
    lost_words,
    nothing_changed,
)
from alignkit.judge.measured_models import measured_part
from alignkit.judge.standing_rules import CALIBRATED, NO_PIXELS_RULE, UNCHECKED
from alignkit.judge.verdict_words import NOT_LOOKED_AT, NOTHING_CHANGED, replaced
from alignkit.record import Action, Control, Drift, Measurements, RuleOutcome, VerdictState
from alignkit.record.verdict_facts import BASELINE
from alignkit.text.class_words import far_stronger_class
from alignkit.text.names import QUICK_LOOK, Names, place_in_words
from alignkit.text.numbers import copies_words, estimated, listed, shorten
from alignkit.text.stage_changes import unshown
from alignkit.text.task_words import TaskWords, capital

_SHOWN = 3
"""Rules of one place that the sentence names."""


class VerdictLines(NamedTuple):
    """The three lines."""

    sentence: str
    cause: str
    actions: tuple[Action, ...]


def verdict_lines(
    outcomes: Sequence[RuleOutcome],
    broken: Sequence[Control],
    doubts: Sequence[Control],
    record: Measurements,
) -> VerdictLines:
    """Say which rule decided, why, and what to do; ``broken`` and ``doubts`` are of controls."""
    found = headline_of(outcomes, record)
    steps = next_steps(found, record, outcomes, broken=bool(broken), doubts=bool(doubts))
    if broken:
        return VerdictLines(_distrust(broken[0]), "", steps)
    said = _rules(found, outcomes, record)
    if doubts:
        rest = said.removeprefix(NOTHING_MOVED)
        said = f"No conclusion can be drawn: {doubts[0].observed}. {capital(rest)}"
    first = [lost] if (lost := _lost(found, record)) else []
    first += [QUICK_LOOK] * bool(record.quick)
    first += [part] if (part := measured_part(record.cells)) else []
    loose = dict.fromkeys(each.loose for each in outcomes if each.loose)
    first += [f"A limit that holds nothing: {'; '.join(loose)}"] * bool(loose)
    if first:  # and nothing is called aligned then
        said = f"{'. '.join(first)}. {capital(said.removeprefix(NOTHING_MOVED))}"
    besides = _beside(found, outcomes), _left_out(record, outcomes)
    sentence = " ".join((said, *chain(*besides)))
    return VerdictLines(sentence, _cause(found, record), steps)


def _lost(found: Headline | None, record: Measurements) -> str:
    """Name the outputs that are not finite: at the place that decides, else where most are."""
    own = found.entry if found else None
    if own is None or own.drift is None or not own.drift.non_finite:
        compared = compared_entries(record)
        own = max(compared, key=lambda e: e.drift.non_finite if e.drift else 0, default=None)
    if own is None or not (lost := lost_words(own, record)):
        return ""
    place = "" if found and own is found.entry else f": {place_in_words(own, Names(record.paths))}"
    return lost + place


def _distrust(control: Control) -> str:
    return (
        f"The measurement cannot be trusted: the control {control.name!r} expected "
        f"{control.expected} and observed {control.observed}."
    )


def _rules(found: Headline | None, outcomes: Sequence[RuleOutcome], record: Measurements) -> str:
    if found is None or found.state == "pass":
        return _passed(found, outcomes, record)
    said = _failed(found, outcomes, record)
    if found.state == "error" and (ran := headline(outcomes, "fail", record)):
        said += f" Of all that was measured: {_failed(ran, outcomes, record)}"
    return said


def _failed(found: Headline, outcomes: Sequence[RuleOutcome], record: Measurements) -> str:
    names, tally = Names(record.paths), _tally(found.state, outcomes)
    if found.state == "error":
        first = found.first
        return f"{tally}: {first.metric}, {_place(found, names)}: {first.observed}."
    briefs = [each.brief or f"{each.metric}: {each.observed}" for each in found.outcomes]
    more = f" and {len(briefs) - _SHOWN} more" if len(briefs) > _SHOWN else ""
    start = {"inconclusive": "Undecided: ", "warn": "Warned or waived: "}.get(found.state, "")
    # a rule that is left to the gate has no place yet
    place = "" if found.first.left_to_gate else f": {_place(found, names)}"
    said = capital(f"{start}{'; '.join(briefs[:_SHOWN])}{more}{place}.")
    words = TaskWords(record.task)
    if found.entry is not None and not record.labelled and found.entry.drift:
        said += f" {capital(effect_words(found.entry, words))}."
    if found.entry is not None and found.entry.drift:
        said += _hardest_hit(found.entry.drift, words)
    if found.elsewhere is not None:
        worse = found.elsewhere
        said += f" Worst of other models: {worse.brief}: {place_in_words(worse, names)}."
    return said


def _hardest_hit(drift: Drift, words: TaskWords) -> str:
    """Name the class that lost far more than the mean over classes; empty if there is none."""
    fact = far_stronger_class(drift, words)
    if fact is None or (fact.change.value or 0.0) > 0:
        return ""
    value = estimated(fact.change, 1, unit=" pp")
    among = f"largest of {fact.among} changes by class"
    return f" Hardest hit: class {fact.name}, {fact.label} {value} ({among})."


def _place(found: Headline, names: Names) -> str:
    """Name the place; not its runtime where that is the baseline's too."""
    words = place_in_words(found.first, names)
    if found.entry is None or of_runtime(found.entry) or not found.in_reference_runtime:
        return words
    return words.removesuffix(f" in {found.entry.column.runtime}")


def _tally(state: VerdictState, outcomes: Sequence[RuleOutcome]) -> str:
    number = sum(each.state == state for each in outcomes)
    return f"{number} of {len(outcomes)} checks could not be measured"


def _passed(found: Headline | None, outcomes: Sequence[RuleOutcome], record: Measurements) -> str:
    if record.matrix and not compared_entries(record):
        return "Nothing was compared: no cell besides the references could run."
    if none := nothing_changed(record):
        return f"{NOTHING_MOVED}{none}."
    held = [each for each in outcomes if each.observed != NOT_LOOKED_AT]
    if not held:
        return f"Nothing was looked at: all {len(outcomes)} checks stand as they were approved."
    if record.matrix and found is not None and found.first.brief:
        place = _place(found, Names(record.paths))
        near = f"nearest to its limit: {found.first.brief}: {place}"
        said = f"All {len(held)} checks hold; {near}."
        if not record.labelled and found.entry is not None and found.entry.drift:
            said += f" {capital(effect_words(found.entry, TaskWords(record.task)))}."
        return said
    return f"{NOTHING_MOVED}all {len(held)} checks hold: {_places(held, record)}."


def _places(held: Sequence[RuleOutcome], record: Measurements) -> str:
    names = Names(record.paths)
    # each place once, though it has many rules
    compared = list({each.place: each for each in held}.values())
    repeated = {path.name for path in record.paths if path.same}
    # a place in a runtime has a comma of its own
    pairs = ("; " if any(each.backend for each in compared[:4]) else ", ").join(
        f"{place_in_words(each, names)}"
        f"{' (the same on purpose)' * (each.evaluated_with in repeated)}"
        for each in compared[:4]
    )
    return pairs + (f" and {len(compared) - 4} more" if len(compared) > 4 else "")


def _cause(found: Headline | None, record: Measurements) -> str:
    if found is None or found.state == "error":
        return ""
    if found.entry is None:
        return stage_words(found.first)
    if not found.entry.churn:
        return ""
    metrics = [each.metric for each in found.outcomes if each.metric]
    return cause_words(found.entry, metrics[0] if metrics else "churn", record)


def _beside(found: Headline | None, outcomes: Sequence[RuleOutcome]) -> Iterator[str]:
    """Say the warnings that hold for every number, unless the verdict itself is one of them."""
    first = found.first if found else None
    for each in outcomes:
        standing = each.rule in (NO_PIXELS_RULE, UNCHECKED, CALIBRATED)
        if standing and each.state == "warn" and each is not first:
            yield f"{capital(each.observed)}."


def _left_out(record: Measurements, outcomes: Sequence[RuleOutcome]) -> Iterator[str]:
    """Say which paths did not run, which images are copies, and which values are others."""
    if outcomes and all(each.trained_with == BASELINE for each in outcomes):
        others: dict[str, list[str]] = {}
        for each in stages_that_differ(record):
            others.setdefault(each.candidate, []).append(each.stage)
        for path, stages in others.items():
            yield (
                f"Compared with the baseline alone: {path} differs from {record.reference} in "
                f"{listed(stages)}, and no rule looks at that."
            )
    for path, stages in stages_unshown(record).items():
        yield f"{capital(unshown(stages))}: {path} against {record.reference}."
    left_out = dict(record.skipped)
    if record.baseline is not None:
        left_out |= dict.fromkeys(record.baseline.unchanged, NOTHING_CHANGED)
        for path, begin in record.baseline.begins.items():
            left_out[f"{path} before {begin}"] = NOTHING_CHANGED
    if record.data is not None and (copies := len(record.data.copies)):
        said = copies_words(copies, record.data.eval)
        yield f"{said}; intervals and p-values draw the copies of an image together."
    if left_out:
        yield f"Not run: {'; '.join(f'{path}: {reason}' for path, reason in left_out.items())}."
    if sets := replaced(record.overrides):
        yield f"Not as in the file: {', '.join(f'--set {shorten(each, 120)}' for each in sets)}."
