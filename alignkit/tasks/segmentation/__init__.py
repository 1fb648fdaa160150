"""A class for each pixel: logits, one channel of a binary model, or a map of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from alignkit.errors import BackendError, ConfigError
from alignkit.task_facts import MetricFacts, TaskFacts
from alignkit.tasks import AskedScores, Task, read_as, settled
from alignkit.tasks.one_output import one_output

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from alignkit.preprocess.geometry import Geometry
    from alignkit.samples import Samples
    from alignkit.tasks import ClassMap, Outputs, OutputShape, Records, Scores
    from alignkit.tasks.segmentation.class_maps import Classes
    from alignkit.tasks.segmentation.mask_records import MaskRecord
    from alignkit.tasks.segmentation.segmentation_answers import SegmentationAnswers

Form = Literal["logits", "logits last", "one channel", "indices"]
"""Scores of each class, in the second side or the last; scores of the second of two; the classes
themselves."""

_MOST_CLASSES = 254  # two values of a byte say that there is none
_UNLIKE = 8
"""Ratio of two sides beyond which an output of three axes is taken for a list."""
_ONE_OF_TWO = (
    "; if they say how surely a pixel is the second class, set the task's 'scores: levels' for 0 "
    "to 255, 'scores: percent' for 0 to 100, 'scores: as-is' for 0 to 1, 'scores: sigmoid' for "
    "logits"
)
_EXPECTED = "logits (n, classes, h, w), one channel (n, 1, h, w) or class indices (n, h, w)"


@dataclass(frozen=True, slots=True)
class Segmentation(Task):
    """The class of the greatest output at each pixel, mapped back to the image."""

    output: str = ""
    """The output that holds the classes; needed only where several fit."""
    resize: Literal["nearest", "bilinear"] = "nearest"
    """How scores are resampled to the image: the class of the nearest output, or scores that are
    interpolated before the greatest is found, as most evaluation scripts do."""
    scores: AskedScores = "auto"
    """Meaning of one channel for two classes: logits, or probabilities, from 0 to 1, 100
    (``percent``) or 255 (``levels``). By default as the model's file shows; logits if it does not,
    which is refused if none of all images' is below 0. Whole numbers are the classes."""
    threshold: float = 0.5
    """Probability above which one channel is the second of two classes."""
    changed: float = 0.01
    """Share of an image's pixels; if more changed their class, its answer changed."""

    def __post_init__(self) -> None:
        for name in ("threshold", "changed"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name}: {getattr(self, name)}; from 0 to 1")

    def facts(self) -> TaskFacts:
        return TaskFacts(
            name="segmentation",
            metrics=(
                MetricFacts(
                    name="miou",
                    label="Mean IoU",
                    meaning="intersection over union of a class's pixels in all images, averaged "
                    "over the classes that the masks or the predictions have; a pixel that a "
                    "crop cut away is missed",
                ),
                MetricFacts(
                    name="pixel_accuracy",
                    label="Pixel accuracy",
                    meaning="share of the masks' pixels whose class is right; one that a crop cut "
                    "away is not",
                ),
                MetricFacts(name="recall.macro", label="Macro recall of pixels"),
                MetricFacts(name="precision.macro", label="Macro precision of pixels"),
            ),
            measures=(
                MetricFacts(
                    name="pixel_churn",
                    label="Changed pixels",
                    better="less",
                    meaning="share of the pixels whose class is another one, or that one side "
                    "alone sees",
                ),
                MetricFacts(
                    name="boundary.shift",
                    label="Shift of boundaries",
                    unit="px",
                    better="less",
                    meaning="mean distance between the boundaries of the classes that changed, in "
                    "pixels of the image, averaged over images",
                ),
            ),
            matrices=("miou", "pixel_accuracy", "churn"),
            class_metrics=(
                MetricFacts(name="recall", label="Recall"),
                MetricFacts(name="precision", label="Precision"),
                MetricFacts(name="iou", label="IoU"),
            ),
            answer="mask",
            changed=f"More than {100 * self.changed:g} % of its pixels have another class, or are "
            "seen by one side alone.",
            quality="the share of its pixels whose class is right",
            turned=("worse", "better", "neither"),
            labels="masks",
            counted="pixels",
        )

    def refuses(self, samples_kind: str) -> str:
        if samples_kind in ("mask", "none"):
            return ""
        return f"segmentation needs a mask for each image, and the data has {samples_kind}"

    def wanted(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        return (self._chosen(outputs).name,)

    def _chosen(self, outputs: Sequence[OutputShape]) -> OutputShape:
        names = {each.name for each in outputs}
        if not self.output and "out" in names:
            # the second head of torchvision's models helps their training alone
            outputs = [each for each in outputs if each.name != "aux"]
        named = bool(self.output)
        lists = [each.name for each in outputs if each.shape and _is_list(each.shape)]
        maps = [each.name for each in outputs if each.shape and len(each.shape) == 4]
        if lists and maps and not named:
            raise ConfigError(
                f"{lists[0]} looks like a list of boxes, and {maps[0]} like the prototypes of "
                f"their masks, which are no scores of classes; if {maps[0]} holds scores, write "
                f"'output: {maps[0]}' in the task"
            )
        wanted = _EXPECTED
        if lists and not named:
            wanted += (
                f"; {lists[0]} looks like a list of boxes: if it is a map of unlike sides, write "
                f"'output: {lists[0]}' in the task, else take the task of the model"
            )
        return one_output(
            outputs,
            self.output,
            lambda shape: self._form(shape, None) is not None and (named or not _is_list(shape)),
            wanted,
        )

    def recognise(self, outputs: Sequence[OutputShape], classes: int | None) -> str:
        chosen = self._chosen(outputs)
        if chosen.shape is None:
            return f"{chosen.name}, of unknown shape; its form is known once it has run"
        form = self._form(chosen.shape, classes)
        if form is None or (classes or 0) > _MOST_CLASSES:
            raise ConfigError(
                f"{chosen.name} has the shape {chosen.shape} for {classes} classes; expected "
                f"{_EXPECTED}, at most {_MOST_CLASSES} classes"
            )
        return f"{chosen.name}: {self._words(form, chosen, classes)}"

    def assumes(self, outputs: Sequence[OutputShape], classes: int | None) -> bool:
        chosen = self._chosen(outputs)
        lone = chosen.shape is not None and self._form(chosen.shape, classes) == "one channel"
        return lone and settled(self.scores, chosen.scale) is None and not chosen.whole

    def counted(self, outputs: Sequence[OutputShape]) -> int | None:
        shape = self._chosen(outputs).shape
        if shape is None or (form := self._form(shape, None)) == "indices":
            return None
        return 2 if form == "one channel" else shape[3 if form == "logits last" else 1]

    def _words(self, form: Form, chosen: OutputShape, classes: int | None) -> str:
        shape = chosen.shape or ()
        if form == "indices":
            return "the class of each pixel, as whole numbers"
        if form == "one channel":
            kind = settled(self.scores, chosen.scale)
            if kind is None and chosen.whole:
                return "one channel, the class of each pixel, as whole numbers"
            second = f"the second class above {self.threshold:g}"
            read = read_as(kind).replace("they are", "it is", 1)
            other = "" if classes else "; with more than two classes, the class of each pixel"
            return f"one channel, {second}, {read}{other}"
        last = form == "logits last"
        count = shape[3 if last else 1] or classes
        where = ", channels last" * last
        return f"logits{f' of {count} classes' if count else ''}{where}; the greatest is the class"

    def decode(
        self, outputs: Outputs, places: Sequence[Geometry], classes: ClassMap
    ) -> list[MaskRecord]:
        import numpy as np

        from alignkit.tasks.probabilities import reach_of, required
        from alignkit.tasks.segmentation.class_maps import to_png
        from alignkit.tasks.segmentation.mask_records import MaskRecord

        (values,) = outputs
        count = len(classes.classes) + len(classes.outside)
        form = self._form(values.shape, count)
        if form is None or len(values) != len(places) or count > _MOST_CLASSES:
            raise BackendError(
                f"it gives {values.shape} for {len(places)} images of {count} classes; expected "
                f"{_EXPECTED}, at most {_MOST_CLASSES} classes"
            )
        kind: Scores | None = "sigmoid"
        if form == "logits last":
            values, form = np.moveaxis(values, 3, 1), "logits"
        elif form == "one channel":
            values = values.reshape(len(values), 1, *_plane(values.shape))
            kind = required(values, self.scores, classes.scale)
            if kind is None and classes.scale == "ids":
                form, values = "indices", values[:, 0]
        reading: tuple[Form, Scores] = form, kind or "sigmoid"
        return [
            MaskRecord(
                to_png(self._classes(image, place, reading, classes)),
                bool(np.isfinite(image).all()),
                (0.0, 0.0) if kind or form == "indices" else reach_of(image),
            )
            for image, place in zip(values, places, strict=True)
        ]

    def _form(self, shape: Sequence[int | None], classes: int | None) -> Form | None:
        """Tell the form of an output of this shape; `None` if it has none."""
        form = _form(shape, classes)
        said = form == "indices" and self.scores != "auto" and classes in (2, None)
        return "one channel" if said else form

    def _classes(
        self,
        image: npt.NDArray[np.float32],
        place: Geometry,
        reading: tuple[Form, Scores],
        classes: ClassMap,
    ) -> Classes:
        """Find the data's class of each pixel of the oriented image."""
        from alignkit.annotations import IGNORED
        from alignkit.tasks.segmentation.class_maps import greatest

        form, kind = reading
        order = classes.order or tuple(range(len(classes.classes) + len(classes.outside)))
        smooth = self.resize == "bilinear" and form != "indices"

        def over_image(plane: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            return place.plane_to_image(plane, unknown=0.0, smooth=True) if smooth else plane

        if form == "logits":
            # one plane at a time, in the data's order, so that it settles ties
            found = greatest(over_image(image[index]) for index in order)
        else:
            plane = over_image(image.reshape(_plane(image.shape)))
            found = (
                self._second(plane, kind) if form == "one channel" else _indices(plane, len(order))
            )
            found = _renumbered(order)[found]
        if not smooth:
            return place.plane_to_image(found, unknown=IGNORED)
        found[~place.seen()] = IGNORED
        return found

    def _second(self, plane: npt.NDArray[np.float32], kind: Scores) -> Classes:
        """Mark the pixels of the second of two classes."""
        import numpy as np

        from alignkit.tasks.probabilities import above
        from alignkit.tasks.segmentation.class_maps import NO_CLASS

        found = above(plane, self.threshold, kind).astype(np.uint8)
        found[np.isnan(plane)] = NO_CLASS
        return found

    def answers(
        self, ids: Sequence[str], records: Records, samples: Samples, classes: ClassMap
    ) -> SegmentationAnswers:
        from alignkit.tasks.segmentation.mask_records import joined

        return joined(ids, list(records), samples, classes, self.changed)

    @staticmethod
    def read(path: Path) -> SegmentationAnswers:
        from alignkit.tasks.segmentation.segmentation_answers import SegmentationAnswers

        return SegmentationAnswers.from_parquet(path)


def _is_list(shape: Sequence[int | None]) -> bool:
    """Tell whether an output (n, a, b) is a detector's list rather than a map of class indices."""
    sides = [each for each in shape[1:] if each is not None]
    return len(shape) == 3 and len(sides) == 2 and max(sides) > _UNLIKE * min(sides)


def _form(shape: Sequence[int | None], classes: int | None) -> Form | None:
    """Tell the form of an output of this shape for a number of classes; ``None`` if it has none."""
    if len(shape) == 3:
        return "indices"
    if len(shape) != 4:
        return None
    last = _channels_last(shape, classes)
    channels = shape[3 if last else 1]
    if channels == 1:
        # with another number of classes, one channel can hold their indices alone
        return "one channel" if classes in (2, None) else "indices"
    if channels is not None and classes not in (channels, None):
        return None
    return "logits last" if last else "logits"


def _channels_last(shape: Sequence[int | None], classes: int | None) -> bool:
    """Tell whether the last of four sides is that of the classes: the least, or their number."""
    _, first, second, last = shape
    if last is None or first == 1 or (classes and (first == classes or last not in (1, classes))):
        return False
    return all(each is None or last < each for each in (first, second))


def _plane(shape: Sequence[int]) -> tuple[int, int]:
    """Return height and width of one channel, wherever its side of 1 is."""
    height, width = shape[-3:-1] if shape[-1] == 1 and len(shape) > 2 else shape[-2:]
    return height, width


def _indices(plane: npt.NDArray[np.float32], classes: int) -> Classes:
    """Read classes that are written as numbers; NaN is `NO_CLASS`."""
    import numpy as np

    from alignkit.tasks.segmentation.class_maps import NO_CLASS
    from alignkit.text.numbers import significant

    known = ~np.isnan(plane)
    values = np.where(known, plane, 0)
    wrong = values[(values != np.floor(values)) | (values < 0) | (values >= classes)]
    if len(wrong):
        raise BackendError(
            f"its output of one channel holds {significant(float(wrong[0]), 6)}, and the index of "
            f"one of {classes} classes is expected; name all classes of the model in 'classes:', "
            "or export its logits" + _ONE_OF_TWO * (classes == 2)
        )
    return np.where(known, values, NO_CLASS).astype(np.uint8)


def _renumbered(order: Sequence[int]) -> Classes:
    """Map the model's index of a class to the data's, (256,)."""
    import numpy as np

    found = np.arange(256, dtype=np.uint8)
    found[list(order)] = np.arange(len(order))
    return found
