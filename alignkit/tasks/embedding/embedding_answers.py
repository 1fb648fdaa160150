"""`EmbeddingAnswers`: vectors of images, with their identities and given pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from alignkit.annotations import Pairs
from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Answers, RatioOfSums, Weighted, Weights
from alignkit.errors import DataError
from alignkit.record import Estimate
from alignkit.samples import Samples
from alignkit.tasks.embedding import Embedding
from alignkit.tasks.embedding.embedding_facts import at_far
from alignkit.tasks.embedding.fold_accuracy import FoldAccuracy
from alignkit.tasks.embedding.pair_weights import OfDraws
from alignkit.tasks.embedding.queries import Queries, SearchResults
from alignkit.tasks.embedding.retrieval import Retrieval, own_search, retrieval
from alignkit.tasks.embedding.unit_vectors import QuantileOf, Vectors, cosine_measures, cosines
from alignkit.tasks.embedding.verification import (
    KeptRate,
    KeptThresholds,
    Verification,
    why_unverified,
)
from alignkit.tasks.embedding.verified_pairs import VerifiedPairs, drawn_pairs, given_pairs
from alignkit.text.numbers import plain

if TYPE_CHECKING:
    from alignkit.tasks import Records

NO_IDENTITY = -1
"""Identity of an image without a label."""
_Marked = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class EmbeddingAnswers(Answers):
    """Vectors of images; see `alignkit.compare.answers.Answers`."""

    no_logits: ClassVar[str] = "the values of an embedding are no logits"
    together: ClassVar[bool] = True

    ids: tuple[str, ...]
    vectors: Vectors
    identities: Labels
    """(n,), index into ``names``; `NO_IDENTITY` for all images without labels."""
    names: tuple[str, ...]
    """Names of the identities; empty if the images have none."""
    pairs: Pairs | None
    """Pairs that the data gives, of these images; ``None`` where pairs are drawn."""
    task: Embedding
    classes: tuple[str, ...] = field(default=(), init=False)
    """Empty: a vector is of no class."""
    _metrics: OfDraws[Mapping[str, FloatArray]] = field(
        default_factory=OfDraws, init=False, repr=False
    )
    _retrievals: WeakKeyDictionary[EmbeddingAnswers, Retrieval] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )

    def __post_init__(self) -> None:
        n = len(self.ids)
        if self.vectors.ndim != 2 or len(self.vectors) != n or self.identities.shape != (n,):
            raise DataError(
                f"{n} images need vectors ({n}, values) and identities ({n},), not "
                f"{self.vectors.shape} and {self.identities.shape}"
            )
        super().__post_init__()

    @property
    def labelled(self) -> bool:
        """True: cosines and neighbours need no labels."""
        return True

    @cached_property
    def _finite(self) -> _Marked:
        return np.asarray(np.isfinite(self.vectors).all(axis=1))

    def finite(self) -> _Marked:
        """Tell, (n,), whether every value of a vector is finite."""
        return self._finite

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the task's metrics, with identities or without."""
        return tuple(each.name for each in self.task.facts().metrics)

    def unlike(self, other: EmbeddingAnswers) -> str:
        """Say why both cannot be compared although the ids agree; empty if they can."""
        sizes = [each.vectors.shape[1] for each in (self, other)]
        if sizes[0] != sizes[1]:
            return f"the vectors have {sizes[0]} and {sizes[1]} values"
        if self.task != other.task:
            return "the two have different options of the task"
        if self.names != other.names or (self.identities != other.identities).any():
            return "the identities of the images disagree"
        return "" if _same_pairs(self.pairs, other.pairs) else "the given pairs disagree"

    def rows(self, indices: Labels) -> EmbeddingAnswers:
        """Select the images at ``indices``, in that order; pairs of both of their images stay."""
        return replace(
            self,
            ids=tuple(self.ids[index] for index in indices),
            vectors=self.vectors[indices],
            identities=self.identities[indices],
            pairs=self.pairs.take(indices.tolist()) if self.pairs is not None else None,
        )

    def tallies(self) -> EmbeddingAnswers:
        """Return the answers themselves: a metric needs every vector."""
        return self

    @cached_property
    def verified(self) -> VerifiedPairs | None:
        """Pairs that are verified; ``None`` without identities and given pairs."""
        if self.pairs is not None:
            return given_pairs(self.pairs, self.identities)
        if not (self.identities >= 0).any():
            return None
        return drawn_pairs(self.identities, self.task.different_pairs)

    @cached_property
    def verification(self) -> Verification | None:
        """Their similarities."""
        if self.verified is None:
            return None
        return Verification.of(self.vectors, self.verified, self.task.far)

    def groups(self) -> Labels | None:
        """Number, (n,), the identities, or the images that given pairs join."""
        return None if self.verified is None else self.verified.groups

    def metrics_of(self, weights: Weights) -> Mapping[str, FloatArray]:
        """Compute the metrics of verification and retrieval."""
        # comparisons with several others share their draws
        return self._metrics.get(weights, self._metrics_of)

    def _metrics_of(self, weights: Weights) -> Mapping[str, FloatArray]:
        unknown = {name: np.full(weights.shape[1], np.nan) for name in self.metric_names}
        recall = {
            f"recall@{most}": self.queries.mean(self.found.hits(most), self.queries.counted)
            for most in (1, self.task.k)
        }
        found = unknown | {name: each.of(weights) for name, each in recall.items()}
        if (side := self.verification) is not None:
            tuned = side.tuned(weights)
            found |= {f"tar@{at_far(e)}": tuned.tar[at] for at, e in enumerate(side.rates)}
            accuracy = self._fold_accuracy
            assert accuracy is not None
            found |= {"eer": tuned.eer, "verification.accuracy": accuracy.of(weights)}
        return found

    @cached_property
    def _fold_accuracy(self) -> FoldAccuracy | None:
        return None if self.verification is None else FoldAccuracy(self.verification)

    def undefined(self, metric: str) -> str:
        """Say why a metric or a measure has no value."""
        verified = metric.startswith(("tar@", "far@", "eer", "verification."))
        if verified and self.verification is not None:
            return why_unverified(metric, self.verification, self.task.far)
        if verified:
            return "the identities of the images are not known"
        if metric.startswith("recall@"):
            return self.queries.why_none_counts
        return "no image has a direction on both sides: embeddings are zero, infinite or NaN"

    @cached_property
    def queries(self) -> Queries:
        """The images that are searched for."""
        return Queries.drawn(self.identities, self.task.queries)

    @cached_property
    def found(self) -> SearchResults:
        """The results of the queries in the index of these vectors."""
        return own_search(self.vectors, self.queries, self.task.k)

    def retrieval(self, other: EmbeddingAnswers) -> Retrieval:
        """Search the index of either for the queries of the other, of the same images."""
        if other not in self._retrievals:
            own = self.found, other.found
            found = retrieval((self.vectors, other.vectors), own, self.queries, self.task.k)
            self._retrievals[other] = found
        return self._retrievals[other]

    @classmethod
    def joined(cls, parts: Sequence[EmbeddingAnswers]) -> EmbeddingAnswers:
        """Join those of different images, in the order given, and the given pairs of each part."""
        identities, vectors = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("identities", "vectors")
        )
        ids = tuple(each for part in parts for each in part.ids)
        starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()
        pairs = [
            replace(part.pairs, first=part.pairs.first + at, second=part.pairs.second + at)
            for at, part in zip(starts, parts, strict=False)
            if part.pairs is not None
        ]
        listed = ("first", "second", "same", "fold")
        joined = (np.concatenate([getattr(each, name) for each in pairs]) for name in listed)
        given = Pairs(*joined) if pairs else None
        return replace(parts[0], ids=ids, vectors=vectors, identities=identities, pairs=given)

    def raw_rows(self) -> Vectors:
        """Return the vectors, (n, values) float32."""
        return self.vectors

    def differs(self, other: EmbeddingAnswers) -> _Marked:
        """Tell, (n,), whether any value of a vector differs, or the nearest image."""
        same = (self.vectors == other.vectors) | (np.isnan(self.vectors) & np.isnan(other.vectors))
        return np.asarray(~same.all(axis=1) | self.changed(other))

    def moves(self, other: EmbeddingAnswers, metric: str) -> _Marked | None:
        """Tell, (n,), whether a query that a recall counts has another hit; ``None`` of others."""
        name, _, most = metric.partition("@")
        if name != "recall":
            return None
        mine, theirs = (each.found.hits(int(most)) for each in (self, other))
        moved = np.where(self.queries.counted & (mine != theirs), 1.0, 0.0)
        return np.asarray(self.queries.over_images(moved) == 1)

    def measures_of(self, other: EmbeddingAnswers) -> dict[str, Weighted]:
        """Compare directions, verification with kept thresholds, and search in a kept index."""
        found: dict[str, Weighted] = {**cosine_measures(self.vectors, other.vectors)}
        if self.verification is not None and other.verification is not None:
            kept = KeptThresholds(self.verification, other.verification)
            for rate in self.task.far:
                found[f"tar@{at_far(rate)}.kept"] = KeptRate(kept, rate, accepted=False)
                found[f"far@{at_far(rate)}.kept"] = KeptRate(kept, rate, accepted=True)
        else:
            unknown = QuantileOf(np.full(len(self), np.nan), 0.5)
            for rate in self.task.far:
                found |= {f"{rates}@{at_far(rate)}.kept": unknown for rates in ("tar", "far")}
        return found | self.retrieval(other).measures()

    def changed(self, other: EmbeddingAnswers) -> _Marked:
        """Tell, (n,), whether the nearest image is another one; of no image that is no query."""
        return np.asarray(self.queries.over_images(self._moved(other)) == 1)

    def one_answer(self, other: EmbeddingAnswers) -> str:
        """Say that all images have the same vector on both sides; empty if not."""
        both = np.concatenate([self.vectors, other.vectors])
        apart = np.abs(both - both[0]).max(initial=0)
        if len(self) < 2 or apart > 1e-6 * np.abs(both[0]).max(initial=0):
            return ""
        return f"all {len(self)} images have the same vector on both sides"

    def churn(self, other: EmbeddingAnswers) -> RatioOfSums:
        """Return the share of queries whose nearest image is another one."""
        return self.queries.mean(self._moved(other))

    def _moved(self, other: EmbeddingAnswers) -> FloatArray:
        """Mark, (queries,), by 1 those whose nearest image in the index of their side differs."""
        # each side's own search suffices: no query is searched for in the other's index
        moved: FloatArray = np.where(self.found.near[:, 0] == other.found.near[:, 0], 0.0, 1.0)
        return moved

    def quality(self) -> FloatArray:
        """Tell, (n,), by 1 or 0 whether the nearest image has the same identity.

        NaN for an image that is no query, or the only one of its identity.
        """
        counted = self.queries.counted
        return self.queries.over_images(np.where(counted, self.found.hits(1), np.nan))

    @classmethod
    def pair_facts(
        cls,
        pairs: Sequence[tuple[Self, Self]],
        changes: Mapping[str, Estimate],
        groups: Labels | None,
    ) -> dict[str, Any]:
        """Compute figures, tables, advice and neighbours of a drift, over all pairs.

        Figures are those of the first seed.
        """
        from alignkit.tasks.embedding.retrieval_facts import retrieval_facts
        from alignkit.tasks.embedding.verification_facts import (
            thresholds_table,
            verification_figures,
        )

        found = retrieval_facts(pairs, groups)
        first = pairs[0][0]
        compared = 0 if first.verified is None else len(first.verified.different)
        table = thresholds_table(first.task.far, changes, compared)
        return found | {
            "figures": verification_figures(*pairs[0]),
            "tables": (*((table,) if table else ()), *found["tables"]),
        }

    def apart(self, other: EmbeddingAnswers) -> FloatArray:
        """Compute 1 − cosine of an image's two vectors, (n,); NaN where one has no direction."""
        return 1 - cosines(self.vectors, other.vectors)

    def truth_said(self, index: int) -> str:
        """Name the identity of an image; empty if it is not known."""
        identity = int(self.identities[index])
        return self.names[identity] if identity != NO_IDENTITY else ""

    @cached_property
    def _asked(self) -> dict[int, int]:
        """Image → its row among the queries."""
        return {image: row for row, image in enumerate(self.queries.images.tolist())}

    def said(self, index: int) -> str:
        """Name the nearest image of an index of these vectors: ``nearest a.jpg, cosine 0.8312``."""
        if (row := self._asked.get(index)) is None:
            return "not searched for"
        near, similarity = int(self.found.near[row, 0]), float(self.found.similarity[row, 0])
        return (
            "no image found"
            if near < 0
            else f"nearest {self.ids[near]}, cosine {plain(similarity, 4)}"
        )

    def to_parquet(self, path: Path, **besides: FloatArray) -> None:
        """Write a row for each image; see `alignkit.tasks.embedding.embedding_file`."""
        from alignkit.tasks.embedding.embedding_file import write_embeddings

        write_embeddings(path, self, besides)

    @classmethod
    def from_parquet(cls, path: Path) -> EmbeddingAnswers:
        """Read a file of `to_parquet`, bit for bit; raise `DataError` for any other file."""
        from alignkit.tasks.embedding.embedding_file import read_embeddings

        return read_embeddings(path)


def _same_pairs(one: Pairs | None, other: Pairs | None) -> bool:
    """Tell whether both have the same pairs, in any order: a file lists them by image."""
    if one is None or other is None:
        return one is other
    tables = [
        np.stack([each.first, each.second, each.same.astype(np.int64), each.fold])
        for each in (one, other)
    ]
    mine, theirs = (table[:, np.lexsort(table)] for table in tables)
    return np.array_equal(mine, theirs)


def joined_embeddings(
    task: Embedding, ids: Sequence[str], records: Records, samples: Samples
) -> EmbeddingAnswers:
    """Join vectors of images, by id, with what ``samples`` know about them."""
    place = {name: index for index, name in enumerate(samples.ids)}
    rows = [place[each] for each in ids]
    identities = np.full(len(rows), NO_IDENTITY, np.int64)
    if samples.labels:
        identities = np.asarray(samples.labels, np.int64)[rows]
    vectors = np.asarray(records, np.float32)
    return EmbeddingAnswers(
        ids=tuple(ids),
        vectors=vectors.reshape(len(rows), -1) if rows else vectors.reshape(0, 0),
        identities=identities,
        names=samples.classes,
        pairs=samples.pairs.take(rows) if samples.pairs is not None else None,
        task=task,
    )
