"""`DiffLots`: a lot of images → its `DiffTally`, and the stored form of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from pydantic import TypeAdapter

from alignkit.isolation import Limits
from alignkit.lots import EachImageOnce, Lot
from alignkit.preprocess import Preprocess
from alignkit.studies.diff.diff_images import DiffImages, DiffPart
from alignkit.studies.diff.diff_tally import DiffTally, StoredTally
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
        stored = part.begin, part.images, part.kinds, part.digests, part.of_path, part.of_pair
        return _stored().dump_json(stored).decode()

    def parsed(self, text: str) -> DiffTally:
        """See `LotWork.parsed`."""
        begin, images, kinds, digests, of_path, of_pair = _stored().validate_json(text)
        if len(of_path) != len(self.paths) or len(of_pair) != len(self.paths) - 1:
            raise ValueError("it is of other paths")
        return DiffTally(self.paths, begin, images, kinds, digests, of_path, of_pair)


@cache
def _stored() -> TypeAdapter[StoredTally]:
    return TypeAdapter(StoredTally)
