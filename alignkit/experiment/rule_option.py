"""`Rule`: one rule of an experiment or of a pixel gate, as the YAML writes it, validated.

A threshold that no value can pass is refused: it would look like a rule and never fire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from alignkit.experiment.metric_option import (
    OF_CLASS,
    OF_EMBEDDING,
    OF_SCORE,
    RuleMetric,
    find_metric,
    metric_names,
)
from alignkit.experiment.option import STRICT_MODEL, Flag, Number, Positive
from alignkit.place import Place
from alignkit.preprocess import STAGES, Preprocess
from alignkit.preprocess.normalise import Normalise
from alignkit.preprocess.stages import Name

Against = Literal["reference", "baseline"]
PresetName = Literal["strict", "decode", "mlperf-99", "mlperf-99.9", "boxes", "masks", "label-sets"]


def _known_metric(name: str) -> str:
    try:
        return find_metric(name).name
    except ValueError as error:
        raise PydanticCustomError("metric", "{message}", {"message": str(error)}) from None


MetricName = Annotated[
    str,
    AfterValidator(_known_metric),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": metric_names()},
                {"type": "string", "pattern": OF_CLASS.pattern},
                {"type": "string", "pattern": OF_SCORE.pattern},
                {"type": "string", "pattern": OF_EMBEDDING.pattern},
            ]
        }
    ),
]
Threshold = Annotated[Number, Field(ge=0)]
_MOST_IMAGES = 1e9
SubgroupKey = Literal[
    "subsampling", "format", "coding", "mode", "quality", "size", "orientation", "icc",
]  # fmt: skip
"""Dimension of `alignkit.preprocess.image_kinds`."""


class Rule(BaseModel):
    """One entry of ``gate.rules``: a metric and its limits, or the name of a preset of rules."""

    model_config = STRICT_MODEL
    metric: MetricName | None = None
    """``stage.metric``, ``coverage``, ``metric[.average]``, ``recall[CLASS]``, or another metric of
    the experiment's task."""
    preset: PresetName | None = None
    """``strict`` bit-exact · ``decode`` mean ≤ 0.05 and max ≤ 2 grey levels · ``mlperf-99`` and
    ``mlperf-99.9`` at least that share of the reference's accuracy · ``boxes`` lost and won ≤ 1 %,
    shift ≤ 1 px and mAP50 within ±1 point · ``masks`` changed pixels ≤ 1 %, boundary shift ≤ 1 px
    and mean IoU within ±1 point · ``label-sets`` changed labels ≤ 0.02 an image and mAP within ±1
    point."""
    warn: Threshold | None = None
    """Threshold above which the rule warns; below which for PSNR, SSIM and cosine."""
    fail: Threshold | None = None
    """Threshold on the absolute value; the least allowed value for PSNR, SSIM and cosine."""
    margin: Positive | None = None
    """A 95 % interval inside the margin passes, outside it fails, across it is inconclusive."""
    direction: Literal["both", "drop", "rise"] = "both"
    """``both`` is equivalence; ``drop`` lets the candidate be better: non-inferiority."""
    relative: Flag = False
    """Limits are shares of the reference's (or the baseline's) value."""
    against: Against = "reference"
    """The reference path, or the baseline that `alignkit baseline record` wrote."""
    mode: Literal["isolated", "cumulative"] | None = None
    """Mode of a pixel metric: the stage alone on the reference's input (the default), or together
    with all stages before it. Against a baseline always cumulative."""
    path: Name | None = None
    """Only cells evaluated with this path; by default all."""
    where: dict[SubgroupKey, Annotated[str, Field(min_length=1)]] | None = None
    """Only these images: ``subsampling: 4:2:0`` and other kinds of file."""
    backend: Name | None = None
    """Only cells of this backend, by its name in the file."""
    precision: Name | None = None
    """Only cells in this precision."""

    @property
    def measured(self) -> RuleMetric:
        """The metric, looked up."""
        assert self.metric is not None
        return find_metric(self.metric)

    @property
    def measured_mode(self) -> Literal["isolated", "cumulative"]:
        """The mode in which a pixel metric is measured: ``mode``, unless it has only one."""
        # SSIM is of the last pixels; a baseline's result of a stage has those before it in it
        only = self.measured.field == "ssim" or self.against == "baseline"
        return "cumulative" if only else self.mode or "isolated"

    @property
    def group(self) -> dict[str, str]:
        """``where``, empty if the rule is about all images."""
        return {str(kind): value for kind, value in (self.where or {}).items()}

    @property
    def id(self) -> str:
        """The rule's name in every output, which does not depend on its limits."""
        narrowed = [each for each in (self.path, self.backend, self.precision, self.mode) if each]
        narrowed += [f"{kind}={value}" for kind, value in sorted(self.group.items())]
        against = ["against baseline"] if self.against == "baseline" else []
        return " ".join([self.metric or self.preset or "", *narrowed, *against])

    def covers(self, place: Place) -> bool:
        """Return whether its path, backend and precision are those of a place, or left open."""
        wanted = (self.path, self.backend, self.precision)
        return all(a in (None, b) for a, b in zip(wanted, place.column.names, strict=True))

    def expanded(self) -> tuple[Rule, ...]:
        """Return the rules of a preset; the rule itself if it names a metric."""
        if self.preset is None:
            return (self,)
        # a preset fixes the limits; the place it is applied to is the rule's own
        kept = {"against": self.against, "path": self.path, "where": self.where}
        return tuple(Rule(**{**rule, **kept}) for rule in RULE_PRESETS[self.preset])

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if reason := _mistake(self):
            raise PydanticCustomError("rule", "{message}", {"message": reason})
        return self


