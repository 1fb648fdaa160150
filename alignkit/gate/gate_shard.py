"""`Shard`: a pixel gate over some of the images, which merges exactly with the others.

A shard keeps sums and histograms, not ratios, so that the merged result equals that of one run over
all images.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from alignkit.baseline import baseline_text, parse_baseline
from alignkit.baseline.snapshot import Snapshot
from alignkit.compare.pixel_diff import PixelDiff
from alignkit.compare.pixel_sums import PixelSums
from alignkit.errors import ConfigError, RecordError
from alignkit.preprocess import StageName
from alignkit.record import CoverageDiff, RunRecord, Stored
from alignkit.record.document import stored_document
from alignkit.samples import Samples


@dataclass(frozen=True, slots=True)
class Shard:
    """Every ``count``-th image, beginning with the ``index``-th."""

    index: int
    """From 1."""
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse ``2/5``; raises `ConfigError` for anything else."""
        index, slash, count = text.partition("/")
        if not (slash and index.isdecimal() and count.isdecimal()):
            raise ConfigError(f"--shard {text}: write it as i/n, for example 2/5")
        shard = cls(int(index), int(count))
        if not 1 <= shard.index <= shard.count:
            raise ConfigError(f"--shard {text}: i counts from 1 to n")
        return shard

    def take(self, samples: Samples) -> Samples:
        """Return the images of the shard; none if there are fewer images than shards."""
        return samples.take(range(self.index - 1, len(samples), self.count))


@dataclass(frozen=True, slots=True)
class PairSums:
    """Measurements of one pair of paths, which can be added."""

    reference: str
    candidate: str
    diffs: tuple[PixelDiff, ...]
    coverage: CoverageDiff


@dataclass(frozen=True, slots=True)
class ShardResult:
    """Measurements of one shard, for the merge."""

    shard: Shard
    data: str
    """Fingerprint of all images, those of the other shards included."""
    record: RunRecord
    pairs: tuple[PairSums, ...]
    now: Snapshot | None


class _StoredPart(Stored):
    format: Literal[1] = 1
    shard: tuple[int, int]
    data: str
    record: RunRecord
    pairs: list[dict[str, Any]]
    now: str | None
    golden: list[tuple[str, str, dict[str, Any]]]
    measured: list[tuple[str, str, StageName]]


def part_text(part: ShardResult) -> str:
    """Write a shard's result as one JSON document."""
    now = part.now
    golden = now.golden.items() if now else ()
    stored = _StoredPart(
        shard=(part.shard.index, part.shard.count),
        data=part.data,
        record=part.record,
        pairs=[_pair_json(pair) for pair in part.pairs],
        now=baseline_text(now.as_baseline()) if now else None,
        golden=[(path, stage, _sums_json(sums)) for (path, stage), sums in golden],
        measured=sorted(now.measured) if now else [],
    )
    return stored.model_dump_json() + "\n"


def read_part(path: Path) -> ShardResult:
    """Read a shard; raises `RecordError` if it is missing, damaged or of a newer format."""
    try:
        stored = stored_document(path, _StoredPart, missing="there is no such file")
    except RecordError as error:
        raise RecordError(f"{path} is no shard of a gate (--out shard=PATH): {error}") from error
    now = None
    if stored.now is not None:
        known = parse_baseline(stored.now, path)
        golden = {(p, stage): _sums(sums) for p, stage, sums in stored.golden}
        now = Snapshot(known.head, known.lines, golden, set(stored.measured))  # type: ignore[arg-type]
    pairs = tuple(_pair(pair) for pair in stored.pairs)
    return ShardResult(Shard(*stored.shard), stored.data, stored.record, pairs, now)


def _pair_json(pair: PairSums) -> dict[str, Any]:
    return {
        "reference": pair.reference,
        "candidate": pair.candidate,
        "coverage": pair.coverage.model_dump(mode="json"),
        "diffs": [
            {
                "stage": diff.stage,
                "mode": diff.mode,
                "sums": _sums_json(diff.sums) if diff.sums else None,
                "shape_mismatches": diff.shape_mismatches,
            }
            for diff in pair.diffs
        ],
    }


def _pair(stored: dict[str, Any]) -> PairSums:
    diffs = tuple(
        PixelDiff(**{**diff, "sums": _sums(diff["sums"]) if diff["sums"] else None})
        for diff in stored["diffs"]
    )
    coverage = CoverageDiff.model_validate(stored["coverage"])
    return PairSums(stored["reference"], stored["candidate"], diffs, coverage)


def _sums_json(sums: PixelSums) -> dict[str, Any]:
    content = {each.name: getattr(sums, each.name) for each in fields(sums)}
    histogram = sums.histogram
    bins = np.flatnonzero(histogram)
    content["histogram"] = [[int(each), int(histogram[each])] for each in bins]
    return json.loads(json.dumps(content))  # type: ignore[no-any-return]


def _sums(stored: dict[str, Any]) -> PixelSums:
    bins: Sequence[tuple[int, int]] = stored["histogram"]
    histogram = np.zeros(max((index for index, _ in bins), default=0) + 1, np.int64)
    for index, number in bins:
        histogram[index] = number
    red, green, blue = stored["sums"]
    return PixelSums(**{**stored, "histogram": histogram, "sums": (red, green, blue)})
