"""The next steps against a verdict, each with a command or the lines of YAML to change.

The first is what this run measured as a remedy: an advised configuration that kept its promise,
else the swap of the stage that causes the drift, else the training path that serves without one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from alignkit.judge.cause_words import (
    adds_nothing,
    attribution,
    drawn_words,
    fails_by_itself,
    is_cause,
    main_shares,
    mostly_lost,
    of_runtime,
    remaining,
    repairs,
    share_words,
    shown_size,
)
from alignkit.judge.headline import Headline
from alignkit.judge.matrix_words import compared_entries
from alignkit.judge.observe import differing, stage_to_blame
from alignkit.judge.standing_rules import NO_PIXELS_RULE, UNCHECKED
from alignkit.judge.verdict_words import settled_by
from alignkit.preprocess import STAGES
from alignkit.record import (
    Action,
    AttributionFacts,
    FactorShare,
    MatrixEntry,
    Measurements,
    RuleOutcome,
)
from alignkit.record.verdict_facts import BASELINE
from alignkit.text.names import Names
from alignkit.text.numbers import estimated, listed
from alignkit.text.part_commands import of_the_whole
from alignkit.text.task_words import TaskWords

_MOST = 2
"""Steps of a verdict."""
_REPAIRS = {
    NO_PIXELS_RULE: "Repair those files, or leave them out of the data: a pointer of Git LFS needs "
    "'git lfs pull'.",
    UNCHECKED: "Give each difference a rule: {preset: strict} is about every stage, and "
    "{metric: churn, fail: 0.02} about the answers of models.",
}
"""Standing rule → the step against what it found."""
_FINITE = "Repair the model first: find where its values stop being finite."
_FRESH = {"run": ("--fresh",)}
"""Command → its option that measures all again; a gate has none."""


def next_steps(
    found: Headline | None,
    record: Measurements,
    outcomes: Sequence[RuleOutcome],
    *,
    broken: bool,
    doubts: bool,
) -> tuple[Action, ...]:
    """Return the steps, the recommended first; ``broken`` and ``doubts`` are controls that fail."""
    entries = [found.entry] if found and found.entry else compared_entries(record)
    if not (broken or record.partial) and any(mostly_lost(e, record) for e in entries):
        return (Action(words=_FINITE),)
    return tuple(_steps(found, record, outcomes, broken=broken, doubts=doubts))[:_MOST]


def _steps(
    found: Headline | None,
    record: Measurements,
    outcomes: Sequence[RuleOutcome],
    *,
    broken: bool,
    doubts: bool,
) -> Iterator[Action]:
    if broken:
        yield Action(
            words="Use no number of it: repair that control, then measure all of it again.",
            command=_with(record, *_FRESH.get(_verb(record), ())),
        )
        return
    if record.partial:
        yield Action(words="Continue: finished work is kept.", command=record.command)
        return
    if record.quick:
        whole = [word for word in shlex.split(record.command) if word != "--quick"]
        yield Action(
            words="Measure the whole experiment: a quick look decides nothing.",
            command=shlex.join(whole),
        )
    if doubts:
        yield Action(words="Remove that doubt, then run it again.", command=record.command)
    elif found is None or found.state == "pass":
        yield from _keep(record, outcomes)
    elif found.first.not_run:
        yield Action(words="Install what is named above to measure it too.")
    elif words := _repair(found):
        command = record.command if found.state == "error" else ""
        yield Action(words=words, command=command)
    elif found.state == "inconclusive":
        yield from _more(found, record, outcomes)
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


def _keep(record: Measurements, outcomes: Sequence[RuleOutcome]) -> Iterator[Action]:
    if any(each.loose for each in outcomes):
        yield Action(words="Set that limit between what was measured and what those faults give.")
    elif record.quick:
        return
    elif _verb(record) != "run":
        yield Action(words="Nothing: run this gate again after each change.")
    else:
        words = "Nothing to change; let CI check it after each change."
        yield Action(words=words, command=_gate(record))


def _repair(found: Headline) -> str:
    """Say how to repair what a standing rule found, or what has no value; else empty."""
    if found.first.rule in _REPAIRS:
        return _REPAIRS[found.first.rule]
    if found.state != "error":
        return ""
    if found.first.trained_with == BASELINE:
        return "Record or approve those lines, then run the gate again."
    return "Remove the reason named above, then run it again: finished work is kept."


def _more(
    found: Headline, record: Measurements, outcomes: Sequence[RuleOutcome]
) -> Iterator[Action]:
    """Say how large a sample settles all undecided rules, where a number of images does."""
    undecided = [e for e in outcomes if e.state == "inconclusive" and not e.left_to_gate]
    if not undecided:
        yield Action(words="Let the gate judge it.", command=_gate(record))
        return
    most = max(undecided, key=lambda each: each.needed or 0)
    images = most.needed
    seeds = max((each.needed_seeds for each in undecided if each.needed_seeds), default=None)
    settled = settled_by(images, seeds, most.needed_of)
    if not settled:
        yield Action(words=f"No sample settles it: {found.first.observed}.")
        return
    few = sum(not (each.needed or each.needed_seeds) for each in undecided)
    settled_rules = len(undecided) - few
    # a line of one rule says how many images that one needs
    if images and settled_rules > 1:
        settled += f" all {settled_rules} undecided rules"
    rest = f" {few} of {len(undecided)} undecided rules need other limits." if few else ""
    own = record.data.options.get("eval") if record.data else None
    yield Action(
        words=f"Measure more: it {settled}.{rest}",
        command=_with(record, "--set", f"data.eval={images}")
        if images and isinstance(own, int)
        else "",
    )
    trained = any(each.seeds and not each.row.model for each in record.matrix)
    if seeds and trained:
        listed = ",".join(map(str, range(seeds)))
        command = _with(record, "--set", f"train.seeds=[{listed}]")
        yield Action(words=f"Train {seeds} seeds.", command=command)


def _of_models(entry: MatrixEntry, first: RuleOutcome, record: Measurements) -> Iterator[Action]:
    aligned = next((e for e in record.matrix if e.aligned and e.row == entry.row), None)
    if fails_by_itself(entry):
        yield Action(words=_FINITE)
    if of_runtime(entry):
        if aligned is not None:
            yield Action(
                words=f"Serve in {aligned.column.runtime}, the baseline of these models.",
                measured=aligned.ran,
            )
        return
    if entry.row == record.own_row:  # whose models the advice was checked with
        yield from _advised(entry, aligned, record)
    if found := attribution(entry, first.metric, record):
        yield from _swapped(entry, found, record)
    yield from _trained(entry, record)


def _advised(
    entry: MatrixEntry, aligned: MatrixEntry | None, record: Measurements
) -> Iterator[Action]:
    runtime = aligned.column.runtime if aligned else ""
    where = "" if runtime == entry.column.runtime else f" in {runtime}"
    for each in record.advice:
        if each.kept and each.served == entry.evaluated_with and each.drift:
            done = "Train" if each.change == "training" else "Serve"
            before, after = (
                "an unknown share" if churn.value is None else estimated(churn, 1, share=True)
                for churn in (each.drift[0].before, each.drift[0].confirmed)
            )
            changed = TaskWords(record.task).changed_share(after)
            yield Action(
                words=f"{done} with {each.label}: {changed} change instead of {before}{where}.",
                measured=True,
                yaml=each.yaml,
            )


def _swapped(entry: MatrixEntry, found: AttributionFacts, record: Measurements) -> Iterator[Action]:
    """Serve with the reference's stage that leaves least, if that is clearly less than there was.

    Where that is not known, with the stage of the largest share; where no stage repairs anything
    by itself, with all of them that change something.
    """
    chosen, remains = _repairing(found)
    stages = [stage for each in chosen for stage in each.factor.split("+")]
    if not stages or not {*stages} <= {*STAGES}:
        return
    metric = TaskWords(record.task).phrase(found.metric)
    short = Names(record.paths).short
    served, own = short(entry.evaluated_with), short(found.reference)
    words = f"Serve {served} with the {listed(stages)} of {own}" + " together" * (len(chosen) > 1)
    if remains is not None:
        fraction = found.unit == "fraction"
        little = "less than 0.1 pp" if fraction else "less than a hundredth"
        left = share_words(remains, found) if shown_size(remains, found) else little
        words += f": {left if remains else 'no change'} of {metric} remains{drawn_words(found)}"
    if len(chosen) > 1:
        words += "; none of them alone leaves clearly less"
    yield Action(
        words=f"{words}.",
        measured=remains is not None,
        command=_swap(entry.evaluated_with, found.reference, stages, record),
    )


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


def _trained(entry: MatrixEntry, record: Measurements) -> Iterator[Action]:
    """Name the models that were trained with the path that serves."""
    words = TaskWords(record.task)
    metric = words.headline
    for each in record.matrix:
        trained = each.row.is_only(entry.evaluated_with) and each.column == entry.column
        if trained and each.ran:
            then, now = each.metrics.get(metric), entry.metrics.get(metric)
            values = ""
            if then is not None and now is not None:
                if words.goodness(metric, then - now) < 0:
                    return  # the models would be worse than these are as served
                then_words, now_words = words.value(metric, then), words.value(metric, now)
                values = f": {words.phrase(metric)} {then_words} instead of {now_words}"
            short = Names(record.paths).short
            yield Action(
                words=f"Train with {short(entry.evaluated_with)}, as it serves{values}.",
                measured=True,
            )
            return


def _of_pixels(first: RuleOutcome, record: Measurements) -> Iterator[Action]:
    if first.trained_with == BASELINE:
        # the gate alone knows whether this machine may approve, and then names the command
        yield Action(words="Undo the change, or look at it and approve it if it is meant.")
        return
    stage, _, _ = first.metric.partition(".")
    stage = "decode" if stage == "coverage" else stage
    if first.cumulative:
        stage = stage_to_blame(record, first.evaluated_with, stage)
    short = Names(record.paths).short
    known = {each.name for each in record.paths}
    if stage in STAGES and {first.trained_with, first.evaluated_with} <= known:
        served, own = short(first.evaluated_with), short(first.trained_with)
        yield Action(
            words=f"Run {served} with the {stage} of {own}.",
            measured=False,
            command=_swap(first.evaluated_with, first.trained_with, [stage], record),
        )
