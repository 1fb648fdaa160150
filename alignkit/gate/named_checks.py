"""Words of an assertion: the stages that rules checked and did not check, and the worst image."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from alignkit.compare.image_groups import ImageGroups, image_groups
from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.preprocess import STAGES, Preprocess, StageName
from alignkit.record import Verdict
from alignkit.samples import Samples
from alignkit.text.numbers import listed, significant
from alignkit.text.stage_changes import unshown
from alignkit.text.task_words import capital

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.compare.pixel_diff import StageDiffs

_ALWAYS: tuple[StageName, ...] = ("decode", "resize", "normalise")
_IDLE: dict[StageName, tuple[str, object]] = {
    "orient": ("policy", "none"),
    "crop": ("size", None),
    "quantise": ("rule", "none"),
    "colour": ("space", "rgb"),
}
"""Stage → the option with which it does nothing."""


def named_checks(gate: Gate, verdict: Verdict, a: Preprocess, b: Preprocess) -> str:
    """Say of which stages the rules hold, and which stages no rule checked.

    A stage is called aligned if the rules about it alone allow no difference. A rule about a stage
    with all before it says nothing of any one of them.
    """
    used = [each for each in STAGES if _does_something(each, a, b)]
    failed = {each.rule for each in verdict.rules if each.state != "pass"}
    alone: dict[StageName, list[Rule]] = {}
    together: dict[StageName, list[Rule]] = {}
    for rule in gate.expanded:
        stage = rule.measured.stage
        if stage in used:
            several = rule.measured_mode == "cumulative"
            (together if several else alone).setdefault(stage, []).append(rule)
    bad = [stage for stage, rules in alone.items() if any(each.id in failed for each in rules)]
    good = [stage for stage in alone if stage not in bad]
    same = [stage for stage in good if any(_is_exact(each) for each in alone[stage])]
    near = [each for each in good if each not in same]
    parts = [
        _said(same, "is aligned", "are aligned"),
        _said(near, "is within its limits", "are within their limits"),
        _said(bad, "is not aligned", "are not aligned"),
        *(_up_to(stage, rules, failed) for stage, rules in together.items()),
    ]
    last = max((STAGES.index(each) for each in together), default=-1)
    left = [each for each in used if each not in alone and STAGES.index(each) > last]
    parts.append(_said(left, "was not checked", "were not checked"))
    unknown = [each for each in used if each not in alone and getattr(a, each) != getattr(b, each)]
    other = _said(unknown, "has other options", "have other options")
    words = "; ".join(filter(None, parts)) + (f" ({other})" if other else "")
    # two decoders with one result are usual; every other stage may have had nothing to do
    idle = [each for each in same if each != "decode" and getattr(a, each) != getattr(b, each)]
    return " ".join(f"{capital(each)}." for each in (words, unshown(idle)) if each)


def _is_exact(rule: Rule) -> bool:
    """Tell whether a rule allows no difference at all."""
    return rule.fail == 0 and rule.measured.field in ("changed", "max_abs", "mean_abs")


def _up_to(stage: StageName, rules: list[Rule], failed: set[str]) -> str:
    """Word the result of rules about a stage with all before it."""
    if any(each.id in failed for each in rules):
        return f"all up to {stage} is beyond its limits, which rules on each stage (strict) explain"
    held = "is aligned" if any(map(_is_exact, rules)) else "is within its limits"
    return f"all up to {stage} {held}"


def _does_something(stage: StageName, *paths: Preprocess) -> bool:
    if stage in _ALWAYS:
        return True
    option, idle = _IDLE[stage]
    return any(getattr(getattr(path, stage), option) != idle for path in paths)


def _said(stages: list[StageName], one: str, several: str) -> str:
    return f"{listed([*stages])} {one if len(stages) == 1 else several}" if stages else ""


def grouped_images(diffs: StageDiffs) -> str:
    """Say that a few images differ far more than the others, in a sentence; or nothing."""
    from alignkit.compare.image_table import LAST

    index = STAGES.index(LAST)
    means = [mean for row in diffs.rows if (mean := row.mean_abs[index]) is not None]
    groups = image_groups(Counter(means))
    worst = diffs.worst(1)[0].id if groups else ""
    return groups_sentence(groups, worst, "levels before normalisation")


def groups_sentence(groups: ImageGroups | None, worst: str, unit: str) -> str:
    """Say both groups in a sentence, with the image that differs most; empty without groups."""
    return f"{capital(groups.words(worst, unit))}." if groups else ""


def worst_image(a: Preprocess, b: Preprocess, samples: Samples, diffs: StageDiffs) -> str:
    """Name the image whose pixels differ most, how far, and where; empty if none differs."""
    from alignkit.preprocess.image_taps import encoded_images, take_pixels

    worst = diffs.worst(1)
    if not worst or not any(worst[0].mean_abs):
        return ""
    row = samples.ids.index(worst[0].id)
    ((left, right),) = take_pixels((a, b), encoded_images(samples, [row]))
    if left.pixels is None or right.pixels is None or left.pixels.shape != right.pixels.shape:
        return ""
    return place_of_worst(worst[0].id, left.pixels, right.pixels, tensors=False)


def place_of_worst(
    name: str, left: npt.NDArray[Any], right: npt.NDArray[Any], *, tensors: bool
) -> str:
    """Name an image's mean and greatest difference, and the pixel of the greatest."""
    import numpy as np

    change = np.abs(np.asarray(right, np.float64) - np.asarray(left, np.float64))
    finite = change[np.isfinite(change)]
    if not finite.size or not finite.max():
        return ""
    by_pixel = np.nan_to_num(change, nan=-1.0, posinf=-1.0).max(axis=0 if tensors else 2)
    row, column = np.unravel_index(int(by_pixel.argmax()), by_pixel.shape)
    unit = "normalised units" if tensors else "levels before normalisation"
    return (
        f"The worst image is {name}: mean {significant(float(finite.mean()))}, max "
        f"{significant(float(finite.max()))} {unit}, at row {row}, column {column}."
    )
