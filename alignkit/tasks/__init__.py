"""Task plugins: a model's outputs → answers to images, their metrics, and when two answers differ.

The contract that every task keeps and `alignkit.testing` checks:

- a frozen dataclass; its fields are the options of ``task:``, part of every key of predictions;
- `Task.recognise` refuses outputs that it cannot decode, before anything runs;
- `Task.decode` gives one record an image, whatever the batch: the same bytes alone as among others;
- `Task.keep` makes these records small, so that memory does not grow with the size of the outputs;
- its `Answers` are the same after `to_parquet` and `from_parquet`, bit for bit;
- metrics of weights 2 are those of the images twice, where equal scores of an image's copies are
  taken together, or those of weights 1 where an answer depends on the other images; those of ones
  are the plain metrics; an answer compared with itself has not changed, and all its measures are 0
  (or the best that they can be);
- outputs with NaN are counted as ``non_finite``, and never crash or vanish.

Nothing heavy is imported with a task's module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

from alignkit.errors import ConfigError, RecordError
from alignkit.plugins import Plugin, PluginTable

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from alignkit.compare.answers import Answers
    from alignkit.preprocess.geometry import Geometry
    from alignkit.record import RunRecord
    from alignkit.samples import Samples
    from alignkit.task_facts import TaskFacts

    Outputs: TypeAlias = tuple[npt.NDArray[np.float32], ...]
    """The wanted outputs of a model for a batch: (images, …) float32 each, in a fixed order."""

    Records: TypeAlias = Sequence["Record"] | npt.NDArray[Any]
    """One of each image; an array if each record is a row, which keeps them in one piece."""

Record: TypeAlias = Any
"""An image's outputs as a task decodes them, or what it keeps of these; it alone reads it."""


ScoreScale: TypeAlias = Literal["", "logits", "probabilities", "ids"]
"""Scale of an output's values, where its file says it: empty if it does not."""
AskedScores: TypeAlias = Literal["auto", "sigmoid", "as-is", "percent", "levels"]
"""As `Scores`, or whichever the model's file shows."""


Scores: TypeAlias = Literal["sigmoid", "as-is", "percent", "levels"]
"""Logits, whose sigmoid is the probability, or probabilities from 0 to 1, 100 or 255."""


def settled(asked: AskedScores, scale: ScoreScale) -> Scores | None:
    """Return what scores are by the task's option, or else by the model's file; ``None`` if open.

    >>> settled("auto", "probabilities"), settled("sigmoid", "probabilities"), settled("auto", "")
    ('as-is', 'sigmoid', None)
    """
    known: dict[str, Scores] = {"logits": "sigmoid", "probabilities": "as-is"}
    return known.get(scale) if asked == "auto" else asked


def read_as(kind: Scores | None) -> str:
    """Say in words how scores are read, and that it is assumed where nothing says what they are.

    >>> read_as("percent")
    'as they are, 0 to 100'
    """
    if kind is None:
        return (
            "by sigmoid: logits are assumed, as nothing says otherwise (the task's 'scores' names "
            "others: as-is, percent, levels)"
        )
    most = {"as-is": "0 to 1", "percent": "0 to 100", "levels": "0 to 255"}
    return "by sigmoid" if kind == "sigmoid" else f"as they are, {most[kind]}"


@dataclass(frozen=True, slots=True)
class OutputShape:
    """An output as a model's file declares it."""

    name: str
    shape: tuple[int | None, ...] | None
    """``None`` for a side that varies, or altogether if the file does not say."""
    whole: bool = False
    """Whether its values are whole numbers: classes and labels, no scores."""
    scale: ScoreScale = ""
    """By the operator that makes it."""


@dataclass(frozen=True, slots=True)
class ClassMap:
    """The data's classes among those of the model."""

    classes: tuple[str, ...]
    """Names of the data's classes; empty if the images have no labels."""
    outside: tuple[str, ...] = ()
    """Names of the model's other classes."""
    order: tuple[int, ...] = ()
    """Model's index of each of the data's classes, then of the others; empty if they come so."""
    scale: ScoreScale = ""
    """That of the model's first output that is decoded."""