RULE_PRESETS: dict[PresetName, tuple[dict[str, Any], ...]] = {
    "strict": (
        {"metric": "coverage", "fail": 0.0},
        *({"metric": f"{stage}.changed", "fail": 0.0} for stage in STAGES),
    ),
    "decode": (
        {"metric": "coverage", "fail": 0.0},
        {"metric": "decode.mean_abs", "fail": 0.05},
        {"metric": "decode.max_abs", "fail": 2.0},
    ),
    # mlcommons/inference_policies, inference_rules: 99 % or 99.9 % of the reference's quality
    "mlperf-99": ({"metric": "top1", "fail": 0.01, "relative": True, "direction": "drop"},),
    "mlperf-99.9": ({"metric": "top1", "fail": 0.001, "relative": True, "direction": "drop"},),
    "boxes": (
        {"metric": "boxes.lost", "fail": 0.01},
        {"metric": "boxes.won", "fail": 0.01},
        {"metric": "box.shift", "fail": 1.0},
        {"metric": "map50", "margin": 0.01},
    ),
    "masks": (
        {"metric": "pixel_churn", "fail": 0.01},
        {"metric": "boundary.shift", "fail": 1.0},
        {"metric": "miou", "margin": 0.01},
    ),
    "label-sets": (
        {"metric": "label_churn", "fail": 0.02},
        {"metric": "map", "margin": 0.01},
    ),
}


def _mistake(rule: Rule) -> str:
    if (rule.metric is None) == (rule.preset is None):
        return "a rule names either a 'metric' or a 'preset'"
    # 0 is a limit: bit-exact
    limits = [limit for limit in (rule.warn, rule.fail, rule.margin) if limit is not None]
    if rule.preset is not None:
        own = (rule.relative, rule.mode, rule.direction != "both")
        fixed = limits or any(own)
        return (
            "a preset has its own limits; give its metrics as rules to change them" if fixed else ""
        )
    if not limits:
        return "a rule needs 'warn', 'fail' or 'margin'"
    metric = rule.measured
    return _never_fires(rule, metric) or _misfit(rule, metric)


