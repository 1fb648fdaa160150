"""`RuleMetric`: a metric that a gate rule may name.

``stage.metric`` for pixels (``decode.mean_abs``), ``coverage`` for the images decoded,
``metric[.average]`` for a model (``recall.macro``, ``churn``), ``recall[daisy]`` for one class, and
``latency.part.quantile`` for how much longer an image takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from alignkit.experiment.option import no_such
from alignkit.preprocess import STAGES, StageName

MetricKind = Literal["pixel", "coverage", "model", "class", "latency"]
_LEVELS = "grey levels"
_FLOAT32 = 3.4028235e38
"""The greatest number of a tensor."""
_DAY = 86_400_000.0
"""Milliseconds; whoever waits longer for one image has no gate."""


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

    @property
    def needs_labels(self) -> bool:
        """Whether it has no value where the images have no labels."""
        return self.kind == "class" or self.field in _ACCURACIES


# words, unit and greatest value of each pixel metric
_PIXEL: dict[str, tuple[str, Any, float | None]] = {
    "mean_abs": ("mean absolute difference", _LEVELS, 255.0),
    "max_abs": ("greatest difference", _LEVELS, 255.0),
    "p99": ("99th percentile of differences", _LEVELS, 255.0),
    "bias": ("greatest bias of a channel", _LEVELS, 255.0),
    "share_differing": ("pixels that differ", "share", 1.0),
    "changed": ("images that are not bit-identical", "share", 1.0),
    "psnr": ("PSNR", "dB", None),
    "ssim": ("mean SSIM", "", 1.0),
}
_ACCURACY: dict[str, Any] = {"greatest": 1.0, "signed": True, "interval": True}
_ACCURACIES = {
    "top1": "top-1 accuracy",
    **{
        f"{ratio}.{average}": f"{average} {ratio}"
        for ratio in ("recall", "precision", "f1")
        for average in ("macro", "micro", "weighted")
    },
}
_LATENCIES = {
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
        words = f"{field} of {of_class}"
        return RuleMetric(
            name, "class", words, "points", **_ACCURACY, field=field, of_class=of_class
        )
    raise ValueError(no_such("metric", name, _METRICS))


def metric_names() -> list[str]:
    """Return every name except those of single classes."""
    return list(_METRICS)


def _metrics() -> Iterator[RuleMetric]:
    for stage in STAGES:
        for field in _PIXEL:
            # PSNR needs a peak value; SSIM is measured once, on the input of ``normalise``
            lacks = stage != "colour" if field == "ssim" else stage == "normalise"
            if not (lacks and field in ("psnr", "ssim")):
                yield _of_pixels(stage, field)
    yield RuleMetric(
        "coverage", "coverage", "images only one side has or decodes", "share", greatest=1.0,
        field="coverage",
    )  # fmt: skip
    yield _of_model("churn", "churn", "share", greatest=1.0, interval=True)
    for name, words in _ACCURACIES.items():
        yield _of_model(name, words, "points", **_ACCURACY)
    logits: dict[str, Any] = {"unit": "logits", "greatest": 2 * _FLOAT32}
    yield _of_model("logits.max_abs", "greatest logit difference", **logits)
    yield _of_model("logits.mean_abs", "mean logit difference", **logits)
    cosine = "mean cosine similarity of logits"
    yield _of_model("logits.cosine", cosine, "", worse="below", least=-1.0, greatest=1.0)
    for part, words in _LATENCIES.items():
        # no mean: one image that waits for the disk would decide it
        for which in ("p50", "p95"):
            name, longer = f"{part}.{which}", f"{which} of the time to {words}"
            yield RuleMetric(f"latency.{name}", "latency", longer, "ms", greatest=_DAY, field=name)


def _of_pixels(stage: StageName, field: str) -> RuleMetric:
    words, unit, greatest = _PIXEL[field]
    if stage == "normalise" and unit == _LEVELS:
        # the bounds by mean and std are known with the paths; here, those of float32
        unit, greatest = "normalised units", 2 * _FLOAT32
    return RuleMetric(
        name=f"{stage}.{field}",
        kind="pixel",
        words=f"{stage} {words}",
        unit=unit,
        worse="below" if field in ("psnr", "ssim") else "above",
        least=-1.0 if field == "ssim" else 0.0,
        greatest=greatest,
        stage=stage,
        field=field,
    )


def _of_model(name: str, words: str, unit: Any, **more: Any) -> RuleMetric:
    return RuleMetric(name, "model", words, unit, field=name, **more)


_METRICS = {metric.name: metric for metric in _metrics()}
