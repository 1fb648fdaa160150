"""Stages on recorded inputs: a decoder that reads stored pixels, and a resizer that does nothing.

With them a stage alone is a `Preprocess`, and all that runs and compares paths serves for it. No
experiment file can name them.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from alignkit.decoders import Decoded, Decoder
from alignkit.preprocess import Colour, Crop, Orient, Preprocess, Quantise, Resize, StageName

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.samples import Samples

_FIRST: tuple[StageName, ...] = ("decode", "orient", "resize", "crop", "quantise", "colour")


@dataclass(frozen=True, slots=True)
class RecordedPixels(Decoder):
    """Pixels as they were recorded, (h, w, 3), from the bytes of a ``.npy`` file."""

    def decode(self, encoded: bytes) -> Decoded:
        """Read the array."""
        import numpy as np

        try:
            return Decoded("ok", np.load(io.BytesIO(encoded), allow_pickle=False))
        except ValueError as error:
            return Decoded("failed", reason=f"no array: {error}")

    def version(self) -> str:
        """Return what it is."""
        return "recorded pixels"


@dataclass(frozen=True, slots=True)
class AsIs:
    """Resizer that returns the image itself, whatever the size."""

    def resize(self, image: Pixels, height: int, width: int) -> Pixels:  # noqa: ARG002
        """Return the image."""
        return image

    def version(self) -> str:
        """Return what it is."""
        return "no resize"


NO_RESIZE = Resize(AsIs(), (1, 1))


def part(path: Preprocess, before: StageName | None, last: StageName) -> Preprocess:
    """Return the stages of ``path`` after ``before``, or from the file, up to ``last``.

    Stages outside leave pixels as they are.
    """
    begin = _FIRST.index(before) + 1 if before else 0
    end = _FIRST.index("colour" if last == "normalise" else last)
    kept = _FIRST[begin : end + 1]

    def own(stage: StageName) -> bool:
        return stage in kept

    return replace(
        path,
        decode=path.decode if own("decode") else RecordedPixels(),
        orient=path.orient if own("orient") else Orient(),
        resize=path.resize if own("resize") else NO_RESIZE,
        crop=path.crop if own("crop") else Crop(),
        quantise=path.quantise if own("quantise") else Quantise(),
        colour=path.colour if own("colour") else Colour(),
    )


def inputs(samples: Samples, pixels: Callable[[int], Pixels]) -> Samples:
    """Return the samples with the bytes of ``pixels(row)`` in place of the encoded image."""

    def read(row: int) -> bytes:
        import numpy as np

        file = io.BytesIO()
        np.save(file, np.ascontiguousarray(pixels(row)))
        return file.getvalue()

    return replace(samples, read=read)
