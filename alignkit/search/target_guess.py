"""Guess layout, channel order, colour matrix, geometry and normalisation of recorded tensors.

Every hypothesis is tried on some images: our own pixels, made by the hypothesis, are fitted to the
tensors channel by channel with a scale and an offset. The hypothesis with the least residual wins,
and the residual of the next best of each kind is kept as evidence. Colours that differ from the
plain ones must explain most of what these leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.decoders import Decoder
from alignkit.decoders.exif import exif_orientation
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.errors import DataError
from alignkit.isolation.worker import Encoded
from alignkit.preprocess import Colour, ColourSpace, Crop, HalfRounding, Resize, SideRounding
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.preprocess.normalise import Normalise
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.resizers import Resizer
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.pillow import PillowResizer
from alignkit.samples import Samples
from alignkit.search.configurations import RGB, Configuration, Framing
from alignkit.search.match_result import AS_RESIZERS, explained_share
from alignkit.search.native_geometries import (
    POLICIES,
    below,
    fixed_crops,
    native_geometries,
    native_roundings,
)
from alignkit.search.normalisation_fit import fit
from alignkit.search.recolouring import GREYS, MISREADINGS, Recolouring, recoloured

if TYPE_CHECKING:
    from alignkit.search.first_images import FirstImages
    from alignkit.search.recorded_target import RecordedTensors

Layout = Literal["CHW", "HWC"]

_STRIDE = 3
"""Every third pixel in both directions is used for a fit."""
_ALIKE = 1.005
"""A later hypothesis must be better by this factor, so that the plainest wins a tie."""
_SHARES = (1.0, 224 / 256, 224 / 232, 224 / 236, 224 / 246, 0.9, 0.95, 0.96, 0.97, 0.98)
"""Side of the centre crop ÷ shorter side of the resized image, as model zoos have them."""
_STEPS = 4
"""Times that the shorter side goes one pixel up or down, as long as that is nearer."""
_RESIZERS: tuple[Resizer, ...] = (PillowResizer(), OpenCVResizer())
"""One with antialias and one without: near enough to any other to tell the hypotheses apart."""
_PADS = (114, 0, 127, 128, 255)
_WHOLES: tuple[Callable[[float], int], ...] = (round, math.floor, math.ceil)

_COLLINEAR = 0.02
"""Greatest distance of grey tensors' channels, in standard deviations."""
_ROUNDED = 0.1
"""Grey levels that rounding may leave of any colours."""


@dataclass(frozen=True, slots=True)
class Colouring:
    """A stack's treatment of colours: an order or round trip, perhaps after a recolouring."""

    colour: Colour
    recolouring: Recolouring | None = None


@dataclass(frozen=True, slots=True)
class Sides:
    """The rounding of sides and margins, by the pixels of the nearest configuration."""

    rules: tuple[SideRounding, ...]
    """Those of the sides that leave the same residual."""
    residual: float
    against: float
    """The least residual of another rounding, of sides or margins; its own if none is seen."""


@dataclass(frozen=True, slots=True)
class Guess:
    """One hypothesis, with its evidence."""

    layout: Layout
    geometry: Framing
    recolouring: Recolouring | None
    scale: tuple[float, float, float]
    """Tensor units for each grey level, in the tensor's channel order."""
    offset: tuple[float, float, float]
    residual: float
    """Root mean square of the fit's error, in grey levels."""
    against: dict[str, float] = field(default_factory=dict)
    """Rejected kind of hypothesis → what it leaves on the nearest pixels, in grey levels."""
    rival: Framing | None = None
    """The best of the rejected geometries."""
    bordered: bool = False
    """Whether an image may be smaller than the tensors: others show no border."""
    sides: Sides | None = None
    """``None`` where no side follows from another."""

    @property
    def colouring(self) -> Colouring:
        """The stack's treatment of colours."""
        return Colouring(self.geometry.colour, self.recolouring)

    def coloured(self, colouring: Colouring) -> Guess:
        """Return the same hypothesis with other colours."""
        geometry = replace(self.geometry, colour=colouring.colour)
        return replace(self, geometry=geometry, recolouring=colouring.recolouring)


