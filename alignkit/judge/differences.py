"""Differences that were measured, with the rules that look at them: stages, answers, classes.

A stage is looked at by rules about it, or about all up to it, and by rules about the answers of
models that are served along its path; answers by rules about models alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from alignkit.experiment.rule_option import Rule
from alignkit.judge.observe import applies, of_paths, stage_amount
from alignkit.place import Column, Place
from alignkit.preprocess import STAGES
from alignkit.record import MatrixEntry, Measurements, PixelStage
from alignkit.record.verdict_facts import BASELINE, Statement, StatementValue, stated

_ANSWERS = Rule(metric="churn", fail=0.0)
"""A rule about the answers of every place."""
_OF_MEAN = 0.5
"""Share of the mean absolute difference that a bias has to be, to limit most of it."""


class Differing(NamedTuple):
    """Something that was measured, and differs."""

    place: Place
    what: Statement
    rules: Sequence[Rule]
    """Those that look at it."""
    whole: bool
    """Whether they look at all of it."""


def differences(rules: Sequence[Rule], record: Measurements) -> list[Differing]:
    """List all that differs.

    Paths are compared with the reference only if some rule is against it.
    """
    paired = [rule for rule in rules if rule.against != BASELINE]
    since = [rule for rule in rules if rule.against == BASELINE]
    return [*_stages(paired, record), *_entries(paired, record), *_changes(since, record)]


def stages_that_differ(record: Measurements) -> list[PixelStage]:
    """List the stages in which a candidate differs from the reference on the same input."""
    candidates = record.candidates
    return [
        each
        for each in record.pixels
        if each.mode == "isolated" and each.reference == record.reference
        if each.candidate in candidates and each.differs
    ]


def stages_unshown(record: Measurements) -> dict[str, list[str]]:
    """Map each path whose pixels equal the reference's at every stage to those of other options."""
    options = {each.name: {e.stage: e.options for e in each.stages} for each in record.paths}
    differing = {each.candidate for each in stages_that_differ(record)}
    own, compared = record.reference, {e.candidate for e in record.pixels if e.images}
    found = {}
    for name in record.candidates:
        if name in compared - differing and {own, name} <= options.keys():
            other = options[name]
            if stages := [stage for stage, each in options[own].items() if each != other[stage]]:
                found[name] = stages
    return found


def _stages(rules: Sequence[Rule], record: Measurements) -> Iterator[Differing]:
    for stage in stages_that_differ(record) if rules else ():
        served = [each for each in record.matrix if each.evaluated_with == stage.candidate]
        looking = [
            rule
            for rule in rules
            if rule.path in (None, stage.candidate)
            and (
                _looks_at(rule, stage.stage)
                or (_of_answers(rule) and any(applies(rule, each, record) for each in served))
            )
        ]
        pair = stage.reference, stage.candidate
        place, images = of_paths(*pair), stage.images + stage.shape_mismatches
        amount = stage_amount(stage)
        values: dict[str, StatementValue] = {
            "part": "", "stage": stage.stage, "images": images - stage.identical, "of": images,
            **(amount.values if amount else {}),
        }  # fmt: skip
        of_pair = [each for each in record.pixels if (each.reference, each.candidate) == pair]
        seeing = [rule for rule in looking if not _is_blind(rule, of_pair, stage)]
        if looking and not seeing:
            names = dict.fromkeys(rule.measured.name for rule in looking)
            blind = stated("blind", **values, rules=tuple(names))
            yield Differing(place, blind, looking, whole=False)
        else:
            yield _seen(place, stated("differs", **values), seeing, record)


def _is_blind(rule: Rule, stages: Sequence[PixelStage], differing: PixelStage) -> bool:
    """Return whether a rule about pixels cannot show how one stage differs.

    A bias is near 0 where values differ in both directions, a percentile is 0 where few values
    differ, and a mean over all images is small where a few differ far.
    ``stages`` are those of the same paths. A rule about answers is never blind.
    """
    metric = rule.measured
    if metric.kind != "pixel":
        return False
    looked_at = metric.stage, rule.measured_mode
    seen = next((e for e in stages if (e.stage, e.mode) == looked_at), differing)
    if seen.shape_mismatches or seen.non_finite or not seen.mean_abs:
        return False  # such images fail any rule, and of equal ones there is nothing to see
    if metric.field == "bias":
        bias = max(map(abs, seen.bias), default=0.0) if seen.bias else 0.0
        return bias < _OF_MEAN * seen.mean_abs or _hides(rule, seen, bias)
    if metric.field == "p99":
        return not seen.p99
    return metric.field == "mean_abs" and _hides(rule, seen, seen.mean_abs)


