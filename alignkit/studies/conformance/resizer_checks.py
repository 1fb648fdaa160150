"""Checks of the contract in `alignkit.resizers`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from alignkit.arrays import Image
from alignkit.resizers import Resizer
from alignkit.studies.conformance import Check, require
from alignkit.studies.conformance.decoder_checks import picture, same_in_threads

TARGETS = {
    "shrunk": (24, 32),
    "enlarged": (130, 200),
    "squashed": (97, 61),
    "unchanged": (61, 97),
    "two rows": (2, 97),
}


def checks(resizer: Resizer) -> Iterator[Check]:
    """Yield every check of a resizer."""
    yield Check("gives the size asked for and leaves its input alone", lambda: sizes(resizer))
    yield Check("keeps a plain image plain", partial(plain_image, resizer))
    yield Check("keeps rows, columns and channels apart", partial(directions, resizer))
    three = [picture(), picture(40, 120), picture()[:50]]
    yield Check("may be called from threads", partial(in_threads, resizer, three))


def sizes(resizer: Resizer) -> str:
    """Check every kind of target."""
    found = [one_size(resizer, picture(), *size) for size in TARGETS.values()]
    return f"{', '.join(TARGETS)}; {' and '.join(sorted(set(found)))}"


def one_size(resizer: Resizer, image: Image, height: int, width: int) -> str:
    """Check shape and dtype, and that the input may be read-only or strided; return the dtype."""
    before = image.copy()
    resized = resizer.resize(image, height, width)
    size = f"{image.shape[0]}x{image.shape[1]} to {height}x{width}"
    require(resized.shape == (height, width, 3), f"{size} gives shape {resized.shape}")
    allowed = (np.dtype(np.uint8), np.dtype(np.float32))
    require(resized.dtype in allowed, f"{size} gives {resized.dtype}, expected uint8 or float32")
    require(np.array_equal(image, before), f"{size} writes to its input")
    require(not np.shares_memory(resized, image), f"{size} returns memory of its input")
    frozen = image.copy()
    frozen.flags.writeable = False
    again = resizer.resize(frozen, height, width)
    require(np.array_equal(again, resized), f"{size} differs for a read-only input")
    strided = np.ascontiguousarray(image[..., ::-1])[..., ::-1]
    again = resizer.resize(strided, height, width)
    require(np.array_equal(again, resized), f"{size} differs for a strided input")
    return str(resized.dtype)


def plain_image(resizer: Resizer) -> str:
    """Check that an image of one colour keeps it."""
    plain = np.full((40, 50, 3), (200, 100, 30), np.uint8)
    apart = float(np.abs(resizer.resize(plain, 17, 23) - plain[0, 0].astype(float)).max())
    require(apart < 1e-3, f"a plain image changes by {apart:.3g} levels")
    return f"at most {apart:.2g} levels away"


def directions(resizer: Resizer) -> str:
    """Check that a bright corner of one channel, wider than it is high, stays where it is."""
    image = np.zeros((80, 120, 3), np.uint8)
    image[:20, :60, 0] = 255
    resized = resizer.resize(image, 20, 20)
    # away from its edge, which a wide filter blurs
    inside = float(resized[:2, :6, 0].min())
    outside = float(max(resized[9:].max(), resized[:, 14:].max()))
    others = float(resized[..., 1:].max())
    require(inside > 250, f"the bright corner has {inside:.1f} levels, expected over 250")
    require(outside < 5, f"the dark rest has up to {outside:.1f} levels, expected below 5")
    require(others == 0, f"the empty channels have up to {others:.1f} levels, expected 0")
    return f"bright corner {inside:.0f} or more, rest {outside:.0f} or less"


def in_threads(resizer: Resizer, images: list[Image]) -> str:
    """Check that threads get the pixels of single calls."""
    return same_in_threads(lambda image: resizer.resize(image, 30, 40), images)
