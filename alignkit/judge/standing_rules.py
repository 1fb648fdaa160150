"""Rules that every gate has and no file writes: a pass rests on a comparison that was made.

A gate that compared nothing is an error, whatever its rules allow to be missing. Images without
pixels, differences without a rule and images that calibrate and are evaluated are warnings.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from alignkit.errors import ExitCode
from alignkit.experiment.gate_option import Gate
from alignkit.judge.differences import differences
from alignkit.judge.observe import differing
from alignkit.place import Place
from alignkit.record import Cell, Measurements, RuleOutcome, State, VerdictState
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
    found = [*_of_baseline(gate, record), *_of_repeated_paths(gate, record)]
    found += _of_cells(gate, record, {each.code for each in (*judged, *found)})
    found += _of_undecoded(gate, record, judged)
    found += _of_calibration(record)
    found += _of_all([*judged, *found], record)
    return found + list(_of_unchecked(gate, record, [*judged, *found]))


# A line is approved if any approval gave it its value, also an older one: approvals are written
# first, so that after a crash the newest may not be the one in effect.
def _of_baseline(gate: Gate, record: Measurements) -> Iterator[JudgedRule]:
    """Judge images without an approved line, and approved paths that the file no longer has."""
    baseline = record.baseline
    if baseline is None or not any(rule.against == BASELINE for rule in gate.rules or ()):
        return
    place = (BASELINE, "every path")
    if baseline.new:
        lacking = stated("no approved line", images=baseline.new)
        yield _judged("images", [lacking], place, ExitCode.BASELINE)
    names = [path.name for path in record.paths]
    if dropped := tuple(path for path in baseline.untapped if path not in names):
        yield _judged("paths", [stated("dropped", paths=dropped)], place, ExitCode.PASS)


# Two paths are the same if their stages and options are, and not if their pixels are: equal
# pixels of two implementations are the result that a gate is for.
def _of_repeated_paths(gate: Gate, record: Measurements) -> Iterator[JudgedRule]:
    """Judge the paths that repeat the reference, if any rule compares with it."""
    rules = gate.placed(with_model=bool(record.matrix), labelled=record.labelled, task=record.task)
    if all(rule.against == BASELINE for rule, _ in rules):
        return
    for name in record.repeats:
        observed = stated("repeated", path=name, reference=record.reference)
        place = (record.reference, name)
        yield _judged("comparison", [observed], place, ExitCode.NOTHING_COMPARED)


def _of_cells(
    gate: Gate, record: Measurements, known: Collection[ExitCode]
) -> Iterator[JudgedRule]:
    """Judge cells that failed or are missing, unless an outcome has their exit code already."""
    failed = [cell for cell in record.cells if cell.state == "failed"]
    # an unsuited cell lacks nothing; an engine that was built and not run lacks its predictions
    skipped = [
        cell for cell in record.cells if cell.state in ("built", "skipped") and not cell.unsuited
    ]
    missing = [cell for cell in skipped if not gate.allows(cell.reason)]
    compared = [entry for entry in record.matrix if not entry.aligned]
    ends: list[tuple[ExitCode, list[Statement]]] = []
    for code, cells in ((ExitCode.CRASHED, failed), (ExitCode.MISSING, missing)):
        by_state: dict[State, list[Cell]] = {}
        for cell in cells:
            by_state.setdefault(cell.state, []).append(cell)
        told = [
            stated(
                "cells",
                cells=len(same),
                of=len(record.cells),
                state=state_words(state),
                reason=same[0].reason,
            )
            for state, same in by_state.items()
        ]
        if told:
            ends.append((code, told))
    ran = [entry for entry in compared if entry.ran]
    idle = [e.drift.churn.reason for e in ran if e.drift and e.drift.churn.value is None]
    if record.matrix and not ran:
        ends.append((ExitCode.NOTHING_COMPARED, [stated("no cell")]))
    elif ran and len(idle) == len(ran):
        why = stated("no comparison", reason=idle[0] or "no change of an answer could show")
        ends.append((ExitCode.NOTHING_COMPARED, [why]))
    place = (record.reference, "any")
    for code, observed in ends:
        if code not in known:
            yield _judged("cells", observed, place, code)


class _Lost(NamedTuple):
    """Images that are in no comparison, and who does not decode them."""

    place: tuple[str, str]
    images: int
    of: int
    kind: StatementKind
    """Whether none of two paths decodes them, or not both, or one path."""
    by: tuple[str, ...]
    examples: tuple[str, ...]


def _of_undecoded(
    gate: Gate, record: Measurements, judged: Sequence[JudgedRule]
) -> Iterator[JudgedRule]:
    """Judge the images that were not compared: every other rule leaves them out.

    Those that one side alone decodes are left to a rule about coverage, if there is one.
    """
    covered = {
        (each.outcome.trained_with, each.outcome.evaluated_with)
        for each in judged
        if each.outcome.metric == "coverage"
    }
    for each in _undecoded(record, covered):
        allowed, share = _allowed(gate, *each.place), each.images / each.of
        observed = [
            stated(
                each.kind, images=each.images, of=each.of, by=each.by, names=each.examples[:3],
                allowed=allowed,
            )
        ]  # fmt: skip
        code = ExitCode.PASS
        if share > allowed:
            code = ExitCode.DRIFT
            observed.append(stated("allows", share=min(math.ceil(100 * share) / 100, 0.99)))
        yield _judged("coverage", observed, each.place, code, rule=NO_PIXELS_RULE)


def _undecoded(record: Measurements, covered: Collection[tuple[str, str]]) -> Iterator[_Lost]:
    """List each comparison that lost images, and each path that was compared with no other."""
    baseline = record.baseline.coverage if record.baseline else ()
    for each in (*record.coverage_diffs, *baseline):
        place = (each.reference, each.candidate)
        lost, names = each.neither, each.neither_examples
        both = place not in covered and bool(each.one_sided)
        if both:
            lost = each.images - each.decoded - each.gone
            names += tuple(name for side in each.one_sided for name in side.examples)
        if 0 < lost < each.images:  # of all of them, nothing was compared
            kind: StatementKind = "not by both" if both else "by neither"
            yield _Lost(place, lost, each.images, kind, place, names)
    pairs = {name for each in record.coverage_diffs for name in (each.reference, each.candidate)}
    for path in record.coverage:
        lost = path.failed + path.unsupported
        if path.split == "eval" and lost and path.preprocess not in pairs:
            names = tuple(each.id for each in path.examples if each.outcome != "corrupt")
            place, of = (path.preprocess, path.preprocess), lost + path.ok + path.corrupt
            yield _Lost(place, lost, of, "undecoded", place[:1], names)


def _allowed(gate: Gate, reference: str, path: str) -> float:
    """Return the share of images that no side has to decode."""
    own = [
        rule.fail
        for rule in gate.rules or ()
        if (rule.metric, rule.group, rule.against == BASELINE)
        == ("coverage", {}, reference == BASELINE)
        and rule.fail is not None
        and rule.path in (None, path)
    ]
    return min(own, default=_MOST_UNDECODED)


def _of_calibration(record: Measurements) -> Iterator[JudgedRule]:
    """Judge whether engines took their scales from the images that they are judged on."""
    data = record.data
    if data is not None and data.calibration_evaluated:
        observed = stated(
            "calibration", images=data.calibration, evaluated=data.calibration_evaluated
        )
        yield _judged(CALIBRATED, [observed], (record.reference, "any"), ExitCode.PASS)


def _of_unchecked(
    gate: Gate, record: Measurements, judged: Sequence[JudgedRule]
) -> Iterator[JudgedRule]:
    """Judge what differs where no rule looks: an error if they look only at what is equal."""
    if any(each.outcome.state == "error" for each in judged):
        return
    rules = [rule for rule, _ in gate.placed(
        with_model=bool(record.matrix), labelled=record.labelled, task=record.task
    )]  # fmt: skip
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
        yield _judged(UNCHECKED, unseen, place.names, code, rule=UNCHECKED)


def _of_all(judged: Sequence[JudgedRule], record: Measurements) -> Iterator[JudgedRule]:
    """Judge whether any outcome rests on a comparison, unless the gate does not pass anyway."""
    if any(each.compared or each.code not in _NO_FAULT for each in judged):
        return
    observed = stated("no candidate")
    passed = [each.outcome.evaluated_with for each in judged if each.outcome.state == "pass"]
    place = (record.reference, passed[0] if passed else "any")
    if passed:
        observed = stated("no rule")
        paths = {each.name: each for each in record.paths}
        reference = paths.get(record.reference)
        for name in passed:
            # a rule may be about no path, or about the reference alone
            if reference and name in paths and (stages := differing(reference, paths[name])):
                place = (record.reference, name)
                observed = stated("no rule where", path=name, stages=tuple(stages))
                break
    yield _judged("comparison", [observed], place, ExitCode.NOTHING_COMPARED)


def _judged(
    metric: str,
    observed: Sequence[Statement],
    place: Sequence[str],
    code: ExitCode,
    *,
    rule: str = "",
) -> JudgedRule:
    ends: dict[ExitCode, VerdictState] = {ExitCode.PASS: "warn", ExitCode.DRIFT: "fail"}
    against, path, *runtime = place
    backend, precision = runtime or ("", "")
    outcome = RuleOutcome(
        metric=metric,
        trained_with=against,
        evaluated_with=path,
        backend=backend,
        precision=precision,
        state=ends.get(code, "error"),
        observed=tuple(observed),
        rule=rule or (BASELINE if against == BASELINE else metric),
    )
    return JudgedRule(outcome, code)
