"""Which sample a recorded name means: recorded paths may have other folders, or no suffix.

A name means a sample if both are equal, or one is the end of the other, by whole parts of the path.
Their suffixes may differ, as a stack that re-encodes an image renames it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from alignkit.errors import DataError
from alignkit.samples import Samples


def samples_named(names: Iterable[str], samples: Samples) -> dict[str, int]:
    """Return the index of the sample that each name means, for the names that mean one.

    Raises `DataError` if two names mean one sample.
    """
    whole: dict[str, int | None] = {name: row for row, name in enumerate(samples.ids)}
    stems: dict[str, int | None] = {}
    ends: dict[str, int | None] = {}
    for place, name in enumerate(samples.ids):
        stem = _stem(name)
        _add(stems, stem, place)
        for end in (*_ends(name), *_ends(stem)):
            _add(ends, end, place)
    found: dict[str, int] = {}
    claims: dict[int, str] = {}
    for name in names:
        path = "/".join(part for part in re.split(r"[/\\]", name) if part not in ("", "."))
        stem = _stem(path)
        tried = [(whole, each) for each in _ends(path)]
        # a name without a suffix may hold a point
        tried += [(stems, each) for each in (*_ends(path), *_ends(stem))]
        tried += [(ends, path), (ends, stem)]
        row = next((table[each] for table, each in tried if each in table), None)
        if row is None:
            continue
        if row in claims:
            raise DataError(
                f"{claims[row]!r} and {name!r} were both recorded, and both names mean the image "
                f"{samples.ids[row]!r}; give the images with their folders, or record them apart"
            )
        found[name], claims[row] = row, name
    return found


def _stem(path: str) -> str:
    return PurePosixPath(path).with_suffix("").as_posix() if path else ""


def _ends(path: str) -> Iterator[str]:
    """Yield a path and all of its ends, the longest first."""
    parts = path.split("/")
    yield from filter(None, ("/".join(parts[begin:]) for begin in range(len(parts))))


def _add(table: dict[str, int | None], name: str, row: int) -> None:
    """Enter a row under a name; ``None`` if another row has it."""
    table[name] = row if table.get(name, row) == row else None
