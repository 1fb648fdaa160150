"""`assert_preprocess_aligned`: the gate as one call, for notebooks and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from alignkit.datasets.unlabelled_images import ImageSource, images_from
from alignkit.errors import ConfigError, MissingDependency, NothingCompared
from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule, beyond_normalised
from alignkit.experiment.yaml_argument import Stack, path_of
from alignkit.gate.named_checks import grouped_images, named_checks, worst_image
from alignkit.gate.result_comparison import (
    Function,
    compare_results,
    refuse_others,
    stage_of,
)
from alignkit.judge import judge, left_to_gate
from alignkit.preprocess import Preprocess, same_as
from alignkit.record import Measurements, Verdict
from alignkit.report.notebook import ShownVerdict
from alignkit.samples import Samples, copies_among
from alignkit.text.numbers import copies_sentence
from alignkit.text.outcome import said
from alignkit.text.statements import WORDS
from alignkit.text.verdict import verdict_words

RuleArgument: TypeAlias = str | Mapping[str, Any] | Rule
"""A rule of a gate: the name of a preset, a mapping as in an experiment file, or a `Rule`."""


class PreprocessDriftError(AssertionError):
    """Drift between two stacks that breaks a rule; ``verdict`` holds every check."""

    def __init__(self, verdict: ShownVerdict) -> None:
        failed = [each for each in verdict.rules if each.state in ("fail", "error", "inconclusive")]
        lines = [f"  {e.state} {e.metric}: {said(e, 'value')} ({said(e, 'rule')})" for e in failed]
        # the sentence has the first one word for word
        lines = lines if len(lines) > 1 else []
        told = verdict.sentence, *filter(None, [verdict.cause]), *lines, *verdict.notes
        super().__init__("\n".join(told))
        self.verdict = verdict


def assert_preprocess_aligned(
    reference: Stack | Function,
    candidate: Stack | Function,
    images: ImageSource,
    *,
    rules: Sequence[RuleArgument] = ("strict",),
    size: int | None = None,
) -> ShownVerdict:
    """Return the verdict; raise `PreprocessDriftError` unless every rule holds.

    A stack is a preset's name (of ``size`` pixels, by default 224), a mapping as under
    ``preprocess:`` in an experiment file, a `Preprocess`, or a function of a file's bytes, which is
    compared by its result alone: (h, w, 3) in 0..255, or (3, h, w) normalised. ``rules`` are those
    of a gate: names of presets or mappings, e.g. ``{"metric": "resize.max_abs", "fail": 2}``. A
    function's image counts as the stage ``colour`` and its tensor as ``normalise``; ``strict`` then
    requires that stage to be equal bit for bit. The verdict's sentence says which stages no rule
    checked and, where a function's result differs, why, if a channel order, normalisation or
    geometry explains most of it. Raises `ConfigError` for a rule that cannot be measured and
    `NothingCompared` if there is no image, or if both stacks are the same: a mapping says
    ``"same": True`` if that is meant.

    >>> one = {"decode": "pillow", "resize": {"name": "opencv", "size": 224}}
    >>> other = {**one, "decode": "opencv"}
    >>> assert_preprocess_aligned(one, other, "images/")  # doctest: +SKIP
    """
    __tracebackhide__ = True  # pytest then shows the call and the message, not this source
    samples = images_from(images)
    if not len(samples):
        raise NothingCompared("there are no images; nothing was compared")
    sides = _side(reference, "reference", size), _side(candidate, "candidate", size)
    repeated = _repeated(*sides)
    meant = isinstance(candidate, Mapping) and candidate.get("same") is True
    if meant and not repeated:
        raise ConfigError("candidate: same is not true: the reference has other stages or options")
    if repeated and not meant:
        raise NothingCompared(
            "both stacks have the same stages and options, so that nothing would be compared; "
            "if that is meant, give the candidate as a mapping with 'same': True"
        )
    a, b = sides
    if isinstance(a, Preprocess) and isinstance(b, Preprocess):
        verdict = _of_paths(a, b, samples, _gate(rules), same=meant)
    else:
        verdict = _of_results(a, b, samples, rules)
    if verdict.exit_code:
        raise PreprocessDriftError(verdict)
    return verdict


def _side(stack: Stack | Function, name: str, size: int | None) -> Preprocess | Function:
    if isinstance(stack, str | Mapping | Preprocess):
        return path_of(stack, name, size=size)
    if callable(stack):
        return stack
    raise ConfigError(
        f"{name}: {type(stack).__name__} is no stack; give a preset's name, a mapping of stages, a "
        "Preprocess, or a function of a file's bytes"
    )


def _repeated(a: Preprocess | Function, b: Preprocess | Function) -> bool:
    if isinstance(a, Preprocess) and isinstance(b, Preprocess):
        return bool(same_as((a, b)))
    return a is b


def _gate(rules: Sequence[RuleArgument]) -> Gate:
    listed = [rules] if isinstance(rules, str | Mapping | Rule) else rules
    options = [{"preset": rule} if isinstance(rule, str) else rule for rule in listed]
    try:
        gate = Gate.model_validate({"rules": options})
    except ValidationError as error:
        line = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in line["loc"])
        raise ConfigError(f"rules: {place}: {line['msg']}") from None
    # nothing would be measured for it, and an undecided rule raises no AssertionError
    for rule in gate.expanded:
        if left := left_to_gate(rule, Measurements()):
            raise ConfigError(f"rules: {WORDS[left]}; an assertion compares these images alone")
    return gate


def _require_libraries(*sides: Preprocess | Function) -> None:
    """Raise `MissingDependency` for a stack that cannot run here."""
    for side in sides:
        if isinstance(side, Preprocess) and (reason := side.missing()):
            raise MissingDependency(f"{side.name}: {reason}")


def _said(verdict: Verdict, record: Measurements, checked: str, *notes: str) -> ShownVerdict:
    """Say the verdict, which stages were checked, and notes."""
    shown = ShownVerdict.of(verdict, record)
    sentence = " ".join(filter(None, (shown.sentence, checked)))
    told = tuple(filter(None, notes))
    return replace(shown, said=replace(shown.said, sentence=sentence), notes=told)


def _of_paths(
    a: Preprocess, b: Preprocess, samples: Samples, gate: Gate, *, same: bool
) -> ShownVerdict:
    from alignkit.compare.compare_pixels import compare_preprocess, coverage_diff, pixel_stages
    from alignkit.controls.planted_faults import check_pixels
    from alignkit.findings.provenance import path_facts

    for rule in gate.expanded:
        if reason := beyond_normalised(rule, (a, b)):
            raise ConfigError(f"rules: {reason}")
    _require_libraries(a, b)
    diffs = compare_preprocess(a, b, samples)
    record = Measurements(
        pixels=pixel_stages(diffs),
        coverage_diffs=(coverage_diff(diffs),),
        paths=(path_facts(a), path_facts(b).model_copy(update={"same": same})),
    )
    verdict = judge(gate, record, controls=check_pixels(a, samples))
    worst = worst_image(a, b, samples, diffs) if verdict.exit_code else ""
    copied = copies_sentence(len(copies_among(samples.ids, diffs.digests)), len(samples))
    checked = named_checks(gate, verdict, a, b), grouped_images(diffs), copied
    return _said(verdict, record, " ".join(filter(None, checked)), worst)


def _of_results(
    a: Preprocess | Function,
    b: Preprocess | Function,
    samples: Samples,
    rules: Sequence[RuleArgument],
) -> ShownVerdict:
    _require_libraries(a, b)
    _gate(rules)
    stage = stage_of(a, b, samples)
    listed = [rules] if isinstance(rules, str | Mapping | Rule) else rules
    changed = {"metric": f"{stage}.changed", "fail": 0.0}
    strict = ("strict", {"preset": "strict"}, Rule(preset="strict"))
    gate = _gate([changed if each in strict else each for each in listed])
    refuse_others(gate, stage)
    compared = compare_results(a, b, samples, stage)
    verdict = judge(gate, compared.record, controls=compared.controls)
    if not verdict.exit_code:  # a mean that a rule allows hides images that differ far more
        checked = f"{compared.checked} {compared.grouped(samples)}"
        return _said(verdict, compared.record, checked.strip())
    return _said(
        verdict,
        compared.record,
        compared.checked,
        compared.worst,
        compared.explained(a, b, samples),
    )


def compare_or_approve(
    folder: Path,
    name: str,
    stack: Stack,
    images: ImageSource,
    *,
    reason: str | None,
) -> str:
    """Compare a stack with its baseline in ``folder``, or approve it for a reason.

    Returns the differences in words; empty if there is none, or if they were approved.
    """
    from alignkit.baseline import baseline_environment, baseline_file, find_baseline, read_baseline
    from alignkit.baseline.approval import approve, changes
    from alignkit.baseline.baseline_diff import compare_with_baseline
    from alignkit.baseline.snapshot import take_snapshot
    from alignkit.baseline.unapproved import refuse_unapproved
    from alignkit.errors import BaselineError

    preprocess = path_of(stack, name)
    samples = images_from(images)
    environment = baseline_environment([preprocess])
    if reason is not None:
        file = baseline_file(folder, environment)
        known = read_baseline(file) if file.exists() else None
        now = take_snapshot(name, [preprocess], samples, approved=known)
        if found := changes(known, now.as_baseline()):
            approve(folder, now.as_baseline(), found, reason=reason)
        return ""
    try:
        approved = find_baseline(folder, environment)
        refuse_unapproved(folder, approved)
    except BaselineError as error:
        return str(error)
    now = take_snapshot(name, [preprocess], samples, approved=approved)
    facts = compare_with_baseline(approved, now)
    strict, record = Rule(preset="strict", against="baseline"), Measurements(baseline=facts)
    verdict = judge(Gate(rules=(strict,)), record, controls=())
    return verdict_words(verdict, record).sentence if verdict.exit_code else ""
