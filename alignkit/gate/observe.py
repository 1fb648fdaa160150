"""`Rule`, `Evidence` → `Observed`: what was measured of a rule's metric, wherever it applies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from alignkit.errors import ExitCode
from alignkit.gate.rule import Rule
from alignkit.record import (
    AttributionFacts,
    BaselineFacts,
    BaselineStage,
    CoverageDiff,
    GroupFacts,
    LatencyFacts,
    MatrixEntry,
    PixelStage,
)

BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run measured, as far as rules look at it."""

    matrix: Sequence[MatrixEntry] = ()
    pixels: Sequence[PixelStage] = ()
    coverage: Sequence[CoverageDiff] = ()
    baseline: BaselineFacts | None = None
    reference: str = ""
    """Name of the reference path."""
    candidates: Sequence[str] = ()
    """Names of the other paths."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Path → why it cannot run here."""
    labels: dict[tuple[str, str], str] = field(default_factory=dict)
    """(path, stage) → the stage's options in words."""
    attributions: Sequence[AttributionFacts] = ()
    groups: Sequence[GroupFacts] | None = None
    """``None`` where a run leaves subgroups to the gate."""
    latencies: Sequence[LatencyFacts] | None = None
    """``None`` where a run leaves timing to the gate."""

    def of(self, where: dict[str, str]) -> Evidence:
        """The evidence of a subgroup alone."""
        group = next(each for each in self.groups or () if each.where == where)
        return replace(
            self, matrix=group.matrix, pixels=group.pixels, coverage=group.coverage, groups=()
        )

    def images(self, where: dict[str, str]) -> int:
        """How many images a subgroup has."""
        return sum(each.images for each in self.groups or () if each.where == where)


@dataclass(frozen=True, slots=True)
class Observed:
    """One value a rule is held against, or why there is none."""

    trained_with: str
    """The reference path of a pixel metric, ``baseline``, or the row of the matrix."""
    evaluated_with: str
    backend: str = ""
    precision: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    """Images, each counted once."""
    seeds: int = 1
    images_error: float | None = None
    """Standard error of the value had other images been evaluated; ``None`` if not known."""
    seeds_error: float = 0.0
    """The same of other seeds."""
    at_least: float | None = None
    """A lower bound, where the value itself is not known."""
    different: str = ""
    """Why it fails whatever the limit is: the shapes are not the same."""
    perfect: bool = False
    """Nothing differs at all: PSNR is infinite and passes any limit."""
    cause: str = ""
    unchanged: bool = False
    """Not looked at, since nothing can have changed it."""
    reason: str = ""
    """Why there is no value."""
    missing: ExitCode = ExitCode.CRASHED
    """What the lack of a value means."""


def observe(rule: Rule, evidence: Evidence) -> list[Observed]:
    """Every place the rule applies to; never empty."""
    kind = rule.measured.kind
    if rule.group and evidence.groups:
        named = ", ".join(f"{kind} {value}" for kind, value in rule.group.items())
        if not evidence.images(rule.group):
            return [Observed(evidence.reference, rule.path or "any", reason=f"no image is {named}",
                             missing=ExitCode.NOTHING_COMPARED)]  # fmt: skip
        evidence = evidence.of(rule.group)
    if rule.against == "baseline":
        found = _against_baseline(rule, evidence)
    elif kind == "pixel":
        found = [_pixel(rule, evidence, path) for path in _candidates(rule, evidence)]
    elif kind == "latency":
        found = _latencies(rule, evidence)
    elif kind == "coverage":
        found = [_coverage(evidence, path) for path in _candidates(rule, evidence)]
    else:
        found = [
            _entry(rule, entry, evidence) for entry in evidence.matrix if _applies(rule, entry)
        ]
    nothing = Observed(
        evidence.reference,
        rule.path or "any",
        reason="the rule applies to nothing that was run",
        missing=ExitCode.NOTHING_COMPARED,
    )
    return found or [nothing]


def _candidates(rule: Rule, evidence: Evidence) -> list[str]:
    return [path for path in evidence.candidates if rule.path in (None, path)]


def _applies(rule: Rule, entry: MatrixEntry) -> bool:
    if rule.against == "reference" and entry.aligned:
        return False
    return (
        rule.path in (None, entry.evaluated_with)
        and rule.backend in (None, entry.backend)
        and rule.precision in (None, entry.precision)
    )


def _pixel(rule: Rule, evidence: Evidence, path: str) -> Observed:
    metric = rule.measured
    mode = rule.mode or ("cumulative" if metric.field == "ssim" else "isolated")
    for stage in evidence.pixels:
        if (stage.candidate, stage.stage, stage.mode) == (path, metric.stage, mode):
            return replace(
                _of_stage(metric.field, stage, evidence.reference, path),
                cause=_options(evidence, stage, path),
            )
    return _unmeasured(evidence, path)


