"""Class maps of images, (height, width) uint8: their PNG, their counts, and how two differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from alignkit.annotations import IGNORED
from alignkit.arrays import FloatArray, Labels
from alignkit.errors import DataError

NO_CLASS = 254
"""Value of a pixel whose scores have a NaN: wrong for every class, a prediction of none."""

Classes = npt.NDArray[np.uint8]
"""(height, width): index of a class, `NO_CLASS`, or `IGNORED` where it is unknown."""


def to_png(classes: Classes) -> bytes:
    """Encode a class map without loss."""
    done, encoded = cv2.imencode(".png", np.ascontiguousarray(classes))
    if not done:
        raise DataError(f"a class map of shape {classes.shape} cannot be written as PNG")
    return encoded.tobytes()


def from_png(encoded: bytes) -> Classes:
    """Decode `to_png`; raise `DataError` for other bytes."""
    data = np.frombuffer(encoded, np.uint8)
    found = cv2.imdecode(data, cv2.IMREAD_UNCHANGED) if len(data) else None
    if found is None or found.ndim != 2 or found.dtype != np.uint8:
        raise DataError("a stored class map is no PNG of one byte a pixel")
    return np.asarray(found, np.uint8)


def png_size(encoded: bytes) -> tuple[int, int]:
    """Read (height, width) from the header of a PNG."""
    # 8 bytes of signature, then length and name of the first chunk
    return int.from_bytes(encoded[20:24], "big"), int.from_bytes(encoded[16:20], "big")


def same_values(one: bytes, two: bytes) -> bool:
    """Tell whether two PNG hold the same map; other libraries write the same pixels otherwise."""
    return one == two or np.array_equal(from_png(one), from_png(two))


def joint_counts(truth: Classes, predicted: Classes) -> Labels:
    """Count, (256, 256), the pixels of each true value (rows) and predicted value."""
    both = truth.ravel().astype(np.uint16) << 8 | predicted.ravel()
    return np.bincount(both, minlength=1 << 16).reshape(256, 256)


def has_boundary(classes: Classes) -> bool:
    """Tell whether two neighbouring pixels are of two classes."""
    return bool(_edges(classes, classes != IGNORED).any())


class MapChange(NamedTuple):
    """The difference of two class maps of an image."""

    compared: int
    """Pixels that are known in either."""
    changed: int
    """Those whose class differs, or that are known in one alone."""
    shift: float
    """See `boundary_shift`."""


def map_change(before: Classes, after: Classes) -> MapChange:
    """Compare two class maps of one size."""
    known = (before != IGNORED) | (after != IGNORED)
    changed = int((before != after).sum())
    return MapChange(int(known.sum()), changed, boundary_shift(before, after))


def boundary_shift(before: Classes, after: Classes) -> float:
    """Compute the mean distance, in pixels, between the boundaries of the classes that changed.

    The boundary of a class are its pixels with one of another class above, below, left or right.
    From each pixel of a boundary the distance to the nearest one of the same class's boundary in
    the other map is taken, both ways, and averaged over all of them: the average symmetric surface
    distance (Heimann et al., IEEE TMI 28(8), 2009). Pixels that either map does not know are in no
    class. A class with a boundary in one map alone has no distance and is left out. 0 if the maps
    are equal; NaN if no boundary is left, or equal maps have none.
    """
    known = (before != IGNORED) & (after != IGNORED)
    edges = [_edges(each, known) for each in (before, after)]
    differing = known & (before != after)
    if not differing.any():
        return 0.0 if edges[0].any() else float("nan")
    # a pixel of the same boundary in both is at its own nearest
    stays = edges[0] & edges[1] & ~differing
    count, total = 0, 0.0
    sides = [
        (np.argwhere(edge), each[edge], ~stays[edge])
        for each, edge in zip((before, after), edges, strict=True)
    ]
    for index in np.union1d(before[differing], after[differing]):
        of_class = [
            (places[owner == index], moves[owner == index]) for places, owner, moves in sides
        ]
        (one, one_moves), (other, other_moves) = of_class
        if len(one) and len(other):
            count += len(one) + len(other)
            total += _to_nearest(one[one_moves], other) + _to_nearest(other[other_moves], one)
    return total / count if count else float("nan")


def _edges(classes: Classes, known: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Mark the pixels with a known neighbour of another class above, below, left or right."""
    found = np.zeros(classes.shape, np.bool_)
    # the frame of the picture is no neighbour
    for first, second in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
        apart = (classes[first] != classes[second]) & known[first] & known[second]
        found[first] |= apart
        found[second] |= apart
    return found


def _to_nearest(places: Labels, others: Labels) -> float:
    """Add up the distances from each place, (n, 2), to the nearest of the others."""
    from scipy.spatial import KDTree

    if not len(places):
        return 0.0
    # a balanced tree takes longer to build than it saves
    tree = KDTree(others, compact_nodes=False, balanced_tree=False)
    return float(tree.query(places)[0].sum())


def greatest(planes: Iterable[npt.NDArray[np.float32]]) -> Classes:
    """Find the index of the greatest plane at each pixel, first if tied; `NO_CLASS` for a NaN.

    One plane is held at a time, beside the greatest so far.
    """
    best: npt.NDArray[np.float32] | None = None
    for index, plane in enumerate(planes):
        if best is None:
            best, winner = plane.copy(), np.zeros(plane.shape, np.uint8)
            continue
        winner[plane > best] = index
        # NaN stays, so that it is seen at the end
        np.maximum(best, plane, out=best)
    if best is None:
        raise DataError("no plane of scores was given")
    winner[np.isnan(best)] = NO_CLASS
    return winner


def shares(classes: Classes) -> FloatArray:
    """Compute the share of each value, (256,), among the known pixels; zeros if none is known."""
    counts = np.bincount(classes.ravel(), minlength=256).astype(np.float64)
    counts[IGNORED] = 0
    found: FloatArray = counts / max(counts.sum(), 1.0)
    return found
