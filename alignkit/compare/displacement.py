"""The displacement of an image's content between two paths: a scale and a shift, by least squares.

B is A magnified by (sx, sy) about the centre and shifted by (dx, dy) pixels. To first order

    B - A = -(sx - 1) (x - cx) Gx - (sy - 1) (y - cy) Gy - dx Gx - dy Gy + p0 + p1 M + p2 M²

with the mean M of both images and its gradient G. Lucas and Kanade, *An iterative image
registration technique* (IJCAI 1981), take the gradient of A; that of the mean halves the error of
second order (Benhimane and Malis, *Real-time image-based tracking of planes using efficient
second-order minimization*, IROS 2004). The last three terms take a change of brightness, contrast
or gamma, so that it is not mistaken for a displacement. All is done in luma after a Gaussian of one
pixel, since a gradient between samples needs a smooth image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.compare.stored_fields import BITS
from alignkit.record.stored import STRICT, Count, Real

FEWEST = 5
"""Images below which no uncertainty is worth its name."""
SIGMA = 1.0
"""Standard deviation of the Gaussian, in pixels."""
_MARGIN = 3
"""Rows and columns at the edge that the filters' borders reach."""
_TERMS = 7
_BRIGHTNESS = slice(4, 7)
_PART = 4096
"""Values of a term that are multiplied at a time."""
TermValues: TypeAlias = npt.NDArray[np.float32]
"""(k, values) of k terms or (values,) of one."""
LumaPlane: TypeAlias = npt.NDArray[np.float32]
"""(h, w), one plane of an image in 0..255."""


@dataclass(frozen=True, slots=True, eq=False)
class Normal:
    """The normal equations of a least-squares fit to one image's difference."""

    __pydantic_config__ = STRICT

    matrix: Annotated[FloatArray, BITS]
    """(k, k): products of the terms."""
    vector: Annotated[FloatArray, BITS]
    """(k,): products of the terms with the difference."""
    power: Real
    """The sum of the squared difference."""
    values: Count

    @classmethod
    def of(cls, terms: TermValues, difference: TermValues) -> Normal:
        """Multiply out (k, values) terms and (values,) differences, both ``float32``."""
        # float32 loses digits over many values, so that parts are added up in float64
        every = np.concatenate([terms, difference[None]]).astype(np.float32, copy=False)
        parts = [slice(at, at + _PART) for at in range(0, len(difference), _PART)]
        count = len(every)
        products = np.zeros((count, count))
        for part in parts:
            products += every[:, part] @ every[:, part].T
        power = float(products[-1, -1])
        return cls(products[:-1, :-1], products[:-1, -1], power, len(difference))


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """Coefficients that fit the differences of several images."""

    coefficients: FloatArray
    """(k,), 0 for a term that was left out."""
    errors: FloatArray
    """(k,): standard errors, with each image as one draw: residuals within it depend on each other.
    The sandwich estimator corrected for leverage, which is the jackknife over images (CR3; Bell and
    McCaffrey, Survey Methodology 28, 2002)."""
    left: float
    """The sum of the squared residuals."""


def fit(images: Sequence[Normal], terms: Sequence[int]) -> LeastSquares | None:
    """Fit the chosen terms to at least two images.

    Return ``None`` if the terms are not independent of each other, or would not be without one of
    the images.
    """
    size, chosen = len(images[0].vector), list(terms)
    matrices = np.stack([each.matrix[np.ix_(chosen, chosen)] for each in images])
    vectors = np.stack([each.vector[chosen] for each in images])
    matrix, vector = matrices.sum(axis=0), vectors.sum(axis=0)
    scale = np.sqrt(np.diag(matrix))
    without = matrix - matrices
    # units differ by powers of ten, so that the condition is judged after scaling
    if not scale.all() or np.linalg.cond(without / np.outer(scale, scale)).max() > 1e9:
        return None
    found = np.linalg.solve(matrix, vector)
    # by how much each image moves the coefficients
    moves = np.linalg.solve(without, (vectors - matrices @ found)[..., None])[..., 0]
    spread = moves.T @ moves * (len(images) - 1) / len(images)
    coefficients, errors = np.zeros(size), np.zeros(size)
    coefficients[chosen], errors[chosen] = found, np.sqrt(np.diag(spread))
    power = sum(each.power for each in images)
    return LeastSquares(coefficients, errors, max(power - float(vector @ found), 0.0))


def displacement_terms(
    reference: LumaPlane, candidate: LumaPlane, centre: tuple[float, float]
) -> Normal:
    """Return the equations of one image's luma, (h, w) ``float32`` in 0..255.

    ``centre`` is that of the whole image, (y, x) in pixels of the arrays, which may be a part of
    it. Both sides are of at least 8 pixels.
    """
    before, after = (cv2.GaussianBlur(each, (0, 0), SIGMA) for each in (reference, candidate))
    mean = (before + after) / 2
    right, down = (
        cv2.Sobel(mean, cv2.CV_32F, *order, ksize=3, scale=1 / 8, borderType=cv2.BORDER_REPLICATE)
        for order in ((1, 0), (0, 1))
    )
    inner = (slice(_MARGIN, -_MARGIN),) * 2
    right, down, mean = right[inner], down[inner], mean[inner] / 255
    rows = np.arange(len(before), dtype=np.float32)[inner[0], None] - np.float32(centre[0])
    columns = np.arange(before.shape[1], dtype=np.float32)[None, inner[1]] - np.float32(centre[1])
    terms = np.empty((_TERMS, mean.size), np.float32)
    for place, term in enumerate(
        (-right * columns, -down * rows, -right, -down, np.ones_like(mean), mean, mean**2)
    ):
        terms[place] = term.ravel()
    return Normal.of(terms, (after - before)[inner].ravel())


@dataclass(frozen=True, slots=True)
class Displacement:
    """Scale and shift of several images, with standard errors."""

    images: int

    scale: tuple[tuple[float, float], tuple[float, float]]
    """(value, standard error) along x and y; 1 is none."""
    shift: tuple[tuple[float, float], tuple[float, float]]
    """(value, standard error) along x and y in pixels; positive to the right and down."""
    share: float
    """Share of the smoothed difference's power, less that of a change of brightness, that scale and
    shift remove."""


def displacement(images: Sequence[Normal]) -> Displacement | None:
    """Fit one scale and shift to all images.

    Return ``None`` for fewer than `FEWEST`, and where their content does not determine it.
    """
    if len(images) < FEWEST:
        return None
    whole = fit(images, range(_TERMS))
    brightness = fit(images, range(*_BRIGHTNESS.indices(_TERMS)))
    if whole is None or brightness is None:
        return None
    values = [(float(v), float(e)) for v, e in zip(whole.coefficients, whole.errors, strict=True)]
    (width, width_error), (height, height_error), right, down, *_ = values
    return Displacement(
        images=len(images),
        scale=((1 + width, width_error), (1 + height, height_error)),
        shift=(right, down),
        share=max(0.0, 1 - whole.left / brightness.left) if brightness.left else 0.0,
    )
