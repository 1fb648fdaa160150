"""Stages on recorded inputs: a decoder that reads stored pixels, and a resizer that does nothing.

The pixels follow the bytes of the file that they were decoded from, in which the decoder looks for
its orientation. With these two a stage alone is a `Preprocess`, and all that runs and compares
paths serves for it. No experiment file can name them.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from alignkit.decoders import Decoded, Decoder
from alignkit.decoders.exif import turn_of
from alignkit.preprocess import Colour, Crop, Orient, Preprocess, Quantise, Resize, StageName
from alignkit.resizers import AsIs

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.samples import Samples

_LENGTH = 8
"""Bytes at the end that say where the pixels begin."""
_FIRST: tuple[StageName, ...] = ("decode", "orient", "resize", "crop", "quantise", "colour")


@dataclass(frozen=True, slots=True)
class RecordedPixels(Decoder):
    """Pixels as they were recorded, (h, w, 3): a ``.npy`` file behind the encoded one."""

    decoder: Decoder
    """The decoder of the path, whose library reads the orientation."""

    def decode(self, encoded: bytes) -> Decoded:
        """Read the array."""
        import numpy as np

        try:
            begin = int.from_bytes(encoded[-_LENGTH:], "little")
            stored = io.BytesIO(encoded[begin:-_LENGTH])
            image = np.load(stored, allow_pickle=False)
        except (ValueError, EOFError) as error:
            return Decoded("failed", reason=f"no array: {error}")
        if image.ndim != len("hwc"):
            return Decoded("failed", reason="the tap before it is no image of three channels")
        return Decoded("ok", image)

    def orientation(self, encoded: bytes) -> int:
        """Return the orientation of the encoded file."""
        return turn_of(self.decoder, encoded[: int.from_bytes(encoded[-_LENGTH:], "little")])

    def version(self) -> str:
        """Return what it is."""
        return "recorded pixels"


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
        decode=path.decode if own("decode") else RecordedPixels(path.decode),
        orient=path.orient if own("orient") else Orient(),
        resize=path.resize if own("resize") else NO_RESIZE,
        crop=path.crop if own("crop") else Crop(),
        quantise=path.quantise if own("quantise") else Quantise(),
        colour=path.colour if own("colour") else Colour(),
    )


def inputs(samples: Samples, pixels: Callable[[int], Pixels]) -> Samples:
    """Return the samples with ``pixels(row)`` behind the encoded image."""

    def read(row: int) -> bytes:
        import numpy as np

        encoded, file = samples.read(row), io.BytesIO()
        np.save(file, np.ascontiguousarray(pixels(row)))
        return encoded + file.getvalue() + len(encoded).to_bytes(_LENGTH, "little")

    from alignkit.samples import FunctionReads

    return replace(samples, read=FunctionReads(read))
