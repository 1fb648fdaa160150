"""The records of a pair's searches: tables, the queries that lost most, and advice on the index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Weighted
from alignkit.compare.weighted_estimates import weighted_estimates
from alignkit.record import Estimate, FactRow, FactTable, Neighbour, Neighbours
from alignkit.record.figure_facts import CellUnit
from alignkit.tasks.embedding.index_advice import IndexWay, IndexWays, index_advice
from alignkit.tasks.embedding.queries import Queries, SearchResults
from alignkit.tasks.embedding.retrieval import (
    CELLS,
    FIRST,
    KEPT_INDEX,
    REBUILT,
    Retrieval,
    SearchCell,
)
from alignkit.text.numbers import count, grouped

if TYPE_CHECKING:
    from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers

_COLUMNS = (
    "Reference: its index, its queries",
    "Kept: the reference's index, the candidate's queries",
    "The candidate's index, the reference's queries",
    "Rebuilt: the candidate's index and queries",
)
_LISTED = 20
"""Queries, and identities, that are listed."""
_NEAR = 5
"""Neighbours of a query that are listed."""
_NO_IMAGES = "there are no images"

Estimates: TypeAlias = Mapping[str, Estimate]
"""Of each of `numbers`, its mean over seeds with its interval over identities."""


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    of: Callable[[Retrieval, SearchCell], Weighted]
    unit: CellUnit = "share"
    of_identities: bool = True
    """Whether it is of the queries with another image of their identity alone."""


def _rows(k: int) -> tuple[_Row, ...]:
    def recall(retrieval: Retrieval, cell: SearchCell, *, most: int) -> Weighted:
        return retrieval.recall(cell, most)

    return (
        *(_Row(f"Recall@{most}", partial(recall, most=most)) for most in dict.fromkeys((1, k))),
        _Row(f"Overlap@{k} with the first column", Retrieval.overlap, of_identities=False),
        _Row("Another nearest image than there", Retrieval.churned, of_identities=False),
        _Row("Median change of the first right image's rank", Retrieval.rank_change, "value"),
    )


def retrieval_facts(
    pairs: Sequence[tuple[EmbeddingAnswers, EmbeddingAnswers]], groups: Labels | None
) -> dict[str, Any]:
    """Compute ``tables``, ``remarks`` and ``neighbours`` of a drift from a pair of each seed.

    ``groups``, (n,), are the images that a draw takes together.
    """
    first, task = pairs[0][0], pairs[0][0].task
    seeds = [one.retrieval(other) for one, other in pairs]
    estimates = weighted_estimates([numbers(each) for each in seeds], len(first), groups)
    moved = moved_identities([a.apart(b) for a, b in pairs], first.identities, first.names)
    tables = (
        retrieval_table(seeds[0], estimates),
        mapped_table(seeds[0], first.vectors.shape[1], estimates),
        moved,
    )
    return {
        "tables": tuple(each for each in tables if each is not None),
        "remarks": advice(seeds, estimates, margin=task.margin, index_size=task.index_size),
        "neighbours": changed_neighbours(seeds, first.ids),
    }


def numbers(retrieval: Retrieval) -> dict[str, Weighted]:
    """Return by name all numbers of one seed that the tables and the advice need."""
    of_cells = {
        f"{row.label} {cell}": row.of(retrieval, cell)
        for row in _rows(retrieval.k)
        for cell in CELLS
    }
    return {
        **of_cells,
        "first, tested": retrieval.mapped.first,
        "kept, tested": retrieval.mapped.kept,
        "mapped": retrieval.mapped.mapped,
        "kept": retrieval.recall_change(KEPT_INDEX, 1),
        "rebuilt": retrieval.recall_change(REBUILT, 1),
    }


def _of(estimates: Estimates, name: str, reason: str, unit: CellUnit = "points") -> Estimate:
    found = estimates[name]
    if found.value is None:
        return replace(found, reason=reason)
    if unit != "share" or found.low is None or found.high is None:
        return found
    # widened by Student's quantile, an interval may leave 0..1
    return replace(found, low=min(max(found.low, 0.0), 1.0), high=min(max(found.high, 0.0), 1.0))


def retrieval_table(retrieval: Retrieval, estimates: Estimates) -> FactTable:
    """Tabulate recall and neighbours by the side of the index and the side of the queries."""
    reasons = _NO_IMAGES, retrieval.queries.why_none_counts
    return FactTable(
        name="retrieval",
        title="Search results by index and queries",
        columns=_COLUMNS,
        rows=tuple(
            FactRow(
                row.label,
                tuple(
                    _of(estimates, f"{row.label} {cell}", reasons[row.of_identities], row.unit)
                    for cell in CELLS
                ),
                row.unit,
            )
            for row in _rows(retrieval.k)
        ),
        note=_searched(retrieval),
    )


def _searched(retrieval: Retrieval) -> str:
    queries = retrieval.queries
    total, searched = len(queries.identities), len(queries.images)
    drawn = (
        f"{grouped(searched)} of {count(total, 'image')} are queries, drawn by seed {queries.seed}"
        if searched < total
        else f"All {count(total, 'image')} are queries"
    )
    counted = grouped(int(queries.counted.sum()))
    said = f"{drawn}; {counted} have another image of their identity and count for recall. "
    said += (
        "A query does not find itself; an image of its identity is right; equal similarities are "
        "in the order of the images."
    )
    if any(retrieval.lacking):
        first, second = retrieval.lacking
        said += (
            f" Embeddings that are zero or not finite, {first} of the reference and {second} of "
            "the candidate, are found by no query and find nothing."
        )
    return said


def mapped_table(retrieval: Retrieval, dimensions: int, estimates: Estimates) -> FactTable:
    """Tabulate recall@1 of the half of the identities on which a rotation is tested."""
    test = retrieval.mapped
    queries = count(len(test.of_queries), "query", "queries")
    rows: tuple[tuple[str, str, CellUnit], ...] = (
        ("Recall@1 of the reference", "first, tested", "share"),
        ("Change with the index kept", "kept, tested", "points"),
        ("Change with queries rotated too", "mapped", "points"),
    )
    return FactTable(
        name="rotated-queries",
        title="Queries rotated into the index that is kept",
        columns=("Measured",),
        rows=tuple(
            FactRow(label, (_of(estimates, name, test.reason, unit),), unit)
            for label, name, unit in rows
        ),
        note=f"The rotation (orthogonal Procrustes) is fitted on {count(test.fitted, 'image')} of "
        f"one half of the identities, which determine {test.rank} of {dimensions} dimensions, and "
        f"tested on the other: {queries} in an index of {count(test.tested, 'image')}.",
    )


def advice(
    seeds: Sequence[Retrieval], estimates: Estimates, *, margin: float, index_size: int
) -> tuple[str, ...]:
    """Advise to keep the index, to map queries into it, or to build it again."""
    if seeds[0].lacking == (len(seeds[0].queries.identities),) * 2:
        return ("Whether the index can be kept is unknown: no embedding has a direction.",)
    if all(each.equal for each in seeds):
        return ("Keep the index: every embedding is the same on both sides.",)
    queries, test = seeds[0].queries, seeds[0].mapped
    counted = queries.images[queries.counted]

    def way(name: str, images: Labels, reason: str) -> IndexWay:
        identities = len(np.unique(queries.identities[images]))
        return IndexWay(_of(estimates, name, reason), len(images), identities)

    ways = IndexWays(
        kept=way("kept", counted, queries.why_none_counts),
        rebuilt=way("rebuilt", counted, queries.why_none_counts),
        kept_in_test=way("kept, tested", test.of_queries, test.reason),
        mapped=way("mapped", test.of_queries, test.reason),
    )
    return index_advice(ways, margin=margin, index_size=index_size)


def changed_neighbours(seeds: Sequence[Retrieval], ids: Sequence[str]) -> tuple[Neighbours, ...]:
    """List queries whose nearest image in the kept index is another one, the worst first.

    A query that loses a right nearest image stands first, then by the loss of 1 / rank of the first
    right image; each in the seed in which it loses most.
    """
    worst: dict[int, tuple[tuple[float, float], Retrieval, int]] = {}
    for retrieval in seeds:
        before, after = retrieval.cells[FIRST], retrieval.cells[KEPT_INDEX]
        lost = before.hits(1) - after.hits(1)
        further = _inverse(before.ranks) - _inverse(after.ranks)
        for row in np.flatnonzero(retrieval.changed(KEPT_INDEX)).tolist():
            image, loss = int(retrieval.queries.images[row]), (lost[row], further[row])
            if image not in worst or loss > worst[image][0]:
                worst[image] = loss, retrieval, row
    # stable: equal ones stay in the order of the data
    ordered = sorted(sorted(worst), key=lambda image: worst[image][0], reverse=True)
    return tuple(_neighbours(*worst[image][1:], ids) for image in ordered[:_LISTED])


def _neighbours(retrieval: Retrieval, row: int, ids: Sequence[str]) -> Neighbours:
    queries = retrieval.queries
    before, after = (
        _listed(queries, retrieval.cells[cell], row, ids) for cell in (FIRST, KEPT_INDEX)
    )
    return Neighbours(ids[queries.images[row]], before, after)


def _inverse(ranks: Labels) -> FloatArray:
    return np.where(ranks > 0, 1 / np.maximum(ranks, 1), 0.0)


def _listed(
    queries: Queries, found: SearchResults, row: int, ids: Sequence[str]
) -> tuple[Neighbour, ...]:
    query = queries.images[row]
    near = [int(each) for each in found.near[row, :_NEAR] if each >= 0]
    return tuple(
        Neighbour(
            ids[image],
            round(float(similarity), 6),
            bool(queries.identities[image] == queries.identities[query])
            if queries.known[query]
            else None,
        )
        for image, similarity in zip(near, found.similarity[row], strict=False)
    )


def moved_identities(
    apart: Sequence[FloatArray], identities: Labels, names: Sequence[str]
) -> FactTable | None:
    """Tabulate the identities that moved most; ``None`` if none moved or none is known.

    ``apart``, (n,) of each seed, is 1 − cosine of an image's two embeddings, NaN where a side has
    no direction; ``identities``, (n,), are −1 where they are not known.
    """
    mean = np.mean(apart, axis=0)
    known = np.flatnonzero((identities >= 0) & np.isfinite(mean))
    if not len(known) or not mean[known].any():
        return None
    images = np.bincount(identities[known], minlength=len(names))
    sums = np.bincount(identities[known], mean[known], len(names))
    greatest = np.zeros(len(names))
    np.maximum.at(greatest, identities[known], mean[known])
    average = sums / np.maximum(images, 1)
    moved = np.argsort(-average, kind="stable")[: min(_LISTED, np.count_nonzero(average))]
    return FactTable(
        name="moved-identities",
        title="Identities that moved most",
        columns=("Mean 1 − cosine", "Greatest"),
        rows=tuple(
            FactRow(
                f"{names[each]}, {count(int(images[each]), 'image')}",
                tuple(Estimate(float(values[each]), None, None) for values in (average, greatest)),
                "value",
            )
            for each in moved
        ),
        note=f"The first {len(moved)} of {count(int((images > 0).sum()), 'identity', 'identities')}"
        ", by the mean over their images.",
    )