def _options(evidence: Evidence, stage: PixelStage, path: str) -> str:
    """What the two sides do at a stage that differs."""
    sides = [evidence.labels.get((name, stage.stage), "") for name in (evidence.reference, path)]
    differs = stage.identical < stage.images or stage.shape_mismatches
    return f"{sides[0]} → {sides[1]}" if differs and sides[0] != sides[1] else ""


def _unmeasured(evidence: Evidence, path: str) -> Observed:
    reason = evidence.skipped.get(path) or evidence.skipped.get(evidence.reference)
    return Observed(
        evidence.reference,
        path,
        reason=reason or "was not compared",
        missing=ExitCode.MISSING if reason else ExitCode.CRASHED,
    )


def _of_stage(field: str, stage: PixelStage, reference: str, candidate: str) -> Observed:
    different = ""
    if stage.shape_mismatches:
        different = f"{stage.shape_mismatches} images have another shape"
    compared = stage.images + stage.shape_mismatches
    same = bool(compared) and stage.identical == compared
    value = _pixel_value(field, stage, compared)
    return Observed(
        reference,
        candidate,
        value=value,
        n=compared,
        different=different,
        perfect=same and field == "psnr",
        reason=stage.reason or "" if value is not None else stage.reason or "has no value",
        missing=ExitCode.NOTHING_COMPARED if not compared else ExitCode.CRASHED,
    )


def _pixel_value(field: str, stage: PixelStage, compared: int) -> float | None:
    if field == "changed":
        return 1 - stage.identical / compared if compared else None
    if field == "bias":
        return max((abs(each) for each in stage.bias), default=None) if stage.bias else None
    value: float | None = getattr(stage, field)
    return value


def _coverage(evidence: Evidence, path: str) -> Observed:
    for diff in evidence.coverage:
        if diff.candidate == path and diff.reference == evidence.reference:
            return _of_coverage(diff)
    return _unmeasured(evidence, path)


def _of_coverage(diff: CoverageDiff) -> Observed:
    parts = []
    if diff.only_reference:
        parts.append(f"{diff.only_reference} of {diff.images} only {diff.reference} decodes")
    if diff.only_candidate:
        parts.append(f"{diff.only_candidate} of {diff.images} only {diff.candidate} decodes")
    cause = "; ".join(parts) + (f": {', '.join(diff.examples[:3])}" if parts else "")
    return Observed(
        diff.reference,
        diff.candidate,
        value=(diff.only_reference + diff.only_candidate) / diff.images if diff.images else None,
        n=diff.images,
        cause=cause,
        reason="" if diff.images else "there are no images",
        missing=ExitCode.NOTHING_COMPARED,
    )


