"""`ReportOptions`: how a report is written, as the options of the command line say it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.errors import ConfigError
from alignkit.record import WorstImage

SINGLE_FILE_BYTES = 15_000_000
SINGLE_FILE_IMAGES = 20
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The whole report in a folder, unless told otherwise."""

    single_file: bool = False
    images: int | None = None
    """Most image pairs shown of each pair of paths; ``None`` for all that the run kept."""
    max_bytes: int | None = None
    """Of the page and all that it shows."""

    def chosen(self, worst: Sequence[WorstImage]) -> tuple[WorstImage, ...]:
        """The images to show: of each pair of paths the worst, in the record's order."""
        pairs = len({(each.reference, each.candidate) for each in worst})
        most = self.images
        if most is None and self.single_file:
            most = max(1, SINGLE_FILE_IMAGES // max(pairs, 1))
        if most is None:
            return tuple(worst)
        seen: dict[tuple[str, str], int] = {}
        kept = []
        for each in worst:
            pair = each.reference, each.candidate
            seen[pair] = seen.get(pair, 0) + 1
            if seen[pair] <= most:
                kept.append(each)
        return tuple(kept)

    @property
    def limit(self) -> int | None:
        """Bytes; a single file is limited even if nothing was said."""
        return self.max_bytes or (SINGLE_FILE_BYTES if self.single_file else None)


def form(*, single_file: bool, images: str, max_report_size: str) -> ReportOptions:
    """Of the options' text; raises `ConfigError` for what is not one of their forms."""
    return ReportOptions(
        single_file=single_file,
        images=_images(images),
        max_bytes=_bytes(max_report_size) if max_report_size else None,
    )


def _images(text: str) -> int | None:
    if text in {"", "all"}:
        return None
    if text == "none":
        return 0
    found = re.fullmatch(r"worst:([0-9]+)", text)
    if not found:
        raise ConfigError(f"--images {text}: write none, worst:N (for example worst:20) or all")
    return int(found[1])


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMG]?B?)", text.upper())
    if not found or found[2] in {"K", "M", "G"}:
        raise ConfigError(f"--max-report-size {text}: write a number with KB, MB or GB, e.g. 100MB")
    size = int(float(found[1]) * _UNITS[found[2]])
    if not size:
        raise ConfigError("--max-report-size 0: a report cannot be empty; give it some room")
    return size


def megabytes(size: int) -> str:
    """``1.9 MB``."""
    return f"{size / 10**6:.1f} MB" if size >= 10**5 else f"{size / 1000:.1f} KB"
