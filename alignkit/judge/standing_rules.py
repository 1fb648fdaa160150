"""Rules that every gate has and no file writes: a pass rests on a comparison that was made.

A gate that compared nothing is an error, whatever its rules allow to be missing. Images without
pixels, differences without a rule and images that calibrate and are evaluated are warnings.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from alignkit.errors import ExitCode
from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.judge.causes import differing
from alignkit.judge.differences import differences
from alignkit.judge.observe import of_paths
from alignkit.place import Place
from alignkit.record import Measurements, RuleOutcome, State, VerdictState
from alignkit.record.verdict_facts import BASELINE, UNCHECKED, Statement, StatementKind, stated
from alignkit.text.names import state_words

_NO_FAULT = (ExitCode.PASS, ExitCode.INCONCLUSIVE)
"""Codes that do not say that nothing was compared."""
_MOST_UNDECODED = 0.05
"""Share of images that may be decoded by no side, unless a rule about coverage says another."""
NO_PIXELS_RULE = "decoded"
"""The rule that images are decoded by some side."""
RECORDED = "recorded"
"""The rule that a recorded stage has every image."""
CALIBRATED = "calibration"
"""The rule that no image that calibrates an engine is evaluated."""


@dataclass(frozen=True, slots=True)
class JudgedRule:
    """An outcome, and the exit code that it asks for."""

    outcome: RuleOutcome
    code: ExitCode
    compared: bool = False
    """Whether it compared two things that can differ, or a later gate will."""


def standing_outcomes(
    gate: Gate, record: Measurements, judged: Sequence[JudgedRule]
) -> list[JudgedRule]:
    """Judge a run by these rules, after ``judged``, the outcomes of the file's own."""
    rules = [rule for rule, _ in gate.placed(
        with_model=bool(record.matrix), labelled=record.labelled, task=record.task
    )]  # fmt: skip
    found = [*_of_baseline(gate, record), *_of_repeated_paths(rules, record)]
    found += _of_cells(gate, record, {each.code for each in (*judged, *found)})
    found += _of_undecoded(gate, record, judged)
    found += _of_calibration(record)
    found += _of_all([*judged, *found], record)
    return found + list(_of_unchecked(gate, rules, record, [*judged, *found]))


# A line is approved if any approval gave it its value, also an older one: approvals are written
# first, so that after a crash the newest may not be the one in effect.
def _of_baseline(gate: Gate, record: Measurements) -> Iterator[JudgedRule]:
    """Judge images without an approved line, and approved paths that the file no longer has."""
    baseline = record.baseline
    if baseline is None or not any(rule.against == BASELINE for rule in gate.rules or ()):
        return
    place = of_paths(BASELINE, "every path")
    if baseline.new:
        lacking = stated("no approved line", images=baseline.new)
        yield _judged("images", [lacking], place, ExitCode.BASELINE)
    names = [path.name for path in record.paths]
    if dropped := tuple(path for path in baseline.untapped if path not in names):
        yield _judged("paths", [stated("dropped", paths=dropped)], place, ExitCode.PASS)


# Two paths are the same if their stages and options are, and not if their pixels are: equal
# pixels of two implementations are the result that a gate is for.
def _of_repeated_paths(rules: Sequence[Rule], record: Measurements) -> Iterator[JudgedRule]:
    """Judge the paths that repeat the reference, if any rule compares with it."""
    if all(rule.against == BASELINE for rule in rules):
        return
    for name in record.repeats:
        observed = stated("repeated", path=name, reference=record.reference)
        place = of_paths(record.reference, name)
        yield _judged("comparison", [observed], place, ExitCode.NOTHING_COMPARED)


def _of_cells(
    gate: Gate, record: Measurements, known: Collection[ExitCode]
) -> Iterator[JudgedRule]:
    """Judge cells that failed or are missing, unless an outcome has their exit code already."""
    ends: dict[ExitCode, list[Statement]] = {}
    states: tuple[State, ...] = ("failed", "built", "skipped")
    for state in states:
        # an unsuited cell lacks nothing; an engine that was built and not run lacks its predictions
        same = [
            cell
            for cell in record.cells
            if cell.state == state
            and (state == "failed" or not (cell.unsuited or gate.allows(cell.reason)))
        ]
        if same:
            found = stated(
                "cells", cells=len(same), of=len(record.cells), state=state_words(state),
                reason=same[0].reason,
            )  # fmt: skip
            code = ExitCode.CRASHED if state == "failed" else ExitCode.MISSING
            ends.setdefault(code, []).append(found)
    ran = [entry for entry in record.matrix if entry.ran and not entry.aligned]
    idle = [e.drift.churn.reason for e in ran if e.drift and e.drift.churn.value is None]
    if record.matrix and not ran:
        ends[ExitCode.NOTHING_COMPARED] = [stated("no cell")]
    elif ran and len(idle) == len(ran):
        why = stated("no comparison", reason=idle[0] or "no change of an answer could show")
        ends[ExitCode.NOTHING_COMPARED] = [why]
    for code, observed in ends.items():
        if code not in known:
            yield _judged("cells", observed, of_paths(record.reference, "any"), code)


