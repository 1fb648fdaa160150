"""Refusal of functions whose results are not of the images that they are given.

A function that returns a constant, an array that it kept, or a buffer that another function fills,
agrees with its equal on every image, and nothing was compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from alignkit.errors import NothingCompared
from alignkit.preprocess import Preprocess
from alignkit.samples import Samples
from alignkit.text.numbers import count, grouped

if TYPE_CHECKING:
    import numpy.typing as npt

_MOST = 0.05
"""Share of images that may have the result of another one, such as blank pages."""
_SIDES = ("reference", "candidate")


def digest_of(result: npt.NDArray[Any]) -> bytes:
    """Return a hash of a result with its shape and type."""
    head = f"{result.dtype} {result.shape} ".encode()
    return hashlib.sha256(head + result.tobytes()).digest()


def require_read(
    sides: Sequence[Preprocess | Callable[[bytes], Any]],
    samples: Samples,
    given: Sequence[tuple[bytes, bytes]],
    *,
    as_array: Callable[[Any], npt.NDArray[Any]],
) -> str:
    """Raise `NothingCompared` if a function's results do not depend on the image.

    Returns a sentence on a few that have another image's result, or nothing. ``given`` are the
    digests of both results for each image, in order.
    """
    said = ""
    # the candidate first: it may return what the reference wrote last
    for index, side in reversed([*enumerate(sides)]):
        if isinstance(side, Preprocess):
            continue
        own = [each[index] for each in given]
        if _of_another(side, as_array) == own[-1]:
            raise NothingCompared(
                f"nothing was compared: the {_SIDES[index]} function returns for an image that it "
                f"has not seen what it returned for {samples.ids[-1]}, so its result is not of the "
                "bytes that it is given; let it decode its argument, and keep no result"
            )
        if not (repeated := _repeated(own, samples)):
            continue
        name, first = (samples.ids[each] for each in repeated[0])
        have = "has" if len(repeated) == 1 else "have"
        said = (
            f"{grouped(len(repeated))} of {count(len(own), 'image')} {have} the result of another "
            f"image by the {_SIDES[index]} function, such as {name} that of {first}"
        )
        if len(repeated) > _MOST * len(own):
            raise NothingCompared(
                f"{said}, so that these were not compared; let it decode its argument, and raise "
                "what it cannot decode"
            )
    return f"{said}." if said else ""


def _of_another(function: Callable[[bytes], Any], as_array: Callable[..., Any]) -> bytes:
    """Return the digest of a function's result for a made image; empty if it refuses that."""
    import cv2
    import numpy as np

    made = np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8)
    encoded = cv2.imencode(".png", made)[1].tobytes()
    try:
        return digest_of(as_array(function(encoded)))
    except Exception:  # noqa: BLE001 - whatever it raises, it has looked at the bytes
        return b""


def _repeated(own: Sequence[bytes], samples: Samples) -> list[tuple[int, int]]:
    """List the images, by row, with the result of an earlier one that shows something else."""
    first: dict[bytes, int] = {}
    pairs = [
        (row, known) for row, each in enumerate(own) if (known := first.setdefault(each, row)) < row
    ]
    if not pairs:
        return []
    rows = sorted({row for pair in pairs for row in pair})
    shown = dict(zip(rows, _pixels(samples.take(rows)), strict=True))
    return [pair for pair in pairs if shown[pair[0]] != shown[pair[1]]]


def _pixels(samples: Samples) -> list[bytes]:
    """Return the digest of each image's pixels, or of its bytes if Pillow cannot decode it."""
    from alignkit.experiment.yaml_argument import path_of
    from alignkit.preprocess.image_taps import encoded_images, take_pixels

    path = path_of({"decode": "pillow", "resize": {"name": "opencv", "size": 224}}, "shown")
    return [
        hashlib.sha256(samples.read(row)).digest()
        if taken.pixels is None
        else digest_of(taken.pixels)
        for row, (taken,) in enumerate(take_pixels([path], encoded_images(samples)))
    ]
