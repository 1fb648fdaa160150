"""Quantised DCT coefficients of a JPEG file, by the libjpeg-turbo inside jpeglib.

Of the libraries on PyPI that give coefficients, jpeglib is the one with a free licence and wheels
for Linux, macOS and Windows and any newer Python (jpeg2dct: not for commercial use; pyjpegio: none
for Python 3.14; pyturbojpeg: needs a system's library). Its C function ``read_jpeg_dct`` is called
here and not its Python function `jpeglib.read_dct`, which decodes each file twice, collects markers
in variables that threads share, fails with more than 50 of them, and prints.

The function fills buffers that its caller sizes, so the frame header is read here, strictly: bytes
between segments, a second frame or a factor of 0 end in `UnreadableJpeg` before C code is called.
"""

from __future__ import annotations

import ctypes
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from alignkit.decoders import embedded_version

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
Coding = Literal["baseline", "extended", "progressive", "lossless", "hierarchical", "arithmetic"]
CODINGS: dict[int, Coding] = {
    0xC0: "baseline",
    0xC1: "extended",
    0xC2: "progressive",
    0xC3: "lossless",
    **dict.fromkeys((0xC5, 0xC6, 0xC7), "hierarchical"),
    **dict.fromkeys((0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF), "arithmetic"),
}
"""Start-of-frame marker → how the image is coded."""
_HANDLED = ("baseline", "extended", "progressive")
_COMPONENTS = (1, 3)
_LARGEST_FACTOR = 4


class UnreadableJpeg(Exception):  # noqa: N818 - an outcome, not a bug
    """A file whose coefficients cannot be read: ``unsupported`` is its kind, or it is damaged."""

    def __init__(self, reason: str, *, unsupported: bool = False) -> None:
        super().__init__(reason)
        self.unsupported = unsupported


@dataclass(frozen=True, slots=True)
class CodedPlane:
    """One component: its size, and its place among the blocks of the file."""

    block_rows: int
    block_columns: int
    start: int
    """Index of its first block; they are row-major."""
    steps: NDArray[np.float32]
    """(64,): the quantisation steps, row-major by frequency."""
    across: int
    """Pixels of the image for one sample, horizontally."""
    down: int
    """Pixels of the image for one sample, vertically."""

    @property
    def stop(self) -> int:
        """Index after its last block."""
        return self.start + self.block_rows * self.block_columns


@dataclass(frozen=True, slots=True)
class Coefficients:
    """All components of a file: one (grey) or three."""

    height: int
    width: int
    blocks: NDArray[np.int16]
    """(blocks of all planes, 64): quantised, row-major by frequency."""
    planes: tuple[CodedPlane, ...]
    coding: Coding = "baseline"


@dataclass(frozen=True, slots=True)
class _Frame:
    position: int
    """Of the frame header's content in the file."""
    height: int
    width: int
    factors: tuple[tuple[int, int], ...]
    """(across, down) of each component."""
    coding: Coding