def _of_undecoded(
    gate: Gate, record: Measurements, judged: Sequence[JudgedRule]
) -> Iterator[JudgedRule]:
    """Judge the images that were not compared: every other rule leaves them out.

    Those that one side alone decodes are left to a rule about coverage, if there is one.
    """
    covered = {each.outcome.place for each in judged if each.outcome.metric == "coverage"}
    for place, lost in _undecoded(record, covered):
        allowed = _allowed(gate, place)
        share = lost.number("images") / lost.number("of")
        observed, code = [replace(lost, values={**lost.values, "allowed": allowed})], ExitCode.PASS
        if share > allowed:
            code = ExitCode.DRIFT
            observed.append(stated("allows", share=min(math.ceil(100 * share) / 100, 0.99)))
        yield _judged("coverage", observed, place, code, rule=NO_PIXELS_RULE)


def _undecoded(
    record: Measurements, covered: Collection[Place]
) -> Iterator[tuple[Place, Statement]]:
    """List each comparison that lost images, and each path that was compared with no other."""
    baseline = record.baseline.coverage if record.baseline else ()
    for each in (*record.coverage_diffs, *baseline):
        pair = (each.reference, each.candidate)
        place, lost, names = of_paths(*pair), each.neither, each.neither_examples
        kind: StatementKind = "by neither"
        if place not in covered and each.one_sided:
            kind, lost = "not by both", each.images - each.decoded - each.gone
            names += tuple(name for side in each.one_sided for name in side.examples)
        if 0 < lost < each.images:  # of all of them, nothing was compared
            yield place, stated(kind, images=lost, of=each.images, by=pair, names=names[:3])
    pairs = {name for each in record.coverage_diffs for name in (each.reference, each.candidate)}
    for path in record.coverage:
        name, lost = path.preprocess, path.failed + path.unsupported
        if path.split == "eval" and lost and name not in pairs:
            names = tuple(each.id for each in path.examples if each.outcome != "corrupt")
            of = lost + path.ok + path.corrupt
            lacking = stated("undecoded", images=lost, of=of, by=(name,), names=names[:3])
            yield of_paths(name, name), lacking


def _allowed(gate: Gate, place: Place) -> float:
    """Return the share of images that no side has to decode."""
    since = str(place.row) == BASELINE
    own = [
        rule.fail
        for rule in gate.rules or ()
        if (rule.metric, rule.group, rule.against == BASELINE) == ("coverage", {}, since)
        and rule.fail is not None
        and rule.path in (None, place.column.preprocess)
    ]
    return min(own, default=_MOST_UNDECODED)


def _of_calibration(record: Measurements) -> Iterator[JudgedRule]:
    """Judge whether engines took their scales from the images that they are judged on."""
    data = record.data
    if data is not None and data.calibration_evaluated:
        observed = stated(
            "calibration", images=data.calibration, evaluated=data.calibration_evaluated
        )
        place = of_paths(record.reference, "any")
        yield _judged(CALIBRATED, [observed], place, ExitCode.PASS)


def _of_unchecked(
    gate: Gate, rules: Sequence[Rule], record: Measurements, judged: Sequence[JudgedRule]
) -> Iterator[JudgedRule]:
    """Judge what differs where no rule looks: an error if they look only at what is equal."""
    if any(each.outcome.state == "error" for each in judged):
        return
    found = differences(rules, record)
    left: dict[Place, list[Statement]] = {}
    for each in found:
        if not each.whole:
            left.setdefault(each.place, []).append(each.what)
    # what is compared with something else, as with a baseline, is not what differs here
    kinds = {str(each.place.row) == BASELINE for each in found}
    elsewhere = (
        each.compared and (each.outcome.trained_with == BASELINE) not in kinds for each in judged
    )
    to_gate = (each.outcome.left_to_gate for each in judged)
    looked = bool(gate.taps) or any((*elsewhere, *to_gate, *(each.rules for each in found)))
    code = ExitCode.PASS if looked else ExitCode.NOTHING_COMPARED
    for place, unseen in left.items():
        yield _judged(UNCHECKED, unseen, place, code, rule=UNCHECKED)


def _of_all(judged: Sequence[JudgedRule], record: Measurements) -> Iterator[JudgedRule]:
    """Judge whether any outcome rests on a comparison, unless the gate does not pass anyway."""
    if any(each.compared or each.code not in _NO_FAULT for each in judged):
        return
    passed = [each.outcome.evaluated_with for each in judged if each.outcome.state == "pass"]
    paths = {each.name: each for each in record.paths}
    path, observed = next(iter(passed), "any"), stated("no rule" if passed else "no candidate")
    # a rule may be about no path, or about the reference alone
    for name in passed if record.reference in paths else ():
        if name in paths and (stages := differing(paths[record.reference], paths[name])):
            path, observed = name, stated("no rule", path=name, stages=tuple(stages))
            break
    place = of_paths(record.reference, path)
    yield _judged("comparison", [observed], place, ExitCode.NOTHING_COMPARED)


def _judged(
    metric: str, observed: Sequence[Statement], place: Place, code: ExitCode, *, rule: str = ""
) -> JudgedRule:
    ends: dict[ExitCode, VerdictState] = {ExitCode.PASS: "warn", ExitCode.DRIFT: "fail"}
    own = BASELINE if str(place.row) == BASELINE else metric
    outcome = RuleOutcome(
        **place.fields,
        metric=metric,
        state=ends.get(code, "error"),
        observed=tuple(observed),
        rule=rule or own,
    )
    return JudgedRule(outcome, code)
