"""One class an image: the greatest of the model's outputs; `Predictions`, or `TopPredictions`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from alignkit.errors import BackendError, ConfigError
from alignkit.task_facts import CLASSIFICATION, TOP_LOGITS, TaskFacts
from alignkit.tasks import Task
from alignkit.tasks.one_output import described

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Logits
    from alignkit.compare.class_answers import ClassAnswers
    from alignkit.preprocess.geometry import Geometry
    from alignkit.samples import Samples
    from alignkit.tasks import ClassMap, Outputs, OutputShape, Records


@dataclass(frozen=True, slots=True)
class Classification(Task):
    """The class of the greatest output."""

    logits: Literal["full", "top5"] = "full"
    """Logits that are stored of an image: all, or the five greatest with the margin."""

    def facts(self) -> TaskFacts:
        return CLASSIFICATION if self.logits == "full" else TOP_LOGITS

    def refuses(self, samples_kind: str) -> str:
        if samples_kind in ("class", "none"):
            return ""
        fitting = {"boxes": "detection", "mask": "segmentation", "labels": "multi-label"}
        task = fitting.get(samples_kind, "NAME")
        has = f"classifiers need one class an image, and the data has {samples_kind}"
        return f"{has}; write 'task: {task}'"

    def wanted(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        if len(outputs) != 1:
            names = ", ".join(each.name for each in outputs)
            raise ConfigError(
                f"the model has {len(outputs)} outputs ({names}), a classifier one; name the class "
                "scores as the model's 'outputs', or write 'task:' for another kind of model"
            )
        return (outputs[0].name,)

    def recognise(self, outputs: Sequence[OutputShape], classes: int | None) -> str:
        self.wanted(outputs)
        shape = outputs[0].shape
        if outputs[0].whole:
            raise ConfigError(
                "it gives whole numbers, and scores of the classes are needed; export it without a "
                "final argmax or conversion"
            )
        if shape is not None and len(shape) != 2:
            raise ConfigError(
                f"it gives {described(outputs)}, and a classifier a row of scores an image; write "
                "'task:' for another kind of model, as 'task: detection'"
            )
        named = None if shape is None else shape[1]
        if None not in (classes, named) and named != classes:
            raise ConfigError(f"it has {named} outputs for {classes} classes")
        return f"{outputs[0].name}: scores of classes; the greatest is the prediction"

    def counted(self, outputs: Sequence[OutputShape]) -> int | None:
        self.wanted(outputs)
        shape = outputs[0].shape
        return shape[1] if shape and len(shape) == 2 else None

    def decode(self, outputs: Outputs, places: Sequence[Geometry], classes: ClassMap) -> Logits:
        (logits,) = outputs
        expected = (len(places), len(classes.classes) + len(classes.outside))
        # numpy would broadcast a wrong shape without a word
        if logits.shape != expected or logits.dtype.name != "float32":
            raise BackendError(
                f"it gives {logits.dtype} {logits.shape} for {expected[0]} images of "
                f"{expected[1]} classes, not float32 {expected}; export the model with one row of "
                "float32 logits an image"
            )
        return logits[:, list(classes.order)] if classes.order else logits

    def keep(self, records: Records, samples: Samples) -> Records:  # noqa: ARG002
        if self.logits == "full":
            return records
        import numpy as np

        from alignkit.compare.top_predictions import top_records

        return top_records(np.asarray(records))

    def answers(
        self, ids: Sequence[str], records: Records, samples: Samples, classes: ClassMap
    ) -> ClassAnswers:
        import numpy as np

        from alignkit.compare.predictions import Predictions
        from alignkit.compare.top_predictions import TopPredictions, kept_type

        labels = np.zeros(0, np.int64)
        if samples.classes:
            known = dict(zip(samples.ids, samples.labels, strict=True))
            labels = np.array([known[each] for each in ids], np.int64)
        outputs = len(classes.classes) + len(classes.outside)
        names = samples.classes, classes.outside
        if self.logits == "top5":
            rows = np.array(records, kept_type(outputs))
            return TopPredictions(tuple(ids), labels, rows, *names)
        logits = np.asarray(records, np.float32).reshape(len(ids), outputs)
        return Predictions(tuple(ids), labels, logits, *names)

    @staticmethod
    def read(path: Path) -> ClassAnswers:
        from alignkit.compare.top_predictions import read_class_answers

        return read_class_answers(path)
