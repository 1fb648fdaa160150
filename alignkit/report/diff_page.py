"""The page of `alignkit diff`, from its record alone; whole without a script or a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
    PredictionDrift,
    read_diff_record,
)
from alignkit.record.numeric_facts import MovedImage
from alignkit.report.run_view import coverage_tables, coverage_words, machine_tables, paths_table
from alignkit.report.stage_view import (
    IDENTICAL,
    StageSection,
    few_compared,
    planes_table,
    stage_sections,
)
from alignkit.report.table import ZERO, Group, Notes, RowCells, Shown, Table, facts, numbers
from alignkit.report.templates import asset, html
from alignkit.report.worst_view import worst_groups
from alignkit.text.diff_words import NO_MODEL, ending, input_words, prediction_lines
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import count, grouped, percent, plain, significant

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
            (names.of(pair.candidate), pair.sentence or f"skipped: {pair.reason}", ending(pair))
            for pair in record.pairs
        ],
        "no_model": NO_MODEL if any(NO_MODEL in pair.matter for pair in record.pairs) else "",
        "predictions": _predictions(record, names),
        "model_input": input_words(record.model, reference) if record.model else "",
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


@dataclass(frozen=True, slots=True)
class PredictionSection:
    """A model's predictions along one candidate."""

    candidate: PathName
    words: str
    """How many change."""
    lines: tuple[str, ...]
    tables: tuple[Table, ...]


def _predictions(record: DiffRecord, names: Names) -> list[PredictionSection]:
    if record.model is None:
        return []
    return [
        PredictionSection(
            candidate=names.of(pair.candidate),
            words=f"{pair.matter[0][:1].upper()}{pair.matter[0][1:]}.",
            lines=prediction_lines(pair.predictions, record.model, classes=0),
            tables=tuple(_prediction_tables(pair.predictions)),
        )
        for pair in record.pairs
        if pair.predictions
    ]


def _prediction_tables(drift: PredictionDrift) -> Iterator[Table]:
    notes = Notes()
    if drift.stages:
        rows: list[RowCells] = [
            (
                each.factor,
                grouped(each.flips),
                notes.estimated(each.churn, 1, share=True),
                notes.distance(each.mean_abs, significant, drift.logits.reason),
            )
            for each in drift.stages
        ]
        whole = notes.distance(drift.logits.mean_abs, significant, drift.logits.reason)
        churn = notes.estimated(drift.churn, 1, share=True)
        rows.append(("the whole path", grouped(drift.flips), churn, whole))
        caption = "The reference path with one stage alone as in the candidate"
        columns = ("Stage", *numbers("Predictions that change", "Share", "Mean |Δ logit|"))
        yield Table.of(caption, columns, rows, notes=notes)
    if drift.classes:
        flips: list[RowCells] = [
            (each.before, each.after, grouped(each.images)) for each in drift.classes
        ]
        caption = "Flips by class, the most frequent first"
        yield Table.of(caption, ("Reference", "Candidate", *numbers("Images")), flips)
    if drift.moved:
        yield _moved(drift.moved)


def _moved(moved: Sequence[MovedImage]) -> Table:
    notes = Notes()
    infinite, none = "a logit is not finite", "no margin above 0"
    rows: list[RowCells] = [
        (
            each.id,
            each.before,
            Shown(each.after, tone="" if each.before == each.after else "bad"),
            notes.number(each.max_abs, significant, infinite),
            notes.number(each.margin, significant, none),
            notes.number(each.lost, percent, none),
        )
        for each in moved
    ]
    numeric = numbers("Max |Δ logit|", "Margin before, logits", "Margin lost")
    caption = "Images whose class changes, then those that lose most of their margin"
    return Table.of(caption, ("Image", "Reference", "Candidate", *numeric), rows, notes=notes)


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
    if not distance.images or distance.mostly_other_shapes:
        reason = "no image of this kind was compared"
        if distance.shape_mismatches:
            reason = few_compared(distance.images, distance.shape_mismatches)
        compared = f"{grouped(distance.identical)} of {grouped(distance.images)}"
        return (*(notes.missing(reason) for _ in _MEASURES[1:]), compared)
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
