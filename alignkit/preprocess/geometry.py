"""`Geometry`: where a pixel of the oriented image lies in the model's input, and the way back.

Coordinates are those of `alignkit.annotations`: corners, not centres of pixels. Then resizing is a
scale, and padding and cropping are whole shifts, for every library here; a library whose kernels
sample elsewhere (``align_corners``) moves what is in the image, and not the mapping, which is the
shift that a comparison must show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from alignkit.decoders.exif import turn_parts

if TYPE_CHECKING:
    from alignkit.arrays import FloatArray

PlaneValue = TypeVar("PlaneValue", bound=np.generic)
_SWAPPED = [1, 0, 3, 2]
"""Corners with x and y exchanged."""


# Boxes are mapped by their corners in float64, with the resampled side's own scale, as a
# letterbox rounds each side.
@dataclass(frozen=True, slots=True)
class Geometry:
    """The mapping of one image on one path; `Preprocess.geometry` makes it."""

    width: int
    """Of the oriented image, in pixels."""
    height: int
    input_width: int
    """Of the model's input."""
    input_height: int
    scale_x: float
    """Pixels of the input for one of the image, from the sides as they were rounded."""
    scale_y: float
    shift_x: float
    """Padding less crop on the left, in pixels of the input."""
    shift_y: float
    orientation: int = 1
    """EXIF orientation that the path did not apply: it is applied on the way back."""

    def to_image(self, corners: FloatArray) -> FloatArray:
        """Map (n, 4) left, top, right, bottom of the input to the oriented image; not clipped."""
        stored = (corners - self._shifts) / self._scales
        return self._flipped(stored[:, _SWAPPED] if self._transposed else stored)

    def to_input(self, corners: FloatArray) -> FloatArray:
        """Map (n, 4) corners of the oriented image to the input; the inverse of `to_image`."""
        flipped = self._flipped(corners)
        stored = flipped[:, _SWAPPED] if self._transposed else flipped
        mapped: FloatArray = stored * self._scales + self._shifts
        return mapped

    def plane_to_image(
        self, plane: npt.NDArray[PlaneValue], *, unknown: float, smooth: bool = False
    ) -> npt.NDArray[PlaneValue]:
        """Map (…, h, w) values over the input to (…, height, width) over the oriented image.

        The plane covers the whole input, whatever its stride. Each pixel takes the value of the
        cell that holds its centre or, if ``smooth``, of floats, the bilinear mean of the four cells
        around it, as if the padding had been cut off before. Pixels that a crop cut away are
        ``unknown``.
        """
        rows, columns = self._axes(plane.shape[-2], plane.shape[-1])
        if smooth:
            found = columns.mean(rows.mean(plane.swapaxes(-1, -2)).swapaxes(-1, -2))
        else:
            found = plane[..., rows.cells[:, None], columns.cells]
        found[..., ~rows.seen, :] = unknown
        found[..., ~columns.seen] = unknown
        return self._turned(found)

    def seen(self) -> npt.NDArray[np.bool_]:
        """Return (height, width): whether the centre of each pixel lies in the model's input."""
        rows, columns = self._axes(self.input_height, self.input_width)
        return self._turned(rows.seen[:, None] & columns.seen)

    @property
    def _scales(self) -> FloatArray:
        return np.array([self.scale_x, self.scale_y] * 2)

    @property
    def _shifts(self) -> FloatArray:
        return np.array([self.shift_x, self.shift_y] * 2)

    @property
    def _transposed(self) -> bool:
        return turn_parts(self.orientation)[0]

    def _flipped(self, corners: FloatArray) -> FloatArray:
        """Flip corners as the turn does after transposing; doing it twice undoes it."""
        _, rows, columns = turn_parts(self.orientation)
        left, top, right, bottom = corners.T
        if columns:
            left, right = self.width - right, self.width - left
        if rows:
            top, bottom = self.height - bottom, self.height - top
        return np.stack([left, top, right, bottom], axis=1)

    def _turned(self, plane: npt.NDArray[PlaneValue]) -> npt.NDArray[PlaneValue]:
        transposed, rows, columns = turn_parts(self.orientation)
        if transposed:
            plane = plane.swapaxes(-1, -2)
        return np.ascontiguousarray(plane[..., :: -1 if rows else 1, :: -1 if columns else 1])

    def _axes(self, height: int, width: int) -> tuple[_Axis, _Axis]:
        """Return rows and columns of a plane of this size, of the image as it is stored."""
        sides = (self.width, self.height) if self._transposed else (self.height, self.width)
        return (
            _Axis(sides[0], self.input_height, self.scale_y, self.shift_y, height),
            _Axis(sides[1], self.input_width, self.scale_x, self.shift_x, width),
        )


@dataclass(frozen=True, slots=True)
class _Axis:
    """One side of the stored image, in the cells of a plane over the input."""

    pixels: int
    """Of the image."""
    extent: int
    """Of the input, in pixels."""
    scale: float
    shift: float
    cells_across: int

    @property
    def centres(self) -> FloatArray:
        """(pixels,), where the centres lie, in pixels of the input."""
        centres: FloatArray = (np.arange(self.pixels, dtype=np.float64) + 0.5) * self.scale
        return centres + self.shift

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        return (self.centres >= 0) & (self.centres < self.extent)

    @property
    def _per_pixel(self) -> float:
        return self.cells_across / self.extent

    @property
    def cells(self) -> npt.NDArray[np.intp]:
        """(pixels,), the cell that holds each centre; of a pixel that is not seen, the nearest."""
        held = np.floor(self.centres * self._per_pixel).astype(np.intp)
        return held.clip(0, self.cells_across - 1)

    def mean(self, plane: npt.NDArray[PlaneValue]) -> npt.NDArray[PlaneValue]:
        """Interpolate (…, cells) linearly to (…, pixels)."""
        between = self.centres * self._per_pixel - 0.5
        before = np.floor(between)
        share = (between - before).astype(plane.dtype)
        # cells of the padding alone do not count
        ends = np.array([self.shift, self.shift + self.pixels * self.scale]) * self._per_pixel
        # a rounding error beyond a whole number of cells would reach into the padding
        begin, end = ends.round(6)
        first = max(0, int(np.floor(begin)))
        last = min(self.cells_across, int(np.ceil(end))) - 1
        low, high = (at.clip(first, last).astype(np.intp) for at in (before, before + 1))
        mean: npt.NDArray[PlaneValue] = plane[..., low] * (1 - share) + plane[..., high] * share
        return mean
