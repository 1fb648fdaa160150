"""Recorded tensors as a `Target`: guessed, then confirmed on the nearest pixels found here.

A serving stack recorded them, in a ``.npy`` for each image, or a ``.npz`` that holds them. A tensor
belongs to the image of the same name, with or without the image's suffix and the folders above it.
`alignkit.search.target_guess` finds layout, channel order, range and normalisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.errors import DataError
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.preprocess.normalise import Normalise
from alignkit.samples import Samples
from alignkit.search import Search
from alignkit.search.configurations import Configuration, configurations
from alignkit.search.first_images import first_images
from alignkit.search.image_names import samples_named
from alignkit.search.match_result import AS_DECODERS, AS_RESIZERS, AS_ROUNDING
from alignkit.search.normalisation_fit import constants, fit, normalise_of, undone
from alignkit.search.recolouring import GREYS, recoloured
from alignkit.search.stored_tensors import StoredTensor, stored_tensors
from alignkit.search.target import Target
from alignkit.search.target_facts import recorded_facts
from alignkit.search.target_guess import (
    Guess,
    arranged,
    colourings,
    guess,
    layouts,
    preferred,
    rounded,
)

_ROUNDING = 1e-3
"""Grey levels lost by normalising in float32 and undoing it."""
_COARSEST = 0.5
"""Greatest tolerance in grey levels, however coarse the stored numbers are."""
_ROUNDS = 2
"""How often the nearest pixels are looked for, as long as they show other colours, another rounding
or another normalisation than those they were looked for with."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedTensors:
    """The tensors of those samples that have one."""

    name: str
    rows: tuple[int, ...]
    """Indices of the samples that have a tensor, ascending."""
    read: Callable[[int], npt.NDArray[np.generic]]
    """Index of a sample → its stored tensor; may be called from threads."""
    shape: tuple[int, ...]
    """Shape of every tensor."""
    dtype: str
    without_tensor: int
    """Samples that have no tensor."""
    without_image: int
    """Tensors that belong to no sample."""


def recorded_target(
    folder: Path, samples: Samples, *, decoders: Sequence[str] = (), resizers: Sequence[str] = ()
) -> tuple[Target, tuple[int, ...]]:
    """Read a folder of tensors as a target; return it with the rows that have a tensor.

    ``decoders`` and ``resizers`` filter, by name, the configurations that confirm the guess. Raises
    `DataError` if the tensors are no images of these samples.
    """
    return target_of(_read_recorded(folder, samples), samples, decoders=decoders, resizers=resizers)


def target_of(
    recorded: RecordedTensors,
    samples: Samples,
    *,
    decoders: Sequence[str] = (),
    resizers: Sequence[str] = (),
) -> tuple[Target, tuple[int, ...]]:
    """Return recorded tensors as a target, as `recorded_target` does."""
    layouts(recorded)  # shapes that are no images are refused before any image is decoded
    first = first_images(recorded, samples)
    rows = first.rows
    found = guess(recorded, samples, first)
    _, normalise = normalise_of(found.scale, found.offset)
    for _ in range(_ROUNDS):
        among = configurations(found.geometry, decoders=decoders, resizers=resizers)
        search = Search(_target(recorded, found, normalise), samples, among)
        nearest = search.nearest(list(among), rows)
        before, geometry = (found.colouring, normalise), found.geometry
        found = rounded(found, nearest, recorded, samples, rows)
        colours = colourings(found.colouring)
        prepared = _prepared(recorded, [*map(found.coloured, colours)], nearest, samples, rows)
        fits = dict(
            zip(colours, (fit(each, prepared.tensors) for each in prepared.ours), strict=True)
        )
        best = preferred({each: residual for each, (*_, residual) in fits.items()})
        scale, offset, residual = fits[best]
        found = replace(found.coloured(best), scale=scale, offset=offset)
        ours = prepared.ours[colours.index(best)]
        shown = constants(ours, prepared.tensors, fits[best])
        normalise = shown.normalise
        # where much remains, the fit follows it, and another search would too
        alike = residual > AS_RESIZERS or _alike(normalise, before[1])
        if alike and best == before[0] and found.geometry == geometry:
            break
    found = _weighed(recorded, found, nearest, samples, rows, residual, ours, prepared.tensors)
    stand_in = "" if shown.decided else shown.name
    if not shown.name:
        stand_in, normalise = _stand_in(recorded, found, normalise, samples, nearest, rows)
    target = replace(
        _target(recorded, found, normalise),
        facts=recorded_facts(recorded, found, shown.name, fits, first, stand_in),
        tolerance=_tolerance(recorded, normalise, rows),
        fitted_on=None if shown.name else first.contrasted,
        stand_in=stand_in,
    )
    return target, recorded.rows


def _weighed(
    recorded: RecordedTensors,
    found: Guess,
    nearest: Configuration,
    samples: Samples,
    rows: tuple[int, ...],
    residual: float,
    ours: FloatArray,
    tensors: FloatArray,
) -> Guess:
    """Return the hypothesis with what it and its rivals leave of the nearest pixels, ``ours``.

    The guess had other pixels: where these are off by much, no order or geometry is better.
    """
    against = {}
    if found.recolouring not in GREYS:
        *_, against["channel order"] = fit(ours[:, ::-1], tensors)
    if found.rival:
        geometry = replace(found.rival, colour=found.geometry.colour)
        rival = replace(found, geometry=geometry)
        if geometry.resamples and not found.geometry.resamples:  # the nearest has no resizer
            nearest = replace(nearest, resizer=geometry.resize.resizer)
        other = _prepared(recorded, [rival], nearest, samples, rows)
        if other.images == len(rows):
            *_, against["geometry"] = fit(other.ours[0], other.tensors)
    return replace(found, residual=residual, against=against)


