"""`Rule`, `Measurements` → `Observed`: the values of a rule's metric, wherever the rule applies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from alignkit.errors import ExitCode
from alignkit.experiment.metric_option import RuleMetric
from alignkit.experiment.rule_option import Rule
from alignkit.judge.causes import change_of, differing
from alignkit.place import Column, Place, Row
from alignkit.preprocess import STAGES
from alignkit.record import (
    BaselineFacts,
    BaselineStage,
    CoverageDiff,
    Drift,
    Estimate,
    MatrixEntry,
    Measurements,
    PixelStage,
)
from alignkit.record.verdict_facts import BASELINE, Statement, stated
from alignkit.task_facts import over_classes

_DECODING = ("decode", "max_pixels")
"""The options by which a path decodes an image or not."""
_OF_FINITE = ("logits.", "cosine", "norm")
"""Beginnings of the metrics that leave out images whose outputs are not finite."""
_UNKNOWN = Estimate(None, None, None)


@dataclass(frozen=True, slots=True)
class Observed:
    """One value that a rule is compared with, or the reason why there is none."""

    place: Place
    """An entry of the matrix, or the two paths of a pixel metric, see `of_paths`."""
    found: Estimate = _UNKNOWN
    n: int = 0
    """Images, each counted once, or the groups of those that depend on each other."""
    grouped: bool = False
    """Whether ``n`` counts groups."""
    seeds: int = 1
    images_error: float | None = None
    """Standard error of the value over the choice of images; ``None`` if not known."""
    seeds_error: float = 0.0
    """Standard error over the choice of seeds."""
    unseen: float = 0.0
    """Change on either side by flips too rare to show in so few images; see
    `alignkit.compare.statistics.rule_of_three`."""
    beside: Statement | None = None
    """A finding beside the value, or instead of it: other shapes, no difference, a bound."""
    cause: tuple[Statement, ...] = ()
    idle: bool = False
    """Whether both sides run the same stages with the same options, so that nothing can differ."""
    missing: ExitCode = ExitCode.CRASHED
    """Exit code if there is no value."""


def of_paths(reference: str, candidate: str) -> Place:
    """Return the place of two paths whose pixels are compared: it has no runtime."""
    return Place(Row.parse(reference), Column(candidate, "", ""))


def observe(rule: Rule, record: Measurements) -> list[Observed]:
    """List the value of every place that the rule applies to.

    Empty only if a path repeats the reference: `standing_rules` judges that once for all rules.
    """
    if rule.group and record.groups:
        group = next(each for each in record.groups if each.where == rule.group)
        if not group.images:
            named = ", ".join(f"{kind} {value}" for kind, value in rule.group.items())
            return [_nothing(rule, record, f"no image is {named}")]
        # from here on, only the subgroup exists
        of_group = {"matrix": group.matrix, "pixels": group.pixels}
        record = record.model_copy(update=of_group | {"coverage_diffs": group.coverage})
    found = list(_observed(rule, record))
    if not found and record.repeats and rule.against != BASELINE:
        return []
    # without a value the outcome is an error: no rule may pass because nothing was compared
    return found or [_nothing(rule, record, "the rule applies to nothing that was run")]


def _observed(rule: Rule, record: Measurements) -> Iterator[Observed]:
    kind = rule.measured.kind
    approved = record.baseline if rule.against == BASELINE else None
    if rule.against == BASELINE and approved is None:
        place = of_paths(BASELINE, rule.path or "any")
        yield _without(place, "no baseline was read", ExitCode.BASELINE)
    elif kind in ("model", "class"):
        for entry in record.matrix:
            if applies(rule, entry, record):
                yield _since(rule, entry, approved) if approved else _of_entry(rule, entry, record)
    elif approved:
        yield from _since_approval(rule, record, approved)
    else:
        for path in record.candidates:
            if rule.path in (None, path):
                yield _coverage(record, path) if kind == "coverage" else _pixel(rule, record, path)


def _without(place: Place, reason: str, missing: ExitCode, n: int = 0) -> Observed:
    return Observed(place, Estimate(None, None, None, reason), n=n, missing=missing)


def _nothing(rule: Rule, record: Measurements, reason: str) -> Observed:
    place = of_paths(record.reference, rule.path or "any")
    return _without(place, reason, ExitCode.NOTHING_COMPARED)


def _uncompared(record: Measurements, path: str, reference: str) -> Observed:
    reason = record.skipped.get(path) or record.skipped.get(record.reference)
    missing = ExitCode.MISSING if reason else ExitCode.CRASHED
    return _without(of_paths(reference, path), reason or "was not compared", missing)


def _pixel(rule: Rule, record: Measurements, path: str) -> Observed:
    metric, mode = rule.measured, rule.measured_mode
    for stage in record.pixels:
        if (stage.candidate, stage.stage, stage.mode) == (path, metric.stage, mode):
            # options that differ and change no pixel are not a cause
            cause = change_of(record, path, stage.stage, mode) if stage.differs else ()
            seen = _of_stage(metric.field, stage, of_paths(record.reference, path))
            last = STAGES.index(stage.stage)
            ran = STAGES[0 if mode == "cumulative" else last : last + 1]
            return replace(seen, cause=cause, idle=_idle(record, path, ran))
    return _uncompared(record, path, record.reference)


def _idle(record: Measurements, path: str, stages: Sequence[str]) -> bool:
    """Return whether the reference runs these stages with the same options."""
    known = {each.name: each for each in record.paths}
    if path not in known or known[path].same:
        return False
    return not set(stages) & set(differing(known[record.reference], known[path]))


def _of_stage(field: str, stage: PixelStage, place: Place) -> Observed:
    compared = stage.images + stage.shape_mismatches
    value = _pixel_value(field, stage, compared)
    beside = None
    if stage.shape_mismatches:
        beside = stated("shapes", images=stage.shape_mismatches)
    elif stage.non_finite:
        beside = stated("not finite", values=stage.non_finite)
    elif field == "psnr" and stage.identical == compared > 0:
        beside = stated("identical")  # the ratio is infinite, and passes any limit
    elif field == "changed" and value:
        beside = stage_amount(stage)
    reason = stage.reason or ("" if value is not None else "has no value")
    missing = ExitCode.CRASHED if compared else ExitCode.NOTHING_COMPARED
    found = Estimate(value, None, None, reason)
    return Observed(place, found, n=compared, beside=beside, missing=missing)


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
            return replace(seen, idle=not seen.found.value and _idle(record, path, _DECODING))
    return _uncompared(record, path, record.reference)


def _of_coverage(diff: CoverageDiff) -> Observed:
    parts = [
        stated("one-sided", images=side.images, of=diff.images, by=side.by, names=side.examples[:3])
        for side in diff.one_sided
    ]
    if diff.gone:
        names = diff.gone_examples[:3]
        parts.insert(0, stated("gone", images=diff.gone, of=diff.images, names=names))
    value, reason = None, "there are no images"
    if diff.neither == diff.images > 0:
        reason = f"neither {diff.reference} nor {diff.candidate} decodes an image"
    elif diff.images:
        value, reason = (diff.gone + diff.only_reference + diff.only_candidate) / diff.images, ""
    return Observed(
        of_paths(diff.reference, diff.candidate),
        Estimate(value, None, None, reason),
        n=diff.images,
        cause=tuple(parts),
        missing=ExitCode.NOTHING_COMPARED,
    )


def _since_approval(
    rule: Rule, record: Measurements, baseline: BaselineFacts
) -> Iterator[Observed]:
    metric = rule.measured
    # nothing can have changed these, so that there is nothing to measure, and nothing could fail
    early = [
        path
        for path, begin in baseline.begins.items()
        if metric.stage and STAGES.index(metric.stage) < STAGES.index(begin)
    ]
    seen = [
        Observed(of_paths(BASELINE, path), beside=stated("unchanged"))
        for path in (*baseline.unchanged, *early)
    ]
    seen += [_uncompared(record, path, BASELINE) for path in record.skipped]
    if metric.kind == "coverage":
        seen += map(_of_coverage, baseline.coverage)
    else:
        of_stage = [stage for stage in baseline.stages if stage.stage == metric.stage]
        seen += [_of_baseline_stage(metric.field, stage) for stage in of_stage]
    return (each for each in seen if rule.path in (None, each.place.column.preprocess))


def _of_baseline_stage(field: str, stage: BaselineStage) -> Observed:
    begun: tuple[Statement, ...] = ()
    if stage.begun:
        begun = (stated("here first", images=stage.begun, cause=stage.cause),)
    elif stage.changed:
        begun = (stated("earlier stage"),)
    place = of_paths(BASELINE, stage.path)
    if not stage.images:
        return _without(place, "no image of the baseline was compared", ExitCode.BASELINE)
    if field == "changed":
        seen = Observed(place, Estimate(stage.changed / stage.images, None, None))
    elif stage.pixels is not None:
        seen = _of_stage(field, stage.pixels, place)
    else:
        reason = (
            f"{stage.unmeasured} changed images have no golden tensor to measure {field} by; "
            "record some (alignkit baseline record --golden) or use 'changed'"
        )
        least = stage.at_least.get(field)
        bound = None if least is None else stated("at least", value=least)
        seen = replace(_without(place, reason, ExitCode.BASELINE), beside=bound)
    return replace(seen, n=stage.images, cause=begun)


def applies(rule: Rule, entry: MatrixEntry, record: Measurements) -> bool:
    """Return whether a rule applies to an entry of the matrix; no rule does to an unsuited one."""
    if entry.unsuited or (rule.against == "reference" and _is_aligned(entry, record)):
        return False
    return rule.covers(entry.place)


def _is_aligned(entry: MatrixEntry, record: Measurements) -> bool:
    """Return whether it is its row's aligned cell, perhaps under another name of the path.

    That cell has no drift from itself.
    """
    aligned = record.aligned(entry.row)
    if entry.aligned or aligned is None:
        return entry.aligned
    of_path = record.alike(aligned.evaluated_with, entry.evaluated_with)
    return of_path and entry.column.runtime == aligned.column.runtime


def _since(rule: Rule, entry: MatrixEntry, baseline: BaselineFacts) -> Observed:
    """Compare an entry with the predictions that a baseline keeps of it."""
    key = entry.place.json_key
    paired = baseline.drifts.get(key)
    if not entry.ran:
        return _unmeasured(entry)
    if key not in baseline.metrics:
        return _without(entry.place, "the baseline has no such entry", ExitCode.BASELINE)
    if paired is None:
        reason = "the baseline keeps no predictions of this entry's seeds to pair with"
        return _without(entry.place, reason, ExitCode.BASELINE)
    observed = _of_drift(rule, paired.drift, len(paired.seeds), entry.place)
    return _relative(observed, rule, baseline.metrics[key])


def _of_entry(rule: Rule, entry: MatrixEntry, record: Measurements) -> Observed:
    """Compare an entry with the aligned one of its row."""
    if entry.drift is None:
        return _unmeasured(entry)
    observed = _of_drift(rule, entry.drift, max(1, len(entry.seeds)), entry.place)
    aligned = record.aligned(entry.row)
    observed = _relative(observed, rule, aligned.metrics if aligned else {})
    return replace(observed, cause=_below_floor(rule, entry, record))


def _below_floor(rule: Rule, entry: MatrixEntry, record: Measurements) -> tuple[Statement, ...]:
    """State that a limit of churn is less than two seeds of these models differ, if it is.

    Such a rule fails even for a path that changes no more than training again does.
    """
    limit, churn = rule.margin if rule.fail is None else rule.fail, entry.churn
    if rule.measured.field != "churn" or limit is None:
        return ()
    known = record.noise_floor
    floors = (e.churn for e in known if len(e.seeds) > 1 and Row.parse(e.preprocess) == entry.row)
    floor = next(floors, 0.0)
    return (stated("below floor", share=floor),) if limit < min(churn, floor) else ()


def _unmeasured(entry: MatrixEntry) -> Observed:
    missing = ExitCode.MISSING if entry.state in ("built", "skipped") else ExitCode.CRASHED
    return _without(entry.place, entry.reason or "not measured", missing)


def _of_drift(rule: Rule, drift: Drift, seeds: int, at: Place) -> Observed:
    """Return a metric's value from paired predictions."""
    metric, n = rule.measured, drift.n // seeds  # each image once, not once a seed
    lost = None
    if drift.non_finite_once and metric.field.startswith(_OF_FINITE):
        lost = stated("no answer", images=drift.non_finite_once)
    if metric.field.startswith("logits."):
        value = getattr(drift.logits, metric.field.removeprefix("logits."))
        return Observed(at, Estimate(value, None, None, drift.logits.reason), n=n, beside=lost)
    errors = None
    if metric.kind == "class":
        chosen = next((each for each in drift.classes if each.name == metric.of_class), None)
        if chosen is None:
            known = ", ".join(each.name for each in drift.classes[:8])
            reason = f"there is no class {metric.of_class!r}; there are {known}"
            return _without(at, reason, ExitCode.USAGE)
        own = {"recall": chosen.recall, "precision": chosen.precision, **chosen.others}
        estimate, n = own.get(metric.field), chosen.drawn
    else:
        estimate = {"churn": drift.churn, **drift.measures, **drift.metrics}.get(metric.field)
        n = n if drift.groups is None else drift.groups
        errors = drift.errors.get(metric.field)  # stored of whole metrics, not of single classes
    if estimate is None or estimate.value is None:
        reason = estimate.reason if estimate else "not measured"
        return _without(at, reason, ExitCode.NOTHING_COMPARED, n)
    return Observed(
        at,
        estimate,
        n=n,
        beside=lost,
        grouped=drift.groups is not None,
        seeds=seeds,
        images_error=errors.images if errors else None,
        seeds_error=errors.seeds if errors else 0.0,
        unseen=_unseen(metric, drift, n),
    )