def guess(recorded: RecordedTensors, samples: Samples, first: FirstImages) -> Guess:
    """Return the best hypothesis on the first images.

    Raises `DataError` if the tensors hold no RGB image.
    """
    chosen = [image.data for image in encoded_images(samples, first.rows)]
    tried: list[Guess] = []
    for layout in layouts(recorded):
        tensors = [arranged(recorded.read(index), layout) for index in first.rows]
        sampled = np.concatenate([_sampled(tensor) for tensor in tensors]).astype(np.float64)
        if (sampled.std(axis=0) == 0).any():
            raise DataError(f"{recorded.name}: the tensors are constant; record those of images")
        tried += _tried(layout, tensors[0], chosen, sampled, grey_files=first.grey)
    if not tried:
        raise DataError(
            f"{recorded.name}: the first images could not be brought to the tensors' size; record "
            "the tensors again"
        )
    best = _best(tried)
    rivals = [each for each in tried if not _framed_alike(best, each)]
    rival = min(rivals, key=lambda each: each.residual).geometry if rivals else None
    bordered = any(below(best.geometry.size, each) for each in chosen)
    return replace(best, rival=rival, bordered=bordered)


def rounded(
    found: Guess,
    nearest: Configuration,
    recorded: RecordedTensors,
    samples: Samples,
    rows: Sequence[int],
) -> Guess:
    """Return the hypothesis with the rounding that the nearest configuration's pixels show."""
    if found.geometry.resize.fit == "squash":
        return found
    tensors = [_sampled(arranged(recorded.read(index), found.layout)) for index in rows]
    geometries = roundings(found.geometry, steps=(0, -1, 1))
    encoded = [image.data for image in encoded_images(samples, rows)]
    tried = list(
        _fits(
            found.layout, geometries, [found.colouring], encoded,
            np.concatenate(tensors).astype(np.float64), [(nearest.decode, nearest.resizer)],
        )
    )  # fmt: skip
    if not tried:
        return found
    best = _best(tried)
    if not found.geometry.resamples:  # no side follows from another
        return replace(found, geometry=best.geometry)
    # an exact fit tells roundings apart that differ on one image, and others do not
    alike = min(_ROUNDED, best.residual) + 1e-9
    left = [each for each in tried if each.residual - best.residual <= alike]
    own = best.geometry.resize
    rules = [
        each.geometry.resize.side_rounding
        for each in left
        if replace(each.geometry.resize, rounding=own.rounding) == own
    ]
    others = [each.residual for each in tried if each.residual - best.residual > alike]
    sides = Sides(tuple(dict.fromkeys(rules)), best.residual, min(others, default=best.residual))
    return replace(found, geometry=best.geometry, sides=sides)


def layouts(recorded: RecordedTensors) -> tuple[Layout, ...]:
    """Return the layouts that the tensors' shape allows. Raises `DataError` if there is none."""
    shape = recorded.shape[1:] if recorded.shape[:1] == (1,) else recorded.shape
    axes: dict[Layout, int] = {"CHW": 0, "HWC": 2}
    found = tuple(each for each, axis in axes.items() if len(shape) == 3 and shape[axis] == 3)
    if not found or 0 in shape:
        raise DataError(
            f"{recorded.name}: tensors of shape {recorded.shape} are no RGB images; expected "
            "(3, h, w), (h, w, 3), or one of these with a leading 1"
        )
    return found


def arranged(tensor: npt.NDArray[np.generic], layout: Layout) -> npt.NDArray[np.generic]:
    """Return a tensor as (height, width, 3)."""
    image = tensor[0] if tensor.ndim == 4 else tensor
    return np.moveaxis(image, 0, -1) if layout == "CHW" else image


