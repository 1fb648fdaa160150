"""`PixelFile`: the pixels of many images, written one by one as a ``.npy`` file."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from alignkit.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.arrays import Pixels


class PixelFile:
    """A file written front to back, whose header is completed when it is closed.

    ``numpy.lib.format`` pads a header so that its first axis can grow in place. Appending needs no
    count beforehand, so images that cannot be decoded leave no gap.
    """

    def __init__(self, path: Path, size: tuple[int, int]) -> None:
        self.rows = 0
        """Images written so far."""
        self._shape = (*size, 3)
        self._dtype: Any = None
        self._file: BinaryIO = path.open("wb")
        # where the pixels begin, known once a header is written
        self._start = 0

    def append(self, pixels: Pixels) -> int:
        """Write (height, width, 3) and return its row.

        Raises `ConfigError` if the path gives images of different sizes.
        """
        import numpy as np

        if pixels.shape != self._shape:
            raise ConfigError(
                f"the path gives {pixels.shape[0]}x{pixels.shape[1]} where the model's input is "
                f"{self._shape[0]}x{self._shape[1]}: with 'fit: shorter', add 'crop'"
            )
        if self._dtype is None:
            self._dtype = pixels.dtype
            self._write_header()
        elif pixels.dtype != self._dtype:
            raise TypeError(f"the path gives {pixels.dtype} after {self._dtype}")
        # a crop is a view with gaps between its rows
        self._file.write(np.ascontiguousarray(pixels).data)
        self.rows += 1
        return self.rows - 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file:
            if kind is None and self._dtype is not None:
                self._file.seek(0)
                self._write_header()

    def _write_header(self) -> None:
        import numpy as np

        shape = (self.rows, *self._shape)
        descr = np.lib.format.dtype_to_descr(self._dtype)
        np.lib.format.write_array_header_1_0(
            self._file, {"descr": descr, "fortran_order": False, "shape": shape}
        )
        start, self._start = self._start, self._file.tell()
        assert start in (0, self._start), "the completed header would overwrite pixels"
