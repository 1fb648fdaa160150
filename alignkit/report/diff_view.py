"""`DiffView`: everything the page of `alignkit diff` shows, computed before its template runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from alignkit.progress import duration
from alignkit.record.pixel_diff import DiffRecord, DistanceFacts, KindCount, KindDrift, PairDiff
from alignkit.report.coverage_view import coverage_tables, coverage_words
from alignkit.report.planes_view import planes_table
from alignkit.report.run_view import library_tables, machine_facts, paths_table
from alignkit.report.stage_view import ZERO, StageSection, stage_sections
from alignkit.report.table import (
    Group,
    Notes,
    RowCells,
    Shown,
    Table,
    facts,
    number_columns,
    text_columns,
)
from alignkit.report.worst_view import WorstGroup, worst_groups
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import count, grouped, percent, plain

TITLES = {
    "subsampling": "Chroma subsampling",
    "format": "File format",
    "coding": "JPEG coding",
    "mode": "JPEG colour mode",
    "quality": "JPEG quality, estimated",
    "size": "Size",
    "orientation": "EXIF orientation",
    "icc": "ICC profile",
}
IDENTICAL = "nothing differs: PSNR is infinite"
NOTHING = "no image of this kind was compared"
MEASURES = ("Mean Δ", "Max Δ", "Pixels differing", "PSNR, dB", "Identical")


@dataclass(frozen=True, slots=True)
class PairView:
    """One candidate in a sentence."""

    candidate: PathName
    sentence: str


@dataclass(frozen=True, slots=True)
class KindSection:
    """One pair's drift by kind of image, or under stress."""

    candidate: PathName
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class StressSection:
    """The images encoded again in one way."""

    name: str
    encoder: str
    stages: tuple[StageSection, ...]


@dataclass(frozen=True, slots=True)
class DiffView:
    """The page."""

    alignkit: str
    title: str
    lead: str
    reference: PathName
    findings: tuple[PairView, ...]
    started: str
    duration: str
    coverage: str
    coverage_tables: tuple[Table, ...]
    stages: tuple[StageSection, ...]
    census: Table
    kinds: tuple[KindSection, ...]
    stress: tuple[StressSection, ...]
    worst: tuple[WorstGroup, ...]
    paths_table: Table
    data: Table
    environment: tuple[Table, ...]
    command: str


def diff_view(record: DiffRecord) -> DiffView:
    """The page of a comparison."""
    names = Names(record.paths)
    measured = [pair for pair in record.pairs if pair.compared]
    reference, *_ = record.paths
    return DiffView(
        alignkit=record.alignkit,
        title=f"{reference.name} and {', '.join(pair.candidate for pair in record.pairs)}",
        lead=f"{count(record.data.images, 'image')} of {record.data.source}",
        reference=names.of(reference.name),
        findings=tuple(
            PairView(names.of(pair.candidate), pair.sentence or f"skipped: {pair.reason}")
            for pair in record.pairs
        ),
        started=record.started.replace("T", " ").split("+")[0],
        duration=duration(record.seconds),
        coverage=coverage_words(record.coverage, names),
        coverage_tables=coverage_tables(record.coverage, record.coverage_diffs, names),
        stages=_stages(measured, names),
        census=_census(record.census),
        kinds=tuple(KindSection(names.of(pair.candidate), _kinds(pair)) for pair in measured),
        stress=tuple(
            StressSection(each.name, each.encoder, _stages(each.pairs, names))
            for each in record.stress
        ),
        worst=worst_groups(record.worst, names, record.command),
        paths_table=paths_table(record.paths, names),
        data=_data(record),
        environment=_environment(record),
        command=record.command,
    )


def _stages(pairs: Sequence[PairDiff], names: Names) -> tuple[StageSection, ...]:
    """Each pair's stages, under the sentence that the terminal shows."""
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
    rows: list[RowCells] = [
        (TITLES[each.dimension], each.kind, grouped(each.images)) for each in census
    ]
    columns = (*text_columns("What", "Kind"), *number_columns("Images"))
    return Table.of("What the images are, by their headers", columns, rows)


def _kinds(pair: PairDiff) -> tuple[Table, ...]:
    by_dimension: dict[str, list[KindDrift]] = {}
    for each in pair.kinds:
        by_dimension.setdefault(each.dimension, []).append(each)
    return tuple(
        _kind_table(dimension, some)
        for dimension, some in by_dimension.items()
        if len(some) > 1 or dimension == "subsampling"
    )


def _kind_table(dimension: str, kinds: Sequence[KindDrift]) -> Table:
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
    columns = (*text_columns(TITLES[dimension]), *number_columns("Images", *MEASURES, *MEASURES))
    groups = (
        Group("", 2),
        Group("Decoded image", len(MEASURES)),
        Group("What the model is given", len(MEASURES)),
    )
    caption = f"{TITLES[dimension]}: grey levels"
    return Table.of(caption, columns, rows, groups, notes=notes)


def _measures(found: DistanceFacts, notes: Notes) -> tuple[Shown, ...]:
    if not found.images:
        reason = "every image has another shape" if found.shape_mismatches else NOTHING
        return (*(notes.missing(reason) for _ in MEASURES[1:]), Shown("0"))
    identical = Shown(f"{grouped(found.identical)} of {grouped(found.images)}")
    if not found.max_abs:
        return (ZERO, ZERO, ZERO, notes.missing(IDENTICAL), identical)
    return (
        notes.number(found.mean_abs, lambda value: plain(value, 3)),
        notes.number(found.max_abs, lambda value: plain(value, 1)),
        notes.number(found.share_differing, percent),
        notes.number(found.psnr, lambda value: f"{value:.1f}"),
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
    return facts("The images and what each may take", ("Fact", "Value"), pairs)


def _environment(record: DiffRecord) -> tuple[Table, ...]:
    run = {
        "alignkit": record.alignkit,
        "Started (UTC)": record.started,
        "Duration": duration(record.seconds),
        **machine_facts(record.environment),
    }
    return (
        facts("Run and machine", ("Fact", "Value"), run),
        *library_tables(record.environment),
    )