def read_coefficients(encoded: bytes) -> Coefficients:
    """Read the coefficients of an 8-bit Huffman-coded JPEG with one or three components.

    libjpeg fills the missing part of damaged data with zeros, without an error.

    Raises `UnreadableJpeg` for any other file.
    """
    import numpy as np

    frame = _frame(encoded)
    across, down = (max(factors) for factors in zip(*frame.factors, strict=True))
    sizes = [
        (-(-frame.height * own[1] // (8 * down)), -(-frame.width * own[0] // (8 * across)))
        for own in frame.factors
    ]
    starts = [0, *accumulate(rows * columns for rows, columns in sizes)]
    blocks = np.zeros((starts[-1], 64), np.int16)
    steps = np.zeros((4, 64), np.uint16)
    tables = np.zeros(4, np.int16)
    planes = [blocks[start:] for start in starts[:-1]]
    buffers = [*planes, *[None] * (4 - len(planes)), steps, tables]
    addresses = [None if each is None else ctypes.c_void_p(each.ctypes.data) for each in buffers]
    with _file_of(encoded) as path:
        if not _library().read_jpeg_dct(os.fsencode(path), *addresses):
            raise UnreadableJpeg("libjpeg-turbo cannot read its coefficients")
    return Coefficients(
        frame.height,
        frame.width,
        blocks,
        tuple(
            CodedPlane(
                *size, start, steps[table].astype(np.float32), across // own[0], down // own[1]
            )
            for size, start, table, own in zip(
                sizes, starts, tables[: len(sizes)], frame.factors, strict=False
            )
        ),
        frame.coding,
    )


def with_one_sampling(encoded: bytes) -> bytes:
    """Return the file with a header that gives all components one size: its scans no longer fit.

    Raises `UnreadableJpeg` as `read_coefficients`.
    """
    frame = _frame(encoded)
    changed = bytearray(encoded)
    for index in range(len(frame.factors)):
        changed[frame.position + 7 + 3 * index] = 0x11
    return bytes(changed)


def library_version() -> str:
    """Return ``jpeglib 1.0.2, libjpeg-turbo 2.1.0``."""
    import jpeglib

    codec = embedded_version(str(_binary()), r"libjpeg-turbo version ([\d.]+)")
    return f"jpeglib {jpeglib.__version__}, libjpeg-turbo {codec}"


@cache
def _library() -> ctypes.CDLL:
    """Load jpeglib's newest libjpeg-turbo, whichever libjpeg the process has chosen in jpeglib."""
    return ctypes.CDLL(str(_binary()))


def _binary() -> Path:
    import jpeglib

    folder = Path(str(jpeglib.__file__)).parent / "cjpeglib"
    (binary,) = (
        file
        for file in folder.glob("cjpeglib_turbo210.*")
        if file.suffix in (".so", ".pyd", ".dll")
    )
    return binary


@contextmanager
def _file_of(encoded: bytes) -> Iterator[str]:
    """Give the bytes a path, as the library reads nothing else: in memory where there is a way."""
    if hasattr(os, "memfd_create"):  # Linux
        descriptor = os.memfd_create("jpeg", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(encoded)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        # its own folder: on Windows an open file cannot be opened a second time
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "image.jpg")
            path.write_bytes(encoded)
            yield str(path)


def _frame(encoded: bytes) -> _Frame:
    """Read the frame header as libjpeg does, but stop at anything unusual before the first scan."""
    frame = None
    position = 2
    while True:
        if encoded[position : position + 1] != b"\xff":
            raise UnreadableJpeg("bytes between the segments of the header")
        while encoded[position + 1 : position + 2] == b"\xff":  # fill bytes
            position += 1
        if position + 4 > len(encoded):
            raise UnreadableJpeg("the file ends before its first scan")
        marker, length = struct.unpack_from(">BH", encoded, position + 1)
        if marker == _START_OF_SCAN:
            break
        if marker == _END_OF_IMAGE or length < 2:
            raise UnreadableJpeg("the header is damaged")
        if marker in CODINGS:
            if frame is not None:
                raise UnreadableJpeg("two frames in one file")
            frame = _frame_of(marker, encoded[: position + 2 + length], position + 4)
        position += 2 + length
    if frame is None:
        raise UnreadableJpeg("no frame before the first scan")
    return frame


def _frame_of(marker: int, encoded: bytes, position: int) -> _Frame:
    segment = encoded[position:]
    if CODINGS[marker] not in _HANDLED:
        raise UnreadableJpeg(f"{CODINGS[marker]} coding", unsupported=True)
    if len(segment) < 6 or len(segment) != 6 + 3 * segment[5]:
        raise UnreadableJpeg("the frame header is damaged")
    precision, height, width, count = struct.unpack_from(">BHHB", segment)
    if precision != 8:
        raise UnreadableJpeg(f"{precision} bits a sample", unsupported=True)
    if count not in _COMPONENTS:
        raise UnreadableJpeg(f"{count} components", unsupported=True)
    factors = tuple(divmod(segment[start], 16) for start in range(7, len(segment), 3))
    if not height or not width or not all(1 <= x <= _LARGEST_FACTOR for f in factors for x in f):
        raise UnreadableJpeg("the frame header is damaged")
    if count == 1:
        factors = ((1, 1),)  # one component is never interleaved, whatever its factors
    most = max(across for across, _ in factors), max(down for _, down in factors)
    if any(most[0] % across or most[1] % down for across, down in factors):
        raise UnreadableJpeg("sampling factors that are no whole ratio", unsupported=True)
    return _Frame(position, height, width, factors, CODINGS[marker])