class Task(Protocol):
    """Task plugin: a subclass that is a frozen dataclass, whose fields are its options."""

    keeps_vectors: ClassVar[bool] = False
    """Whether it reads a vector an image from the models that are trained for it."""

    def facts(self) -> TaskFacts:
        """Describe the task for records, pages and rules."""
        ...

    def refuses(self, samples_kind: str) -> str:
        """Say why labels of this kind do not fit, with the next step; empty if they do.

        Kinds are ``class`` (one label an image), ``boxes``, ``mask``, ``labels`` and ``none``.
        """
        ...

    def wanted(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        """Name those of a file's outputs that it decodes, in the order of `decode`.

        Raise `ConfigError` with the next step if they fit none of its decoders.
        """
        ...

    def recognise(self, outputs: Sequence[OutputShape], classes: int | None) -> str:
        """Say in words which outputs were recognised and how they will be decoded.

        ``classes`` is the number that the data or the model's entry names; ``None`` if unknown.
        Raise `ConfigError` as `wanted` does, and for another number of classes.
        """
        ...

    def assumes(self, outputs: Sequence[OutputShape], classes: int | None) -> bool:  # noqa: ARG002
        """Tell whether neither the outputs nor the classes show what `recognise` says."""
        return False

    def counted(self, outputs: Sequence[OutputShape]) -> int | None:
        """Count the model's classes by its outputs; ``None`` if they do not say, 0 without classes.

        It is asked where neither labels nor names of classes are given. Raise `ConfigError` as
        `wanted` does.
        """
        ...

    def fitting(self, outputs: Sequence[OutputShape]) -> Task:  # noqa: ARG002 - few need it
        """Return the task as a given model needs it, whose file declares these outputs.

        Raise `ConfigError` as `wanted` does.
        """
        return self

    def decode(self, outputs: Outputs, places: Sequence[Geometry], classes: ClassMap) -> Records:
        """Decode a batch's outputs into one record an image, in coordinates of the oriented image.

        A record may be a view of the outputs. Raise `BackendError` for outputs of another shape
        than `wanted` promised.
        """
        ...

    def keep(self, records: Records, samples: Samples) -> Records:  # noqa: ARG002 - few need them
        """Return what is kept of a batch's records until all images are predicted.

        ``samples`` are the images of the records, in their order. It is called for each batch
        before the model predicts the next one, whose outputs may take the same memory: rows of an
        array are copied then, records in a list must be no views. By default they are kept as they
        are.
        """
        return records

    def answers(
        self, ids: Sequence[str], records: Records, samples: Samples, classes: ClassMap
    ) -> Answers:
        """Join the kept records of images, by id, with what ``samples`` know about them."""
        ...

    @staticmethod
    def read(path: Path) -> Answers:
        """Read the answers that `Answers.to_parquet` wrote and its options."""
        ...

    def predicting(self) -> Task:
        """Return the task with those options at their defaults that decide about advice alone.

        Another value of them then makes no prediction again.
        """
        return self

    def adopt(self, answers: Answers) -> Answers:
        """Return stored answers of `predicting` with this task's own options."""
        return answers


TASKS = PluginTable(
    "tasks",
    {
        "classification": Plugin(
            "alignkit.tasks.classification:Classification",
            summary="one class an image: recall, precision, top-1 accuracy, churn",
        ),
        "detection": Plugin(
            "alignkit.tasks.detection:Detection",
            distributions=("pycocotools",),
            module="pycocotools",
            extra="detection",
            needs=("torch", "torchvision"),
            summary="boxes: mAP, recall and precision, lost, won and shifted boxes",
        ),
        "segmentation": Plugin(
            "alignkit.tasks.segmentation:Segmentation",
            summary="a class for each pixel: IoU, changed pixels, shift of boundaries",
        ),
        "multi-label": Plugin(
            "alignkit.tasks.multi_label:MultiLabel",
            summary="several labels an image: recall, precision, mAP, changed labels",
        ),
        "embedding": Plugin(
            "alignkit.tasks.embedding:Embedding",
            distributions=("faiss-cpu",),
            module="faiss",
            extra="embedding",
            summary="a vector an image: cosine, verification of pairs, search in an index",
        ),
        "score": Plugin(
            "alignkit.tasks.score:OwnScore",
            summary="any tensors, rated by a function of your own",
        ),
    },
)


def usual_task() -> Task:
    """Return the task of models that name none: one class an image."""
    from alignkit.tasks.classification import Classification

    return Classification()


def stored_answers(record: RunRecord, file: Path) -> Answers:
    """Read a file of a record's predictions; raise `RecordError` for a task that is not installed.

    Raise `DataError` if it holds no answers of the record's task.
    """
    try:
        return answers_of(record.task.name, file)
    except ConfigError as error:
        raise RecordError(f"the record's task cannot be read here: {error}") from error


def answers_of(task: str, file: Path) -> Answers:
    """Read a file of a task's answers; raise `ConfigError` if the task is not installed.

    Raise `DataError` if it holds no answers of the task.
    """
    found: type[Task] = TASKS.find(task).load()
    return found.read(file)