def _never_fires(rule: Rule, metric: RuleMetric) -> str:
    greatest = metric.greatest
    if rule.relative:
        # a share of a value can drop by the whole at most; a rise is at most as many times the
        # value as there are images
        greatest = 1.0 if rule.direction == "drop" else _MOST_IMAGES
    what = "drop" if rule.direction == "drop" else metric.name
    if reason := unreachable(rule, metric.worse, metric.least, greatest, what):
        return reason
    if rule.warn is not None and rule.fail is not None:
        below = metric.worse == "below"
        if rule.warn <= rule.fail if below else rule.warn >= rule.fail:
            return f"'warn: {rule.warn:g}' can never fire: 'fail: {rule.fail:g}' comes first"
    return ""


def unreachable(
    rule: Rule, worse: Literal["above", "below"], least: float, greatest: float | None, what: str
) -> str:
    """Say which limit no value between ``least`` and ``greatest`` breaks, or none keeps."""
    for name in ("warn", "fail", "margin"):
        limit = getattr(rule, name)
        if limit is None:
            continue
        if worse == "below" and limit <= max(0.0, least):
            return f"'{name}: {limit:g}' can never fire: no {what} is below {limit:g}"
        if greatest is None:
            continue
        if worse == "above" and limit >= greatest:
            return f"'{name}: {limit:g}' can never fire: {what} is at most {greatest:.4g}"
        if worse == "below" and limit > greatest:
            return f"'{name}: {limit:g}' always fires: {what} is at most {greatest:.4g}"
    return ""


def beyond_normalised(rule: Rule, stacks: Sequence[Preprocess]) -> str:
    """Say which limit in normalised units no two pixels of 0..255 reach; empty if there is none.

    A baseline may have been normalised by other numbers, so that its rules are not looked at.
    """
    metric = rule.metric and rule.measured
    if not metric or metric.unit != "normalised units" or rule.against == "baseline":
        return ""
    reference, *others = stacks
    candidates = [each for each in others if rule.path in (None, each.name)]
    ranges = [_greatest(reference.normalise, each.normalise) for each in candidates]
    return unreachable(rule, "above", 0.0, max(ranges, default=None), metric.name)


def _greatest(a: Normalise, b: Normalise) -> float:
    """Return the greatest difference of a black pixel on one side and a white one on the other."""
    channels = list(zip(a.mean, a.std, b.mean, b.std, strict=True))
    return max(
        max((1 - mean) / std + other / other_std, (1 - other) / other_std + mean / std)
        for mean, std, other, other_std in channels
    )


def _misfit(rule: Rule, metric: RuleMetric) -> str:
    """Say which option the metric does not have, or is measured by no run or baseline; or empty."""
    name, baseline, relative = metric.name, rule.against == "baseline", rule.relative
    one_way, isolated = rule.direction != "both", rule.mode == "isolated"
    of_pixels = metric.kind in ("pixel", "coverage")
    reasons = {
        f"{name} has no direction; leave 'direction' out": one_way and not metric.signed,
        f"{name} has no interval to hold against a margin; use 'warn' or 'fail'": (
            rule.margin is not None and not metric.interval
        ),
        f"{name} is a difference already, and relative to nothing": relative and not metric.signed,
        f"{name} has limits in points; leave 'relative' out": relative and metric.kind == "class",
        "'mode' is for pixel metrics": rule.mode and metric.kind != "pixel",
        "SSIM is measured cumulatively, between two paths": (
            metric.field == "ssim" and (baseline or isolated)
        ),
        "pixels are made before any backend runs; leave 'backend' and 'precision' out": (
            of_pixels and (rule.backend or rule.precision)
        ),
        "subgroups are compared with the reference; leave 'against' out": baseline and rule.where,
        "against a baseline a stage is compared with all that came before it": (
            baseline and isolated
        ),
        f"a baseline keeps predicted classes, which {name} is not made of": (
            baseline and metric.field.startswith("logits.")
        ),
    }
    return next((reason for reason, found in reasons.items() if found), "")
