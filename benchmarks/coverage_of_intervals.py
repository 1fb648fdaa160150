"""Simulated coverage of intervals, and false alarms, with few images a class or an identity.

    python benchmarks/coverage_of_intervals.py [--samples 2000] [--resamples 1000] [--of boxes]

A set has 60 images, 120 of classes with 20, and 200 of 200 classes. The reference is right with a
chance of 0.75. The candidate loses and wins 4 % of the images each, so that nothing changes in
truth, or loses 6 % and wins 2 %; the true change of a metric is then its mean over all sets of this
size. *Before* is a mean over the classes that a draw has, with Student's quantile at
the number of images less 1; *now* is what alignkit shows: `alignkit.compare.class_changes`,
`alignkit.compare.statistics.freedom_of`, and what may be unseen where no image moves a change.
Boxes have one object an image; wrong boxes and scores
differ between the sides by chance. Every set has other identities, and the noise of
both sides has one distribution. *Before* has a quarter of the sets, as it takes longer: the error
of a share near 95 % is 0.5 points of 2,000 sets and 1 point of 500. All takes some hours.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy.stats import t as student

from alignkit.arrays import FloatArray
from alignkit.compare.answers import Answers, Tallies, Weights
from alignkit.compare.bootstrap import MeanOverSeeds, image_weights, mean_over_seeds
from alignkit.compare.class_answers import ClassTallies
from alignkit.compare.class_changes import CountedTallies, changes_by_image, resampled, units_of
from alignkit.compare.statistics import Moved, change_p, unseen_change
from alignkit.tasks.detection.box_tables import FoundBoxes, TrueBoxes, starts_of
from alignkit.tasks.detection.detection_answers import BoxTallies, tally
from alignkit.tasks.embedding import Embedding
from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers

SIZES = ((60, 1), (30, 2), (20, 3), (12, 5), (6, 20), (200, 1))
"""Classes, and images of each."""
EFFECTS = {"no effect": (0.04, 0.04), "an effect": (0.06, 0.02)}
"""Shares of the images that the candidate loses and wins."""
COUNTED = ("top1", "recall.macro", "precision.macro", "f1.macro")
VERIFIED = ("tar@far=1e-1", "eer", "recall@1", "verification.accuracy")
ACCURACY = 0.75
EACH = 4
"""Of so many sets, one is estimated as before: that takes three times as long."""


def classes_at_random(
    rng: np.random.Generator, classes: int, images: int, lose: float, win: float
) -> tuple[ClassTallies, ClassTallies]:
    """Draw what two models predict of a set."""
    labels = np.repeat(np.arange(classes), images)
    wrong, other = ((labels + rng.integers(1, classes, len(labels))) % classes for _ in range(2))
    before = np.where(rng.random(len(labels)) < ACCURACY, labels, wrong)
    right, chance = before == labels, rng.random(len(labels))
    after = np.where(right & (chance < lose / ACCURACY), other, before)
    after = np.where(~right & (chance < win / (1 - ACCURACY)), labels, after)
    return ClassTallies(labels, before, classes), ClassTallies(labels, after, classes)


def boxes_at_random(
    rng: np.random.Generator, classes: int, images: int
) -> tuple[BoxTallies, BoxTallies]:
    """Draw what two detectors find of a set with one object an image."""
    of_object = np.repeat(np.arange(classes), images)
    count = len(of_object)
    found = rng.random(count) < 0.8
    stray = np.repeat(np.arange(count), rng.poisson(0.6, count))
    of_stray = rng.integers(0, classes, len(stray))
    scores = rng.normal(1, 1, count), rng.normal(0, 1, len(stray))
    corners = np.tile([0.0, 0.0, 10.0, 10.0], (count, 1))
    truth = TrueBoxes(starts_of([1] * count), corners, of_object, np.zeros(count, np.bool_))
    sides = []
    for _ in range(2):
        hits = found ^ (rng.random(count) < 0.04)
        kept = rng.random(len(stray)) < 0.94
        image = np.concatenate([np.flatnonzero(hits), stray[kept]])
        of_box = np.concatenate([of_object[hits], of_stray[kept]])
        score = np.concatenate([scores[0][hits], scores[1][kept]])
        score += 0.2 * rng.normal(size=len(score))
        place = np.where(np.arange(len(image)) < hits.sum(), 0.0, 50.0)
        order = np.lexsort((-score, image))
        boxes = np.add([0.0, 0.0, 10.0, 10.0], place[order, None]).astype(np.float32)
        # any rising function keeps the order of the scores
        chance = (1 / (1 + np.exp(-score[order]))).astype(np.float32)
        starts = starts_of(np.bincount(image, minlength=count))
        side = FoundBoxes(starts, boxes, chance, of_box[order])
        sides.append(tally(side, truth, classes, 0.5))
    return sides[0], sides[1]


def identities_at_random(
    rng: np.random.Generator, identities: int, images: int
) -> tuple[EmbeddingAnswers, EmbeddingAnswers]:
    """Draw the embeddings that two models give of images of identities."""
    shape = (identities, images, 24)
    centres = rng.normal(size=(identities, 1, 24))
    noise = np.exp(rng.normal(-0.3, 0.4, (identities, 1, 1)))
    common = centres + noise * rng.normal(size=shape)
    sides = [
        EmbeddingAnswers(
            tuple(map(str, range(identities * images))),
            (common + 0.3 * rng.normal(size=shape)).reshape(-1, 24).astype(np.float32),
            np.repeat(np.arange(identities), images),
            tuple(map(str, range(identities))),
            None,
            Embedding(far=(0.1,)),
        )
        for _ in range(2)
    ]
    return sides[0], sides[1]


@dataclass(frozen=True)
class Tried:
    """Intervals and p-values of one metric over all sets."""

    rows: list[tuple[float, float, float, float, float]] = field(default_factory=list)
    """Change, both ends, p, standard error."""

    def add(self, mean: MeanOverSeeds, p: float) -> None:
        """Keep those of a set."""
        low, high = mean.interval
        self.rows.append((float(mean.value), float(low), float(high), p, float(mean.spread.images)))

    def shares(self, truth: float | None) -> tuple[float, float, float, float]:
        """Compute coverage, p below 0.05, mean width, and the error against the true one.

        Without a ``truth``, it is the mean change.
        """
        change, low, high, p, error = np.array(self.rows).T
        aim = change.mean() if truth is None else truth
        held = (low <= aim) & (aim <= high)
        ratio = np.sqrt((error**2).mean()) / change.std()
        return held.mean(), (p < 0.05).mean(), (high - low).mean(), ratio


def before(
    observed: float, draws: FloatArray, drawn: int, flipped: int
) -> tuple[MeanOverSeeds, float]:
    """Estimate from plain draws, as alignkit did."""
    mean = mean_over_seeds(np.array([observed]), draws[None], images=drawn)
    error = float(mean.spread.images)
    p = 1.0 if observed == 0 else 2 * float(student.sf(abs(observed) / error, drawn - 1))
    return mean, min(1.0, max(p, 2 * 0.5**flipped))


def now(
    observed: float, draws: FloatArray, drawn: int, moved: Moved, unseen: float
) -> tuple[MeanOverSeeds, float]:
    """Estimate as alignkit does."""
    mean = mean_over_seeds(np.array([observed]), draws[None], images=drawn, moved=moved)
    error = float(mean.spread.images)
    p = change_p(
        observed, images_error=error, seeds_error=0.0, images=drawn, seeds=1, flipped=moved
    )
    if not moved.images:  # beside such a change alignkit shows this share and no interval
        return replace(mean, interval=np.array([-unseen, unseen])), p
    return mean, p


def estimates_before(
    one: Tallies, other: Tallies, names: Sequence[str], weights: Weights, drawn: int
) -> Iterator[tuple[str, MeanOverSeeds, float]]:
    """Estimate each metric as alignkit did; the first column of ``weights`` is of ones."""
    sides = [each.metrics_of(weights) for each in (one, other)]
    flipped = len(one.sums.differing(other.sums)) if isinstance(one, CountedTallies) else drawn
    for name in names:
        change = sides[1][name] - sides[0][name]
        yield name, *before(change[0], change[1:], drawn, flipped)


def estimates_now(
    one: Tallies, other: Tallies, names: Sequence[str], weights: Weights, drawn: int
) -> Iterator[tuple[str, MeanOverSeeds, float]]:
    """Estimate each metric as alignkit does."""
    changes = changes_by_image(one, other)
    rest = not {*names} <= changes.keys()
    sides = [resampled(each, weights) for each in (one, other)] if rest else []
    supports: Sequence[int] = ()
    if isinstance(one, CountedTallies):
        supports = one.sums.weighted(weights[:, :1])[2].astype(int).ravel().tolist()
    for name in names:
        if name in changes:
            change = changes[name].of(weights)
            parts = changes[name].by_image(len(weights))
            moved = Moved.by_parts(int(np.count_nonzero(parts)), parts)
        else:
            change, moved = sides[1][name] - sides[0][name], Moved.alike(drawn)
            if isinstance(one, Answers) and (own := one.moves(other, name)) is not None:
                moved = Moved.alike(units_of(own, one.groups()))
        unseen = unseen_change(drawn, supports if name.endswith(".macro") else ())
        yield name, *now(change[0], change[1:], drawn, moved, unseen)


def simulate(
    make: Callable[[np.random.Generator], tuple[Tallies, Tallies]],
    names: Sequence[str],
    *,
    samples: int,
    resamples: int,
    seed: int = 0,
) -> dict[str, tuple[Tried, Tried]]:
    """Draw sets, and estimate each metric of each, before and now."""
    rng = np.random.default_rng(seed)
    found = {name: (Tried(), Tried()) for name in names}
    weights: Weights = np.ones((0, 1), np.float32)
    drawn = 0
    for sample in range(samples):
        one, other = make(rng)
        if sample % 100 == 0:  # the same draws for some sets: new ones take as long as all else
            groups = one.groups() if isinstance(one, Answers) else None
            images = len(one) if isinstance(one, Answers) else len(one.sums)
            blocks = image_weights(images, groups, resamples, sample)
            weights = np.concatenate([np.ones((images, 1), np.float32), *blocks], axis=1)
            drawn = images if groups is None else int(groups.max()) + 1
        for name, *estimate in estimates_now(one, other, names, weights, drawn):
            found[name][1].add(*estimate)
        if sample % EACH == 0:
            for name, *estimate in estimates_before(one, other, names, weights, drawn):
                found[name][0].add(*estimate)
    return found


def show(found: Mapping[str, tuple[Tried, Tried]], size: str, truth: float | None) -> None:
    """Print a line for each metric."""
    for name, tried in found.items():
        cells = [each.shares(truth) for each in tried]
        numbers = "".join(
            f"{100 * old:9.1f}{100 * new:7.1f}" for old, new in list(zip(*cells, strict=True))[:3]
        )
        print(f"{name:22}{size:>8}{numbers}{cells[0][3]:9.2f}{cells[1][3]:7.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2_000)
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--of", nargs="+", choices=PARTS, default=[*PARTS])
    given = parser.parse_args()
    for part in given.of:
        PARTS[part](given.samples, given.resamples)


def of_classes(samples: int, resamples: int) -> None:
    """Simulate classifiers."""
    heads = ("coverage %", "p < 0.05 %", "width, points", "error / true")
    for effect, (lose, win) in EFFECTS.items():
        print(f"{effect}, {samples} sets; of each pair: before, now")
        print(f"{'':22}{'':8}" + "".join(f"{head:>16}" for head in heads))
        for classes, images in SIZES:
            found = simulate(
                partial(classes_at_random, classes=classes, images=images, lose=lose, win=win),
                COUNTED, samples=samples, resamples=resamples, seed=classes,
            )  # fmt: skip
            show(found, f"{classes} x {images}", 0.0 if lose == win else None)


def of_boxes(samples: int, resamples: int) -> None:
    """Simulate detectors."""
    print(f"boxes, no effect, {samples} sets")
    for classes, images in SIZES:
        found = simulate(
            partial(boxes_at_random, classes=classes, images=images),
            ("map50", "recall.macro", "precision.macro"),
            samples=samples, resamples=resamples, seed=classes,
        )  # fmt: skip
        show(found, f"{classes} x {images}", 0.0)


def of_identities(samples: int, resamples: int) -> None:
    """Simulate verification and search."""
    print(f"40 identities, no effect, {samples} sets")
    for images in (2, 3, 5, 20):
        found = simulate(
            partial(identities_at_random, identities=40, images=images),
            VERIFIED, samples=samples, resamples=resamples // 2, seed=images,
        )  # fmt: skip
        show(found, f"40 x {images}", 0.0)


PARTS = {"classes": of_classes, "boxes": of_boxes, "identities": of_identities}


if __name__ == "__main__":
    main()
