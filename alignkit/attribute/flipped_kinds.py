"""Kinds of images that flip, for each path that serves the first row's models.

A kind is a value of a dimension: of the file (subsampling, quality, size, …, see
`alignkit.preprocess.image_kinds`), of the truth and of the reference's answers, as the task has
them (the class, the *margin*: softmax margin of the prediction), or the *edge energy*; numbers are
taken in thirds of the images. Each kind is compared with all other images; p-values are Fisher's
exact ones for "flipped in at least one seed", adjusted by Holm over all comparisons. Images that
depend on each other (`Answers.groups`) are drawn as groups: of Student's test on their spread and
Fisher's on groups the greater p counts. Images that a task asks nothing about do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Weights, aligned
from alignkit.compare.bootstrap import (
    RESAMPLES,
    joined_groups,
    mean_over_seeds,
    resample_weights,
)
from alignkit.compare.metrics import ratio
from alignkit.compare.statistics import Moved, change_p, holm, percentile_interval
from alignkit.outcome import Measured
from alignkit.preprocess.image_kinds import DIMENSIONS, kinds_of_file
from alignkit.record import Estimate, FlippedFacts, Subgroup

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.compare.answers import Answers
    from alignkit.place import Column
    from alignkit.plan import Plan
    from alignkit.predict.predict_cells import Predicted
    from alignkit.prepare import Prepared
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.progress import Progress
    from alignkit.samples import Samples

NONE_FLIPPED = "no prediction changed"
ALL_FLIPPED = "every prediction changed"
TOO_FEW = "no kind, or the images outside it, has enough images to be compared"
_FEWEST = 5
"""Least number of images of a kind, and of its complement, for a comparison."""
_THIRDS = ("lowest third", "middle third", "highest third")
_Both = list[tuple["Answers", "Answers"]]
"""Answers of a model on its own path and on another; one pair for each seed."""


def flipped_kinds(
    plan: Plan, predicted: Sequence[Predicted], sets: Sets, progress: Progress
) -> tuple[FlippedFacts, ...]:
    """Compare the first row's models, in their reference runtime, with every other path.

    Empty if none of those cells ran.
    """
    names, draws = {each.name for each in plan.experiment.paths}, plan.experiment.resamples
    pairs = _pairs([each for each in predicted if each.evaluation.preprocess.name in names])
    if not pairs:
        return ()
    with progress.stage("flipped images", len(pairs), "their kinds") as stage:
        own = next(iter(pairs))[0]
        kinds = _kinds(sets.evaluated(own), sets.evaluation)
        found = []
        for (reference, column), both in pairs.items():
            found.append(_facts(reference, column, both, kinds, draws, sets.copies))
            stage.advance()
    return tuple(found)


def _pairs(predicted: Sequence[Predicted]) -> dict[tuple[str, Column], _Both]:
    """Map the models' own path and another column to both predictions of each seed."""
    own = [each for each in predicted if each.evaluation.aligned]
    row = own[0].evaluation.training.row
    first = {each.evaluation.training.key: each for each in own}
    pairs: dict[tuple[str, Column], _Both] = {}
    for each in (each for each in predicted if each.evaluation.training.row == row):
        evaluation = each.evaluation
        before = first[evaluation.training.key]
        if (
            # another runtime would add flips that no kind of image causes
            evaluation.runtime == before.evaluation.runtime
            and not evaluation.aligned
            and isinstance(before.ended, Measured)
            and isinstance(each.ended, Measured)
        ):
            both = aligned(before.ended.value.predictions, each.ended.value.predictions)
            entry = before.evaluation.preprocess.name, evaluation.place.column
            pairs.setdefault(entry, []).append(both)
    return pairs


def _kinds(prepared: Prepared, samples: Samples) -> Mapping[str, Mapping[str, str | None]]:
    """Map dimension to sample id → kind, for the images that the models' own path decodes."""
    places: list[int] = prepared.decoded.tolist()
    kinds = kinds_of_images(
        (samples.read(place) for place in places),
        (prepared.image(place) for place in places),
    )
    ids = [samples.ids[place] for place in places]
    return {name: dict(zip(ids, values, strict=True)) for name, values in kinds.items()}


