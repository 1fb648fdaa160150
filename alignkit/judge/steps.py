"""The next steps against a verdict, each with a command or the lines of YAML to change.

The first is what this run measured as a remedy: an advised configuration that kept its promise,
else the swap of the stage that causes the drift, else the training path that serves without one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from alignkit.judge.causes import (
    attribution,
    differing,
    fails_by_itself,
    mostly_lost,
    of_runtime,
    stage_to_blame,
)
from alignkit.judge.headline import Headline
from alignkit.judge.standing_rules import NO_PIXELS_RULE, RECORDED
from alignkit.preprocess import STAGES
from alignkit.record import AttributionFacts, FactorShare, MatrixEntry, Measurements, RuleOutcome
from alignkit.record.verdict_facts import (
    BASELINE,
    UNCHECKED,
    NextStep,
    Statement,
    StatementKind,
    StatementValue,
)
from alignkit.text.part_commands import of_the_whole
from alignkit.text.shares import adds_nothing, is_cause, main_shares, remaining, repairs
from alignkit.text.task_words import TaskWords

_MOST = 2
"""Steps of a verdict."""
_REPAIRS: dict[str, StatementKind] = {
    NO_PIXELS_RULE: "repair files",
    UNCHECKED: "give rules",
    RECORDED: "record others",
}
"""Standing rule → the step against what it found."""


def next_steps(
    found: Headline | None,
    record: Measurements,
    outcomes: Sequence[RuleOutcome],
    *,
    broken: bool,
    doubts: bool,
) -> tuple[NextStep, ...]:
    """Return the steps, the recommended first; ``broken`` and ``doubts`` are controls that fail."""
    if broken:
        # a gate measures all again without an option
        again = ["--fresh"] if _verb(record) == "run" else []
        return (_step("repair control", _with(record, *again)),)
    if record.partial:
        return (_step("continue", record.command),)
    entries = [found.entry] if found and found.entry else record.compared
    if any(mostly_lost(each, record) for each in entries):
        return (_step("repair model"),)
    doubted = [_step("remove doubt", record.command)]
    steps = doubted if doubts else [*_against(found, record, outcomes)]
    whole = [word for word in shlex.split(record.command) if word != "--quick"]
    first = [_step("whole", shlex.join(whole))] if record.quick else []
    return (*first, *steps)[:_MOST]


def _step(
    kind: StatementKind,
    command: str = "",
    values: dict[str, StatementValue] | None = None,
    *,
    measured: bool | None = None,
    yaml: str = "",
) -> NextStep:
    what = Statement(kind, values or {})
    return NextStep(what=what, command=command, measured=measured, yaml=yaml)


def _against(
    found: Headline | None, record: Measurements, outcomes: Sequence[RuleOutcome]
) -> Iterator[NextStep]:
    """Choose by what the verdict speaks of."""
    if found is None or found.state == "pass":
        yield from _keep(record, outcomes)
    elif found.first.not_run:
        yield _step("install")
    elif found.first.rule in _REPAIRS or found.state == "error":
        approved = found.first.trained_with == BASELINE
        kind = _REPAIRS.get(found.first.rule, "record lines" if approved else "remove reason")
        yield _step(kind, record.command if found.state == "error" else "")
    elif found.state == "inconclusive":
        yield from _more(record, outcomes)
    elif found.entry is not None:
        yield from _of_models(found.entry, found.first, record)
    else:
        yield from _of_pixels(found.first, record)


def _with(record: Measurements, *words: str) -> str:
    return shlex.join([*shlex.split(record.command), *words]) if record.command else ""


def _verb(record: Measurements) -> str:
    return next(iter(shlex.split(record.command)[1:2]), "")


def _gate(record: Measurements) -> str:
    return shlex.join(["alignkit", "gate", *of_the_whole(shlex.split(record.command)[2:])])


def _keep(record: Measurements, outcomes: Sequence[RuleOutcome]) -> Iterator[NextStep]:
    if any(each.loose for each in outcomes):
        yield _step("tighten")
    elif record.quick:
        return
    elif _verb(record) != "run":
        yield _step("repeat gate")
    else:
        yield _step("let CI check", _gate(record))


def _more(record: Measurements, outcomes: Sequence[RuleOutcome]) -> Iterator[NextStep]:
    """Give the sample that settles all undecided rules, where a number of images does."""
    undecided = [e for e in outcomes if e.state == "inconclusive" and not e.left_to_gate]
    if not undecided:
        yield _step("let gate judge", _gate(record))
        return
    settled = [e.needed for e in undecided if e.needed and (e.needed.images or e.needed.seeds)]
    if not settled:
        yield _step("no sample")
        return
    # the largest number settles the others, too
    most = max(settled, key=lambda each: each.images or 0)
    images, seeds = most.images or 0, max(each.seeds or 0 for each in settled)
    counted = images and record.data and isinstance(record.data.options.get("eval"), int)
    command = _with(record, "--set", f"data.eval={images}") if counted else ""
    values: dict[str, StatementValue] = {
        "undecided": len(undecided), "settled": len(settled), "of": most.of,
    }  # fmt: skip
    # none is known: no number alone decides
    numbers = {"images": images, "seeds": seeds}
    values |= {name: number for name, number in numbers.items() if number}
    yield _step("measure more", command, values)
    if seeds and any(each.seeds and not each.row.model for each in record.matrix):
        listed = ",".join(map(str, range(seeds)))
        command = _with(record, "--set", f"train.seeds=[{listed}]")
        yield _step("train seeds", command, {"seeds": seeds})


def _of_models(entry: MatrixEntry, first: RuleOutcome, record: Measurements) -> Iterator[NextStep]:
    aligned = record.aligned(entry.row)
    if fails_by_itself(entry):
        yield _step("repair model")
    if of_runtime(entry):
        if aligned is not None:
            runtime = aligned.column.runtime
            yield _step("serve runtime", "", {"runtime": runtime}, measured=aligned.ran)
        return
    if entry.row == record.own_row:  # whose models the advice was checked with
        for each in record.advice:
            if each.kept and each.served == entry.evaluated_with and each.drift:
                advised: dict[str, StatementValue] = {"served": each.served, "change": each.change}
                yield _step("advised", "", advised, measured=True, yaml=each.yaml)
    if found := attribution(entry, first.metric, record):
        yield from _swapped(entry, found, record)
    yield from _trained(entry, record)


def _swapped(
    entry: MatrixEntry, found: AttributionFacts, record: Measurements
) -> Iterator[NextStep]:
    """Serve with the reference's stage that leaves least, if that is clearly less than there was.

    Where that is not known, with the stage of the largest share; where no stage repairs anything
    by itself, with all of them that change something.
    """
    chosen, remains = _repairing(found)
    stages = [stage for each in chosen for stage in each.factor.split("+")]
    if not stages or not {*stages} <= {*STAGES}:
        return
    values: dict[str, StatementValue] = {
        "stages": tuple(stages), "metric": found.metric,
    }  # fmt: skip
    if remains is not None:
        values["remains"] = remains
    kind: StatementKind = "swap all" if len(chosen) > 1 else "swap"
    command = _swap(entry.evaluated_with, found.reference, stages, record)
    yield _step(kind, command, values, measured=remains is not None)


def _repairing(found: AttributionFacts) -> tuple[list[FactorShare], float | None]:
    """Choose the factors to swap, and return what then remains; ``None`` if that is not known."""
    known = {each.factor: repairs(each, found) for each in found.shares}
    left = {each.factor: remaining(each, found) for each in found.shares}
    if good := [each for each in found.shares if known[each.factor] and _is_stage(each)]:
        best = min(good, key=lambda each: abs(left[each.factor] or 0.0))
        return [best], left[best.factor]
    first, _ = main_shares(found)
    if first is None:
        return [], None
    if known[first.factor] is None:
        return ([first] if is_cause(first, found) else []), None
    # the reference's own stages, all of them: nothing is left where no other factor differs
    moving = [each for each in found.shares if not adds_nothing(each, found)]
    if len(moving) < 2 or not all(map(_is_stage, moving)):
        return [], None
    return moving, 0.0 if len(moving) == len(found.shares) else None


def _is_stage(share: FactorShare) -> bool:
    return {*share.factor.split("+")} <= {*STAGES}


def _swap(served: str, reference: str, stages: Sequence[str], record: Measurements) -> str:
    """Return the command that serves a path with stages of the reference."""
    known = {each.name: each for each in record.paths}
    if not record.command or not known.keys() >= {reference, served}:
        return ""
    lines = {each.stage: each.yaml for each in known[reference].stages}
    if not all(lines.get(stage) for stage in stages):
        return ""
    values = [f"{stage}={lines[stage]}" for stage in stages]
    # a path that is now the reference under another name is refused unless that is meant
    if {*differing(known[reference], known[served])} <= {*stages}:
        values.append("same=true")
    sets = [("--set", f"preprocess.{served}.{value}") for value in values]
    return _with(record, *(word for pair in sets for word in pair))


def _trained(entry: MatrixEntry, record: Measurements) -> Iterator[NextStep]:
    """Name the models that were trained with the path that serves, unless they are worse."""
    words = TaskWords(record.task)
    metric = words.headline
    for each in record.matrix:
        trained = each.row.is_only(entry.evaluated_with) and each.column == entry.column
        if trained and each.ran:
            then, now = each.metrics.get(metric), entry.metrics.get(metric)
            values: dict[str, StatementValue] = {"path": entry.evaluated_with}
            if then is not None and now is not None:
                if words.goodness(metric, then - now) < 0:
                    return
                values |= {"metric": metric, "then": then, "now": now}
            yield _step("train served", "", values, measured=True)
            return


def _of_pixels(first: RuleOutcome, record: Measurements) -> Iterator[NextStep]:
    if first.trained_with == BASELINE:
        # the gate alone knows whether this machine may approve, and then names the command
        yield _step("undo")
        return
    stage = first.metric.partition(".")[0]
    stage = "decode" if stage == "coverage" else stage
    if first.cumulative:
        stage = stage_to_blame(record, first.evaluated_with, stage)
    served, own = first.evaluated_with, first.trained_with
    if stage in STAGES and {own, served} <= {each.name for each in record.paths}:
        command = _swap(served, own, [stage], record)
        values: dict[str, StatementValue] = {"served": served, "own": own, "stage": stage}
        yield _step("run with", command, values, measured=False)
