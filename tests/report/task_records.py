"""Records of tasks other than classification, made of the quickstart's by other names and answers."""

import base64
import io
from dataclasses import replace

import numpy as np
from PIL import Image

from alignkit.experiment.gate_option import Gate
from alignkit.experiment.rule_option import Rule
from alignkit.judge import judge
from alignkit.record import Estimate, LogitDistance, PictureMap
from alignkit.record.picture_facts import write_pair, write_truth
from alignkit.task_facts import MetricFacts, TaskFacts
from tests.report.records import quickstart

DETECTION = TaskFacts(
    name="detection",
    metrics=(
        MetricFacts(name="map50", label="mAP50", meaning="average precision at an IoU of 0.5"),
        MetricFacts(name="map", label="mAP50-95"),
        MetricFacts(name="recall.macro", label="Macro recall"),
        MetricFacts(name="precision.macro", label="Macro precision"),
    ),
    measures=(
        MetricFacts(name="boxes.lost", label="Lost boxes", better="less", meaning="lost"),
        MetricFacts(name="boxes.won", label="Won boxes", better="less"),
        MetricFacts(name="box.shift", label="Shift of boxes", unit="px", better="less"),
        MetricFacts(name="box.iou", label="IoU of matched boxes", unit="value"),
    ),
    matrices=("map50", "map", "recall.macro", "precision.macro", "churn"),
    class_metrics=(
        MetricFacts(name="recall", label="Recall"),
        MetricFacts(name="precision", label="Precision"),
        MetricFacts(name="ap50", label="AP50"),
    ),
    answer="boxes",
    changed="A box was lost, won or changed its class.",
    quality="right boxes among all boxes and missed objects",
    turned=("worse", "better", "neither"),
    labels="boxes",
)
SEGMENTATION = TaskFacts(
    name="segmentation",
    metrics=(
        MetricFacts(name="miou", label="Mean IoU"),
        MetricFacts(name="pixel_accuracy", label="Pixel accuracy"),
    ),
    measures=(
        MetricFacts(name="pixel_churn", label="Changed pixels", better="less"),
        MetricFacts(name="boundary.shift", label="Shift of boundaries", unit="px", better="less"),
    ),
    matrices=("miou", "pixel_accuracy", "churn"),
    class_metrics=(
        MetricFacts(name="recall", label="Recall"),
        MetricFacts(name="precision", label="Precision"),
        MetricFacts(name="iou", label="IoU"),
    ),
    answer="mask",
    changed="More than 1 % of its pixels have another class, or are seen by one side alone.",
    quality="the share of its pixels whose class is right",
    turned=("worse", "better", "neither"),
    labels="masks",
)
SCORE = TaskFacts(
    name="score",
    metrics=(MetricFacts(name="score.error", label="error", unit="value", better="less"),),
    measures=(MetricFacts(name="score.error.apart", label="|Δ error|", unit="value"),),
    matrices=("score.error", "churn"),
    class_metrics=(),
    answer="score",
    changed="Any score differs.",
    quality="its error, less is better",
    turned=("worse", "better", "neither"),
    rated_unit="value",
    usual_churn=None,
    needs_labels=False,
)
MEASURED = {
    "boxes.lost": (0.031, 0.024, 0.04),
    "boxes.won": (0.018, 0.01, 0.027),
    "box.shift": (1.24, 1.1, 1.4),
    "box.iou": (0.94, 0.93, 0.95),
    "pixel_churn": (0.021, 0.018, 0.024),
    "boundary.shift": (0.84, 0.6, 1.1),
    "score.error.apart": (0.0312, 0.03, 0.033),
    "cosine": (0.9731, 0.971, 0.975),
    "cosine.p01": (0.874, 0.86, 0.889),
    "neighbour_churn": (0.062, 0.05, 0.075),
    "recall@1.kept": (-0.031, -0.045, -0.018),
}
NO_LOGITS = LogitDistance(max_abs=None, mean_abs=None, cosine=None, reason="no class scores")
SOURCES = ("recall.macro", "precision.macro", "top1", "recall.micro")


