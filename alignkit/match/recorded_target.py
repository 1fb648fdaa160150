"""Recorded tensors as a `Target`: guessed, then confirmed on the nearest pixels found here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alignkit.match.colour_matrix import misread
from alignkit.match.configurations import Configuration, Geometry, configurations
from alignkit.match.recorded import RecordedTensors, read_recorded
from alignkit.match.search import Search
from alignkit.match.target import Target
from alignkit.match.tensor_guess import (
    Colouring,
    Fit,
    Guess,
    arranged,
    colourings,
    fit,
    guess,
    normalise_of,
)
from alignkit.preprocess import Colour, Normalise
from alignkit.preprocess.image_taps import encoded_images, take_pixels

if TYPE_CHECKING:
    from alignkit.arrays import FloatArray
    from alignkit.samples import Samples

_REFIT = 8
"""Images on which the normalisation is fitted again, with the nearest pixels."""
_ROUNDING = 1e-3
"""Grey levels lost by normalising in float32 and undoing it."""
EXACT = 0.002
"""Greatest distance of that fit from a known normalisation that takes its name."""


def recorded_target(
    folder: Path, samples: Samples, *, decoders: Sequence[str] = (), resizers: Sequence[str] = ()
) -> tuple[Target, tuple[int, ...]]:
    """Read a folder of tensors as a target; return it with the rows that have a tensor.

    ``decoders`` and ``resizers`` filter, by name, the configurations that confirm the guess. Raises
    `DataError` if the tensors are no images of these samples.
    """
    recorded = read_recorded(folder, samples)
    found = guess(recorded, samples)
    rows = recorded.rows[:_REFIT]
    fits: dict[Colouring, Fit] = {}
    for _ in range(2):  # again if the nearest pixels show other colours than the guess
        _, normalise = normalise_of(found.scale, found.offset)
        search = Search(_target(recorded, found, normalise, (), 0.0), samples)
        among = configurations(found.geometry, decoders=decoders, resizers=resizers)
        nearest = search.nearest(list(among), rows)
        before = Colouring(found.geometry.colour, found.misreading)
        plain = Colour("bgr") if before.colour.space == "bgr" else Colour()
        fits = _fitted(recorded, found, colourings(plain), nearest, samples, rows)
        best = min(fits, key=lambda each: fits[each][2])
        scale, offset, _ = fits[best]
        found = replace(_coloured(found, best), scale=scale, offset=offset)
        if best == before:
            break
    name, normalise = normalise_of(found.scale, found.offset, near=EXACT)
    tolerance = _tolerance(recorded, normalise)
    facts = _facts(recorded, found, name, fits)
    return _target(recorded, found, normalise, facts, tolerance), recorded.rows


def _coloured(found: Guess, colouring: Colouring) -> Guess:
    geometry = replace(found.geometry, colour=colouring.colour)
    return replace(found, geometry=geometry, misreading=colouring.misreading)


def _tolerance(recorded: RecordedTensors, normalise: Normalise) -> float:
    """Return the precision of the stored numbers and of our own float32, in grey levels."""
    greatest = max(float(np.abs(recorded.read(row)).max()) for row in recorded.rows[:_REFIT])
    if not recorded.dtype.startswith("float"):
        return _ROUNDING
    digit = float(np.spacing(np.asarray(greatest, recorded.dtype)))
    return max(_ROUNDING, digit * max(normalise.std) * 255)


def _target(
    recorded: RecordedTensors,
    found: Guess,
    normalise: Normalise,
    facts: tuple[str, ...],
    tolerance: float,
) -> Target:
    mean, std = np.asarray(normalise.mean), np.asarray(normalise.std)

    def levels(index: int) -> npt.NDArray[np.float32] | str:
        tensor = arranged(recorded, index, found.layout).astype(np.float64)
        if not np.isfinite(tensor).all():
            return "the tensor holds NaN or infinity"
        return np.ascontiguousarray((tensor * std + mean) * 255, np.float32)

    return Target(
        recorded.name,
        levels,
        found.geometry,
        normalise,
        facts=facts,
        tolerance=tolerance,
        misreading=found.misreading,
    )


def _fitted(
    recorded: RecordedTensors,
    found: Guess,
    coloured: Sequence[Colouring],
    nearest: Configuration,
    samples: Samples,
    rows: tuple[int, ...],
) -> dict[Colouring, Fit]:
    """Fit the tensors to the nearest pixels for each colouring, in the tensors' channel order."""
    preprocesses = []
    for each in coloured:
        decoder = misread(nearest.decode, each.misreading)
        preprocess = Configuration(decoder, nearest.resizer, nearest.rounding).preprocess
        preprocesses.append(preprocess(_coloured(found, each).geometry, Normalise()))
    ours: list[list[FloatArray]] = [[] for _ in preprocesses]
    tensors = []
    taken = take_pixels(preprocesses, encoded_images(samples, rows))
    for row, images in zip(rows, taken, strict=True):
        pixels = [each.pixels for each in images if each.pixels is not None]
        if len(pixels) == len(preprocesses):
            tensors.append(arranged(recorded, row, found.layout).reshape(-1, 3).astype(np.float64))
            for column, image in zip(ours, pixels, strict=True):
                column.append(image.reshape(-1, 3).astype(np.float64))
    whole = np.concatenate(tensors)
    fits = (fit(np.concatenate(column), whole) for column in ours)
    return dict(zip(coloured, fits, strict=True))