def _unseen(metric: RuleMetric, drift: Drift, images: int) -> float:
    """Bound the change of a metric that none of ``images``, or of their groups, needs to show.

    A macro average moves most if its smallest class does. For precision, a class is assumed to be
    predicted as often as it occurs. 0 for what any image moves, by little.
    """
    from alignkit.compare.statistics import unseen_change

    if metric.continuous:
        return 0.0
    of_classes = drift.classes if over_classes(metric.field) else ()
    images = drift.defined_by.get(metric.field, images)
    return unseen_change(images, [each.drawn for each in of_classes])


def _relative(observed: Observed, rule: Rule, before: Mapping[str, float | None]) -> Observed:
    """Divide a change by the value before it, if the rule asks for that."""
    found = observed.found
    if not rule.relative or found.value is None:
        return observed
    whole = before.get(rule.measured.field)
    if not whole:
        reason = "the value before is zero or unknown, so that nothing is relative to it"
        return _without(observed.place, reason, ExitCode.CRASHED, observed.n)

    def share(amount: float | None) -> float | None:
        # a mean score may be below 0, and a drop of it is a drop all the same
        return None if amount is None else amount / abs(whole)

    # what may be unseen of a share is another part of the value, see ``unseen``
    reason = "" if found.low is not None else found.reason
    return replace(
        observed,
        found=Estimate(share(found.value), share(found.low), share(found.high), reason),
        images_error=share(observed.images_error),
        seeds_error=observed.seeds_error / abs(whole),
        unseen=observed.unseen / abs(whole),
    )
