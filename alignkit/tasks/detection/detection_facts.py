"""Words of detection: its metrics and measures, for records, pages and rules."""

from __future__ import annotations

from alignkit.task_facts import MetricFacts, TaskFacts


def detection_facts(score: float) -> TaskFacts:
    """Describe detection whose boxes count from ``score`` on."""
    counted = f"among boxes with a score of at least {score:g}, at an IoU of 0.5"
    return TaskFacts(
        name="detection",
        metrics=(
            MetricFacts(
                name="map50",
                label="mAP50",
                meaning="average precision at an IoU of 0.5, as COCO defines it, averaged over the "
                "classes that the images have",
            ),
            MetricFacts(
                name="map",
                label="mAP50-95",
                meaning="the same, averaged over IoU 0.50, 0.55, … 0.95",
            ),
            *(
                MetricFacts(
                    name=f"{ratio}.{average}",
                    label=f"{average.capitalize()} {ratio}",
                    meaning=f"{ratio} {counted}, {words}",
                )
                for ratio in ("recall", "precision")
                for average, words in (
                    ("macro", "averaged over classes"),
                    ("micro", "of all classes together"),
                )
            ),
        ),
        measures=_measures(),
        matrices=("map50", "map", "recall.macro", "precision.macro", "churn"),
        class_metrics=(
            MetricFacts(name="recall", label="Recall"),
            MetricFacts(name="precision", label="Precision"),
            MetricFacts(name="ap50", label="AP50"),
            MetricFacts(name="ap", label="AP50-95"),
        ),
        answer="boxes",
        changed=f"A box with a score of at least {score:g} was lost or won, or changed its class; "
        "boxes match at an IoU of 0.5.",
        quality="right boxes among all boxes and missed objects",
        turned=("worse", "better", "neither"),
        labels="boxes",
        counted="objects",
    )


def _measures() -> tuple[MetricFacts, ...]:
    shares = (
        (
            "boxes.lost",
            "Lost boxes",
            "share of the reference's boxes that match none of the candidate's",
        ),
        (
            "boxes.won",
            "Won boxes",
            "share of the candidate's boxes that match none of the reference's",
        ),
        (
            "boxes.class_changed",
            "Boxes of another class",
            "share of the reference's boxes whose match has another class",
        ),
        (
            "boxes.crossed",
            "Boxes across the threshold",
            "share of the boxes of both whose match is there and has a score below the threshold",
        ),
    )
    return (
        *(
            MetricFacts(name=name, label=label, better="less", meaning=meaning)
            for name, label, meaning in shares
        ),
        MetricFacts(
            name="box.shift",
            label="Shift of boxes",
            unit="px",
            better="less",
            meaning="pixels of the image that the corner coordinate moves which moves most, "
            "averaged over matched boxes",
        ),
        MetricFacts(
            name="box.iou",
            label="IoU of matched boxes",
            unit="value",
            meaning="intersection over union of matched boxes, averaged over them",
        ),
    )
