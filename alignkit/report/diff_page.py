"""The page of `alignkit diff`, from its record alone; whole without a script or a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from alignkit.progress import duration
from alignkit.record.artifacts import write_inside
from alignkit.record.diff_document import (
    DiffRecord,
    DistanceFacts,
    KindCount,
    KindDrift,
    PairDiff,
    read_diff_record,
)
from alignkit.report.run_view import coverage_tables, coverage_words, machine_tables, paths_table
from alignkit.report.stage_view import IDENTICAL, StageSection, planes_table, stage_sections
from alignkit.report.table import ZERO, Group, Notes, RowCells, Table, facts, numbers
from alignkit.report.templates import asset, html
from alignkit.report.worst_view import worst_groups
from alignkit.text.names import Names
from alignkit.text.numbers import count, grouped, percent, plain

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


def render_diff(folder: Path) -> Path:
    """Write ``index.html`` and ``assets/`` beside a folder's ``record.json``; returns the page.

    Raises `RecordError` if the record is missing, damaged or newer than this alignkit.
    """
    record = read_diff_record(folder / "record.json")
    page = html("diff.html.j2", report=_page(record))
    write_inside(folder, "assets/report.css", asset("report.css"))
    write_inside(folder, "index.html", page)
    return folder / "index.html"


def _page(record: DiffRecord) -> dict[str, Any]:
    """Return everything that the template reads."""
    names = Names(record.paths)
    measured = [pair for pair in record.pairs if pair.compared]
    reference, *_ = record.paths
    run = {
        "alignkit": record.alignkit,
        "Started (UTC)": record.started,
        "Duration": duration(record.seconds),
    }
    return {
        "alignkit": record.alignkit,
        "title": f"{reference.name} and {', '.join(pair.candidate for pair in record.pairs)}",
        "lead": f"{count(record.data.images, 'image')} of {record.data.source}",
        "reference": names.of(reference.name),
        "findings": [
            (names.of(pair.candidate), pair.sentence or f"skipped: {pair.reason}")
            for pair in record.pairs
        ],
        "started": record.started.replace("T", " ").split("+")[0],
        "duration": duration(record.seconds),
        "coverage": coverage_words(record.coverage, record.coverage_diffs, names),
        "coverage_tables": coverage_tables(record.coverage, record.coverage_diffs, names),
        "stages": _stages(measured, names),
        "census": _census(record.census),
        "kinds": [(names.of(pair.candidate), _kinds(pair)) for pair in measured],
        "stress": [(each, _stages(each.pairs, names)) for each in record.stress],
        "worst": worst_groups(record.worst, names, record.command),
        "paths_table": paths_table(record.paths, names),
        "data": _data(record),
        "environment": machine_tables(run, record.environment),
        "command": record.command,
    }


def _stages(pairs: Sequence[PairDiff], names: Names) -> tuple[StageSection, ...]:
    """Return each pair's stages, under the sentence that the terminal shows."""
    compared = [pair for pair in pairs if pair.compared]
    sections = stage_sections([stage for pair in compared for stage in pair.stages], names)
    return tuple(
        replace(
            section,
            words=f"{pair.sentence[:1].upper()}{pair.sentence[1:]}.",
            planes=planes_table(pair.planes) if pair.planes else None,
        )
        for section, pair in zip(sections, compared, strict=True)
    )


def _census(census: Sequence[KindCount]) -> Table:
    rows = [(_TITLES[each.dimension], each.kind, grouped(each.images)) for each in census]
    columns = ("What", "Kind", *numbers("Images"))
    return Table.of("What the images are, by their headers", columns, rows)


def _kinds(pair: PairDiff) -> list[Table]:
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
    rows: list[RowCells] = [
        (
            each.kind,
            grouped(each.images),
            *_measures(each.decode, notes),
            *_measures(each.last, notes),
        )
        for each in kinds
    ]
    columns = (title, *numbers("Images", *_MEASURES, *_MEASURES))
    groups = (
        Group("", 2),
        Group("Decoded image", len(_MEASURES)),
        Group("What the model is given", len(_MEASURES)),
    )
    return Table.of(f"{title}: grey levels", columns, rows, groups, notes=notes)


def _measures(distance: DistanceFacts, notes: Notes) -> RowCells:
    if not distance.images:
        reason = "no image of this kind was compared"
        if distance.shape_mismatches:
            reason = "every image has another shape"
        return (*(notes.missing(reason) for _ in _MEASURES[1:]), "0")
    identical = f"{grouped(distance.identical)} of {grouped(distance.images)}"
    if not distance.max_abs:
        return ZERO, ZERO, ZERO, notes.missing(IDENTICAL), identical
    return (
        notes.number(distance.mean_abs, lambda value: plain(value, 3)),
        notes.number(distance.max_abs, lambda value: plain(value, 1)),
        notes.number(distance.share_differing, percent),
        notes.number(distance.psnr, "{:.1f}".format),
        identical,
    )


def _data(record: DiffRecord) -> Table:
    limits = record.limits
    pairs = {
        "Images": record.data.source,
        "How many": grouped(record.data.images),
        "Fingerprint (SHA-256)": record.data.fingerprint,
        "Most pixels by header": f"{limits['max_pixels'] / 1e6:g} MP",
        "Most time on a path": f"{limits['seconds']:g} s",
        "Most memory on a path": f"{limits['memory'] / 2**30:g} GiB",
    }
    return facts("The images and what each may take", pairs)
