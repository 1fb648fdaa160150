"""Rules that every gate has and no file writes: a pass rests on a comparison that was made.

A gate that compared nothing is an error, whatever its rules allow to be missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from alignkit.errors import ExitCode
from alignkit.experiment.gate_option import Gate
from alignkit.judge.evidence import BASELINE, Evidence
from alignkit.judge.observe import differing
from alignkit.record import Cell, RuleOutcome, State, VerdictState
from alignkit.text.names import why_not

_NO_FAULT = (ExitCode.PASS, ExitCode.INCONCLUSIVE)
"""Codes that do not say that nothing was compared."""


@dataclass(frozen=True, slots=True)
class JudgedRule:
    """An outcome, and the exit code that it asks for."""

    outcome: RuleOutcome
    code: ExitCode
    compared: bool = False
    """Whether it compared two things that can differ, or a later gate will."""


def standing_outcomes(
    gate: Gate, evidence: Evidence, judged: Sequence[JudgedRule]
) -> list[JudgedRule]:
    """Judge a run by these rules, after ``judged``, the outcomes of the file's own."""
    found = [*_of_baseline(gate, evidence), *_of_repeated_paths(gate, evidence)]
    found += _of_cells(gate, evidence, {each.code for each in (*judged, *found)})
    return found + list(_of_all([*judged, *found], evidence))


def _of_baseline(gate: Gate, evidence: Evidence) -> Iterator[JudgedRule]:
    """Judge images without an approved line, and approved paths that the file no longer has."""
    baseline = evidence.baseline
    if baseline is None or not any(rule.against == BASELINE for rule in gate.rules or ()):
        return
    place = (BASELINE, "every path")
    if baseline.new:
        observed = (
            f"{baseline.new} without an approved line; add them: alignkit baseline record FILE"
        )
        limit = "every image must have an approved line"
        yield _judged("images", limit, observed, place, ExitCode.BASELINE)
    names = [path.name for path in evidence.paths]
    if dropped := [path for path in baseline.untapped if path not in names]:
        observed = f"{', '.join(dropped)} not in the file any more; their lines are kept"
        yield _judged("paths", "every approved path is looked at", observed, place, ExitCode.PASS)


def _of_repeated_paths(gate: Gate, evidence: Evidence) -> Iterator[JudgedRule]:
    """Judge the paths that repeat the reference, if any rule compares with it."""
    rules = gate.placed(
        with_model=bool(evidence.matrix), labelled=evidence.labelled, task=evidence.task
    )
    if all(rule.against == BASELINE for rule, _ in rules):
        return
    limit = "a candidate is another path than the reference"
    for name in evidence.repeats:
        observed = (
            f"nothing was compared: {name} has the stages and options of {evidence.reference}; "
            f"change one, or write 'same: true' in preprocess.{name} if that is meant"
        )
        place = (evidence.reference, name)
        yield _judged("comparison", limit, observed, place, ExitCode.NOTHING_COMPARED)


def _of_cells(gate: Gate, evidence: Evidence, known: Collection[ExitCode]) -> Iterator[JudgedRule]:
    """Judge cells that failed or are missing, unless an outcome has their exit code already."""
    failed = [cell for cell in evidence.cells if cell.state == "failed"]
    # an unsuited cell lacks nothing; an engine that was built and not run lacks its predictions
    skipped = [
        cell for cell in evidence.cells if cell.state in ("built", "skipped") and not cell.unsuited
    ]
    missing = [cell for cell in skipped if not gate.allows(cell.reason)]
    compared = [entry for entry in evidence.matrix if not entry.aligned]
    ends = []
    for code, cells in ((ExitCode.CRASHED, failed), (ExitCode.MISSING, missing)):
        by_state: dict[State, list[Cell]] = {}
        for cell in cells:
            by_state.setdefault(cell.state, []).append(cell)
        told = [
            f"{len(same)} of {len(evidence.cells)} cells {why_not(same[0])}"
            for same in by_state.values()
        ]
        if told:
            ends.append((code, "; ".join(told)))
    ran = [entry for entry in compared if entry.ran]
    idle = [e.drift.churn.reason for e in ran if e.drift and e.drift.churn.value is None]
    if evidence.matrix and not ran:
        ends.append((ExitCode.NOTHING_COMPARED, "no cell besides the references could run"))
    elif ran and len(idle) == len(ran):
        ends.append((ExitCode.NOTHING_COMPARED, idle[0] or "no change of an answer could show"))
    place = (evidence.reference, "any")
    for code, observed in ends:
        if code not in known:
            yield _judged("cells", "every cell ran", observed, place, code)


def _of_all(judged: Sequence[JudgedRule], evidence: Evidence) -> Iterator[JudgedRule]:
    """Judge whether any outcome rests on a comparison, unless the gate does not pass anyway."""
    if any(each.compared or each.code not in _NO_FAULT for each in judged):
        return
    observed = "no candidate can run here, and all may be missing; nothing was compared"
    passed = [each.outcome.evaluated_with for each in judged if each.outcome.state == "pass"]
    place = (evidence.reference, passed[0] if passed else "any")
    if passed:
        observed = (
            "no rule looks at a stage in which the paths differ, so that nothing was compared"
        )
        paths = {each.name: each for each in evidence.paths}
        reference = paths.get(evidence.reference)
        for name in passed:
            # a rule may be about no path, or about the reference alone
            if reference and name in paths and (stages := differing(reference, paths[name])):
                place = (evidence.reference, name)
                observed += f"; {name} differs in {', '.join(stages)}"
                break
    limit = "something is compared with something else"
    yield _judged("comparison", limit, observed, place, ExitCode.NOTHING_COMPARED)


def _judged(
    metric: str, limit: str, observed: str, place: tuple[str, str], code: ExitCode
) -> JudgedRule:
    state: VerdictState = "error" if code else "warn"
    against, path = place
    outcome = RuleOutcome(
        metric=metric,
        limit=limit,
        trained_with=against,
        evaluated_with=path,
        backend="",
        precision="",
        state=state,
        observed=observed,
        rule=BASELINE if against == BASELINE else metric,
    )
    return JudgedRule(outcome, code)
