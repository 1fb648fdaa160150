"""Quality setting of the Independent JPEG Group's encoder, estimated from a quantisation table.

libjpeg, libjpeg-turbo, OpenCV, Pillow and most others scale the example tables of ITU-T T.81,
Annex K, by a quality of 1 to 100. Cameras and Adobe's programs have tables of their own: for those
the result is the nearest of the hundred, marked as not exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias

QuantisationTable: TypeAlias = tuple[int, ...]
"""64 steps in the zigzag order of the file."""

LUMINANCE: QuantisationTable = (
    16, 11, 12, 14, 12, 10, 16, 14, 13, 14, 18, 17, 16, 19, 24, 40,
    26, 24, 22, 22, 24, 49, 35, 37, 29, 40, 58, 51, 61, 60, 57, 51,
    56, 55, 64, 72, 92, 78, 64, 68, 87, 69, 55, 56, 80, 109, 81, 87,
    95, 98, 103, 104, 103, 62, 77, 113, 121, 112, 100, 120, 92, 101, 103, 99,
)  # fmt: skip
"""T.81, table K.1."""
_QUALITIES = range(1, 101)


@dataclass(frozen=True, slots=True)
class Quality:
    """A quality setting, 1 to 100."""

    value: int
    exact: bool
    """Whether the table is that setting's own; otherwise the nearest one."""


@lru_cache(maxsize=256)  # the images of a set share few tables
def quality_of(luminance: QuantisationTable) -> Quality:
    """Estimate the setting of a luminance table; the highest if several have that table."""
    known = _scaled_tables()
    if luminance in known:
        return Quality(known[luminance], exact=True)
    return Quality(min(known.values(), key=lambda value: _distance(luminance, value)), exact=False)


def _distance(table: QuantisationTable, quality: int) -> int:
    return sum(abs(a - b) for a, b in zip(table, scaled(quality), strict=True))


def scaled(quality: int) -> QuantisationTable:
    """Compute the luminance table of a setting, as libjpeg's ``jpeg_set_quality``, baseline.

    >>> scaled(50) == LUMINANCE
    True
    """
    # steps are limited to 255, as baseline tables have 8 bits
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return tuple(min(max((step * percent + 50) // 100, 1), 255) for step in LUMINANCE)


@cache
def _scaled_tables() -> dict[QuantisationTable, int]:
    return {scaled(quality): quality for quality in _QUALITIES}
