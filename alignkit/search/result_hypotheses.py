"""Explain how a function's results differ from a `Preprocess`: channels, normalisation, geometry.

The hypotheses are those of a search, the plainest first. One is a finding only where it takes away
most of the difference that a plainer one leaves (`record.diff_document.EXPLAINS_MOST`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.decoders.exif import exif_orientation
from alignkit.errors import DataError
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.preprocess.normalise import Normalise
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.samples import Samples
from alignkit.search.configurations import Framing
from alignkit.search.first_images import first_images
from alignkit.search.match_result import AS_ROUNDING, explained_share
from alignkit.search.normalisation_fit import (
    Fit,
    constants,
    fit,
    in_numbers,
    normalise_of,
    triple,
    undone,
)
from alignkit.search.recolouring import PerChannel
from alignkit.search.recorded_target import RecordedTensors
from alignkit.search.target_facts import geometry_words
from alignkit.search.target_guess import guess
from alignkit.text.numbers import count, percent, plain

TRIED_IMAGES = 4
"""Images on which hypotheses are tried."""
_AS_LEVELS = Normalise((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255))
"""The normalisation that returns grey levels 0..255."""
_NAMED = 12.0
"""Most grey levels, root mean square, that a named cause may leave: two correct resizers differ by
up to 4 in the mean, which is about 10. Another cause may look like one that leaves more."""
_ROUNDED = 0.1
"""Grey levels by which rounding may make a hypothesis better."""
_EXACT = 1e-4
"""Share by which a normalisation, or factor, that is fitted to exact pixels may be off another."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A way in which results may differ, with what it leaves unexplained."""

    words: str
    residual: float
    """Root mean square of the difference that remains, in grey levels."""


def explain(
    reference: Preprocess,
    results: Sequence[npt.NDArray[np.generic]],
    samples: Samples,
    greatest: float,
    images: int,
) -> str:
    """Say in a sentence how the results for some samples differ from the reference's.

    ``results`` are (h, w, 3) in grey levels, or (3, h, w) normalised tensors, of the reference's
    size. ``greatest`` is the distance of the farthest of all ``images``: no more than rounding if
    that is. The sentence says how much remains and on how many images, or that no hypothesis
    explains most of the difference; it is empty if the results cannot be compared.
    """
    tensors = results[0].shape[0] == 3
    rows = range(len(results))
    taken = take_pixels([reference], encoded_images(samples, rows))
    ours = [each.pixels for (each,) in taken]
    theirs = [np.moveaxis(each, 0, -1) if tensors else each for each in results]
    if any(each is None for each in ours):
        return ""
    pixels = np.concatenate([_flat(each) for each in ours if each is not None])
    values = np.concatenate([_flat(each) for each in theirs])
    if not np.isfinite(values).all():
        return ""
    normalise = reference.normalise if tensors else _AS_LEVELS
    nothing = Hypothesis("", _rms(undone(values, normalise) - pixels))
    if greatest <= AS_ROUNDING:
        return (
            f"The results differ by no more than rounding on all of {count(images, 'image')} (at "
            f"most {plain(greatest, 3)} grey levels, root mean square); a rule such as "
            f"{'normalise' if tensors else 'colour'}.mean_abs allows that."
        )
    tried = f"on {count(len(results), 'image')}"
    found = _plainest(nothing, _of_values(pixels, values, normalise))
    if found is nothing:
        recorded = RecordedTensors(
            "the function", tuple(rows), results.__getitem__, results[0].shape,
            str(results[0].dtype), 0, 0,
        )  # fmt: skip
        found = _plainest(nothing, _of_geometry(recorded, samples, reference, normalise))
    if found is nothing:
        return (
            "No channel order, normalisation or geometry explains most of it, tried "
            f"{tried}; alignkit.match searches decoders and resizers by recorded tensors."
        )
    if found.residual > _NAMED:
        return (
            f"No cause is named: the nearest tried is that {found.words}, and it leaves "
            f"{plain(found.residual, 2)} of {plain(nothing.residual, 2)} grey levels (root mean "
            f"square, {tried})."
        )
    share = percent(explained_share(found.residual, nothing.residual), 0)
    remains = f"{plain(found.residual, 2)} of {plain(nothing.residual, 2)} grey levels remain"
    return (
        f"In the function's result {found.words}: this explains {share} of the difference "
        f"({remains}, root mean square, {tried})."
    )