def of_task(task, folder=None, rules=(), drawn=None):
    """The quickstart's record as one of a task, with the values of classes under other names."""
    record = quickstart(folder)
    scale = 1 if task.metrics[0].unit == "share" else 3
    names = dict(zip((each.name for each in task.metrics), SOURCES, strict=False))

    def renamed(values):
        return {new: values[old] * scale for new, old in names.items()}

    def drift_of(drift):
        if drift is None:
            return None
        changes = {
            new: replace(
                each, **{end: getattr(each, end) * scale for end in ("value", "low", "high")}
            )
            for new, old in names.items()
            for each in [drift.metrics[old]]
        }
        measures = {each.name: Estimate(*MEASURED[each.name]) for each in task.measures}
        others = [each.name for each in task.class_metrics[2:]]
        classes = tuple(
            replace(each, others=dict.fromkeys(others, each.recall)) for each in drift.classes
        )
        return replace(
            drift,
            metrics=changes,
            measures=measures,
            logits=NO_LOGITS,
            classes=classes if task.class_metrics else (),
            holm={task.matrices[0]: 0.01},
            p_values={},
            errors={},
        )

    def of(each):
        return each.model_copy(
            update={
                "metrics": renamed(each.metrics) if each.metrics else {},
                "drift": drift_of(each.drift),
            }
        )

    floors = tuple(
        replace(each, metrics={task.matrices[0]: 0.004 * scale}) for each in record.noise_floor
    )
    record = record.model_copy(
        update={
            "task": task,
            "cells": tuple(of(each) for each in record.cells),
            "matrix": tuple(of(each) for each in record.matrix),
            "noise_floor": floors,
            "attributions": (),
            "advice": (),
            "flipped": (),
            "shown": tuple(drawn(each) for each in record.shown) if drawn else record.shown,
        }
    )
    gate = Gate(rules=rules or None, allow_missing=True)
    ran = [each for each in record.matrix if each.state != "failed"]
    cells = [each for each in record.cells if each.state != "failed"]
    whole = record.model_copy(update={"matrix": tuple(ran), "cells": tuple(cells)})
    verdict = judge(gate, whole, controls=record.controls)
    return record.model_copy(update={"verdict": verdict})


PLACE = PictureMap(width=192, height=144, xx=0.25, xy=0, x0=0, yx=0, yy=0.25, y0=6)
"""A letterbox of 48 x 48 pixels."""


def drawn_as(before, after, words, shown, folder):
    row = shown.predictions[0] if shown.predictions else None
    if row is None:
        return shown
    pair = write_pair(folder, 0, before, after)
    row = row.model_copy(
        update={
            "before": (words[0],) * 3,
            "after": (words[1], words[0], words[1]),
            "turned": ("worse", "", "better"),
            "drawn": pair,
        }
    )
    return shown.model_copy(
        update={
            "label": "",
            "predictions": (row,),
            "truth": write_truth(folder, before),
            "maps": (PLACE, PLACE),
        }
    )


def with_boxes(folder):
    """A function that draws boxes on shown images: one matched, one of another class, one lost."""
    truth = [{"corners": [40, 30, 110, 100], "class": "7"}]
    before = {
        "boxes": [
            {"corners": [42, 31, 112, 99], "class": "7", "score": 0.91, "kind": "matched", "shift": 3.5},
            {"corners": [120, 60, 160, 110], "class": "3", "score": 0.62, "kind": "alone"},
            {"corners": [10, 90, 40, 130], "class": "1", "score": 0.55, "kind": "class changed", "shift": 0.4},
        ],
        "truth": truth,
    }  # fmt: skip
    after = {
        "boxes": [
            {"corners": [45, 33, 114, 102], "class": "7", "score": 0.87, "kind": "matched", "shift": 3.5},
            {"corners": [10, 90, 40, 130], "class": "4", "score": 0.51, "kind": "class changed", "shift": 0.4},
            {"corners": [130, 10, 170, 40], "class": "9", "score": 0.58, "kind": "alone"},
        ],
        "truth": truth,
    }  # fmt: skip
    return lambda shown: drawn_as(before, after, ("7, 3, 1", "7, 4, 9"), shown, folder)


def with_masks(folder):
    """A function that draws masks on shown images, which differ along an edge."""
    y, x = np.mgrid[0:144, 0:192]

    def mask(shift):
        made = np.zeros((144, 192), np.uint8)
        made[np.hypot(x - 90 - shift, y - 70) < 40] = 1
        made[(x > 150) & (y > 90 + shift)] = 2
        return png(made)

    names = ["ground", "ring", "corner"]
    before = {"mask": mask(0), "truth": mask(2), "classes": names}
    after = {"mask": mask(6), "truth": mask(2), "classes": names}
    said = "75 % ground, 18 % ring", "74 % ground, 18 % ring"
    return lambda shown: drawn_as(before, after, said, shown, folder)


def png(mask):
    """A mask as the answers draw it: PNG in base64."""
    written = io.BytesIO()
    Image.fromarray(mask).save(written, "PNG")
    return base64.b64encode(written.getvalue()).decode()


def detection(folder=None):
    rules = (Rule(metric="boxes.lost", fail=0.01), Rule(metric="map50", margin=0.01))
    return of_task(DETECTION, folder, rules, with_boxes(folder) if folder else None)


def segmentation(folder=None):
    rules = (Rule(metric="boundary.shift", fail=0.5), Rule(metric="miou", margin=0.01))
    return of_task(SEGMENTATION, folder, rules, with_masks(folder) if folder else None)


def score(folder=None):
    return of_task(SCORE, folder)
