"""Embeddings: a vector an image, whose cosines verify pairs of images and rank an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from alignkit.errors import BackendError, ConfigError
from alignkit.tasks import Task
from alignkit.tasks.one_output import described, one_output

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from alignkit.compare.answers import Answers
    from alignkit.preprocess.geometry import Geometry
    from alignkit.samples import Samples
    from alignkit.task_facts import TaskFacts
    from alignkit.tasks import ClassMap, Outputs, OutputShape, Records
    from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers

_EXPECTED = "one vector an image (n, values)"


@dataclass(frozen=True, slots=True)
class Embedding(Task):
    """The model's output as it is: directions are compared, by cosine."""

    keeps_vectors: ClassVar[bool] = True
    output: str = ""
    """The output that holds the vectors; needed only where several fit."""
    far: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4)
    """False accept rates at which the true accept rate is measured, each between 0 and 1."""
    different_pairs: int = 1_000_000
    """Most pairs of different identities, and most of the same, that verification compares."""
    queries: int = 5_000
    """Most images that are searched for in the index of all images."""
    k: int = 10
    """Neighbours of an image that are compared."""
    # of advice alone: answers with other values are compared all the same
    index_size: int = field(default=0, compare=False)
    """Rows of the index in use, for the cost of building it again; 0 if it is not known."""
    margin: float = field(default=0.01, compare=False)
    """Loss of a metric up to which advice calls two ways equally good; a fraction."""

    def __post_init__(self) -> None:
        if not self.far or len({*self.far}) < len(self.far):
            raise ConfigError("far: one or more rates that differ, such as [0.01, 0.001]")
        for rate in self.far:
            if not 0 < rate < 1:
                raise ConfigError(f"far: {rate:g}; between 0 and 1, such as 0.001")
        for name, least in (("different_pairs", 100), ("queries", 1), ("k", 2), ("index_size", 0)):
            if (given := getattr(self, name)) < least:
                raise ConfigError(f"{name}: {given}; {least} or more")
        if not 0 < self.margin < 1:
            raise ConfigError(f"margin: {self.margin:g}; between 0 and 1, such as 0.01")

    def facts(self) -> TaskFacts:
        from alignkit.tasks.embedding.embedding_facts import embedding_facts

        return embedding_facts(self)

    def refuses(self, samples_kind: str) -> str:
        if samples_kind in ("class", "none"):
            return ""
        return (
            f"an embedding needs the identity of each image as its class, or no labels, and the "
            f"data has {samples_kind}; give a folder of folders, one of each identity, or images"
        )

    def wanted(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        return (self._chosen(outputs).name,)

    def _chosen(self, outputs: Sequence[OutputShape]) -> OutputShape:
        rows = [each for each in outputs if each.shape is None or len(each.shape) == 2]
        maps = [each for each in outputs if each.shape is not None and len(each.shape) in (3, 4)]
        if maps and not rows and not self.output:
            raise ConfigError(
                f"it gives {described(maps)}, and an embedding is {_EXPECTED}; export the model "
                "with its pooling, or write 'task:' for another kind of model"
            )
        return one_output(outputs, self.output, lambda shape: len(shape) == 2, _EXPECTED)

    def recognise(self, outputs: Sequence[OutputShape], classes: int | None) -> str:  # noqa: ARG002
        chosen = self._chosen(outputs)
        if chosen.whole:
            raise ConfigError(
                f"{chosen.name} gives whole numbers, and a vector of numbers is needed; export the "
                "model without a final argmax or conversion"
            )
        values = chosen.shape[1] if chosen.shape else None
        if values == 1:
            raise ConfigError(f"{chosen.name} gives one value an image, which has no direction")
        size = "values" if values is None else f"{values} values"
        return f"{chosen.name}: {size} an image: an embedding, compared by cosine"

    def counted(self, outputs: Sequence[OutputShape]) -> int:
        self.wanted(outputs)
        return 0

    def decode(
        self,
        outputs: Outputs,
        places: Sequence[Geometry],
        classes: ClassMap,  # noqa: ARG002 - a vector has no classes
    ) -> npt.NDArray[np.float32]:
        (vectors,) = outputs
        # numpy would broadcast a wrong shape without a word
        if vectors.ndim != 2 or len(vectors) != len(places) or vectors.dtype.name != "float32":
            raise BackendError(
                f"it gives {vectors.dtype} {vectors.shape} for {len(places)} images, not float32 "
                f"({len(places)}, values); export the model with one vector an image"
            )
        # a copy: a runtime may use its memory again
        return vectors.copy()

    def answers(
        self,
        ids: Sequence[str],
        records: Records,
        samples: Samples,
        classes: ClassMap,  # noqa: ARG002
    ) -> EmbeddingAnswers:
        from alignkit.tasks.embedding.embedding_answers import joined_embeddings

        return joined_embeddings(self, ids, records, samples)

    @staticmethod
    def read(path: Path) -> EmbeddingAnswers:
        from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers

        return EmbeddingAnswers.from_parquet(path)

    def predicting(self) -> Embedding:
        plain: dict[str, Any] = {
            each.name: each.default for each in fields(self) if not each.compare
        }
        return replace(self, **plain)

    def adopt(self, answers: Answers) -> Answers:
        return replace(cast("EmbeddingAnswers", answers), task=self)
