"""View of the kinds of images: how many there are, and how far two paths differ on each."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.record.diff_document import DistanceFacts, KindCount, KindDrift, PairDiff
from alignkit.report.stage_view import IDENTICAL, few_compared
from alignkit.report.table import ZERO, Group, Notes, RowCells, Table, numbers
from alignkit.text.numbers import grouped, percent, plain

_TITLES = {
    "subsampling": "Chroma subsampling",
    "format": "File format",
    "coding": "JPEG coding",
    "mode": "JPEG colour mode",
    "quality": "JPEG quality, estimated",
    "size": "Size",
    "orientation": "EXIF orientation",
    "icc": "ICC profile",
}
_MEASURES = ("Mean Δ", "Max Δ", "Pixels differing", "PSNR, dB", "Identical")


def census_table(census: Sequence[KindCount]) -> Table:
    """Count the images of each kind."""
    rows = [(_TITLES[each.dimension], each.kind, grouped(each.images)) for each in census]
    columns = ("What", "Kind", *numbers("Images"))
    return Table.of("What the images are, by their headers", columns, rows)


def kind_tables(pair: PairDiff) -> list[Table]:
    """Return a table for each dimension with two kinds or more, and for subsampling."""
    by_dimension: dict[str, list[KindDrift]] = {}
    for each in pair.kinds:
        by_dimension.setdefault(each.dimension, []).append(each)
    return [
        _kind_table(_TITLES[dimension], kinds)
        for dimension, kinds in by_dimension.items()
        # one kind alone has nothing to be compared with, but subsampling often is the cause
        if len(kinds) > 1 or dimension == "subsampling"
    ]


def _kind_table(title: str, kinds: Sequence[KindDrift]) -> Table:
    notes = Notes()
    # columns of zeros say less than the caption
    decoded = any(each.decode.max_abs != 0 for each in kinds)
    rows: list[RowCells] = [
        (
            each.kind,
            grouped(each.images),
            *(_measures(each.decode, notes) if decoded else ()),
            *_measures(each.last, notes),
        )
        for each in kinds
    ]
    places = [*["Decoded image"] * decoded, "The model’s input"]
    columns = (title, *numbers("Images", *_MEASURES * len(places)))
    groups = (Group("", 2), *(Group(place, len(_MEASURES)) for place in places))
    equal = "" if decoded else "; every image decodes to equal pixels"
    return Table.of(f"{title}: grey levels{equal}", columns, rows, groups, notes=notes)


def _measures(distance: DistanceFacts, notes: Notes) -> RowCells:
    identical = f"{grouped(distance.identical)} of {grouped(distance.images)}"
    if not distance.images or distance.shapes_alone:
        reason = "no image of this kind was compared"
        if distance.shape_mismatches:
            reason = few_compared(distance.images, distance.shape_mismatches)
        return (*(notes.missing(reason) for _ in _MEASURES[1:]), identical)
    if not distance.max_abs:
        return ZERO, ZERO, ZERO, notes.missing(IDENTICAL), identical
    return (
        notes.number(distance.mean_abs, lambda value: plain(value, 3)),
        notes.number(distance.max_abs, lambda value: plain(value, 1)),
        notes.number(distance.share_differing, percent),
        notes.number(distance.psnr, "{:.1f}".format),
        identical,
    )
