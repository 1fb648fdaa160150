"""Several labels an image: each output above its threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignkit.errors import BackendError, ConfigError
from alignkit.plugins import did_you_mean
from alignkit.task_facts import MetricFacts, TaskFacts
from alignkit.tasks import AskedScores, Task, read_as, settled
from alignkit.tasks.one_output import one_output

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Logits
    from alignkit.preprocess.geometry import Geometry
    from alignkit.samples import Samples
    from alignkit.tasks import ClassMap, Outputs, OutputShape, Records
    from alignkit.tasks.multi_label.multi_label_answers import MultiLabelAnswers

_EXPECTED = "one score of each label (n, labels)"


@dataclass(frozen=True, slots=True)
class MultiLabel(Task):
    """The labels whose probability is above a threshold."""

    output: str = ""
    """The output that holds the scores; needed only where several fit."""
    scores: AskedScores = "auto"
    """Meaning of the outputs: logits, or probabilities, from 0 to 1, 100 (``percent``) or 255
    (``levels``). By default as the model's file shows; logits if it does not, which is refused if
    none of all images' is below 0."""
    threshold: float | dict[str, float] = 0.5
    """Probability above which an image has a label: a number, or one for each label by name."""

    def __post_init__(self) -> None:
        given = self.threshold
        named = given.items() if isinstance(given, dict) else [("", given)]
        for name, value in named:
            if not 0 <= value <= 1:
                place = f"threshold.{name}" if name else "threshold"
                raise ConfigError(f"{place}: {value}; from 0 to 1")

    def facts(self) -> TaskFacts:
        averages = (
            MetricFacts(name=f"{ratio}.{average}", label=f"{average.capitalize()} {label}")
            for ratio, label in (("recall", "recall"), ("precision", "precision"), ("f1", "F1"))
            for average in ("macro", "micro")
        )
        precision = "average precision: of the images ranked by a label's score"
        return TaskFacts(
            name="multi-label",
            metrics=(
                MetricFacts(name="map", label="mAP", meaning=f"mean {precision}, over labels"),
                *averages,
            ),
            measures=(
                MetricFacts(
                    name="label_churn",
                    label="Changed labels",
                    unit="value",
                    better="less",
                    meaning="labels that appear or vanish, an image",
                ),
            ),
            matrices=("map", "recall.macro", "precision.macro", "churn"),
            class_metrics=(
                MetricFacts(name="recall", label="Recall"),
                MetricFacts(name="precision", label="Precision"),
                MetricFacts(name="ap", label="AP", meaning=precision),
            ),
            answer="set of labels",
            changed="A label appears or vanishes.",
            quality="the Jaccard index of its labels: right ones among all that are right or given",
            turned=("worse", "better", "neither"),
            labels="sets of labels",
            counted="labels",
        )

    def refuses(self, samples_kind: str) -> str:
        if samples_kind in ("labels", "none"):
            return ""
        return f"multi-label needs the labels of each image, and the data has {samples_kind}"

    def wanted(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        return (self._chosen(outputs).name,)

    def _chosen(self, outputs: Sequence[OutputShape]) -> OutputShape:
        return one_output(outputs, self.output, lambda shape: len(shape) == 2, _EXPECTED)

    def recognise(self, outputs: Sequence[OutputShape], classes: int | None) -> str:
        chosen = self._chosen(outputs)
        named = chosen.shape[1] if chosen.shape else None
        if None not in (classes, named) and named != classes:
            raise ConfigError(f"{chosen.name} has {named} outputs for {classes} labels")
        read = read_as(settled(self.scores, chosen.scale))
        own = isinstance(self.threshold, dict)
        above = "the threshold of each" if own else f"{self.threshold:g}"
        return f"{chosen.name}: scores of labels, {read}; an image has those above {above}"

    def assumes(self, outputs: Sequence[OutputShape], classes: int | None) -> bool:  # noqa: ARG002
        return settled(self.scores, self._chosen(outputs).scale) is None

    def counted(self, outputs: Sequence[OutputShape]) -> int | None:
        chosen = self._chosen(outputs)
        return chosen.shape[1] if chosen.shape else None

    def decode(self, outputs: Outputs, places: Sequence[Geometry], classes: ClassMap) -> Logits:
        from alignkit.tasks.probabilities import required

        (scores,) = outputs
        expected = (len(places), len(classes.classes) + len(classes.outside))
        if scores.shape != expected:
            raise BackendError(
                f"it gives {scores.shape} for {expected[0]} images of {expected[1]} labels, not "
                f"{expected}; export the model with one score of each label"
            )
        required(scores, self.scores, classes.scale)
        # a copy: a runtime may use its memory again
        return scores[:, list(classes.order)] if classes.order else scores.copy()

    def answers(
        self, ids: Sequence[str], records: Records, samples: Samples, classes: ClassMap
    ) -> MultiLabelAnswers:
        from alignkit.tasks.multi_label.multi_label_answers import joined_labels

        names = classes.classes + classes.outside
        kind = settled(self.scores, classes.scale)
        return joined_labels(ids, records, samples, classes, self._limits(names), kind)

    def _limits(self, names: Sequence[str]) -> tuple[float, ...]:
        """Return the threshold of each label."""
        given = self.threshold
        if not isinstance(given, dict):
            return (given,) * len(names)
        for name in given:
            if name not in names:
                raise ConfigError(f"threshold: no label {name!r}{did_you_mean(name, names)}")
        missing = [name for name in names if name not in given]
        if missing:
            raise ConfigError(
                f"threshold: {len(missing)} labels have none, first {missing[0]!r}; name every "
                "label, or write one number for all"
            )
        return tuple(given[name] for name in names)

    @staticmethod
    def read(path: Path) -> MultiLabelAnswers:
        from alignkit.tasks.multi_label.multi_label_answers import MultiLabelAnswers

        return MultiLabelAnswers.from_parquet(path)