def _entry(rule: Rule, entry: MatrixEntry, evidence: Evidence) -> Observed:
    where = (entry.trained_with, entry.evaluated_with, entry.backend, entry.precision)
    if entry.drift is None:
        missing = ExitCode.MISSING if entry.state == "skipped" else ExitCode.CRASHED
        return Observed(*where, reason=entry.reason or "not measured", missing=missing)
    metric, drift, seeds = rule.measured, entry.drift, max(1, len(entry.seeds))
    if metric.field.startswith("logits."):
        value = getattr(drift.logits, metric.field.removeprefix("logits."))
        return Observed(*where, value=value, n=drift.n // seeds, reason=drift.logits.reason)
    if metric.kind == "class":
        chosen = [each for each in drift.classes if each.name == metric.of_class]
        if not chosen:
            known = ", ".join(each.name for each in drift.classes[:8])
            reason = f"there is no class {metric.of_class!r}; there are {known}"
            return Observed(*where, reason=reason, missing=ExitCode.USAGE)
        estimate, n = getattr(chosen[0], metric.field), chosen[0].support
    else:
        estimate = drift.churn if metric.field == "churn" else drift.metrics.get(metric.field)
        n = drift.n // seeds
    if estimate is None or estimate.value is None:
        reason = estimate.reason if estimate else "not measured"
        return Observed(*where, n=n, reason=reason, missing=ExitCode.NOTHING_COMPARED)
    share = 1.0
    if rule.relative:
        whole = _aligned_value(entry, metric.field, evidence)
        if not whole:
            return Observed(*where, n=n, reason="the reference's value is zero or unknown, so that "
                            "nothing is relative to it")  # fmt: skip
        share = 1 / whole
    errors = drift.errors.get(metric.field) if metric.kind != "class" else None
    return Observed(
        *where,
        value=estimate.value * share,
        low=None if estimate.low is None else estimate.low * share,
        high=None if estimate.high is None else estimate.high * share,
        n=n,
        seeds=seeds,
        images_error=errors.images * share if errors else None,
        seeds_error=errors.seeds * share if errors else 0.0,
    )


def _latencies(rule: Rule, evidence: Evidence) -> list[Observed]:
    part, _, which = rule.measured.field.partition(".")
    measured = [each for each in evidence.latencies or () if each.part == part]
    reference = next((each for each in measured if each.reference), None)
    return [
        _latency(rule, reference, each, which)
        for each in measured
        if not each.reference
        and rule.path in (None, each.path)
        and rule.backend in (None, each.backend)
        and rule.precision in (None, each.precision)
    ]


def _latency(
    rule: Rule, reference: LatencyFacts | None, each: LatencyFacts, which: str
) -> Observed:
    from alignkit.gate.latency import slowdown

    where = (_timed(reference) if reference else "", _timed(each), each.backend, each.precision)
    reason = each.reason or (reference.reason if reference else "the reference was not timed")
    if reason or reference is None:
        return Observed(*where, reason=reason, missing=ExitCode.MISSING)
    found = slowdown(reference, each, "p50" if which == "p50" else "p95", relative=rule.relative)
    sides = [
        f"{median(rounds):.3g} ms (least {min(rounds):.3g})"
        for rounds in (getattr(reference, which), getattr(each, which))
    ]
    cause = f"{' → '.join(sides)}, {len(each.p50)} rounds of {each.images} images"
    return Observed(*where, value=found.value, low=found.low, high=found.high, n=each.images,
                    cause=cause)  # fmt: skip


def _timed(facts: LatencyFacts) -> str:
    return facts.path or f"{facts.backend} {facts.precision}"


def _aligned_value(entry: MatrixEntry, metric: str, evidence: Evidence) -> float | None:
    for each in evidence.matrix:
        if each.aligned and each.trained_with == entry.trained_with:
            return each.metrics.get(metric)
    return None


def _against_baseline(rule: Rule, evidence: Evidence) -> list[Observed]:
    baseline, metric = evidence.baseline, rule.measured
    if baseline is None:
        return [Observed(BASELINE, rule.path or "any", reason="no baseline was read",
                         missing=ExitCode.BASELINE)]  # fmt: skip
    if metric.kind == "model":
        return [_since(rule, entry, baseline) for entry in evidence.matrix if _applies(rule, entry)]
    same = [path for path in baseline.unchanged if rule.path in (None, path)]
    found = [Observed(BASELINE, path, unchanged=True) for path in same]
    if metric.kind == "coverage":
        diffs = [diff for diff in baseline.coverage if rule.path in (None, diff.candidate)]
        return found + [_of_coverage(diff) for diff in diffs]
    return found + [
        _of_baseline_stage(metric.field, stage)
        for stage in baseline.stages
        if stage.stage == metric.stage and rule.path in (None, stage.path)
    ]


def _since(rule: Rule, entry: MatrixEntry, baseline: BaselineFacts) -> Observed:
    where = (entry.trained_with, entry.evaluated_with, entry.backend, entry.precision)
    before = baseline.metrics.get("|".join(where), {}).get(rule.measured.field)
    after = entry.metrics.get(rule.measured.field)
    if entry.state == "skipped":
        return Observed(*where, reason=entry.reason, missing=ExitCode.MISSING)
    if after is None:
        return Observed(*where, reason=entry.reason or "not measured")
    if before is None:
        return Observed(*where, reason="the baseline has no such entry", missing=ExitCode.BASELINE)
    if rule.relative and not before:
        return Observed(*where, reason="the baseline's value is zero")
    change = after - before
    return Observed(*where, value=change / before if rule.relative else change)


def _of_baseline_stage(field: str, stage: BaselineStage) -> Observed:
    begun = f"{stage.begun} images change here first: {stage.cause}" if stage.begun else ""
    if stage.changed and not stage.begun:
        begun = "all of it comes from an earlier stage"
    where = (BASELINE, stage.path)
    if not stage.images:
        return Observed(*where, reason="no image of the baseline was compared",
                        missing=ExitCode.BASELINE)  # fmt: skip
    if field == "changed":
        return Observed(*where, value=stage.changed / stage.images, n=stage.images, cause=begun)
    if stage.pixels is not None:
        seen = _of_stage(field, stage.pixels, *where)
        return Observed(
            *where, value=seen.value, n=stage.images, different=seen.different,
            perfect=seen.perfect, cause=begun, reason=seen.reason, missing=seen.missing,
        )  # fmt: skip
    return Observed(
        *where,
        n=stage.images,
        at_least=stage.at_least.get(field),
        cause=begun,
        reason=f"{stage.unmeasured} changed images have no golden tensor to measure {field} by; "
        "record some (alignkit baseline record --golden) or use 'changed'",
        missing=ExitCode.BASELINE,
    )
