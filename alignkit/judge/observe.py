"""`Rule`, `Measurements` → `Observed`: the values of a rule's metric, wherever the rule applies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from alignkit.errors import ExitCode
from alignkit.experiment.metric_option import RuleMetric
from alignkit.experiment.rule_option import Rule
from alignkit.judge.observe_model import Observed, applies, of_entry, since
from alignkit.preprocess import STAGES
from alignkit.record import (
    BaselineFacts,
    BaselineStage,
    CoverageDiff,
    Measurements,
    PathFacts,
    PixelStage,
)
from alignkit.record.verdict_facts import BASELINE, Statement, StatementKind, stated
from alignkit.text.stage_changes import stage_change

_DECODING = ("decode", "max_pixels")
"""The options by which a path decodes an image or not."""


def observe(rule: Rule, record: Measurements) -> list[Observed]:
    """List the value of every place that the rule applies to.

    Empty only if a path repeats the reference: `standing_rules` judges that once for all rules.
    """
    kind = rule.measured.kind
    if rule.group and record.groups:
        named = ", ".join(f"{kind} {value}" for kind, value in rule.group.items())
        group = next(each for each in record.groups if each.where == rule.group)
        if not group.images:
            return [_nothing(rule, record, f"no image is {named}")]
        # from here on, only the subgroup exists
        of_group = {"matrix": group.matrix, "pixels": group.pixels}
        record = record.model_copy(update=of_group | {"coverage_diffs": group.coverage})
    if rule.against == "baseline":
        found = _against_baseline(rule, record)
    elif kind == "pixel":
        found = [_pixel(rule, record, path) for path in _candidates(rule, record)]
    elif kind == "coverage":
        found = [_coverage(record, path) for path in _candidates(rule, record)]
    else:
        found = [
            of_entry(rule, entry, record) for entry in record.matrix if applies(rule, entry, record)
        ]
    if not found and record.repeats and rule.against != BASELINE:
        return []
    # without a value the outcome is an error: no rule may pass because nothing was compared
    return found or [_nothing(rule, record, "the rule applies to nothing that was run")]


def _nothing(rule: Rule, record: Measurements, reason: str) -> Observed:
    missing = ExitCode.NOTHING_COMPARED
    return Observed(record.reference, rule.path or "any", reason=reason, missing=missing)


def _candidates(rule: Rule, record: Measurements) -> list[str]:
    return [path for path in record.candidates if rule.path in (None, path)]


def _pixel(rule: Rule, record: Measurements, path: str) -> Observed:
    metric, mode = rule.measured, rule.measured_mode
    for stage in record.pixels:
        if (stage.candidate, stage.stage, stage.mode) == (path, metric.stage, mode):
            # options that differ and change no pixel are not a cause
            cause = _cause(record, path, stage.stage, mode) if stage.differs else ()
            seen = _of_stage(metric.field, stage, record.reference, path)
            begin = 0 if mode == "cumulative" else STAGES.index(metric.stage or STAGES[0])
            ran = STAGES[begin : STAGES.index(metric.stage or STAGES[0]) + 1]
            return replace(seen, cause=cause, idle=_idle(record, path, ran))
    return _unmeasured(record, path)


def _cause(record: Measurements, path: str, stage: str, mode: str) -> tuple[Statement, ...]:
    known = {each.name: each for each in record.paths}
    pair = [known[name] for name in (record.reference, path) if name in known]
    if len(pair) < 2:
        return ()
    begun = stage_to_blame(record, path, stage) if mode == "cumulative" else stage
    if not (change := stage_change(pair[0], pair[1], begun)):
        return ()
    kind: StatementKind = "change" if begun == stage else "earlier change"
    return (stated(kind, stage=begun, change=change),)


def stage_to_blame(record: Measurements, path: str, stage: str) -> str:
    """Name the stage that causes a cumulative difference.

    It is the one that differs most by itself, among the stages up to this one. Another shape counts
    as most.
    """
    sizes = {
        # the units of normalise, the last one, are no grey levels
        each.stage: (
            each.shape_mismatches,
            math.inf if each.stage == "normalise" and each.mean_abs else each.mean_abs or 0.0,
        )
        for each in record.pixels
        if (each.reference, each.candidate, each.mode) == (record.reference, path, "isolated")
        and each.stage in STAGES[: STAGES.index(stage) + 1]
    }
    return max(sizes, key=lambda each: sizes[each], default=stage)


def _idle(record: Measurements, path: str, stages: Sequence[str]) -> bool:
    """Return whether the reference runs these stages with the same options."""
    known = {each.name: each for each in record.paths}
    if path not in known or known[path].same:
        return False
    return not set(stages) & set(differing(known[record.reference], known[path]))


def differing(a: PathFacts, b: PathFacts) -> list[str]:
    """List the stages of two paths that differ in name or options, and the limit of pixels."""
    pairs = zip(a.stages, b.stages, strict=True)
    stages = [one.stage for one, other in pairs if one.options != other.options]
    return stages + ["max_pixels"] * (a.max_pixels != b.max_pixels)


def _unmeasured(record: Measurements, path: str) -> Observed:
    reason = record.skipped.get(path) or record.skipped.get(record.reference)
    return Observed(
        record.reference,
        path,
        reason=reason or "was not compared",
        missing=ExitCode.MISSING if reason else ExitCode.CRASHED,
    )


def _of_stage(field: str, stage: PixelStage, reference: str, candidate: str) -> Observed:
    different = None
    if stage.shape_mismatches:
        different = stated("shapes", images=stage.shape_mismatches)
    elif stage.non_finite:
        different = stated("not finite", values=stage.non_finite)
    compared = stage.images + stage.shape_mismatches
    value = _pixel_value(field, stage, compared)
    return Observed(
        reference,
        candidate,
        value=value,
        n=compared,
        different=different,
        amount=stage_amount(stage) if field == "changed" and value else None,
        perfect=field == "psnr" and stage.identical == compared > 0,
        reason=stage.reason or ("" if value is not None else "has no value"),
        missing=ExitCode.CRASHED if compared else ExitCode.NOTHING_COMPARED,
    )


def stage_amount(stage: PixelStage) -> Statement | None:
    """State the differences of a stage; a share of images does not say how far they differ."""
    if stage.mean_abs is None or stage.max_abs is None:
        return None
    unit = "normalised units" if stage.stage == "normalise" else "grey levels"
    return stated("amount", mean=stage.mean_abs, max=stage.max_abs, unit=unit)


def _pixel_value(field: str, stage: PixelStage, compared: int) -> float | None:
    if field == "changed":
        return 1 - stage.identical / compared if compared else None
    if field == "bias":
        # the channel that moved most
        return max((abs(each) for each in stage.bias), default=None) if stage.bias else None
    value: float | None = getattr(stage, field)
    return value


def _coverage(record: Measurements, path: str) -> Observed:
    for diff in record.coverage_diffs:
        if diff.candidate == path and diff.reference == record.reference:
            seen = _of_coverage(diff)
            return replace(seen, idle=not seen.value and _idle(record, path, _DECODING))
    return _unmeasured(record, path)


def _of_coverage(diff: CoverageDiff) -> Observed:
    parts = [
        stated("one-sided", images=side.images, of=diff.images, by=side.by, names=side.examples[:3])
        for side in diff.one_sided
    ]
    if diff.gone:
        names = diff.gone_examples[:3]
        parts.insert(0, stated("gone", images=diff.gone, of=diff.images, names=names))
    value, reason = None, "there are no images"
    if diff.images:
        value, reason = (diff.gone + diff.only_reference + diff.only_candidate) / diff.images, ""
    if diff.neither == diff.images > 0:
        value, reason = None, f"neither {diff.reference} nor {diff.candidate} decodes an image"
    return Observed(
        diff.reference,
        diff.candidate,
        value=value,
        n=diff.images,
        cause=tuple(parts),
        reason=reason,
        missing=ExitCode.NOTHING_COMPARED,
    )


def _against_baseline(rule: Rule, record: Measurements) -> list[Observed]:
    baseline, metric = record.baseline, rule.measured
    if baseline is None:
        reason, path = "no baseline was read", rule.path or "any"
        return [Observed(BASELINE, path, reason=reason, missing=ExitCode.BASELINE)]
    if metric.kind in ("model", "class"):
        entries = [entry for entry in record.matrix if applies(rule, entry, record)]
        return [since(rule, entry, baseline) for entry in entries]
    same = [path for path in _approved(metric, baseline) if rule.path in (None, path)]
    # nothing to measure, and nothing that could fail
    found = [Observed(BASELINE, path, unchanged=True) for path in same]
    found += [
        replace(_unmeasured(record, path), trained_with=BASELINE)
        for path in record.skipped
        if rule.path in (None, path)
    ]
    if metric.kind == "coverage":
        diffs = [diff for diff in baseline.coverage if rule.path in (None, diff.candidate)]
        return found + [_of_coverage(diff) for diff in diffs]
    return found + [
        _of_baseline_stage(metric.field, stage)
        for stage in baseline.stages
        if stage.stage == metric.stage and rule.path in (None, stage.path)
    ]


def _approved(metric: RuleMetric, baseline: BaselineFacts) -> list[str]:
    """List the paths whose stage was not compared, since nothing can have changed it."""
    early = [
        path
        for path, begin in baseline.begins.items()
        if metric.stage and STAGES.index(metric.stage) < STAGES.index(begin)
    ]
    return [*baseline.unchanged, *early]


def _of_baseline_stage(field: str, stage: BaselineStage) -> Observed:
    begun: tuple[Statement, ...] = ()
    if stage.begun:
        begun = (stated("here first", images=stage.begun, cause=stage.cause),)
    elif stage.changed:
        begun = (stated("earlier stage"),)
    where = (BASELINE, stage.path)
    if not stage.images:
        reason = "no image of the baseline was compared"
        return Observed(*where, reason=reason, missing=ExitCode.BASELINE)
    if field == "changed":
        return Observed(*where, value=stage.changed / stage.images, n=stage.images, cause=begun)
    if stage.pixels is not None:
        seen = _of_stage(field, stage.pixels, *where)
        return replace(seen, n=stage.images, cause=begun)
    return Observed(
        *where,
        n=stage.images,
        at_least=stage.at_least.get(field),
        cause=begun,
        reason=f"{stage.unmeasured} changed images have no golden tensor to measure {field} by; "
        "record some (alignkit baseline record --golden) or use 'changed'",
        missing=ExitCode.BASELINE,
    )
