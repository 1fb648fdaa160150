"""Simulated coverage of intervals of verification: identities drawn, or images, or pairs.

    python benchmarks/identity_coverage.py [--samples 400] [--identities 40] [--images 5]

A population of 3,000 identities gives the true change of each number. An identity has a noise of
its own, on both sides, and the candidate moves some identities more than others.
Every sample draws identities of the population, and yields 95 % intervals of each number by draws
of identities, of images, whose pairs weigh the product of both draws, and of pairs, each by itself.
Thresholds are tuned again in each draw. *Expanded* are the intervals of alignkit: draws of
identities, with percentiles for so few of them; the others are between plain percentiles.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from figures import Figure, show

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.bootstrap import image_weights
from alignkit.compare.statistics import percentile_interval
from alignkit.tasks.embedding import Embedding
from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers
from alignkit.tasks.embedding.verification import Verification

NAMES = ("tar@far=1e-1", "tar@far=1e-2", "eer", "tar@far=1e-2.kept")
RATES = {"tar@far=1e-1": 0.1, "tar@far=1e-2": 0.01, "tar@far=1e-2.kept": 0.01}
DIMENSIONS = 24
POPULATION = 3_000
UNITS = ("expanded", "identities", "images", "pairs")


def population(images: int) -> tuple[FloatArray, FloatArray]:
    """Draw both sides of all identities, (identities, images, dimensions) each."""
    rng = np.random.default_rng(0)
    shape = (POPULATION, images, DIMENSIONS)
    centres = rng.normal(size=(POPULATION, 1, DIMENSIONS))
    noise = np.exp(rng.normal(-0.3, 0.4, (POPULATION, 1, 1)))
    moved = np.exp(rng.normal(-1.5, 0.8, (POPULATION, 1, 1)))
    before = centres + noise * rng.normal(size=shape)
    # an identity's images move together in part
    common = rng.normal(size=(POPULATION, 1, DIMENSIONS))
    after = before + moved * (0.7 * common + 0.7 * rng.normal(size=shape))
    return before, after


def answers(vectors: FloatArray) -> EmbeddingAnswers:
    """Build the answers of identities, (identities, images, dimensions)."""
    count, images, _ = vectors.shape
    return EmbeddingAnswers(
        tuple(map(str, range(count * images))),
        vectors.reshape(count * images, -1).astype(np.float32),
        np.repeat(np.arange(count), images),
        tuple(map(str, range(count))),
        None,
        Embedding(far=(0.1, 0.01), queries=1),
    )


def changes(before: EmbeddingAnswers, after: EmbeddingAnswers, weights: FloatArray) -> FloatArray:
    """Compute the change of each of `NAMES`, (names, draws)."""
    one, other = before.metrics_of(weights), after.metrics_of(weights)
    kept = before.measures_of(after)[NAMES[-1]].of(weights)
    return np.stack([*(other[name] - one[name] for name in NAMES[:-1]), kept])


def naive(
    before: EmbeddingAnswers, after: EmbeddingAnswers, same: FloatArray, different: FloatArray
) -> FloatArray:
    """Do as `changes` with a weight of each same and each different pair, (pairs, draws)."""
    sides = before.verification, after.verification
    ranked = [Ranked.of(side) for side in sides]
    found = {name: [] for name in NAMES}
    for draw in range(same.shape[1]):
        curves = [each.curve(same[:, draw], different[:, draw]) for each in ranked]
        for name, rate in RATES.items():
            at = [int((far <= rate).sum()) - 1 for _, far, _ in curves]
            tars = [tar[place] for (_, _, tar), place in zip(curves, at, strict=True)]
            if name.endswith(".kept"):
                limit = curves[0][0][at[0]]
                tars[1] = same[sides[1].same > limit, draw].sum() / same[:, draw].sum()
            found[name].append(tars[1] - tars[0])
        rates = []
        for _, far, tar in curves:
            at = int(np.argmax(far >= 1 - tar))
            rates.append(min(far[at], 1 - tar[max(at - 1, 0)]))
        found["eer"].append(rates[1] - rates[0])
    return np.array([found[name] for name in NAMES])


@dataclass(frozen=True)
class Ranked:
    """The pairs of a side in the order of their similarity."""

    thresholds: FloatArray
    different: Labels
    same: Labels
    above: Labels
    """Same pairs above each threshold."""

    @classmethod
    def of(cls, side: Verification) -> Ranked:
        """Sort both kinds of pairs, the most similar first."""
        different, same = np.argsort(-side.different), np.argsort(-side.same)
        thresholds = side.different[different]
        above = np.searchsorted(-side.same[same], -thresholds, side="left")
        return cls(thresholds, different, same, above)

    def curve(self, same: FloatArray, different: FloatArray) -> tuple[FloatArray, ...]:
        """Compute descending thresholds with FAR and TAR of weighted pairs."""
        ordered = different[self.different]
        far = (np.cumsum(ordered) - ordered) / different.sum()
        sums = np.concatenate([[0], np.cumsum(same[self.same])])
        return self.thresholds, far, sums[self.above] / same.sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--identities", type=int, default=40)
    parser.add_argument("--images", type=int, default=5)
    parser.add_argument("--resamples", type=int, default=400)
    given = parser.parse_args()
    every = population(given.images)
    whole = [answers(side) for side in every]
    truth = changes(*whole, np.ones((POPULATION * given.images, 1), np.float32))[:, 0]
    held = {unit: np.zeros((given.samples, len(NAMES)), bool) for unit in UNITS}
    width = {unit: np.zeros((given.samples, len(NAMES))) for unit in UNITS}
    for sample in range(given.samples):
        rng = np.random.default_rng([1, sample])
        chosen = rng.choice(POPULATION, given.identities, replace=False)
        sides = [answers(side[chosen]) for side in every]
        for unit, draws in drawn(sides, given.resamples, rng).items():
            expanded = given.identities if unit == "expanded" else None
            low, high = percentile_interval(draws, expanded)
            held[unit][sample] = (low <= truth) & (truth <= high)
            width[unit][sample] = high - low
    print(
        f"% of 95 % intervals with the true change, {given.samples} samples of "
        f"{given.identities} identities with {given.images} images; mean width in points"
    )
    print(f"{'':20}{'change':>8}" + "".join(f"{unit:>12}{'width':>7}" for unit in UNITS))
    for at, name in enumerate(NAMES):
        shares = "".join(
            f"{100 * held[unit][:, at].mean():12.1f}{100 * width[unit][:, at].mean():7.2f}"
            for unit in UNITS
        )
        print(f"{name:20}{100 * truth[at]:8.2f}{shares}")
    show([
        Figure(f"share of 95 % intervals with the true change, {unit} drawn",
               held[unit].mean(axis=0).tolist())
        for unit in UNITS
    ])  # fmt: skip


def drawn(
    sides: list[EmbeddingAnswers], resamples: int, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Return draws of the changes, (names, resamples), by each unit."""
    pairs = sides[0].verified
    groups = sides[0].groups()
    blocks = [changes(*sides, w) for w in image_weights(len(groups), groups, resamples, 0)]
    images = rng.multinomial(len(groups), [1 / len(groups)] * len(groups), resamples).T
    lists = (pairs.same, pairs.different)
    by_image = [images[each.first] * images[each.second].astype(float) for each in lists]
    by_pair = [
        rng.multinomial(len(each), [1 / len(each)] * len(each), resamples).T.astype(float)
        for each in lists
    ]
    identities = np.concatenate(blocks, axis=1)
    return {
        "expanded": identities,
        "identities": identities,
        "images": naive(*sides, *by_image),
        "pairs": naive(*sides, *by_pair),
    }


if __name__ == "__main__":
    main()