def _flat(image: npt.NDArray[np.generic]) -> FloatArray:
    return image.reshape(-1, 3).astype(np.float64)


def _rms(difference: FloatArray) -> float:
    return float(np.sqrt((difference**2).mean()))


def _plainest(nothing: Hypothesis, tried: Iterable[Hypothesis]) -> Hypothesis:
    """Return the plainest hypothesis of which no later one takes most of the rest away."""
    best = nothing
    for each in tried:
        share = explained_share(each.residual, best.residual)
        if best.residual - each.residual > _ROUNDED and share >= EXPLAINS_MOST:
            best = each
    return best


def _of_values(
    pixels: FloatArray, values: FloatArray, normalise: Normalise
) -> Iterator[Hypothesis]:
    """Yield hypotheses about channels and normalisation; the geometry is the reference's."""
    turned = undone(values, normalise)[:, ::-1]
    yield Hypothesis("the channels are reversed (BGR)", _rms(turned - pixels))
    turned = undone(values[:, ::-1], normalise)
    words = "the channels are reversed (BGR) after normalisation"
    yield Hypothesis(words, _rms(turned - pixels))
    for step, before in ((1, ""), (-1, "the channels are reversed (BGR), and ")):
        fitted = fit(pixels[:, ::step], values)
        shown = constants(pixels[:, ::step], values, fitted)
        if words := _normalisation(shown.name, shown.normalise, fitted, normalise):
            yield Hypothesis(f"{before}{words}", fitted[2])


def _normalisation(name: str, found: Normalise, fitted: Fit, normalise: Normalise) -> str:
    """Say how a fitted normalisation differs from the reference's; empty if it is no finding."""
    scale, offset, residual = fitted
    if not name and residual > AS_ROUNDING:
        return ""  # a fit takes in any change of tone
    near = max(_EXACT, residual / 255)
    own_scale, own_offset = _affine(normalise)
    factors = np.asarray(scale) / np.asarray(own_scale)
    shifts = (np.asarray(offset) - factors * np.asarray(own_offset)) / (255 * np.asarray(scale))
    factor = float(factors.mean())
    if np.abs(factors / factor - 1).max() < near and np.abs(shifts).max() < near:
        return "" if abs(factor - 1) < near else f"the values are scaled by {factor:.4g}"
    own, _ = normalise_of(own_scale, own_offset, near=_EXACT)
    return (
        f"the normalisation is {name or in_numbers(found)} instead of "
        f"{own or in_numbers(normalise)}"
    )


def _affine(normalise: Normalise) -> tuple[PerChannel, PerChannel]:
    """Return scale and offset of grey levels."""
    mean, std = np.asarray(normalise.mean), np.asarray(normalise.std)
    return triple(1 / (255 * std)), triple(-mean / std)


def _of_geometry(
    recorded: RecordedTensors, samples: Samples, reference: Preprocess, normalise: Normalise
) -> Iterator[Hypothesis]:
    """Yield the geometry that a search guesses, if it is another one than the reference's."""
    try:
        found = guess(recorded, samples, first_images(recorded, samples))
    except DataError:
        return  # flat images, or none of the size: there is nothing to guess from
    own = Framing.of(reference)
    words = [
        f"the geometry is {geometry_words(found.geometry)} instead of {geometry_words(own)}"
    ] * (geometry_words(found.geometry) != geometry_words(own))
    turned = any(exif_orientation(samples.read(row)) != 1 for row in recorded.rows)
    if turned and found.geometry.orient != own.orient:
        turns = "are turned" if found.geometry.orient == "exif" else "are not turned"
        words.append(f"images {turns} by their EXIF orientation")
    if not words:
        return
    if (found.geometry.colour.space == "bgr") != (own.colour.space == "bgr"):
        words.append("the channels are reversed (BGR)")
    fitted = found.scale, found.offset, found.residual
    named = normalise_of(found.scale, found.offset, near=max(_EXACT, found.residual / 255))
    if other := _normalisation(*named, fitted, normalise):
        words.append(other)
    yield Hypothesis(", and ".join(words), found.residual)
