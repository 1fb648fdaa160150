"""Judge the rules about recorded stages, ``gate.taps``: one outcome for each assertion.

The lines of rules in the file are found here for all rules of a gate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from alignkit.errors import AlignkitError, ExitCode, NothingCompared
from alignkit.experiment.experiment import Experiment
from alignkit.experiment.gate_option import TapRule, TapsOption
from alignkit.experiment.yaml_source import parse
from alignkit.judge.standing_rules import RECORDED, JudgedRule
from alignkit.preprocess import Preprocess
from alignkit.record import RuleOutcome, VerdictState
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.record.verdict_facts import Statement, StatementValue, stated
from alignkit.samples import Samples
from alignkit.search.match_result import explained_share
from alignkit.search.recorded_input import part
from alignkit.search.stored_taps import RecordedTaps, TapStage, image_of, stored_taps
from alignkit.search.tap_segment import Recorded, Segment, distances
from alignkit.text.numbers import plain, significant

_EXIT: dict[VerdictState, ExitCode] = {
    "pass": ExitCode.PASS,
    "warn": ExitCode.PASS,
    "fail": ExitCode.DRIFT,
    "error": ExitCode.NOTHING_COMPARED,
}


def rule_lines(experiment: Experiment, *within: str) -> tuple[int, ...]:
    """Return the line of each rule in the file, from 1; 0 for a rule of an override.

    The rules are those of ``gate``, or of its option ``within``.
    """
    source = parse(experiment.text, str(experiment.file))
    option = experiment.gate.taps if within else experiment.gate
    place = ("gate", *within, "rules")
    count = len((option and option.rules) or ())
    places: list[tuple[str | int, ...]] = [(*place, index) for index in range(count)]
    # an override replaces the whole list, so that no rule is the one on the file's line
    name = ".".join(place)
    replaced = [each.partition("=")[0] for each in experiment.overrides]
    if any(each == name[: len(each)] or each.startswith(name) for each in replaced):
        return (0,) * len(places)
    return tuple(
        source.place(each, of_key=False).line + 1 if each in source.values else 0 for each in places
    )


def judged_taps(experiment: Experiment) -> list[JudgedRule]:
    """Judge every rule about a tap; none if the file has none.

    A rule that cannot be judged, such as one about a tap that was not recorded, is an error with
    the reason and the exit code of a gate that compared nothing.
    """
    option = experiment.gate.taps
    if option is None:
        return []
    lines = rule_lines(experiment, "taps")
    samples = experiment.data.evaluation()
    try:
        taps = stored_taps(option.folder, samples, option.stages, strict=False)
    except AlignkitError as error:
        return [_judged("taps", "taps", experiment.reference, ("error", _refused(error)))]
    judged = [
        _outcome(rule, name, experiment.reference, found, line)
        for rule, line in zip(option.rules, lines, strict=True)
        for name in rule.asserted
        for found in [_found(rule, name, option, taps, samples, experiment.reference)]
    ]
    named = {rule.tap for rule in option.rules}
    parts = [each for each in taps.stages if each.name in named]
    return judged + [
        _part(each, samples, experiment.reference)
        for each in parts
        if 0 < len(each.tensors) < len(samples)
    ]


def _part(stage: TapStage, samples: Samples, reference: Preprocess) -> JudgedRule:
    """Warn that a tap was recorded for some of the images alone."""
    said = stated("tap part", tap=stage.name, images=len(stage.tensors), of=len(samples))
    judged = _judged(RECORDED, stage.name, reference, ("warn", said))
    return replace(judged, compared=False)


def _found(
    rule: TapRule,
    name: str,
    option: TapsOption,
    taps: RecordedTaps,
    samples: Samples,
    reference: Preprocess,
) -> tuple[VerdictState, Statement]:
    """Return the state of one assertion, and what was observed."""
    named = {each.name: each for each in taps.stages}
    if rule.tap not in named:
        return "error", stated(
            "tap unknown", tap=rule.tap, folder=str(option.folder), known=tuple(named)
        )
    stage = named[rule.tap]
    if not stage.tensors:
        return "error", stated("tap empty", tap=rule.tap, images=len(samples))
    try:
        if name == "channels":
            assert rule.channels is not None
            return _channels(rule.channels, stage, samples, reference)
        judge: Callable[[TapRule, TapStage, Samples], tuple[VerdictState, Statement]]
        judge = {"size": _size, "range": _range, "dtype": _dtype}[name]
        return judge(rule, stage, samples)
    except AlignkitError as error:
        return "error", _refused(error)


def _refused(error: AlignkitError) -> Statement:
    return stated("tap refused", reason=str(error))


def _size(rule: TapRule, stage: TapStage, samples: Samples) -> tuple[VerdictState, Statement]:
    sizes: dict[str, list[str]] = {}
    for row, shape in stage.shapes.items():
        image = image_of(np.broadcast_to(np.uint8(0), shape))
        text = f"shape {shape}" if isinstance(image, str) else f"{image.shape[0]}x{image.shape[1]}"
        sizes.setdefault(text, []).append(samples.ids[row])
    assert rule.size is not None
    wanted = f"{rule.size[0]}x{rule.size[1]}"
    return _counted(sizes, wanted)


def _dtype(rule: TapRule, stage: TapStage, samples: Samples) -> tuple[VerdictState, Statement]:
    assert rule.dtype is not None
    found: dict[str, list[str]] = {}
    for row, dtype in stage.dtypes.items():
        found.setdefault(dtype, []).append(samples.ids[row])
    return _counted(found, rule.dtype)


def _counted(found: dict[str, list[str]], wanted: str) -> tuple[VerdictState, Statement]:
    """Pass if all images have the wanted value; else count the others and name the first."""
    others = {value: names for value, names in found.items() if value != wanted}
    images = sum(map(len, found.values()))
    if not others:
        return "pass", stated("tap values", value=wanted, images=images)
    counts = [f"{value} on {len(names)} (first {names[0]})" for value, names in others.items()]
    return "fail", stated("tap others", found=tuple(counts[:3]), images=images)


def _range(rule: TapRule, stage: TapStage, samples: Samples) -> tuple[VerdictState, Statement]:
    assert rule.range is not None
    least, greatest = rule.range
    low, high, outside, first = np.inf, -np.inf, 0, ""
    for row, tensor in stage.tensors.items():
        array = tensor.read()
        if not array.size:
            return "fail", stated("tap no value", what="an empty array", image=samples.ids[row])
        if not np.isfinite(array).all():
            return "fail", stated("tap no value", what="NaN or infinity", image=samples.ids[row])
        ends = float(array.min()), float(array.max())
        low, high = min(low, ends[0]), max(high, ends[1])
        if ends[0] < least or ends[1] > greatest:
            outside, first = outside + 1, first or samples.ids[row]
    # as text: a tensor of float64 may exceed what a record holds
    ends_told = {"low": significant(low, 6), "high": significant(high, 6)}
    found: dict[str, StatementValue] = {**ends_told, "images": len(stage.tensors)}
    if outside:
        return "fail", stated("tap outside", **found, outside=outside, first=first)
    return "pass", stated("tap range", **found)


def _channels(
    wanted: str, stage: TapStage, samples: Samples, reference: Preprocess
) -> tuple[VerdictState, Statement]:
    """Decide the order by the distance from the reference's pixels in both orders."""
    if stage.stage is None:
        raise NothingCompared(
            f"which stage {stage.name!r} is, is not known; write it in 'stages': "
            f"{{{stage.name}: resize}}"
        )
    rows = tuple(sorted(stage.tensors))
    recorded = Recorded(stage, rows, reference.normalise)
    segment = Segment(reference, samples, rows, None, None, recorded, frozenset([recorded.stage]))
    found = distances(part(reference, None, segment.last), samples, segment)
    if found.left_out:
        row, why = found.left_out[0]
        raise NothingCompared(f"{samples.ids[row]}: {why}")
    if found.plain is None or found.swapped is None:
        raise NothingCompared(f"its images have other sizes than those of {reference.name}")
    same, swapped = found.plain.mean, found.swapped.mean
    bgr = reference.colour.space == "bgr" and segment.last in ("colour", "normalise")
    orders = ("bgr", "rgb") if bgr else ("rgb", "bgr")
    distance = (
        f"{plain(same, 2)} levels from {reference.name} as {orders[0].upper()}, "
        f"{plain(swapped, 2)} as {orders[1].upper()}"
    )
    share = explained_share(min(same, swapped), max(same, swapped))
    if share < EXPLAINS_MOST:
        raise NothingCompared(f"no order is clearly nearer: {distance}")
    order = orders[0] if same < swapped else orders[1]
    said = stated("tap order", order=order.upper(), distance=distance)
    return ("pass" if order == wanted else "fail"), said


def _outcome(
    rule: TapRule,
    name: str,
    reference: Preprocess,
    found: tuple[VerdictState, Statement],
    line: int,
) -> JudgedRule:
    asserted = getattr(rule, name)
    value = " to ".join(significant(each, 6) for each in asserted) if name == "range" else asserted
    value = f"{asserted[0]}x{asserted[1]}" if name == "size" else value
    return _judged(f"{rule.tap}.{name}", rule.tap, reference, found, line, f"{name} {value}")


def _judged(
    metric: str,
    tap: str,
    reference: Preprocess,
    found: tuple[VerdictState, Statement],
    line: int = 0,
    asserted: str = "",
) -> JudgedRule:
    state, observed = found
    outcome = RuleOutcome(
        metric=metric,
        label=asserted,
        trained_with=reference.name,
        evaluated_with=tap,
        backend="",
        precision="",
        state=state,
        observed=(observed,),
        rule=metric,
        line=line,
    )
    return JudgedRule(outcome, _EXIT[state], compared=state != "error")
