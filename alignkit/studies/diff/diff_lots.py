"""`DiffLots`: a lot of images → its `DiffTally`, and the stored form of that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal

from alignkit.compare.coverage_tally import CoverageTally
from alignkit.compare.pixel_diff import PixelDiff
from alignkit.compare.stored_sums import StoredPlanes, StoredSpatial
from alignkit.isolation import Limits
from alignkit.lots import EachImageOnce, Lot
from alignkit.preprocess import Preprocess, StageName
from alignkit.preprocess.image_kinds import ImageKinds
from alignkit.record import Count, CoverageDiff, NotDecoded, Stored
from alignkit.studies.diff.diff_images import DiffImages, DiffPart, PixelTotals
from alignkit.studies.diff.diff_tally import DiffTally, PairTally, WorstImage
from alignkit.version import DIFFERENCE_LAYERS, code_version


@dataclass(frozen=True, slots=True)
class DiffLots(EachImageOnce):
    """The `LotWork` of a diff."""

    work: DiffImages
    limits: Limits

    @property
    def paths(self) -> tuple[Preprocess, ...]:
        """The paths, reference first."""
        return self.work.paths

    def identity(self) -> Mapping[str, Any]:
        """See `LotWork.identity`."""
        work, limits = self.work, self.limits
        return {
            "work": "diff",
            "paths": [[each.name, each.identity(), each.versions()] for each in work.paths],
            "ssim": work.ssim,
            "planes": work.planes,
            "drawn": None if work.drawn is None else sorted(work.drawn),
            "stress": work.stress and [work.stress.name, work.stress.encoder()],
            "limits": [limits.seconds, limits.memory],
            "max_pixels": [each.max_pixels for each in work.paths],
            "libraries": [metadata.version(name) for name in ("numpy", "pillow")],
            "code": code_version((*DIFFERENCE_LAYERS, "lots", "studies/diff")),
        }

    def images(self, result: DiffPart) -> int:
        """See `LotWork.images`."""
        return len(result.facts)

    def empty(self, lot: Lot) -> DiffTally:
        """See `LotWork.empty`."""
        return DiffTally(self.work.paths, lot.begin)

    def add(self, part: DiffTally, results: Sequence[DiffPart]) -> DiffTally:
        """See `LotWork.add`."""
        part.add(DiffPart.joined(results))
        return part

    def text(self, part: DiffTally) -> str:
        """See `LotWork.text`."""
        return _StoredTally.of(part).model_dump_json()

    def parsed(self, text: str) -> DiffTally:
        """See `LotWork.parsed`."""
        return _StoredTally.model_validate_json(text).tally_again(self.work.paths)


class _StoredPath(Stored):
    outcomes: dict[str, Count]
    examples: tuple[NotDecoded, ...]


class _StoredPair(Stored):
    diffs: tuple[PixelDiff, ...]
    planes: dict[StageName, StoredPlanes]
    spatial: dict[StageName, StoredSpatial]
    compared: Count
    coverage: CoverageDiff
    kinds: tuple[tuple[ImageKinds, PixelTotals, PixelTotals], ...]
    begun: dict[StageName, Count]
    means: tuple[tuple[float, Count], ...]
    ranked: tuple[tuple[float, int, WorstImage], ...]

    @classmethod
    def of(cls, pair: PairTally) -> _StoredPair:
        return cls(
            diffs=pair.diffs,
            planes={stage: StoredPlanes.of(each) for stage, each in pair.planes.items()},
            spatial={stage: StoredSpatial.of(each) for stage, each in pair.spatial.items()},
            compared=pair.compared,
            # the names are those of the paths, which the key holds
            coverage=pair.coverage.diff("", ""),
            kinds=tuple((kinds, *totals) for kinds, totals in pair.kinds.items()),
            begun=pair.begun,
            means=tuple(pair.means.items()),
            ranked=tuple(sorted(pair.ranked)),
        )

    def tally_again(self) -> PairTally:
        pair = PairTally(
            diffs=self.diffs,
            planes={stage: each.sums_again() for stage, each in self.planes.items()},
            spatial={stage: each.sums_again() for stage, each in self.spatial.items()},
            compared=self.compared,
            coverage=CoverageTally(),
            begun=Counter(self.begun),
            means=Counter(dict(self.means)),
            ranked=list(self.ranked),
        )
        pair.coverage.join(self.coverage)
        pair.kinds.update({kinds: (decode, last) for kinds, decode, last in self.kinds})
        return pair


class _StoredTally(Stored):
    format: Literal[1] = 1
    # 1: 2026-11, first format.
    begin: Count
    images: Count
    kinds: tuple[tuple[ImageKinds, Count], ...]
    digests: tuple[str, ...]
    paths: tuple[_StoredPath, ...]
    pairs: tuple[_StoredPair, ...]

    @classmethod
    def of(cls, tally: DiffTally) -> _StoredTally:
        return cls(
            begin=tally.begin,
            images=tally.images,
            kinds=tuple(tally.kinds.items()),
            digests=tuple(tally.digests),
            paths=tuple(
                _StoredPath(outcomes=each.outcomes, examples=tuple(each.examples))
                for each in tally.of_path
            ),
            pairs=tuple(map(_StoredPair.of, tally.of_pair)),
        )

    def tally_again(self, paths: tuple[Preprocess, ...]) -> DiffTally:
        counted = Counter(dict(self.kinds))
        tally = DiffTally(paths, self.begin, self.images, counted, list(self.digests))
        if len(self.paths) != len(paths) or len(self.pairs) != len(paths) - 1:
            raise ValueError("it is of other paths")
        for path, stored in zip(tally.of_path, self.paths, strict=True):
            path.outcomes.update(stored.outcomes)
            path.examples += stored.examples
        tally.of_pair = [each.tally_again() for each in self.pairs]
        return tally
