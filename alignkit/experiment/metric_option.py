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
_SIDE = 1e5
"""Pixels: more than any side of an image, and labels than an image has."""


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
    "unit": "points", "greatest": 1.0, "signed": True, "interval": True, "needs_labels": True,
}  # fmt: skip
_SHARE: dict[str, Any] = {"unit": "share", "greatest": 1.0, "interval": True}
_SMOOTH: dict[str, Any] = {"continuous": True}
_PX: dict[str, Any] = {"unit": "px", "greatest": _SIDE, "interval": True, **_SMOOTH}
_LIKENESS: dict[str, Any] = {"unit": "", "worse": "below", "greatest": 1.0}
_ANGLE: dict[str, Any] = {**_LIKENESS, "least": -1.0}
_AMOUNT: dict[str, Any] = {"unit": "", "greatest": 2 * _FLOAT32}
# words and nature of each metric of a model
_MODEL: dict[str, tuple[str, dict[str, Any]]] = {
    "churn": ("churn", _SHARE),
    "top1": ("top-1 accuracy", _ACCURACY),
    **{
        f"{ratio}.{average}": (f"{average} {ratio}", _ACCURACY)
        for ratio in ("recall", "precision", "f1")
        for average in ("macro", "micro", "weighted")
    },
    "map50": ("mAP50", _ACCURACY),
    "map": ("mAP", _ACCURACY),
    "miou": ("mean IoU", _ACCURACY),
    "pixel_accuracy": ("pixel accuracy", _ACCURACY),
    "boxes.lost": ("lost boxes", _SHARE),
    "boxes.won": ("won boxes", _SHARE),
    "boxes.class_changed": ("boxes of another class", _SHARE),
    "boxes.crossed": ("boxes across the score threshold", _SHARE),
    "pixel_churn": ("pixels whose class changes", {**_SHARE, **_SMOOTH}),
    # labels that appear or vanish, of which an image may have several
    "label_churn": (
        "changed labels of an image", {"unit": "", "greatest": _SIDE, "interval": True},
    ),
    "box.shift": ("mean shift", _PX),
    "boundary.shift": ("mean boundary shift", _PX),
    "box.iou": ("mean IoU of matched boxes", {**_LIKENESS, **_SMOOTH}),
    "verification.accuracy": ("verification accuracy", _ACCURACY),
    "eer": ("EER", _ACCURACY),
    "cosine": ("mean cosine of embeddings", {**_ANGLE, **_SMOOTH}),
    "cosine.p01": ("cosine, 1 % quantile", {**_ANGLE, **_SMOOTH}),
    "norm": (
        "norm of embeddings",
        {"unit": "points", "greatest": 2 * _FLOAT32, "signed": True, "interval": True, **_SMOOTH},
    ),
    "neighbour_churn": ("neighbour churn in the kept index", _SHARE),
    "logits.max_abs": ("greatest output difference", _AMOUNT),
    "logits.mean_abs": ("mean output difference", _AMOUNT),
    "logits.cosine": ("mean cosine similarity of outputs", _ANGLE),
}  # fmt: skip
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
        return RuleMetric(name, "class", words, **_ACCURACY, field=field, of_class=of_class)
    if match := OF_SCORE.fullmatch(name):
        return _of_score(name, match[1], match[2])
    if match := OF_EMBEDDING.fullmatch(name):
        return _of_embedding(name, match)
    raise ValueError(no_such("metric", name, _METRICS))


def _of_score(name: str, score: str, measure: str | None) -> RuleMetric:
    if measure == "missing":
        return _of_model(name, f"images with {score} on one side alone", _SHARE)
    amount = {**_AMOUNT, "interval": True, **_SMOOTH}
    if measure == "apart":
        return _of_model(name, f"mean |Δ {score}|", amount)
    return _of_model(name, f"mean {score}", {**amount, "signed": True})


def _of_embedding(name: str, found: re.Match[str]) -> RuleMetric:
    pairs, rate, near, most, way = found.groups()
    if pairs:
        kept = "the kept threshold of " if way else ""
        nature = _SHARE if pairs == "far" else _ACCURACY
        return _of_model(name, f"{pairs.upper()} at {kept}FAR {rate}", nature)
    words = f"{near}@{most}{' in the kept index' if way else ''}"
    nature = {**_LIKENESS, "unit": "share"} if near == "overlap" else _ACCURACY
    return _of_model(name, words, nature)


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
    words = "images only one side has or decodes"
    yield RuleMetric("coverage", "coverage", words, "share", greatest=1.0, field="coverage")
    for name, (words, nature) in _MODEL.items():
        yield _of_model(name, words, nature)


def _of_pixels(stage: StageName, field: str) -> RuleMetric:
    words, unit, greatest = _PIXEL[field]
    if stage == "normalise" and unit == _LEVELS:
        # the bounds by mean and std are known with the paths; here, those of float32
        unit, greatest = "normalised units", 2 * _FLOAT32
    return RuleMetric(
        f"{stage}.{field}",
        "pixel",
        f"{stage} {words}",
        unit,
        worse="below" if field in ("psnr", "ssim") else "above",
        least=-1.0 if field == "ssim" else 0.0,
        greatest=greatest,
        stage=stage,
        field=field,
    )


def _of_model(name: str, words: str, nature: dict[str, Any]) -> RuleMetric:
    return RuleMetric(name, "model", words, field=name, **nature)


_METRICS = {metric.name: metric for metric in _metrics()}
