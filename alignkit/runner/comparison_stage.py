"""Comparison of two paths, pixel by pixel over the evaluation images, as a run stores it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from alignkit.compare.compare_pixels import (
    compare_preprocess,
    coverage_diff,
    pixel_stages,
    spatial_stages,
)
from alignkit.compare.image_table import write_image_table
from alignkit.lots import LotEngine
from alignkit.lots.kept_lots import KeptLots
from alignkit.plan.work import PixelComparison
from alignkit.prepare.prepared_sets import Sets
from alignkit.preprocess import Preprocess
from alignkit.progress import advancing
from alignkit.record import CoverageDiff, PixelStage, SpatialFacts
from alignkit.samples import Samples
from alignkit.workspace import Context, Workspace

_IMAGES = "images.parquet"
_RANKED = 200
"""Images kept in the ranking: as many as a report may show."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The stage table of two paths, and the images that differ most."""

    reference: str
    candidate: str
    stages: tuple[PixelStage, ...]
    worst: tuple[str, ...]
    """Sample ids, greatest mean difference of the last pixel stage first."""
    coverage: CoverageDiff
    spatial: tuple[SpatialFacts, ...]
    digests: tuple[str, ...]
    """See `StageDiffs.digests`."""
    images: Path
    """Parquet; see `alignkit.compare.image_table`."""


def compare_stored(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    workspace: Workspace,
    progress: Callable[[int, int], None],
    engine: LotEngine | None = None,
) -> Comparison:
    """Compare two paths over ``samples``, or read the stored comparison.

    Its lots are stored too, so that a killed comparison is continued, and other machines may add.
    """

    def compare(folder: Path) -> None:
        diffs = compare_preprocess(
            reference, candidate, samples, spatial=True, progress=progress, engine=engine,
            store=KeptLots(workspace),
        )  # fmt: skip
        write_image_table(diffs.rows, folder / _IMAGES)
        content = {
            "stages": [stage.model_dump(mode="json") for stage in pixel_stages(diffs)],
            "worst": [row.id for row in diffs.worst(_RANKED)],
            "coverage": coverage_diff(diffs).model_dump(mode="json"),
            "spatial": [stage.model_dump(mode="json") for stage in spatial_stages(diffs)],
            "digests": diffs.digests,
        }
        (folder / "comparison.json").write_text(json.dumps(content))

    # names of paths are not part of the key: renaming one repeats nothing
    planned = PixelComparison(reference, candidate, samples.fingerprint)
    read = partial(_comparison, reference=reference.name, candidate=candidate.name)
    work = planned.kind, planned.parts, planned.label
    return workspace.keep(*work, compare, read)


def _comparison(folder: Path, reference: str, candidate: str) -> Comparison:
    content = json.loads((folder / "comparison.json").read_text())
    names = {"reference": reference, "candidate": candidate}
    stages = tuple(PixelStage.model_validate({**stage, **names}) for stage in content["stages"])
    coverage = CoverageDiff.model_validate({**content["coverage"], **names})
    spatial = tuple(SpatialFacts.model_validate({**each, **names}) for each in content["spatial"])
    worst, digests = tuple(content["worst"]), tuple(content["digests"])
    return Comparison(
        reference, candidate, stages, worst, coverage, spatial, digests, folder / _IMAGES
    )


def compare_paths(
    preprocesses: Sequence[Preprocess], sets: Sets, context: Context
) -> tuple[Comparison, ...]:
    """Compare the reference path with every other, stage by stage, over the evaluation images."""
    reference, *candidates = preprocesses
    compared = []
    for candidate in candidates:
        if sets.usable(reference.name, "eval") and sets.usable(candidate.name, "eval"):
            detail = f"{reference.title} with {candidate.title}"
            images = sets.evaluation
            with context.progress.stage("compare", len(images), detail) as stage:
                report, engine = advancing(stage), context.engine
                compared.append(
                    compare_stored(reference, candidate, images, context.workspace, report, engine)
                )
    return tuple(compared)
