"""Pairs of a folder: a JPEG file, and the pixels that some decoder made of it, in a file beside it.

The two have one stem and lie in one folder, at any depth: ``a.jpg`` and ``a.ppm``, ``a.bmp``,
``a.png`` or ``a.npy``. A ``facts.json`` holds for its folder and those below it, and makes them a
source of their own; ``a.json`` holds for one pair. ``rows`` in it is the number of valid rows.

All of it was written elsewhere, so that nothing but regular files is opened, within limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from alignkit.arrays import Image
from alignkit.datasets.image_files import image_files
from alignkit.datasets.regular_file import escaped_name, read_text
from alignkit.decoders.pillow import PillowDecoder
from alignkit.errors import ConfigError, DataError, NothingCompared
from alignkit.limits import TENSOR_BYTES
from alignkit.plugins import did_you_mean
from alignkit.preprocess.image_header import MAX_PIXELS, decode
from alignkit.search.stored_tensors import StoredTensor
from alignkit.stored_file import read_regular

_JPEGS = (".jpg", ".jpeg", ".jpe", ".jfif")
_PIXELS = (".ppm", ".bmp", ".png", ".npy")
FACTS = "facts.json"
_PPM = re.compile(rb"P6\s+(?:#[^\n]*\n\s*)*(\d{1,9})\s+(?:#[^\n]*\n\s*)*(\d{1,9})\s+"
                  rb"(?:#[^\n]*\n\s*)*(\d{1,9})\s")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """Pairs that one decoder made, and the facts that are known of it."""

    name: str
    """Folder below the one that was named; ``.`` for that itself."""
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredPair:
    """A JPEG file and its pixels."""

    id: str
    """Path of the pixels, as every output can show it."""
    jpeg: Path
    pixels: Path
    source: int
    """Index of its `Source`."""
    rows: int | None = None
    """Rows that are valid, from the top; ``None``: all."""


@dataclass(frozen=True, slots=True)
class StoredPairs:
    """All that was found in a folder."""

    pairs: tuple[StoredPair, ...]
    sources: tuple[Source, ...]
    left_out: tuple[tuple[str, str], ...]
    """Files without a pair, and failures that facts name, each with its reason."""


def stored_pairs(folder: Path, rows: Mapping[str, int]) -> StoredPairs:
    """Find the pairs; ``rows`` gives the valid rows of pairs by their stem.

    Raises `DataError` for facts that cannot be read, `ConfigError` for a stem in ``rows`` that no
    pair has, and `NothingCompared` if there is no pair.
    """
    if not folder.is_dir():
        hint = "unpack it" if folder.suffix == ".zip" else "name one of JPEG files and their pixels"
        raise DataError(f"{folder} is no folder; {hint}")
    names = [PurePosixPath(name) for name in image_files(folder)]
    names += [PurePosixPath(each.relative_to(folder)) for each in _shown(folder, "*.npy")]
    jpegs: dict[PurePosixPath, list[PurePosixPath]] = {}
    for name in names:
        if name.suffix.lower() in _JPEGS:
            jpegs.setdefault(name.with_suffix(""), []).append(name)
    sources = _Sources(folder)
    pairs, used = [], set()
    left_out: list[tuple[str, str]] = []
    for name in sorted(each for each in names if each.suffix.lower() in _PIXELS):
        stem = name.with_suffix("")
        shown = escaped_name(str(name))
        beside = jpegs.get(stem, [])
        used.add(stem)
        if len(beside) != 1:
            left_out.append((shown, "several JPEG files have its name" if beside else
                             "no JPEG file of that name is beside it"))  # fmt: skip
            continue
        own = sources.own_facts(stem)
        valid = rows.get(stem.name, own.get("rows"))
        pairs.append(StoredPair(shown, folder / beside[0], folder / name, sources.of(name), valid))
    for stem, files in jpegs.items():
        if stem not in used:
            left_out += [(escaped_name(str(each)), "no pixels beside it") for each in files]
    _known_rows(rows, pairs)
    if not pairs:
        raise NothingCompared(
            f"{folder} holds no JPEG file with a {', '.join(_PIXELS)} file of its name beside it"
        )
    return StoredPairs(tuple(pairs), tuple(sources.found), (*left_out, *sources.failures()))


def _shown(folder: Path, pattern: str) -> list[Path]:
    """List the files of a pattern at any depth, sorted; hidden ones are left out, as of images."""
    return [
        each
        for each in sorted(folder.rglob(pattern))
        if not any(part.startswith(".") for part in each.relative_to(folder).parts)
    ]


def _known_rows(rows: Mapping[str, int], pairs: list[StoredPair]) -> None:
    stems = {pair.pixels.stem for pair in pairs}
    for stem in rows:
        if stem not in stems:
            raise ConfigError(f"--rows {stem}: no pair has that name{did_you_mean(stem, stems)}")


class _Sources:
    """The sources of a folder, found as pairs are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: list[Source] = []
        self._facts: dict[PurePosixPath, dict[str, Any]] = {}
        for file in _shown(folder, FACTS):
            self._facts[PurePosixPath(file.parent.relative_to(folder))] = _facts_of(file)

    def of(self, name: PurePosixPath) -> int:
        """Return the index of a file's source: the nearest folder above it that has facts."""
        place = next((each for each in name.parents if each in self._facts), PurePosixPath())
        known = [each.name for each in self.found]
        shown = escaped_name(str(place))
        if shown not in known:
            self.found.append(Source(shown, self._facts.get(place, {})))
            return len(known)
        return known.index(shown)

    def own_facts(self, stem: PurePosixPath) -> dict[str, Any]:
        """Return the facts of one pair."""
        file = self.folder / f"{stem}.json"
        return _facts_of(file) if file.exists() else {}

    def failures(self) -> list[tuple[str, str]]:
        """Return the failures that facts name."""
        found: list[tuple[str, str]] = []
        for place, facts in self._facts.items():
            if "failed" in facts:
                found.append((escaped_name(str(place)), str(facts["failed"])))
            failures = facts.get("failures", {})
            for name, reason in failures.items() if isinstance(failures, dict) else ():
                found.append((escaped_name(str(place / name)), f"not recorded: {reason}"))
        return found