def _facts(
    reference: str,
    column: Column,
    both: _Both,
    kinds: Mapping[str, Mapping[str, str | None]],
    resamples: int,
    copies: Mapping[str, str],
) -> FlippedFacts:
    before, after = [a for a, _ in both], [b for _, b in both]
    flips = np.stack([a.changed(b) for a, b in both], axis=1)
    asked = _asked(both)
    images, flipped = int(asked.sum()), int(flips[asked].any(axis=1).sum())
    listed = {name: [values[each] for each in before[0].ids] for name, values in kinds.items()}
    found = subgroups(before, after, listed, resamples=resamples, copies=copies)
    return FlippedFacts(
        reference=reference,
        candidate=column.preprocess,
        backend=column.backend,
        precision=column.precision,
        images=images,
        seeds=len(both),
        flipped=flipped,
        subgroups=found,
        reason="" if found else {images: ALL_FLIPPED, 0: NONE_FLIPPED}.get(flipped, TOO_FEW),
    )


def subgroups(
    reference: Sequence[Answers],
    candidate: Sequence[Answers],
    kinds: Mapping[str, Sequence[str | None]],
    *,
    resamples: int = RESAMPLES,
    copies: Mapping[str, str] | None = None,
) -> tuple[Subgroup, ...]:
    """Compare every kind of every dimension, least p first.

    The answers, a pair for each seed, are of the same images in the same order; ``kinds`` gives
    each dimension's kind of each image, and this function adds those of the task. Kinds with too
    few images are not compared, nor are images without a kind. ``copies`` are drawn together, see
    `alignkit.samples.copies_among`. If no image or every image flipped,
    the result is empty.
    """
    pairs = list(zip(reference, candidate, strict=True))
    flips, asked, groups = (
        np.stack([a.changed(b) for a, b in pairs], axis=1),
        _asked(pairs),
        joined_groups(reference[0].ids, reference[0].groups(), copies or {}),
    )
    own = {
        name: thirds(values) if isinstance(values, np.ndarray) else values
        for name, values in type(reference[0]).kinds_of(reference).items()
    }
    chosen = _comparable({**own, **kinds}, asked)
    flipped = np.atleast_1d(flips.any(axis=1))
    if not chosen or flipped[asked].all() or not flipped[asked].any():
        return ()
    rng = np.random.default_rng(0)  # the same intervals every time
    rates = [
        _rates(flips[known], inside[known], resamples, rng)
        if groups is None
        else _grouped_rates(flips[known], inside[known], groups[known], resamples)
        for _, _, inside, known in chosen
    ]
    p_values = [p for *_, p in rates]
    found = [
        Subgroup(dimension, kind, int(inside.sum()), *each, adjusted)
        for (dimension, kind, inside, _), each, adjusted in zip(
            chosen, rates, holm(p_values), strict=True
        )
    ]
    return tuple(sorted(found, key=lambda each: (each.p_adjusted, each.p)))


def _asked(pairs: _Both) -> npt.NDArray[np.bool_]:
    """Tell, (n,), which images the task compares the answers to, in some seed."""
    below = [a.churn(b).below for a, b in pairs]
    every = [np.ones(len(pairs[0][0])) if each is None else each for each in below]
    return np.asarray(np.any(every, axis=0))


