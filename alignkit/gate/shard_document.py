"""The document of a shard, ``--out shard=PATH``: `ShardResult` → JSON → `ShardResult`.

A shard comes from another machine, so that each of its numbers is checked before it is added up.
"""

from __future__ import annotations

from dataclasses import astuple, fields
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from alignkit.baseline import baseline_text, parse_baseline
from alignkit.baseline.snapshot import Snapshot
from alignkit.compare.image_diff import ComparisonMode
from alignkit.compare.pixel_diff import PixelDiff
from alignkit.compare.pixel_sums import PixelSums
from alignkit.errors import BaselineError, RecordError
from alignkit.gate.gate_shard import PairSums, Shard, ShardResult
from alignkit.preprocess import StageName
from alignkit.record import Count, CoverageDiff, RunRecord, Stored
from alignkit.record.document import document_text, stored_document
from alignkit.record.stored import Real

_BINS = {"uint8": 1 << 8, "float32": 1 << 16}
"""Bins of a histogram, see `alignkit.compare.histogram`."""
_SHARDS = 100_000
_AGAIN = "make the shard again: alignkit gate FILE --shard I/N --out shard=PATH"


class _Sums(Stored):
    """`PixelSums` without the empty bins of its histogram."""

    depth: Literal["uint8", "float32"]
    histogram: tuple[tuple[Count, Count], ...]
    """Bin, and the number of differences in it."""
    images: Count
    identical: Count
    pixels: Count
    differing_pixels: Count
    # a sum of bytes is exact, and stays so
    sum_abs: int | Real
    sum_squares: int | Real
    sums: tuple[int | Real, int | Real, int | Real]
    max_abs: int | Real
    non_finite: Count
    ssim_images: Count
    ssim_sum: Real
    ssim_least: Real

    @model_validator(mode="after")
    def _consistent(self) -> _Sums:
        counted = sum(number for _, number in self.histogram)
        holds = (
            all(index < _BINS[self.depth] for index, _ in self.histogram)
            and counted == 3 * self.pixels - self.non_finite
            and self.identical <= self.images
            and self.ssim_images <= self.images
            and self.differing_pixels <= self.pixels
        )
        if not holds:
            raise ValueError("its counts contradict each other")
        return self

    @classmethod
    def of(cls, sums: PixelSums) -> _Sums:
        """Return the stored form."""
        content = {each.name: getattr(sums, each.name) for each in fields(sums)}
        bins = np.flatnonzero(sums.histogram).tolist()
        return cls(**content | {"histogram": [(each, int(sums.histogram[each])) for each in bins]})

    def sums_again(self) -> PixelSums:
        """Return the sums that were stored."""
        size = max((index for index, _ in self.histogram), default=0) + 1
        histogram = np.zeros(size, np.int64)
        for index, number in self.histogram:
            histogram[index] = number
        content = {name: getattr(self, name) for name in type(self).model_fields}
        return PixelSums(**content | {"histogram": histogram})


class _Diff(Stored):
    stage: StageName
    mode: ComparisonMode
    sums: _Sums | None
    shape_mismatches: Count


class _Pair(Stored):
    reference: str
    candidate: str
    coverage: CoverageDiff
    diffs: tuple[_Diff, ...]


class _StoredShard(Stored):
    format: Literal[1] = 1
    # 1: 2026-11, first format.
    shard: tuple[Annotated[int, Field(ge=1, le=_SHARDS)], Annotated[int, Field(ge=1, le=_SHARDS)]]
    data: str
    images: Annotated[tuple[str, ...], Field(min_length=1)]
    total: Count
    record: RunRecord
    pairs: tuple[_Pair, ...]
    now: str | None
    """Lines of a baseline."""
    # a list, as the keys of a JSON object are text
    golden: tuple[tuple[str, StageName, _Sums], ...]
    measured: tuple[tuple[str, str, StageName], ...]


def part_text(part: ShardResult) -> str:
    """Write a shard's result as one JSON document."""
    now = part.now
    stored = _StoredShard(
        shard=astuple(part.shard),
        data=part.data,
        images=part.images,
        total=part.total,
        record=part.record,
        pairs=tuple(
            _Pair(
                reference=pair.reference,
                candidate=pair.candidate,
                coverage=pair.coverage,
                diffs=tuple(
                    _Diff(
                        stage=diff.stage,
                        mode=diff.mode,
                        sums=_Sums.of(diff.sums) if diff.sums else None,
                        shape_mismatches=diff.shape_mismatches,
                    )
                    for diff in pair.diffs
                ),
            )
            for pair in part.pairs
        ),
        now=baseline_text(now.as_baseline()) if now else None,
        golden=tuple((*key, _Sums.of(sums)) for key, sums in now.golden.items()) if now else (),
        measured=tuple(sorted(now.measured)) if now else (),
    )
    return document_text(stored, indent=None)


def read_part(path: Path) -> ShardResult:
    """Read a shard; raises `RecordError` if it is missing, damaged or of a newer format."""
    try:
        stored = stored_document(path, _StoredShard, missing="there is no such file", again=_AGAIN)
        now = _snapshot(stored, path)
    except (RecordError, BaselineError) as error:
        raise RecordError(f"{path} is no shard of a gate (--out shard=PATH): {error}") from error
    pairs = tuple(
        PairSums(
            pair.reference,
            pair.candidate,
            tuple(
                PixelDiff(
                    diff.stage,
                    diff.mode,
                    diff.sums.sums_again() if diff.sums else None,
                    diff.shape_mismatches,
                )
                for diff in pair.diffs
            ),
            pair.coverage,
        )
        for pair in stored.pairs
    )
    return ShardResult(
        Shard(*stored.shard), stored.data, stored.images, stored.total, stored.record, pairs, now
    )


def _snapshot(stored: _StoredShard, path: Path) -> Snapshot | None:
    if stored.now is None:
        return None
    known = parse_baseline(stored.now, path)
    golden = {(name, stage): sums.sums_again() for name, stage, sums in stored.golden}
    return Snapshot(known.head, known.lines, golden, set(stored.measured))