def _stand_in(
    recorded: RecordedTensors,
    found: Guess,
    fitted: Normalise,
    samples: Samples,
    nearest: Configuration,
    rows: tuple[int, ...],
) -> tuple[str, Normalise]:
    """Return a known normalisation by name, or no name and the ``fitted`` one.

    It is the known one near the fit, where the fit leaves more than rounding, so that it is no
    finding, and the known one no more than a decoder.
    """
    name, known = normalise_of(found.scale, found.offset)
    if not name:
        return "", fitted

    def left(normalise: Normalise) -> float:
        search = Search(_target(recorded, found, normalise), samples, [nearest])
        return float(search.means([nearest], search.measure([nearest], rows)).mean())

    stands = left(fitted) > AS_ROUNDING and left(known) <= AS_DECODERS
    return (name, known) if stands else ("", fitted)


def _alike(one: Normalise, other: Normalise) -> bool:
    """Return whether the two differ by less than a tenth of a grey level."""
    apart = np.abs(np.subtract(one.mean, other.mean)) + np.abs(np.subtract(one.std, other.std))
    return bool(apart.max() * 255 < 0.1)


def _tolerance(recorded: RecordedTensors, normalise: Normalise, rows: tuple[int, ...]) -> float:
    """Return the precision of the stored numbers and of our own float32, in grey levels."""
    greatest = max(float(np.abs(recorded.read(row)).max()) for row in rows)
    if not recorded.dtype.startswith("float"):
        return _ROUNDING
    digit = float(np.spacing(np.asarray(greatest, recorded.dtype)))
    return min(max(_ROUNDING, digit * max(normalise.std) * 255), _COARSEST)


def _target(recorded: RecordedTensors, found: Guess, normalise: Normalise) -> Target:
    def levels(index: int) -> npt.NDArray[np.float32] | str:
        tensor = arranged(recorded.read(index), found.layout)
        if not np.isfinite(tensor).all():
            return "the tensor holds NaN or infinity"
        return np.ascontiguousarray(undone(tensor, normalise), np.float32)

    return Target(recorded.name, levels, found.geometry, normalise, recolouring=found.recolouring)


class _Prepared(NamedTuple):
    """Pixels of some hypotheses, with the tensors of the same images, each (pixels, 3)."""

    ours: list[FloatArray]
    tensors: FloatArray
    images: int


def _prepared(
    recorded: RecordedTensors,
    hypotheses: Sequence[Guess],
    nearest: Configuration,
    samples: Samples,
    rows: tuple[int, ...],
) -> _Prepared:
    """Prepare the nearest pixels for each hypothesis, in the tensors' channel order."""
    preprocesses = []
    for each in hypotheses:
        decoder = recoloured(nearest.decode, each.recolouring)
        preprocess = Configuration(decoder, nearest.resizer, nearest.rounding).preprocess
        preprocesses.append(preprocess(each.geometry, Normalise()))
    ours: list[list[FloatArray]] = [[] for _ in preprocesses]
    tensors = [np.empty((0, 3))]
    taken = take_pixels(preprocesses, encoded_images(samples, rows))
    for row, images in zip(rows, taken, strict=True):
        pixels = [each.pixels for each in images if each.pixels is not None]
        tensor = arranged(recorded.read(row), hypotheses[0].layout)
        # residuals are compared, so that all are taken over the same images
        if [each.shape for each in pixels] == [tensor.shape] * len(preprocesses):
            tensors.append(tensor.reshape(-1, 3).astype(np.float64))
            for column, image in zip(ours, pixels, strict=True):
                column.append(image.reshape(-1, 3).astype(np.float64))
    columns = [np.concatenate([*column, np.empty((0, 3))]) for column in ours]
    return _Prepared(columns, np.concatenate(tensors), len(tensors) - 1)


def _read_recorded(folder: Path, samples: Samples) -> RecordedTensors:
    """Find each sample's tensor.

    Raises `DataError` if there is none, no tensor belongs to an image, two belong to one, or shapes
    differ.
    """
    stored = stored_tensors(folder)
    if not stored:
        raise DataError(f"{folder} holds no .npy and no .npz file; record one array for each image")
    by_name = {name.removesuffix(".npy"): each for name, each in stored.items()}
    rows = samples_named(by_name, samples)
    found_for = {row: by_name[name] for name, row in sorted(rows.items(), key=lambda each: each[1])}
    if not found_for:
        raise DataError(
            f"none of {len(stored)} tensors in {folder} has the name of one of {len(samples)} "
            f"images, e.g. {next(iter(stored))!r} and {samples.ids[0]!r}; name each tensor as its "
            "image"
        )
    shape, dtype = _common_shape(folder, samples, found_for)
    return RecordedTensors(
        folder.name,
        tuple(found_for),
        lambda index: found_for[index].read(),
        shape,
        dtype,
        len(samples) - len(found_for),
        len(by_name) - len(rows),
    )


def _common_shape(
    folder: Path, samples: Samples, tensors: dict[int, StoredTensor]
) -> tuple[tuple[int, ...], str]:
    """Return the shape and dtype of all tensors; raise `DataError` if they differ."""
    shapes: dict[tuple[tuple[int, ...], str], str] = {}
    for index, tensor in tensors.items():
        shapes.setdefault(tensor.shape(), samples.ids[index])
    if len(shapes) > 1:
        listed = ", ".join(
            f"{shape} {dtype} of {sample}" for (shape, dtype), sample in list(shapes.items())[:3]
        )
        raise DataError(f"{folder}: the tensors have different shapes: {listed}; record one shape")
    return next(iter(shapes))
