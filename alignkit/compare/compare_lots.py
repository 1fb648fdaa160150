"""`CompareLots`: a lot of images → the differences of two paths, and the stored form of those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal, TypeAlias

from alignkit.compare.pixel_diff import ImageRow, PixelDiff, joined
from alignkit.compare.spatial_sums import Spatial, joined_spatial
from alignkit.compare.stored_sums import StoredDiff, StoredSpatial
from alignkit.isolation import Limits
from alignkit.isolation.worker import Work
from alignkit.lots import EachImageOnce, Lot
from alignkit.preprocess import Preprocess, StageName
from alignkit.record import Stored
from alignkit.version import DIFFERENCE_LAYERS, code_version

ComparedLot: TypeAlias = tuple[tuple[PixelDiff, ...], list[ImageRow], Spatial]


def joined_lots(parts: Sequence[ComparedLot]) -> ComparedLot:
    """Add up parts in the order of their images."""
    return (
        joined(diffs for diffs, _, _ in parts),
        [row for _, rows, _ in parts for row in rows],
        joined_spatial(spatial for _, _, spatial in parts),
    )


@dataclass(frozen=True, slots=True)
class CompareLots(EachImageOnce):
    """The `LotWork` of a comparison of two paths."""

    work: Work[ComparedLot]
    paths: tuple[Preprocess, Preprocess]
    options: tuple[tuple[StageName, ...], tuple[str, ...] | None]
    """Stages with SSIM, and the images whose differences are located in full."""
    limits: Limits | None = None

    def identity(self) -> Mapping[str, Any]:
        """See `LotWork.identity`."""
        return {
            "work": "comparison",
            # of a path's name nothing depends
            "paths": [[each.identity(), each.versions()] for each in self.paths],
            "options": self.options,
            "libraries": [metadata.version(name) for name in ("numpy", "pillow")],
            "code": code_version(DIFFERENCE_LAYERS),
        }

    def images(self, result: ComparedLot) -> int:
        """See `LotWork.images`."""
        return len(result[1])

    def empty(self, lot: Lot) -> ComparedLot:  # noqa: ARG002 - rows know their images
        """See `LotWork.empty`."""
        return joined_lots(())

    def add(self, part: ComparedLot, results: Sequence[ComparedLot]) -> ComparedLot:
        """See `LotWork.add`."""
        return joined_lots((part, joined_lots(results)))

    def text(self, part: ComparedLot) -> str:
        """See `LotWork.text`."""
        diffs, rows, spatial = part
        return _StoredComparison(
            diffs=tuple(map(StoredDiff.of, diffs)),
            rows=tuple(rows),
            spatial={stage: StoredSpatial.of(each) for stage, each in spatial.items()},
        ).model_dump_json()

    def parsed(self, text: str) -> ComparedLot:
        """See `LotWork.parsed`."""
        stored = _StoredComparison.model_validate_json(text)
        return (
            tuple(each.diff_again() for each in stored.diffs),
            list(stored.rows),
            {stage: each.sums_again() for stage, each in stored.spatial.items()},
        )


class _StoredComparison(Stored):
    format: Literal[1] = 1
    # 1: 2026-11, first format.
    diffs: tuple[StoredDiff, ...]
    rows: tuple[ImageRow, ...]
    spatial: dict[StageName, StoredSpatial]
