"""`RuleMetric`: a metric that a gate rule may name.

``stage.metric`` for pixels (``decode.mean_abs``), ``coverage`` for the images decoded,
``metric[.average]`` for a model (``recall.macro``, ``churn``), ``recall[daisy]`` for one class, and
``latency.part.quantile`` for how much longer an image takes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from alignkit.plugins import did_you_mean
from alignkit.preprocess import STAGES, StageName

MetricKind = Literal["pixel", "coverage", "model", "class", "latency"]
_LEVELS = "grey levels"
GREATEST_LEVEL = 255.0


@dataclass(frozen=True, slots=True)
class RuleMetric:
    """A metric with its unit, range and direction."""

    name: str
    """As the YAML writes it."""
    kind: MetricKind
    words: str
    unit: Literal["grey levels", "normalised units", "dB", "share", "points", "logits", "ms", ""]
    """``share`` is a fraction of a whole, ``points`` a difference of two such."""
    worse: Literal["above", "below"] = "above"
    least: float = 0.0
    greatest: float | None = None
    """No value lies outside ``least`` … ``greatest``; ``None``: unbounded."""
    signed: bool = False
    """Whether a drop and a rise differ."""
    interval: bool = False
    """Whether it has a 95 % interval, which a margin needs."""
    stage: StageName | None = None
    """The stage of a pixel metric."""
    field: str = ""
    """The measured quantity, without stage or class."""
    of_class: str = ""


PIXEL_METRICS: dict[str, tuple[str, str, float | None]] = {
    "mean_abs": ("mean absolute difference", _LEVELS, GREATEST_LEVEL),
    "max_abs": ("greatest difference", _LEVELS, GREATEST_LEVEL),
    "p99": ("99th percentile of differences", _LEVELS, GREATEST_LEVEL),
    "bias": ("greatest bias of a channel", _LEVELS, GREATEST_LEVEL),
    "share_differing": ("pixels that differ", "share", 1.0),
    "changed": ("images that are not bit-identical", "share", 1.0),
    "psnr": ("PSNR", "dB", None),
    "ssim": ("mean SSIM", "", 1.0),
}
LOGIT_METRICS = {
    "logits.max_abs": ("greatest logit difference", "above"),
    "logits.mean_abs": ("mean logit difference", "above"),
    "logits.cosine": ("mean cosine similarity of logits", "below"),
}
RATIOS = ("recall", "precision", "f1")
_AVERAGES = ("macro", "micro", "weighted")
_ACCURACIES = {
    "top1": "top-1 accuracy",
    **{f"{ratio}.{average}": f"{average} {ratio}" for ratio in RATIOS for average in _AVERAGES},
}
LATENCIES = {
    "preprocess": "decode and preprocess an image",
    "inference": "run the model on an image",
}
OF_CLASS = re.compile(r"(recall|precision)\[(.+)\]")


def find_metric(name: str) -> RuleMetric:
    """Return the metric of that name; raises `ValueError` with the nearest known one."""
    if found := _METRICS.get(name):
        return found
    if match := OF_CLASS.fullmatch(name):
        field, of_class = match.groups()
        return RuleMetric(
            name, "class", f"{field} of {of_class}", "points", greatest=1.0, signed=True,
            interval=True, field=field, of_class=of_class,
        )  # fmt: skip
    raise ValueError(f"no metric {name!r}{did_you_mean(name, _METRICS)}")


def metric_names() -> list[str]:
    """Return every name except those of single classes."""
    return list(_METRICS)


def _pixel(stage: StageName, field: str) -> RuleMetric:
    words, unit, greatest = PIXEL_METRICS[field]
    if stage == "normalise" and unit == _LEVELS:
        unit, greatest = "normalised units", None
    return RuleMetric(
        name=f"{stage}.{field}",
        kind="pixel",
        words=f"{stage} {words}",
        unit=unit,  # type: ignore[arg-type]  # the table's text
        worse="below" if field in ("psnr", "ssim") else "above",
        least=-1.0 if field == "ssim" else 0.0,
        greatest=greatest,
        stage=stage,
        field=field,
    )


def _metrics() -> list[RuleMetric]:
    metrics = [_pixel(stage, field) for stage in STAGES for field in PIXEL_METRICS
               if _defined(stage, field)]  # fmt: skip
    metrics.append(
        RuleMetric("coverage", "coverage", "images only one side decodes", "share",
                   greatest=1.0, field="coverage")
    )  # fmt: skip
    metrics.append(
        RuleMetric("churn", "model", "churn", "share", greatest=1.0, interval=True, field="churn")
    )
    metrics += [
        RuleMetric(
            name, "model", words, "points", greatest=1.0, signed=True, interval=True, field=name
        )
        for name, words in _ACCURACIES.items()
    ]
    metrics += [
        RuleMetric(
            name, "model", words, "logits" if worse == "above" else "",
            worse=cast("Literal['above', 'below']", worse),
            least=0.0 if worse == "above" else -1.0,
            greatest=None if worse == "above" else 1.0, field=name,
        )
        for name, (words, worse) in LOGIT_METRICS.items()
    ]  # fmt: skip
    metrics += [
        RuleMetric(
            f"latency.{part}.{which}", "latency", f"{which} of the time to {words}", "ms",
            field=f"{part}.{which}",
        )
        for part, words in LATENCIES.items()
        for which in ("p50", "p95")
    ]  # fmt: skip
    return metrics


def _defined(stage: StageName, field: str) -> bool:
    """Return whether a stage has the metric.

    PSNR needs a peak value; SSIM is measured once, on the input of ``normalise``.
    """
    if field == "ssim":
        return stage == "colour"
    return not (field == "psnr" and stage == "normalise")


_METRICS = {metric.name: metric for metric in _metrics()}
