"""One class an image: the greatest of the model's outputs; `Predictions`, or `ClassIds`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from alignkit.errors import BackendError, ConfigError
from alignkit.task_facts import CLASS_IDS, CLASSIFICATION, TaskFacts
from alignkit.tasks import AskedScores, Task, settled
from alignkit.tasks.one_output import described

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import Logits
    from alignkit.compare.class_answers import ClassAnswers
    from alignkit.preprocess.geometry import Geometry
    from alignkit.samples import Samples
    from alignkit.tasks import ClassMap, Outputs, OutputShape, Records, Scores, ScoreScale

_ABOVE: dict[Scores, str] = {
    "sigmoid": "above 0, a logit",
    "as-is": "above 0.5, a probability",
    "percent": "above 50, a percentage",
    "levels": "above 127.5, of 255",
}
_NO_CLASSES = re.compile(
    "box|landmark|keypoint|embed|feature|hidden|regress|coord|quaternion|"
    "(?<![a-z])(ages?|xy|angles?|yaw|pitch|roll|gaze|offsets?|deltas?|points?|positions?|depths?|"
    "distances?|rotation|translation|sigmas?|variances?)(?![a-z])",
    re.IGNORECASE,
)
_ASSUMED = (
    ". That they are classes is assumed, as no name and no label says so: for a regression write "
    "the task 'score' with a function of your own"
)
_ONE = (
    "{} gives one value an image, and its file does not say which: write the task's 'scores', "
    "'{{name: classification, scores: as-is}}' for the probability of the second of two classes, "
    "'scores: percent' for 0 to 100, 'scores: levels' for 0 to 255, or "
    "'{{name: classification, scores: sigmoid}}' for its logit; for a value that is no class, the "
    "task 'score' with a function of your own"
)


@dataclass(frozen=True, slots=True)
class Classification(Task):
    """The class of the greatest output."""

    logits: Literal["full", "none"] = "full"
    """``none`` of a model that gives the class itself, which its file shows."""
    scores: AskedScores = "auto"
    """Meaning of the only output of a model of two classes: a logit, or a probability, from 0 to
    1, 100 (``percent``) or 255 (``levels``). By default as the model's file shows. ``as-is`` also
    takes rows of probabilities with any sum."""

    def facts(self) -> TaskFacts:
        return CLASSIFICATION if self.logits == "full" else CLASS_IDS

    def refuses(self, samples_kind: str) -> str:
        if samples_kind in ("class", "none"):
            return ""
        fitting = {"boxes": "detection", "mask": "segmentation", "labels": "multi-label"}
        task = fitting.get(samples_kind, "NAME")
        has = f"classifiers need one class an image, and the data has {samples_kind}"
        return f"{has}; write 'task: {task}'"

    def wanted(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        return (self._chosen(outputs).name,)

    def _chosen(self, outputs: Sequence[OutputShape]) -> OutputShape:
        """Choose the only output, or the only row of scores beside the ids of classes."""
        if len(outputs) == 1:
            return outputs[0]
        scores = [each for each in outputs if not _is_ids(each)]
        if len(scores) == 1 and "box" not in scores[0].name.lower():
            return scores[0]
        named = sorted(scores or outputs, key=lambda each: "logit" not in each.name.lower())
        name = named[0].name if named else "NAME"
        raise ConfigError(
            f"the model has {len(outputs)} outputs ({described(outputs)}), a classifier one; name "
            f"class scores as the model's 'outputs', as in '{{onnx: FILE, outputs: [{name}]}}', "
            "or write 'task:' for another kind of model"
        )

    def recognise(self, outputs: Sequence[OutputShape], classes: int | None) -> str:
        chosen = self._chosen(outputs)
        if _is_ids(chosen):
            return f"{chosen.name}: the class itself, without scores"
        shape = _row(chosen.shape)
        if chosen.whole:
            raise ConfigError(
                "it gives whole numbers, and scores of the classes are needed; export it without a "
                "final argmax or conversion"
            )
        if shape is not None and len(shape) != 2:
            raise ConfigError(
                f"it gives {described([chosen])}, and a classifier a row of scores an image; write "
                "'task:' for another kind of model, as 'task: detection' (--task detection)"
            )
        named = None if shape is None else shape[1]
        if named == 1 and classes in (2, None):
            kind = settled(self.scores, chosen.scale)
            if kind is None:
                raise ConfigError(_ONE.format(chosen.name))
            assumed = _ASSUMED if self.assumes(outputs, classes) else ""
            second = f"it is the second {_ABOVE[kind]}"
            return f"{chosen.name}: one output of two classes; {second}{assumed}"
        if named == 1:
            raise ConfigError(
                f"it has one output for {classes} classes, which tells two apart: name both as the "
                "model's 'classes', the second the one whose score it is"
            )
        if None not in (classes, named) and named != classes:
            raise ConfigError(f"it has {named} outputs for {classes} classes")
        scores = f"{named} scores" if named else "scores"
        assumed = _ASSUMED if self.assumes(outputs, classes) else ""
        return f"{chosen.name}: {scores} of classes; the greatest is the prediction{assumed}"

    def assumes(self, outputs: Sequence[OutputShape], classes: int | None) -> bool:
        chosen = self._chosen(outputs)
        if classes is not None or _is_ids(chosen):
            return False
        shape = _row(chosen.shape)
        if shape is not None and shape[1:] == (1,):
            return self.scores == "auto" and chosen.scale == "logits"
        return chosen.scale != "probabilities"

    def fitting(self, outputs: Sequence[OutputShape]) -> Classification:
        ids = _is_ids(self._chosen(outputs))
        return replace(self, logits="none") if ids else self

    def counted(self, outputs: Sequence[OutputShape]) -> int | None:
        chosen = self._chosen(outputs)
        shape = _row(chosen.shape)
        if _NO_CLASSES.search(chosen.name):
            raise ConfigError(
                f"its output is called {chosen.name}, which names no scores of classes; write the "
                "task of the model, for numbers such as coordinates or an age 'score' with a "
                "function of your own, or, if they are scores, name the model's 'classes'"
            )
        if _is_ids(chosen) or not shape or len(shape) != 2:
            return None
        return 2 if shape[1] == 1 else shape[1]

    def decode(self, outputs: Outputs, places: Sequence[Geometry], classes: ClassMap) -> Records:
        (logits,) = outputs
        count = len(classes.classes) + len(classes.outside)
        if self.logits == "none":
            return _ids(logits, len(places), count, classes.order)
        expected = (len(places), max(count, 2))
        if logits.ndim > 2 and logits.shape[2:] == (1,) * (logits.ndim - 2):
            logits = logits.reshape(logits.shape[:2])
        if logits.shape == (len(places), 1) and count == 2:
            logits = self._two_classes(logits, classes.scale)
            if logits.shape[1] == 1:
                # it stays alone: distances are those of what the model gives
                return -logits if classes.order == (1, 0) else logits
        # numpy would broadcast a wrong shape without a word
        if logits.shape != expected or logits.dtype.name != "float32":
            raise BackendError(
                f"it gives {logits.dtype} {logits.shape} for {expected[0]} images of "
                f"{expected[1]} classes, not float32 {expected}; export the model with one row of "
                "float32 logits an image"
            )
        return logits[:, list(classes.order)] if classes.order else logits

    def _two_classes(self, values: Logits, scale: ScoreScale) -> Logits:
        """Return the logit of the second of two classes, or the probability of each."""
        import numpy as np

        from alignkit.tasks.probabilities import CERTAIN, required

        kind = required(values, self.scores, scale)
        if kind is None:
            raise BackendError(_ONE.format("it"))
        if kind == "sigmoid":
            return values.copy()  # a runtime may use its memory again
        return np.concatenate([np.float32(CERTAIN[kind]) - values, values], axis=1)

    def answers(
        self, ids: Sequence[str], records: Records, samples: Samples, classes: ClassMap
    ) -> ClassAnswers:
        import numpy as np

        from alignkit.compare.predictions import ClassIds, Predictions
        from alignkit.tasks.probabilities import SCALES

        labels = np.zeros(0, np.int64)
        if samples.classes:
            known = dict(zip(samples.ids, samples.labels, strict=True))
            labels = np.array([known[each] for each in ids], np.int64)
        outputs = len(classes.classes) + len(classes.outside)
        names = samples.classes, classes.outside
        if self.logits == "none":
            return ClassIds(tuple(ids), labels, np.array(records, np.int64), *names)
        rows = np.asarray(records, np.float32)
        logits = rows.reshape(len(ids), rows.size // len(ids) if len(ids) else outputs)
        # what a file says of rows of probabilities, their values must show
        said = settled(self.scores, "logits" if classes.scale == "logits" else "")
        return Predictions(tuple(ids), labels, logits, *names, SCALES[said] if said else "")

    @staticmethod
    def read(path: Path) -> ClassAnswers:
        from alignkit.compare.predictions import read_class_answers

        return read_class_answers(path)


def _row(shape: tuple[int | None, ...] | None) -> tuple[int | None, ...] | None:
    """Return the shape of a row of scores without sides of 1 behind it, as a convolution has."""
    if shape is None or len(shape) < 3 or shape[2:] != (1,) * (len(shape) - 2):
        return shape
    return shape[:2]


def _is_ids(output: OutputShape) -> bool:
    """Tell whether an output is the class of each image, (n,) or (n, 1), in whole numbers."""
    shape = _row(output.shape)
    return output.whole and shape is not None and (len(shape) == 1 or shape[1:] == (1,))


def _ids(
    values: npt.NDArray[np.float32], images: int, classes: int, order: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Return the data's index of each image's class; raise `BackendError` for no such class."""
    import numpy as np

    if values.size != images:
        raise BackendError(f"it gives {values.shape} for {images} images, not one class an image")
    given = values.reshape(images)
    wrong = given[(given != np.floor(given)) | (given < 0) | (given >= classes)]
    if len(wrong):
        raise BackendError(
            f"it gives the class {wrong[0]:g}, and the model has {classes}, counted from 0; name "
            "every class, in order, as the model's 'classes'"
        )
    places = np.argsort(order) if order else np.arange(classes)
    found: npt.NDArray[np.int64] = places[given.astype(np.int64)]
    return found
