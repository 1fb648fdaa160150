"""The records of a pair's searches: tables, the queries that lost most, and advice on the index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Weighted
from alignkit.compare.bootstrap import RESAMPLES, drawn_units, image_weights, mean_over_seeds
from alignkit.compare.statistics import NORMAL, required_sample, rule_of_three
from alignkit.record import Estimate, FactRow, FactTable, Neighbour, Neighbours
from alignkit.record.drift_facts import CellUnit
from alignkit.tasks.embedding.queries import Queries, SearchResults
from alignkit.tasks.embedding.retrieval import (
    CELLS,
    FIRST,
    KEPT_INDEX,
    REBUILT,
    Retrieval,
    SearchCell,
)
from alignkit.text.numbers import count, estimated, grouped

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

_Standing = Literal["within", "beyond", "open"]
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


def advice(
    seeds: Sequence[Retrieval], estimates: Estimates, *, margin: float, index_size: int
) -> tuple[str, ...]:
    """Advise to keep the index or to build it again."""
    if seeds[0].lacking == (len(seeds[0].queries.identities),) * 2:
        return ("Whether the index can be kept is unknown: no embedding has a direction.",)
    if all(each.equal for each in seeds):
        return ("Keep the index: every embedding is the same on both sides.",)
    queries = seeds[0].queries
    counted = queries.images[queries.counted]
    identities = len(np.unique(queries.identities[counted]))
    kept, rebuilt = (
        IndexWay(_of(estimates, name, queries.why_none_counts), len(counted), identities)
        for name in ("kept", "rebuilt")
    )
    return index_advice(kept, rebuilt, margin=margin, index_size=index_size)


@dataclass(frozen=True, slots=True)
class IndexWay:
    """A way to search after the change, and the change of recall@1 that was measured for it."""

    change: Estimate
    """From the reference's queries in its own index."""
    queries: int
    identities: int
    """Identities of these queries: they are what is drawn for the interval."""

    def standing(self, margin: float) -> _Standing:
        """Tell whether it loses less than the margin, more, or whether that is open."""
        if self.change.low is None or self.change.high is None or not self.identities:
            return "open"
        if self.change.low - rule_of_three(self.identities) >= -margin:
            return "within"
        return "beyond" if self.change.high + rule_of_three(self.identities) < -margin else "open"

    def wanted(self, margin: float) -> int | None:
        """Compute how many identities would show that it loses less, if the change stayed.

        ``None`` if it would not, or nothing was measured.
        """
        value, low, high = self.change.value, self.change.low, self.change.high
        if value is None or low is None or high is None or not self.identities:
            return None
        return required_sample(
            value + margin,
            images_error=(high - low) / 2 / NORMAL,
            seeds_error=0.0,
            images=self.identities,
            seeds=1,
            unseen=rule_of_three(self.identities),
        ).images

    @property
    def said(self) -> str:
        """The change in words, and on how much it was measured."""
        if self.change.value is None:
            return f"not measured ({self.change.reason})"
        on = f"{count(self.queries, 'query', 'queries')} of {_identities(self.identities)}"
        why = f"; {self.change.reason}" if self.change.reason else ""
        return f"{estimated(self.change, unit=' pp')} ({on}{why})"


def index_advice(
    kept: IndexWay, rebuilt: IndexWay, *, margin: float, index_size: int = 0
) -> tuple[str, ...]:
    """Advise in sentences, with the numbers that were measured.

    A way is advised where it was measured to lose less of recall@1 than the ``margin``, a fraction:
    the lower end of its interval, less the share of changes that so few identities may have failed
    to show, lies above −margin (non-inferiority). Where neither that nor the opposite was shown,
    nothing is advised. ``index_size`` is the number of rows of the index in use, 0 if it is not
    known.
    """
    limit = f"the margin of {100 * margin:g} pp"
    kept_said = f"With the index kept, recall@1 changes by {kept.said}."
    if kept.change.value is None:
        return (f"Whether the index can be kept is unknown: {kept.change.reason}.",)
    standing, again = kept.standing(margin), rebuilt.standing(margin)
    if standing == "within":
        return (f"Keep the index: recall@1 falls by less than {limit}.", kept_said)
    measured = (kept_said, f"With the index built again, it changes by {rebuilt.said}.")
    if standing == "open":
        first = (
            f"It is not resolved whether recall@1 falls by more than {limit} with the index kept."
        )
        first += _more(kept.wanted(margin))
        if again == "within":
            first += " With an index that is built again it does not."
        return (first, *measured)
    if again == "beyond":
        first = f"The candidate loses more than {limit} also with an index that is built again."
        return (first, *measured)
    first = f"Build the index again: kept, it loses more than {limit}."
    if again == "open":
        first += " It is not resolved whether the new one loses more, too."
        first += _more(rebuilt.wanted(margin))
    return (first, *measured, _cost(index_size))


def _more(identities: int | None) -> str:
    if identities is None:
        return ""
    return f" {_identities(identities)} would show that it does not, if the change stays the same."


def _cost(index_size: int) -> str:
    if not index_size:
        return "Give the rows of the index in use as 'index_size' of the task to see the cost."
    return (
        f"A new index means to embed {count(index_size, 'image')}; how long that takes was not "
        "measured."
    )


def _identities(number: int) -> str:
    return count(number, "identity", "identities")


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


def weighted_estimates(
    seeds: Sequence[Mapping[str, Weighted]],
    images: int,
    groups: Labels | None,
    *,
    resamples: int = RESAMPLES,
) -> dict[str, Estimate]:
    """Estimate the mean over seeds of each number, by name; each seed has the same names.

    Intervals are those of `alignkit.compare.drift`: over ``images``, or over their ``groups``,
    (images,), and seeds. A number that a seed does not define has neither value nor reason.
    """
    whole = np.ones((images, 1), np.float32)
    draws: dict[str, list[FloatArray]] = {name: [] for name in seeds[0]}
    # one pass: all draws of many images are not kept
    for weights in image_weights(images, groups, resamples, seed=0):
        for name, found in draws.items():
            found.append(np.stack([each[name].of(weights) for each in seeds]))
    units = drawn_units(images, groups)
    estimates = {}
    for name, found in draws.items():
        observed = np.stack([each[name].of(whole)[0] for each in seeds])
        mean = mean_over_seeds(observed, np.concatenate(found, axis=-1), images=units)
        estimates[name] = mean.estimate("")
    return estimates
