"""Time and memory of comparing the embeddings of two sides: search and verification.

100,000 images of 20,000 identities with 512 values each, and 5,000 queries, by default. The four
cells of index and query are searched, with the ranks of the first right images, the
table gets its intervals from 2,000 resamples of identities, and 1,000,000
different pairs and all same pairs are verified on both sides, with thresholds kept and tuned
again. This is done once, in a process of its own; targets are 60 s and 2 GB. Another process does
the whole `alignkit.compare.drift` of the two sides once: intervals of every metric and measure from
2,000 resamples, figures, tables and advice. Then each of some rounds searches one index by alignkit
and by plain NumPy, and the share of equal lists of neighbours is shown.

    python benchmarks/embeddings.py [--images N] [--values N] [--queries N] [--rounds N]
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource

import numpy as np
from figures import Cost, Figure, alternate, cost, ratios, show

from alignkit.compare import drift
from alignkit.tasks.embedding import Embedding
from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers
from alignkit.tasks.embedding.queries import IndexedImages, Queries, nearest
from alignkit.tasks.embedding.retrieval import own_search, retrieval
from alignkit.tasks.embedding.retrieval_facts import numbers, retrieval_table, weighted_estimates
from alignkit.tasks.embedding.verification import KeptThresholds, Verification
from alignkit.tasks.embedding.verified_pairs import drawn_pairs

K, PAIRS, RATES = 10, 1_000_000, (1e-1, 1e-2, 1e-3, 1e-4)
OF_AN_IDENTITY = 5


def sides(images: int, values: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors of the reference and the candidate, and identities; recall@1 is some 90 %."""
    draw = np.random.default_rng(0)
    identities = draw.permutation(np.arange(images) % max(1, images // OF_AN_IDENTITY))
    centres = draw.standard_normal((identities.max() + 1, values), np.float32)
    reference = centres[identities]
    for start in range(0, images, 4096):
        part = reference[start : start + 4096]
        part += 2 * draw.standard_normal(part.shape, np.float32)
    candidate = reference.copy()
    for start in range(0, images, 4096):
        part = candidate[start : start + 4096]
        part += 0.2 * draw.standard_normal(part.shape, np.float32)
    return reference, candidate, identities


def measure(images: int, values: int, queries: int) -> dict[str, list[float]]:
    """Return seconds of the clock and of processors, of each part, and the peak of memory in GB."""
    *both, identities = sides(images, values)
    drawn = Queries.drawn(identities, queries)

    def searched() -> None:
        own = own_search(both[0], drawn, K), own_search(both[1], drawn, K)
        found = retrieval((both[0], both[1]), own, drawn, K)
        estimates = weighted_estimates([numbers(found)], images, identities)
        for row in retrieval_table(found, estimates).rows:
            print(row.label, *(each.value for each in row.cells))

    def verified() -> None:
        pairs = drawn_pairs(identities, PAIRS)
        one, two = (Verification.of(each, pairs, RATES) for each in both)
        whole = np.ones((images, 1), np.float32)
        far, change = KeptThresholds(one, two).rates(whole)
        print("TAR", *one.tuned(whole).tar[:, 0], *two.tuned(whole).tar[:, 0])
        print("FAR and change of TAR, thresholds kept", *far[:, 0], *change[:, 0])

    return spent(cost(searched), cost(verified))


def measure_drift(images: int, values: int, queries: int) -> dict[str, list[float]]:
    """Return what `measure` does, of the whole drift of two sides."""
    *both, identities = sides(images, values)
    task = Embedding(queries=queries, k=K, different_pairs=PAIRS, far=RATES)
    ids = tuple(map(str, range(images)))
    names = tuple(map(str, range(int(identities.max()) + 1)))
    answers = [EmbeddingAnswers(ids, each, identities, names, None, task) for each in both]

    def compared() -> None:
        found = drift(answers[:1], answers[1:])
        for name, each in {**found.metrics, **found.measures, "churn": found.churn}.items():
            print(name, each.value, each.low, each.high)

    return spent(cost(compared))


def spent(*parts: Cost) -> dict[str, list[float]]:
    """Return seconds of the clock and of processors, of each part, and this process's peak."""
    return {
        "clock": [each.wall for each in parts],
        "processors": [each.cpu for each in parts],
        "peak": [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9],
    }


def plain_search(index: np.ndarray, queries: np.ndarray, own: np.ndarray, k: int) -> np.ndarray:
    """The k nearest by a product in float32 and a partial sort, some queries at a time."""
    found = np.empty((len(queries), k), np.int64)
    for start in range(0, len(queries), 500):
        part = slice(start, start + 500)
        similar = queries[part] @ index.T
        rows = np.arange(len(similar))
        similar[rows, own[part]] = -np.inf
        near = np.argpartition(-similar, k, axis=1)[:, :k]
        order = np.argsort(-similar[rows[:, None], near], axis=1, kind="stable")
        found[part] = near[rows[:, None], order]
    return found


def against_numpy(images: int, values: int, queries: int, rounds: int) -> tuple[list[float], float]:
    """Return plain NumPy's time over alignkit's in each round, and the share of equal lists."""
    reference, _, identities = sides(images, values)
    index, own = IndexedImages.of(reference).units, Queries.drawn(identities, queries).images
    found: dict[str, np.ndarray] = {}
    works = {
        "alignkit": lambda: found.update(ours=nearest(index, index[own], own, K).images),
        "numpy": lambda: found.update(theirs=plain_search(index, index[own], own, K)),
    }
    costs = alternate(works, rounds, warm_up=False)
    clock = {name: [each.wall for each in costs[name]] for name in works}
    equal = float((found["ours"] == found["theirs"]).all(axis=1).mean())
    return ratios(clock["numpy"], clock["alignkit"]), equal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--values", type=int, default=512)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    size = (given.images, given.values, given.queries)
    # the peak of memory is that of a process
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        parts = pool.apply(measure, size)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        drifted = pool.apply(measure_drift, size)
    speed, equal = against_numpy(*size, given.rounds)
    of = f"{given.images} × {given.values}, {given.queries} queries"
    whole = f"search and verification of {of}"
    clock, processors = (sum(parts[name]) for name in ("clock", "processors"))
    show(
        [
            Figure(f"{whole}, of the clock", [clock], at_most=60, unit="s"),
            Figure(f"{whole}, of processors", [processors], unit="s"),
            Figure(f"{whole}, peak of memory", parts["peak"], at_most=2, unit="GB"),
            Figure(f"search alone of {of}, of the clock", parts["clock"][:1], unit="s"),
            Figure(f"drift of {of}, of the clock", drifted["clock"], at_most=60, unit="s"),
            Figure(f"drift of {of}, of processors", drifted["processors"], unit="s"),
            Figure(f"drift of {of}, peak of memory", drifted["peak"], at_most=2, unit="GB"),
            Figure(f"one index of {of}, plain NumPy / alignkit, time", speed),
            Figure(
                f"one index of {of}, lists of neighbours as plain NumPy's", [equal], unit="share"
            ),
        ]
    )


if __name__ == "__main__":
    main()
