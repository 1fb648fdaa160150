"""Curves along one stage of two paths' difference: the reference with that stage of the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from alignkit.errors import AlignkitError
from alignkit.findings.line_models import LineModels, PixelLine
from alignkit.findings.stored_row import StoredRow
from alignkit.preprocess import Preprocess
from alignkit.preprocess.stage_mixtures import make_stage_mixtures
from alignkit.record.tolerance_facts import PixelTolerance
from alignkit.studies.tolerance.lines import curves_along, drawn_ids


def stages_of(row: StoredRow, models: LineModels) -> tuple[tuple[str, str], ...]:
    """List (candidate, stage) of each other path in the row's runtime with two stages or more."""
    own = models.path(row.place.column.preprocess)
    found = []
    for name in row.served:
        if (other := models.path(name)) is None or own is None or own.size != other.size:
            continue  # the pair's own reason says so
        factors = make_stage_mixtures(own, other).factors
        found += [(name, each) for each in factors] if len(factors) > 1 else []
    return tuple(found)


def stage_tolerances(
    row: StoredRow, budget: float, models: LineModels, advance: Callable[[int], None]
) -> tuple[PixelTolerance, ...]:
    """Draw the curve of each stage alone, for every pair that differs in several."""
    place = row.place.column
    lines = {each: _line(row, models, *each) for each in stages_of(row, models)}
    made = curves_along(row, models, lines, budget, advance)
    return tuple(
        PixelTolerance(
            trained_with=str(row.place.row),
            backend=place.backend,
            precision=place.precision,
            reference=place.preprocess,
            candidate=candidate,
            stage=stage,
            mean_abs=found.size,
            factor=found.factor,
            levels=None if None in (found.factor, found.size) else found.factor * found.size,  # type: ignore[operator]
            seeds=tuple(found.curves),
            reason=found.reason,
        )
        for (candidate, stage), found in made.items()
    )


def _line(row: StoredRow, models: LineModels, candidate: str, stage: str) -> PixelLine | str:
    own = models.side(row.place.column.preprocess)
    mixed = mixed_path(own.preprocess, models.side(candidate).preprocess, stage)
    if isinstance(mixed, str):
        return mixed
    try:
        end = models.prepared_side(mixed, drawn_ids(row))
    except AlignkitError as error:
        return str(error)
    return PixelLine(own, own, end)


def mixed_path(own: Preprocess, other: Preprocess, factor: str) -> Preprocess | str:
    """Return ``own`` with one factor of `make_stage_mixtures`; or why there is none."""
    mixtures = make_stage_mixtures(own, other)
    taken = frozenset({factor})
    stages = {each.stage: each.variants[taken & each.factors] for each in mixtures.stages}
    if stages["decode"].orients and stages["orient"].policy == "none":
        return "its decoder turns images by their EXIF orientation, and the other path does not"
    name = f"{own.name}, {factor} of {other.name}"
    limit = mixtures.max_pixels
    return replace(own, name=name, surrogate_of="", replaced=(), max_pixels=limit, **stages)
