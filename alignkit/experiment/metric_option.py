"""`RuleMetric`: a metric that a gate rule may name.

``stage.metric`` for pixels (``decode.mean_abs``), ``coverage`` for the images decoded,
``metric[.average]`` for a model (``recall.macro``, ``churn``), ``recall[daisy]`` for one class.
Metrics of every task are known here; `not_of_task` says which of them an experiment's own task has
not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from alignkit.experiment.option import no_such
from alignkit.preprocess import STAGES, StageName
from alignkit.task_facts import TaskFacts
from alignkit.text.numbers import listed

MetricKind = Literal["pixel", "coverage", "model", "class"]
_LEVELS = "grey levels"
_FLOAT32 = 3.4028235e38
"""The greatest number of a tensor."""


@dataclass(frozen=True, slots=True)
class RuleMetric:
    """A metric with its unit, range and direction."""

    name: str
    """As the YAML writes it."""
    kind: MetricKind
    words: str
    unit: Literal[
        "grey levels", "normalised units", "dB", "share", "points", "px", "",
    ]  # fmt: skip
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
    needs_labels: bool = False
    """Whether it has no value where the images have no labels."""
    continuous: bool = False
    """Whether any image moves it, so that no rare flip of an answer is unseen in it."""


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
_ACCURACY: dict[str, Any] = {
    "greatest": 1.0, "signed": True, "interval": True, "needs_labels": True,
}  # fmt: skip
_ACCURACIES = {
    "top1": "top-1 accuracy",
    **{
        f"{ratio}.{average}": f"{average} {ratio}"
        for ratio in ("recall", "precision", "f1")
        for average in ("macro", "micro", "weighted")
    },
    "map50": "mAP50",
    "map": "mAP",
    "miou": "mean IoU",
    "pixel_accuracy": "pixel accuracy",
}
_SHARES = {
    "boxes.lost": "lost boxes",
    "boxes.won": "won boxes",
    "boxes.class_changed": "boxes of another class",
    "boxes.crossed": "boxes across the score threshold",
    "pixel_churn": "pixels whose class changes",
}
_PX = 1e5
"""Pixels: more than any side of an image."""
OF_CLASS = re.compile(r"(recall|precision|f1|iou|ap50|ap)\[(.+)\]")
OF_SCORE = re.compile(r"score\.([A-Za-z_][\w-]*)(?:\.(apart|missing))?")
_RATE = r"[1-9](?:\.\d+)?e-?\d+"
OF_EMBEDDING = re.compile(rf"(?:(tar|far)@far=({_RATE})|(recall|overlap)@([1-9]\d*))(?:\.(kept))?")
"""Rates of accepted pairs, and what is found among so many neighbours."""
_CLASS_WORDS = {"f1": "F1", "iou": "IoU", "ap50": "AP50", "ap": "AP"}


def find_metric(name: str) -> RuleMetric:
    """Return the metric of that name; raises `ValueError` with the nearest known one."""
    if found := _METRICS.get(name):
        return found
    if match := OF_CLASS.fullmatch(name):
        field, of_class = match.groups()
        words = f"{_CLASS_WORDS.get(field, field)} of {of_class}"
        return RuleMetric(
            name, "class", words, "points", **_ACCURACY, field=field, of_class=of_class
        )
    if match := OF_SCORE.fullmatch(name):
        return _of_score(name, match[1], match[2])
    if match := OF_EMBEDDING.fullmatch(name):
        return _of_embedding(name, match)
    raise ValueError(no_such("metric", name, _METRICS))


def _of_score(name: str, score: str, measure: str | None) -> RuleMetric:
    if measure == "missing":
        words = f"images with {score} on one side alone"
        return _of_model(name, words, "share", greatest=1.0, interval=True)
    amount: dict[str, Any] = {"greatest": 2 * _FLOAT32, "interval": True, "continuous": True}
    if measure == "apart":
        return _of_model(name, f"mean |Δ {score}|", "", **amount)
    return _of_model(name, f"mean {score}", "", signed=True, **amount)


def _of_embedding(name: str, found: re.Match[str]) -> RuleMetric:
    pairs, rate, near, most, way = found.groups()
    if pairs:
        words = f"{pairs.upper()} at {'the kept threshold of ' if way else ''}FAR {rate}"
    else:
        words = f"{near}@{most}{' in the kept index' if way else ''}"
    if pairs == "far":
        return _of_model(name, words, "share", greatest=1.0, interval=True)
    if near == "overlap":
        return _of_model(name, words, "share", worse="below", greatest=1.0)
    return _of_model(name, words, "points", **_ACCURACY)


def metric_names() -> list[str]:
    """Return every name except those of single classes, of own scores, and `OF_EMBEDDING`."""
    return list(_METRICS)


def not_of_task(metric: RuleMetric, task: TaskFacts) -> str:
    """Say that a task does not measure a metric, and what it measures; empty if it does."""
    if metric.kind == "class":
        known = [f"{each.name}[CLASS]" for each in task.class_metrics]
        found = f"{metric.field}[CLASS]" in known
    elif metric.kind == "model" and metric.field.startswith("logits."):
        known, found = task_metrics(task), task.class_scores
    else:
        known = task_metrics(task)
        found = metric.kind != "model" or metric.field in known
    if found:
        return ""
    has = listed(known) if known else "none"
    return f"the task {task.name!r} does not measure {metric.name!r}; it has {has}"


def task_metrics(task: TaskFacts) -> list[str]:
    """Return the names of a task's metrics of whole models that a rule may have."""
    return ["churn", *(each.name for each in (*task.metrics, *task.measures))]


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
    for name, words in _SHARES.items():
        smooth = name == "pixel_churn"
        yield _of_model(name, words, "share", greatest=1.0, interval=True, continuous=smooth)
    # labels that appear or vanish, of which an image may have several
    yield _of_model("label_churn", "changed labels of an image", "", greatest=_PX, interval=True)
    for name, words in (("box.shift", "mean shift"), ("boundary.shift", "mean boundary shift")):
        yield _of_model(name, words, "px", greatest=_PX, interval=True, continuous=True)
    of_boxes: dict[str, Any] = {"worse": "below", "greatest": 1.0, "continuous": True}
    yield _of_model("box.iou", "mean IoU of matched boxes", "", **of_boxes)
    for name, words in (("verification.accuracy", "verification accuracy"), ("eer", "EER")):
        yield _of_model(name, words, "points", **_ACCURACY)
    likeness: dict[str, Any] = {"worse": "below", "least": -1.0, "greatest": 1.0}
    yield _of_model("cosine", "mean cosine of embeddings", "", continuous=True, **likeness)
    yield _of_model("cosine.p01", "cosine, 1 % quantile", "", continuous=True, **likeness)
    norm: dict[str, Any] = {"greatest": 2 * _FLOAT32, "signed": True, "interval": True}
    yield _of_model("norm", "norm of embeddings", "points", continuous=True, **norm)
    churn = "neighbour churn in the kept index"
    yield _of_model("neighbour_churn", churn, "share", greatest=1.0, interval=True)
    logits: dict[str, Any] = {"unit": "", "greatest": 2 * _FLOAT32}
    yield _of_model("logits.max_abs", "greatest output difference", **logits)
    yield _of_model("logits.mean_abs", "mean output difference", **logits)
    cosine = "mean cosine similarity of outputs"
    yield _of_model("logits.cosine", cosine, "", worse="below", least=-1.0, greatest=1.0)


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