def _comparable(
    kinds: Mapping[str, Sequence[str | None]], asked: npt.NDArray[np.bool_]
) -> list[tuple[str, str, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    """List (dimension, kind, mask of its images, mask of all that have a kind).

    There are enough images inside and outside.
    """
    found = [
        (
            dimension,
            kind,
            np.array([each == kind for each in values]) & asked,
            np.array([each is not None for each in values]) & asked,
        )
        for dimension, values in kinds.items()
        for kind in dict.fromkeys(values)
        if kind is not None
    ]
    return [each for each in found if _FEWEST <= each[2].sum() <= each[3].sum() - _FEWEST]


def _rates(
    flips: npt.NDArray[np.bool_],
    inside: npt.NDArray[np.bool_],
    resamples: int,
    rng: np.random.Generator,
) -> tuple[float, float, Estimate, float]:
    """Compute churn inside, outside, their difference with interval, and p.

    ``flips`` are (images, seeds).
    """
    here, there = flips[inside], flips[~inside]
    drawn = _resampled(here, resamples, rng) - _resampled(there, resamples, rng)
    low, high = percentile_interval(drawn[None])[:, 0]
    before, after = float(here.mean()), float(there.mean())
    p = _fisher(np.atleast_1d(flips.any(axis=1)), inside, np.arange(len(inside)))
    return before, after, Estimate(before - after, float(low), float(high)), p


def _grouped_rates(
    flips: npt.NDArray[np.bool_], inside: npt.NDArray[np.bool_], groups: Labels, resamples: int
) -> tuple[float, float, Estimate, float]:
    """Compute what `_rates` does from draws of groups, (images,), of which kinds may cut some."""
    place = np.unique(groups, return_inverse=True)[1]
    units, share = int(place.max()) + 1, flips.mean(axis=1)
    sums = np.stack([
        np.bincount(place, values, units)
        for each in (inside, ~inside) for values in (share * each, each.astype(np.float64))
    ])  # fmt: skip

    def rates(weights: Weights) -> tuple[FloatArray, FloatArray]:
        flipped, images, other_flipped, others = sums @ weights
        return ratio(flipped, images), ratio(other_flipped, others)

    before, after = (float(each[0]) for each in rates(np.ones((units, 1), np.float32)))
    blocks = [np.subtract(*rates(each)) for each in resample_weights(units, resamples, 0)]
    difference = np.array([before - after])
    mean = mean_over_seeds(difference, np.concatenate(blocks)[None], images=units)
    p, flipped = 1.0, np.atleast_1d(flips.any(axis=1))
    if mean.spread.known:
        student = change_p(
            float(mean.value),
            images_error=float(mean.spread.images),
            seeds_error=0.0,
            images=units,
            seeds=1,
            flipped=Moved.alike(len(np.unique(place[flipped]))),
        )
        # where no group of a kind flips, or all do, it has no spread, and Student's p is too small
        p = max(student, _fisher(flipped, inside, place))
    return before, after, mean.estimate(""), p


def _resampled(
    flips: npt.NDArray[np.bool_], resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Resample (images, seeds) with replacement to churn (resamples,).

    An image counts by the number of seeds with which it flipped. The draws of each number are
    multinomial, so that the cost does not grow with the images.
    """
    images, seeds = flips.shape
    counts = np.bincount(flips.sum(axis=1), minlength=seeds + 1)
    drawn = rng.multinomial(images, counts / images, resamples)
    churn: FloatArray = drawn @ np.arange(seeds + 1) / (seeds * images)
    return churn


def _fisher(flipped: npt.NDArray[np.bool_], inside: npt.NDArray[np.bool_], groups: Labels) -> float:
    """Test the groups, once on each side on which they have images; they flip if an image does."""
    from scipy.stats import fisher_exact

    sides = [(len(np.unique(groups[side & flipped])), len(np.unique(groups[side])))
             for side in (inside, ~inside)]  # fmt: skip
    return float(fisher_exact([[some, all_ - some] for some, all_ in sides]).pvalue)


def thirds(values: npt.ArrayLike) -> list[str | None]:
    """Name each value's third of all finite values; equal values are in the same third.

    A value that is not finite has none, and the names say how many have one: ``lowest third of 58
    known``.
    """
    array = np.asarray(values, np.float64)
    known = np.isfinite(array)
    if not known.any():
        return [None] * len(array)
    cuts = np.quantile(array[known], (1 / 3, 2 / 3))
    of_known = "" if known.all() else f" of {known.sum()} known"
    places = np.searchsorted(cuts, array, side="left").clip(max=2)
    return [
        f"{_THIRDS[place]}{of_known}" if has else None
        for place, has in zip(places, known, strict=True)
    ]


def edge_energy(pixels: Pixels) -> float:
    """Compute the mean |Δ| of neighbouring pixels of one (height, width, 3), in grey levels."""
    levels = pixels.astype(np.float32).mean(axis=2)
    across, down = np.abs(np.diff(levels, axis=1)), np.abs(np.diff(levels, axis=0))
    return float((across.mean() + down.mean()) / 2)


def kinds_of_images(
    encoded: Iterable[bytes], pixels: Iterable[Pixels] | None = None
) -> dict[str, list[str | None]]:
    """Map each dimension to the kind of each image, by its file and, for edge energy, its pixels.

    Dimensions in which all images are of one kind are left out.
    """
    found = [kinds_of_file(each) for each in encoded]
    kinds: dict[str, list[str | None]] = {
        dimension: [getattr(each, dimension) for each in found] for dimension in DIMENSIONS
    }
    if pixels is not None:
        kinds["edge energy"] = thirds([edge_energy(each) for each in pixels])
    return {dimension: values for dimension, values in kinds.items() if len({*values}) > 1}