def _sampled(image: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    return image[::_STRIDE, ::_STRIDE].reshape(-1, 3)


def _tried(
    layout: Layout,
    tensor: npt.NDArray[np.generic],
    encoded: Sequence[bytes],
    tensors: FloatArray,
    *,
    grey_files: bool,
) -> list[Guess]:
    """Try every geometry in both channel orders; other colours only with the best of these.

    ``tensor`` is the first image's, ``tensors`` are the sampled pixels of all.
    """
    size = (tensor.shape[0], tensor.shape[1])
    turned = any(exif_orientation(each) != 1 for each in encoded)
    orders = [Colouring(RGB), Colouring(Colour("bgr"))]
    if _grey(tensors) and not grey_files:
        orders = [Colouring(RGB, GREYS[0])]
    libraries = [(OpenCVDecoder(), each) for each in _RESIZERS]
    fits = partial(_fits, layout, encoded=encoded, tensors=tensors, libraries=libraries)
    smaller = any(below(size, each) for each in encoded)
    framings = list(geometries(size, turned=turned, smaller=smaller))
    plain = list(fits([each for each in framings if each.resamples], orders))
    unresized = partial(_fits, layout, encoded=encoded, tensors=tensors, libraries=libraries[:1])
    plain += unresized([each for each in framings if not each.resamples], orders)
    if not plain:
        return []
    # one respect after the other, as all combinations would be many times as many paths
    for _ in range(_STEPS):
        best = _best(plain)
        plain += fits(roundings(best.geometry, steps=(0, -1, 1)), [best.colouring])
        if best.geometry.resize.size == _best(plain).geometry.resize.size:
            break  # no other side is nearer
    if _best(plain).residual > AS_RESIZERS:
        plain += unresized(fixed_crops(tensor, encoded[0], turned=turned), orders)
    best = _best(plain)
    others = fits([best.geometry], colourings(best.colouring)[1:])
    residuals = {best.colouring: best} | {
        each.colouring: each for each in sorted(others, key=lambda each: -each.residual)
    }
    chosen = preferred({key: each.residual for key, each in residuals.items()})
    return [*plain, residuals[chosen]] if chosen != best.colouring else plain


def _grey(pixels: npt.NDArray[np.generic]) -> bool:
    """Return whether the three channels, (pixels, 3), differ by a scale and an offset alone."""
    centred = pixels.astype(np.float64) - pixels.mean(axis=0, dtype=np.float64)
    centred /= np.sqrt((centred**2).mean(axis=0)) + 1e-12
    return bool(np.abs(centred - centred[:, :1]).max() < _COLLINEAR)


def preferred(residuals: dict[Colouring, float]) -> Colouring:
    """Return the colouring of the least residual if it explains most of what the plain one leaves.

    The plain one comes first, and is returned otherwise.
    """
    plain = next(iter(residuals))
    best = min(residuals, key=lambda each: residuals[each])
    share = explained_share(residuals[best], residuals[plain])
    return best if residuals[plain] > _ROUNDED and share >= EXPLAINS_MOST else plain


def colourings(mine: Colouring) -> tuple[Colouring, ...]:
    """Return the treatments of colours that a stack may have, the plain one first.

    ``mine`` says whether the channels are in the order B, G, R, or a grey image.
    """
    if mine.recolouring in GREYS:
        return tuple(Colouring(RGB, each) for each in GREYS)
    order = mine.colour if mine.colour.space == "bgr" else RGB
    spaces: tuple[ColourSpace, ...] = get_args(ColourSpace)
    return (
        Colouring(order),
        *(Colouring(order, each) for each in MISREADINGS),
        # a round trip ends in RGB
        *(Colouring(Colour(each)) for each in spaces if order == RGB and each.startswith("nv12")),
    )


def _best(tried: Sequence[Guess]) -> Guess:
    least = min(each.residual for each in tried)
    return next(each for each in tried if each.residual <= least * _ALIKE + 1e-9)


def _fits(
    layout: Layout,
    geometries: Sequence[Framing],
    coloured: Sequence[Colouring],
    encoded: Sequence[bytes],
    tensors: FloatArray,
    libraries: Sequence[tuple[Decoder, Resizer]],
) -> Iterator[Guess]:
    recolourings = dict.fromkeys(each.recolouring for each in coloured)
    cases = list(product(geometries, libraries, recolourings))
    preprocesses = []
    for geometry, (decoder, resizer), recolouring in cases:
        configuration = Configuration(recoloured(decoder, recolouring), resizer)
        preprocesses.append(configuration.preprocess(replace(geometry, colour=RGB), Normalise()))
    images = [Encoded(str(number), data) for number, data in enumerate(encoded)]
    by_path = zip(*take_pixels(preprocesses, images), strict=True)
    for (geometry, _, recolouring), found in zip(cases, by_path, strict=True):
        taken = [each.pixels for each in found]
        pixels = [each for each in taken if each is not None and each.shape[:2] == geometry.size]
        if len(pixels) < len(encoded):
            continue
        for colouring in coloured:
            if colouring.recolouring == recolouring:
                ours = np.concatenate([_sampled(colouring.colour(each)) for each in pixels])
                scale, offset, residual = fit(ours.astype(np.float64), tensors)
                coloured_geometry = replace(geometry, colour=colouring.colour)
                yield Guess(layout, coloured_geometry, recolouring, scale, offset, residual)


def geometries(size: tuple[int, int], *, turned: bool, smaller: bool = True) -> Iterator[Framing]:
    """List the hypotheses; ``smaller``: whether an image may have a side below the size."""
    plain = Resize(OpenCVResizer(), size)
    for policy in POLICIES[: 1 + turned]:
        yield Framing(plain, orient=policy)
        exact = [max(size) / share for share in _SHARES]
        for side in dict.fromkeys(whole(each) for each in exact for whole in _WHOLES):
            shorter = Resize(OpenCVResizer(), (side, side), "shorter")
            yield Framing(shorter, Crop(size), policy)
        for pad in _PADS:
            yield Framing(replace(plain, fit="letterbox", pad=pad), orient=policy)
        # sides follow from no other, and no resizer is called
        yield from native_geometries(size, _PADS if smaller else _PADS[:1], policy)


def roundings(plain: Framing, *, steps: Sequence[int] = (0,)) -> list[Framing]:
    """List each rounding of the sides that follow, of odd margins and, by steps, of the shorter.

    Its own comes first: of several that are equal, a search takes the first. Sides are those of a
    fit that keeps the aspect ratio, margins those of a crop or a letterbox.
    """
    resize, crop = plain.resize, plain.crop
    boxed = resize.fit == "letterbox"
    least = max(crop.size or (1,))
    sides = [min(resize.size) + step for step in steps] if resize.fit == "shorter" else []
    sizes = [(side, side) for side in sides if side >= least] or [resize.size]
    own = resize.half if boxed else crop.half
    halves = dict.fromkeys((own, *get_args(HalfRounding))) if boxed or crop.size else (own,)
    if not plain.resamples:
        return native_roundings(plain)
    return [
        replace(
            plain,
            resize=replace(each, half=half) if boxed else each,
            crop=crop if boxed else replace(crop, half=half),
        )
        for size, half in product(sizes, halves)
        for each in side_roundings(replace(resize, size=size))
    ]


def rounded_alike(one: Framing, other: Framing) -> bool:
    """Tell whether two geometries differ in the rounding of sides and margins at most."""
    size = one.resize.size
    same = replace(other.resize, size=size, rounding=one.resize.rounding, half=one.resize.half)
    mine = replace(one, resize=replace(one.resize, resizer=same.resizer))
    alike = replace(other, resize=same, crop=replace(other.crop, half=one.crop.half))
    return abs(min(size) - min(other.resize.size)) <= 1 and alike == mine


def side_roundings(resize: Resize) -> tuple[Resize, ...]:
    """Return a resize with each rounding of the sides that follow, its own first."""
    rules = dict.fromkeys((resize.side_rounding, *get_args(SideRounding)))
    return tuple(dict.fromkeys(replace(resize, rounding=each) for each in rules))


def _framed_alike(one: Guess, other: Guess) -> bool:
    return rounded_alike(one.geometry, replace(other.geometry, colour=one.geometry.colour))
