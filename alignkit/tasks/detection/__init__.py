"""Objects in boxes: torchvision's detectors, Ultralytics', DETR and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from alignkit.errors import ConfigError
from alignkit.task_facts import MetricFacts, TaskFacts
from alignkit.tasks import Task

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.preprocess.geometry import Geometry
    from alignkit.samples import Samples
    from alignkit.tasks import ClassMap, Outputs, OutputShape, Records
    from alignkit.tasks.detection.box_decoding import BoxRecord
    from alignkit.tasks.detection.detection_answers import DetectionAnswers

_BACKGROUND = "background"


@dataclass(frozen=True, slots=True)
class Detection(Task):
    """Boxes with a class and a score, mapped back to the image."""

    outputs: Literal["auto", "torchvision", "ultralytics", "end-to-end", "detr", "yolov5"] = "auto"
    """The format of the outputs, by default the one that fits; ``yolov5`` is never guessed."""
    score: float = 0.25
    """Least score of a box that counts: for recall, precision, and changed answers."""
    least: float = 0.001
    """Score above which boxes are kept: mAP needs the less sure ones too."""
    iou: float = 0.7
    """Overlap above which the less sure of two boxes is suppressed, of formats that need it."""
    agnostic: bool = False
    """Whether boxes of two classes suppress each other."""
    most: int = 300
    """Most boxes that are kept of an image, the best ones."""
    scores: Literal["auto", "sigmoid", "softmax", "as-is"] = "auto"
    """How scores of all classes become probabilities. By default they are ones in Ultralytics'
    format, and logits in DETR's: softmax if there is one more for no object, else sigmoid."""
    first_label: Literal[0, 1] | None = None
    """Label of the model's first class in torchvision's format; by default 1, as 0 is the
    background there, or 0 if the model's classes begin with one of this name."""

    def __post_init__(self) -> None:
        for name in ("score", "least", "iou"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name}: {getattr(self, name)}; from 0 to 1")
        if self.score < self.least:
            raise ConfigError(f"score: {self.score} is below least: {self.least}; no box between "
                              "them is kept")  # fmt: skip
        if self.most < 1:
            raise ConfigError(f"most: {self.most}; at least one box an image")

    def facts(self) -> TaskFacts:
        return detection_facts(self.score)

    def refuses(self, samples_kind: str) -> str:
        if samples_kind in ("boxes", "none"):
            return ""
        return f"detection needs the boxes of each image's objects, and the data has {samples_kind}"

    def wanted(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        from alignkit.tasks.detection.detection_outputs import recognised

        return recognised(outputs, self.outputs)[1]

    def recognise(self, outputs: Sequence[OutputShape], classes: int | None) -> str:
        from alignkit.tasks.detection.detection_outputs import BOX_FORMATS, recognised

        name, found = recognised(outputs, self.outputs)
        shapes = {each.name: each.shape for each in outputs}
        scored = shapes[found[0]]
        self._require_classes(name, scored, classes)
        how = f"{', '.join(found)}: {BOX_FORMATS[name].words}"
        if not BOX_FORMATS[name].suppressed:
            how += f", of two that overlap by more than {self.iou:g} the less sure one"
        return f"{how}; boxes above {self.least:g} are kept, at most {self.most} an image"

    def counted(self, outputs: Sequence[OutputShape]) -> int | None:
        from alignkit.tasks.detection.detection_outputs import recognised

        name, found = recognised(outputs, self.outputs)
        shape = {each.name: each.shape for each in outputs}[found[0]]
        if name == "ultralytics" and shape and shape[1]:
            return shape[1] - 4
        if name == "yolov5" and shape and shape[2]:
            return shape[2] - 5
        # by default only the number of classes says whether one logit is that of no object
        if name == "detr" and self.scores != "auto" and shape and shape[2]:
            return shape[2] - (self.scores == "softmax")
        return None

    def _require_classes(
        self, name: str, shape: tuple[int | None, ...] | None, classes: int | None
    ) -> None:
        """Raise `ConfigError` if a file says that its model has another number of classes."""
        if shape is None or classes is None:
            return
        if name == "ultralytics" and shape[1] is not None and shape[1] - 4 != classes:
            raise ConfigError(f"it has scores of {shape[1] - 4} classes, and {classes} are named")
        if name == "yolov5" and shape[2] is not None and shape[2] - 5 != classes:
            raise ConfigError(f"it has scores of {shape[2] - 5} classes, and {classes} are named")
        extra = {"auto": (0, 1), "softmax": (1,)}.get(self.scores, (0,))
        if name == "detr" and shape[2] is not None and shape[2] - classes not in extra:
            raise ConfigError(f"it has {shape[2]} logits a box, and {classes} classes are named")

    def decode(
        self, outputs: Outputs, places: Sequence[Geometry], classes: ClassMap
    ) -> list[BoxRecord]:
        from alignkit.tasks.detection.box_decoding import Suppression, kept_boxes
        from alignkit.tasks.detection.box_formats import DetectorFacts
        from alignkit.tasks.detection.detection_outputs import format_of, require_images

        require_images(outputs, len(places))
        found = format_of([each.shape for each in outputs], self.outputs)
        reading = DetectorFacts(_count(classes), self.scores, self._first_label(classes))
        suppression = None if found.suppressed else Suppression(self.iou, self.agnostic)
        records = []
        for image, place in enumerate(places):
            size = (place.input_width, place.input_height)
            given = found.candidates(outputs, image, size, reading)
            records.append(
                kept_boxes(
                    given,
                    place,
                    order=classes.order,
                    classes=reading.classes,
                    least=self.least,
                    most=self.most,
                    suppression=suppression,
                )
            )
        return records

    def _first_label(self, classes: ClassMap) -> int:
        if self.first_label is not None:
            return self.first_label
        names = classes.classes + classes.outside
        first = names[classes.order.index(0) if classes.order else 0] if names else ""
        return 0 if first.strip("_ ").lower() == _BACKGROUND else 1

    def answers(
        self, ids: Sequence[str], records: Records, samples: Samples, classes: ClassMap
    ) -> DetectionAnswers:
        from alignkit.tasks.detection.joined_boxes import joined_boxes

        return joined_boxes(ids, list(records), samples, classes, self.score)

    @staticmethod
    def read(path: Path) -> DetectionAnswers:
        from alignkit.tasks.detection.detection_answers import DetectionAnswers

        return DetectionAnswers.from_parquet(path)


def _count(classes: ClassMap) -> int:
    return len(classes.classes) + len(classes.outside)


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
