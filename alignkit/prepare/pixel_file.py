"""`PixelFile`: the pixels of many images, written one by one as a ``.npy`` file."""

from __future__ import annotations

import hashlib
import io
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from alignkit.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Pixels


class PixelFile:
    """A file written front to back, whose header is completed when it is closed.

    ``numpy.lib.format`` pads a header so that its first axis can grow in place: images that cannot
    be decoded leave no gap. The file is hashed as it is written, while workers decode. Where the
    size ``varies``, a smaller image lies at the top left of its row, and the rest is 0.
    """

    def __init__(
        self, path: Path, size: tuple[int, int], expected: int, *, varies: bool = False
    ) -> None:
        self.path = path
        self.rows = 0
        """Images written so far."""
        self.sha256 = ""
        """Of the file, once it is closed; empty if it holds fewer images than ``expected``."""
        self._expected = expected
        self._hash = hashlib.sha256()
        self._shape = (*size, 3)
        self._varies = varies
        self._dtype: Any = None
        self._file: BinaryIO = path.open("wb")
        # where the pixels begin, known once a header is written
        self._start = 0

    def append(self, pixels: Pixels) -> int:
        """Write (height, width, 3) and return its row.

        Raises `ConfigError` if the path gives images of different sizes and may not.
        """
        import numpy as np

        if self._varies:
            pixels = self._in_its_row(pixels)
        if pixels.shape != self._shape:
            raise ConfigError(
                f"the path gives {pixels.shape[0]}x{pixels.shape[1]} where the model's input is "
                f"{self._shape[0]}x{self._shape[1]}: with 'fit: shorter', add 'crop'"
            )
        if self._dtype is None:
            self._dtype = pixels.dtype
            self._hash.update(self._write_header(self._expected))
        elif pixels.dtype != self._dtype:
            raise TypeError(f"the path gives {pixels.dtype} after {self._dtype}")
        # a crop is a view with gaps between its rows
        written = np.ascontiguousarray(pixels).reshape(-1).data
        self._hash.update(written)
        self._file.write(written)
        self.rows += 1
        return self.rows - 1

    def _in_its_row(self, pixels: Pixels) -> Pixels:
        import numpy as np

        height, width = pixels.shape[:2]
        if pixels.shape == self._shape or height > self._shape[0] or width > self._shape[1]:
            return pixels
        row = np.zeros(self._shape, pixels.dtype)
        row[:height, :width] = pixels
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()

    def close(self) -> None:
        """Complete the file."""
        with self._file:
            if self._dtype is None:
                return
            if self.rows == self._expected:
                self.sha256 = self._hash.hexdigest()
                return
            self._file.seek(0)
            self._write_header(self.rows)

    def _write_header(self, rows: int) -> bytes:
        import numpy as np

        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": descr, "fortran_order": False, "shape": (rows, *self._shape)}
        )
        self._file.write(header.getvalue())
        start, self._start = self._start, self._file.tell()
        assert start in (0, self._start), "the completed header would overwrite pixels"
        return header.getvalue()
