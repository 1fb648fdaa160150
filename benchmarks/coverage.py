"""Simulated coverage of the intervals over seeds and images.

    python benchmarks/coverage.py [--samples 400] [--images 240] [--resamples 1000]

Every sample draws the change of each image under each seed, with a known mean, from a seed effect,
an image effect and their interaction, either normal or as rare flips (-1, 0 or 1). It yields three
95 % intervals: ours (`alignkit.compare.bootstrap`), the percentile interval that draws all seeds
and then images (levels), and that of images alone. With 2,000 samples the error of a printed share
is 1 point or, far from 95 %, 2 points; with 400 it is 2 and 5. The rounds of a figure are the
cases, so that its range is that from the worst case to the best.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from figures import Figure, show

from alignkit.arrays import FloatArray
from alignkit.compare.bootstrap import joined_draws, spread_of
from alignkit.compare.statistics import percentile_interval

SEEDS = (2, 3, 5, 10)


@dataclass(frozen=True)
class Normal:
    """Normal effects with these standard deviations."""

    of_seed: float
    of_image: float
    of_both: float

    def draw(self, rng: np.random.Generator, seeds: int, images: int) -> FloatArray:
        """Draw (seeds, images) changes with mean 0."""
        return (
            self.of_seed * rng.normal(size=(seeds, 1))
            + self.of_image * rng.normal(size=(1, images))
            + self.of_both * rng.normal(size=(seeds, images))
        )


@dataclass(frozen=True)
class Flips:
    """Shares of images that flip under every seed and under one seed only, in equal directions."""

    common: float
    """Share of images."""
    own: float
    lean: float = 0.0
    """Greatest share by which a seed's own flips prefer one direction."""

    def draw(self, rng: np.random.Generator, seeds: int, images: int) -> FloatArray:
        """Draw (seeds, images) values of -1, 0 and 1 with mean 0."""
        shared = rng.choice([-1, 0, 1], (1, images), p=_either_way(self.common))
        lean = self.lean * rng.choice([-1, 1], (seeds, 1))
        flips = rng.random((seeds, images)) < self.own
        up = rng.random((seeds, images)) < 0.5 + lean / 2
        changes: FloatArray = np.where(shared != 0, shared, flips * np.where(up, 1, -1)).astype(
            np.float64
        )
        return changes


def _either_way(share: float) -> list[float]:
    return [share / 2, 1 - share, share / 2]


CASES: dict[str, Normal | Flips] = {
    "seeds differ most": Normal(1.0, 0.3, 0.3),
    "seeds and images": Normal(0.08, 0.7, 0.7),
    "images alone": Normal(0.0, 1.0, 0.0),
    "each of both alone": Normal(0.0, 0.0, 1.0),
    "5 % flip, common": Flips(0.05, 0.0),
    "5 % flip, own": Flips(0.0, 0.05),
    "1 % flip, half common": Flips(0.005, 0.005),
    "5 % flip, seeds lean": Flips(0.01, 0.04, lean=0.6),
}


def covered(draws: FloatArray, observed: FloatArray, seed: int, images: int) -> list[bool]:
    """Tell whether each of the three intervals contains 0."""
    ours = joined_draws(draws, observed, spread_of(draws, observed), images=images, seed=seed)
    seeds = len(draws)
    chosen = np.random.default_rng([seed, 1]).multinomial(
        seeds, [1 / seeds] * seeds, size=draws.shape[1]
    )
    both = np.einsum("rs,sr->r", chosen / seeds, draws)
    ends = [percentile_interval(each) for each in (ours, both, draws.mean(axis=0))]
    return [bool(low <= 0 <= high) for low, high in ends]


def coverage(
    case: Normal | Flips, seeds: int, *, samples: int, images: int, resamples: int
) -> FloatArray:
    """Compute the coverage of the three intervals: ours, seeds and images, images alone."""
    rng = np.random.default_rng([seeds, images])
    weights = rng.multinomial(images, [1 / images] * images, size=resamples).T / images
    held = np.zeros(3)
    for sample in range(samples):
        changes = case.draw(rng, seeds, images)
        held += covered(changes @ weights, changes.mean(axis=1), sample, images)
    return held / samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--images", type=int, default=240)
    parser.add_argument("--resamples", type=int, default=1_000)
    given = parser.parse_args()
    print(
        f"% of 95 % intervals with the true value, {given.samples} samples, {given.images} images"
    )
    print(f"{'':24}" + "".join(f"{f'{seeds} seeds':>24}" for seeds in SEEDS))
    print(f"{'':24}" + "".join(f"{name:>8}" for name in ("ours", "levels", "images")) * len(SEEDS))
    size = {"samples": given.samples, "images": given.images, "resamples": given.resamples}
    ours = []
    for name, case in CASES.items():
        shares = np.concatenate([coverage(case, seeds, **size) for seeds in SEEDS])
        print(f"{name:24}" + "".join(f"{100 * each:8.1f}" for each in shares), flush=True)
        ours.append(shares[:: len(shares) // len(SEEDS)].tolist())
    show(
        [
            Figure(f"share of 95 % intervals with the true value, {seeds} seeds", held)
            for seeds, held in zip(SEEDS, zip(*ours, strict=True), strict=True)
        ]
    )


if __name__ == "__main__":
    main()