def _hides(rule: Rule, seen: PixelStage, mean: float) -> bool:
    """Return whether a mean holds only since the images that are equal are averaged in."""
    limit = rule.warn if rule.fail is None else rule.fail
    of_differing = mean * seen.images / max(1, seen.images - seen.identical)
    return limit is not None and mean <= limit < of_differing


def _looks_at(rule: Rule, stage: str) -> bool:
    """Return whether a rule about pixels is about a stage, alone or with others."""
    if rule.measured.stage is None:
        return False
    last, own = STAGES.index(rule.measured.stage), STAGES.index(stage)
    return own <= last if rule.measured_mode == "cumulative" else own == last


def _of_answers(rule: Rule) -> bool:
    return rule.measured.kind in ("model", "class")


def _seen(
    place: Place, what: Statement, looking: Sequence[Rule], record: Measurements
) -> Differing:
    """Decide whether rules look at all images; a run leaves those about some to the gate."""
    groups = {tuple(rule.group.items()): rule.group for rule in looking}
    whole = () in groups or (bool(looking) and record.groups is None)
    if not whole and len({tuple(each) for each in groups.values()}) == 1 and record.data:
        # groups of one kind have no image in common
        whole = (
            sum(e.images for e in record.groups or () if e.where in groups.values())
            >= record.data.eval
        )
    if looking:
        what = replace(what, values={**what.values, "part": "all of "})
    return Differing(place, what, looking, whole)


def _entries(rules: Sequence[Rule], record: Measurements) -> Iterator[Differing]:
    """List each column whose answers differ, once.

    If all its rules are about classes, name the changed classes without a rule.
    """
    worst: dict[Column, tuple[MatrixEntry, Differing]] = {}
    for entry in record.compared if rules else ():
        if not entry.changes or not applies(_ANSWERS, entry, record):
            continue
        looking = [each for each in rules if _of_answers(each) and applies(each, entry, record)]
        words = stated("answers", part="", share=entry.churn)
        seen = _seen(entry.place, words, looking, record)
        if looking and all(each.measured.kind == "class" for each in looking):
            seen = _of_classes(entry, seen)
        before = worst.get(entry.column)
        if before is None or (before[1].whole, entry.churn) > (seen.whole, before[0].churn):
            worst[entry.column] = entry, seen
    return (seen for _, seen in worst.values())


def _of_classes(entry: MatrixEntry, seen: Differing) -> Differing:
    """Name the class that changes most of those that no rule is about."""
    assert entry.drift is not None
    changed = {
        each.name: max(
            abs(change.value or 0.0)
            for change in (each.recall, each.precision, *each.others.values())
        )
        for each in entry.drift.classes
    }
    named = {rule.measured.of_class for rule in seen.rules}
    others = {name: size for name, size in changed.items() if size and name not in named}
    if not others:
        return seen
    name = min(others, key=lambda each: (-others[each], each))
    words = stated("class", name=name, share=others[name], more=len(others) - 1)
    own = [rule for rule in seen.rules if changed.get(rule.measured.of_class or "")]
    return Differing(seen.place, words, own, whole=False)


def _changes(rules: Sequence[Rule], record: Measurements) -> Iterator[Differing]:
    """List the stages that changed since they were approved."""
    baseline = record.baseline
    for stage in baseline.stages if rules and baseline else ():
        looking = [
            rule
            for rule in rules
            if rule.path in (None, stage.path)
            and (_looks_at(rule, stage.stage) or _of_answers(rule))
        ]
        if stage.begun:
            words = stated(
                "since approval", part="", stage=stage.stage, images=stage.begun, of=stage.images
            )
            yield _seen(of_paths(BASELINE, stage.path), words, looking, record)