def _facts_of(file: Path) -> dict[str, Any]:
    """Read a JSON object; raise `DataError` for anything else."""
    try:
        facts = json.loads(read_text(file), parse_constant=_refuse)  # NaN is no JSON
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"no JSON: {error}"
        raise DataError(f"{file} cannot be read: {reason}; repair or delete it") from None
    if not isinstance(facts, dict):
        raise DataError(f'{file} is no JSON object; write facts as {{"rows": 168}}, or delete it')
    rows = facts.get("rows", 1)
    if type(rows) is not int or rows < 1:
        raise DataError(f"{file}: rows is {rows!r}, expected a number of rows of 1 or more")
    return facts


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def pixels_of(pair: StoredPair, height: int, width: int) -> Image:
    """Read the pixels of a pair, (height, width, 3) uint8, or the ``rows`` of them that are valid.

    Raises `DataError` with the reason if the file does not hold them.
    """
    image = _read(pair.pixels, height, width)
    if image.shape != (height, width, 3):
        shape = "x".join(map(str, image.shape[1::-1]))
        raise DataError(f"it has {shape} pixels, and the JPEG file {width}x{height}")
    if pair.rows is not None and pair.rows > height:
        raise DataError(f"{pair.rows} rows are called valid, and it has {height}")
    return image[: pair.rows]


def _read(file: Path, height: int, width: int) -> Image:
    if file.suffix.lower() == ".npy":
        try:
            tensor = StoredTensor(file).read()
        except DataError as error:  # a record names no folder of this machine
            raise DataError(str(error).replace(escaped_name(str(file)), "it", 1)) from None
        return _from_tensor(tensor, height, width)
    try:
        data = read_regular(file, TENSOR_BYTES)
    except OSError as error:
        raise DataError(error.strerror or str(error)) from None
    if file.suffix.lower() == ".ppm":
        return _from_ppm(data)
    # Pillow would silently take the high byte, or blend in nothing for alpha
    if data.startswith(b"\x89PNG") and (data[24:25], data[25:26]) not in _PNG_KINDS:
        raise DataError("a PNG file of another kind than 8 bits of grey or RGB")
    decoded = decode(PillowDecoder(), data, MAX_PIXELS)
    if decoded.image is None:
        raise DataError(decoded.reason)
    return decoded.image


_PNG_KINDS = ((b"\x08", b"\x00"), (b"\x08", b"\x02"))
"""Bit depth and colour type of 8-bit grey and RGB."""


def _from_ppm(data: bytes) -> Image:
    found = _PPM.match(data)
    if found is None:
        raise DataError("it does not begin as a binary PPM file (P6)")
    width, height, most = map(int, found.groups())
    if most != 255:
        raise DataError(f"its greatest value is {most}, expected 255")
    size, there = 3 * width * height, len(data) - found.end()
    if there != size:
        raise DataError(f"it holds {there:,} bytes of pixels, and its header announces {size:,}")
    return np.frombuffer(data, np.uint8, offset=found.end()).reshape(height, width, 3)


def _from_tensor(values: np.ndarray[Any, Any], height: int, width: int) -> Image:
    """Take (height, width, 3), (3, height, width) or, grey, (height, width); raise `DataError`."""
    if values.dtype != np.uint8:
        raise DataError(f"numbers of dtype {values.dtype}, expected uint8")
    while values.ndim > 2 and values.shape[0] == 1:
        values = values[0]
    if values.ndim == 2:
        values = np.repeat(values[..., None], 3, axis=2)
    if values.shape == (3, height, width):
        values = values.transpose(1, 2, 0)
    if values.ndim != 3 or values.shape[2] != 3:
        raise DataError(f"its shape is {values.shape}, expected (height, width, 3)")
    return values