def _facts(
    recorded: RecordedTensors, found: Guess, normalisation: str, fits: dict[Colouring, Fit]
) -> tuple[str, ...]:
    count = len(recorded.rows)
    stored = f"{recorded.dtype} {recorded.shape}, read as {found.layout}"
    facts = [f"tensors: {count} of {count + recorded.without_tensor} images have one; {stored}"]
    if recorded.without_image:
        facts.append(f"other images: {recorded.without_image} tensors belong to none of ours")
    order = "BGR" if found.geometry.colour.space == "bgr" else "RGB"
    colouring = Colouring(found.geometry.colour, found.misreading)
    facts += [
        f"channel order: {order}{_against(found, 'channel order')}",
        f"geometry: {_geometry(found.geometry)}{_against(found, 'geometry')}",
        f"colour: {_colour(colouring, fits)}",
        f"normalisation: {_normalisation(normalisation, fits[colouring])}",
    ]
    return tuple(facts)


def _against(found: Guess, kind: str) -> str:
    if kind not in found.against:
        return ""
    return f" (residual {found.residual:.2f} levels; otherwise {found.against[kind]:.2f})"


def _colour(mine: Colouring, fits: dict[Colouring, Fit]) -> str:
    other = min(fit[2] for each, fit in fits.items() if each != mine)
    proof = f"(residual {fits[mine][2]:.3f} levels; otherwise {other:.2f})"
    if mine.misreading is not None:
        return (
            f"{mine.misreading.name} {proof}; no option here does that: correct it where it serves"
        )
    if mine.colour.space.startswith("nv12"):
        return f"round trip through {mine.colour.space} {proof}"
    return f"BT.601, as JPEG files are written {proof}"


def _normalisation(name: str, fitted: Fit) -> str:
    scale, offset, residual = fitted
    std = [1 / (255 * each) for each in scale]
    mean = [-shift * each for shift, each in zip(offset, std, strict=True)]
    numbers = f"mean {_three(mean)}, std {_three(std)}"
    proof = f"fitted on the nearest pixels: {numbers}, residual {residual:.3f} levels"
    return f"{name} ({proof})" if name else f"none that is known; {proof}"


def _three(values: list[float]) -> str:
    return "/".join(f"{value:.5g}" for value in values)


def _geometry(geometry: Geometry) -> str:
    resize, crop = geometry.resize, geometry.crop
    size = f"{resize.size[0]}x{resize.size[1]}"
    if resize.fit == "letterbox":
        return f"letterbox to {size}, border {resize.pad}"
    if crop.size:
        half = "" if crop.half == "even" else f", odd margins {crop.half}"
        cut = f"{crop.size[0]}x{crop.size[1]}{half}"
        longer = "" if resize.rounding == "down" else f", the longer rounded to {resize.rounding}"
        return f"shorter side to {min(resize.size)}{longer}, centre crop {cut}"
    return f"{resize.fit} to {size}"
