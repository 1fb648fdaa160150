"""The document of a shard, ``--out shard=PATH``: `ShardResult` → JSON → `ShardResult`.

A shard comes from another machine, so that each of its numbers is checked before it is added up.
"""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from alignkit.baseline import baseline_text, parse_baseline
from alignkit.baseline.snapshot import Snapshot
from alignkit.compare.stored_sums import StoredDiff, StoredSums
from alignkit.errors import BaselineError, RecordError
from alignkit.gate.gate_shard import PairSums, ShardResult
from alignkit.lots import Shard
from alignkit.preprocess import StageName
from alignkit.record import Count, CoverageDiff, RunRecord, Stored
from alignkit.record.document import document_text, stored_document

_SHARDS = 100_000
_AGAIN = "make the shard again: alignkit gate FILE --shard I/N --out shard=PATH"


class _Pair(Stored):
    reference: str
    candidate: str
    coverage: CoverageDiff
    diffs: tuple[StoredDiff, ...]
    digests: tuple[str, ...]


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
    golden: tuple[tuple[str, StageName, StoredSums], ...]
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
                diffs=tuple(map(StoredDiff.of, pair.diffs)),
                digests=pair.digests,
            )
            for pair in part.pairs
        ),
        now=baseline_text(now.as_baseline()) if now else None,
        golden=tuple((*key, StoredSums.of(sums)) for key, sums in now.golden.items())
        if now
        else (),
        measured=tuple(sorted(now.measured)) if now else (),
    )
    return document_text(stored, indent=None)


def read_part(path: Path) -> ShardResult:
    """Read a shard; raises `RecordError` if it is missing, empty, damaged or of a newer format."""
    if path.is_file() and not path.stat().st_size:
        raise RecordError(f"{path} is empty: the gate of that shard measured nothing; run it again")
    try:
        stored = stored_document(path, _StoredShard, missing="there is no such file", again=_AGAIN)
        now = _snapshot(stored, path)
    except (RecordError, BaselineError) as error:
        raise RecordError(f"{path} is no shard of a gate (--out shard=PATH): {error}") from error
    pairs = tuple(
        PairSums(
            pair.reference,
            pair.candidate,
            tuple(diff.diff_again() for diff in pair.diffs),
            pair.coverage,
            pair.digests,
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
