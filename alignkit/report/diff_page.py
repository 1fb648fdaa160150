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
from alignkit.report.axis import Axis, Interval
from alignkit.report.plot import Plot, dot_rows
from alignkit.report.run_view import coverage_tables, coverage_words, machine_tables, paths_table
from alignkit.report.shown_view import other_groups
from alignkit.report.stage_view import (
    IDENTICAL,
    NO_PIXELS,
    StageSection,
    few_compared,
    planes_table,
    stage_sections,
)
from alignkit.report.table import ZERO, Group, Notes, RowCells, Shown, Table, facts, numbers
from alignkit.report.templates import PAGE_ASSETS, asset, html
from alignkit.report.viewer_data import viewer_script
from alignkit.task_facts import TaskFacts
from alignkit.text.class_words import NOT_FINITE, unknown_margin
from alignkit.text.diff_words import (
    NO_MODEL,
    ending,
    images_words,
    input_words,
    kinds_words,
    prediction_lines,
)
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import grouped, listed, percent, plain, significant

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


def render_diff(folder: Path) -> Path:
    """Write ``index.html`` and ``assets/`` beside a folder's ``record.json``; returns the page.

    Raises `RecordError` if the record is missing, damaged or newer than this alignkit.
    """
    record = read_diff_record(folder / "record.json")
    data = viewer_script(record, folder)
    page = html("diff.html.j2", report=_page(record), has_viewer=bool(data))
    for name in PAGE_ASSETS:
        write_inside(folder, f"assets/{name}", asset(name))
    if data:
        write_inside(folder, "data/run.js", data)
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
        "title": _title(record),
        "lead": images_words(record),
        "reference": names.of(reference.name),
        "findings": [
            (names.of(pair.candidate), pair.sentence or f"skipped: {pair.reason}", _ending(pair))
            for pair in record.pairs
        ],
        "effects": list(dict.fromkeys(each for pair in record.pairs for each in _effects(pair))),
        "no_model": NO_MODEL if any(NO_MODEL in pair.matter for pair in record.pairs) else "",
        "predictions": _predictions(record, names),
        "model_input": input_words(record.model, reference) if record.model else "",
        "started": record.started.replace("T", " ").split("+")[0],
        "duration": duration(record.seconds),
        "coverage": coverage_words(record.coverage, record.coverage_diffs, names),
        "coverage_tables": coverage_tables(record.coverage, record.coverage_diffs, names),
        "levels": _levels(measured, names),
        "stages": _stages(measured, names),
        "no_pixels": NO_PIXELS,
        "census": census_table(record.census),
        "kinds": [
            (names.of(pair.candidate), kinds_words(pair), tables)
            for pair in measured
            if (tables := kind_tables(pair))
        ],
        "stress": [(each, _stages(each.pairs, names)) for each in record.stress],
        "largest": other_groups(record, names, "pixels"),
        "random": (),
        "changed": (),
        "paths_table": paths_table(record.paths, names),
        "data": _data(record),
        "environment": machine_tables(run, record.environment),
        "command": record.command,
    }


def _title(record: DiffRecord) -> str:
    """``opencv-train against 2 candidates: pillow-train and gpu``."""
    reference, candidates = record.paths[0].name, [pair.candidate for pair in record.pairs]
    if len(candidates) == 1:
        return f"{reference} against {candidates[0]}"
    return f"{reference} against {len(candidates)} candidates: {listed(candidates)}"


def _effects(pair: PairDiff) -> list[str]:
    """Return the known effects of other stacks, which the page says once for all candidates."""
    return [] if pair.predictions else [each for each in pair.matter if each != NO_MODEL]


def _ending(pair: PairDiff) -> list[str]:
    return [each for each in ending(pair) if each not in _effects(pair)]


def _levels(pairs: Sequence[PairDiff], names: Names) -> Plot | None:
    """Draw the mean |Δ| of each stage that differs, all candidates on one axis."""
    rows = []
    for pair in pairs:
        means = {
            (stage.stage, stage.mode): stage.mean_abs
            for stage in pair.stages
            # normalised units are no grey levels
            if stage.stage != "normalise" and not stage.shapes_alone
        }
        for stage in dict.fromkeys(stage for stage, _ in means):
            if isolated := means.get((stage, "isolated")):
                cumulative = _point(means.get((stage, "cumulative")))
                rows.append(
                    (f"{names.short(pair.candidate)}: {stage}", _point(isolated), cumulative)
                )
    if len(rows) < 2:  # one stage of one path: its sentence says as much
        return None
    return dot_rows(
        rows,
        ("this stage alone, on the same input", "the path up to this stage"),
        joined=True,
        title="Mean difference of each stage that differs",
        x=Axis(name="mean |Δ| in grey levels of 255"),
        size="wide",
    )


def _point(value: float | None) -> Interval | None:
    return None if value is None else Interval(value, value, value)


def _stages(pairs: Sequence[PairDiff], names: Names) -> tuple[StageSection, ...]:
    """Return each pair's stages, under the sentence that the terminal shows."""
    compared = [pair for pair in pairs if pair.compared]
    sections = stage_sections(
        [stage for pair in compared for stage in pair.stages],
        names,
        [each for pair in compared for each in pair.spatial],
    )
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
            lines=prediction_lines(pair.predictions, record.model, record.task, classes=0),
            tables=tuple(_prediction_tables(pair.predictions, record.task)),
        )
        for pair in record.pairs
        if pair.predictions
    ]


def _prediction_tables(drift: PredictionDrift, task: TaskFacts) -> Iterator[Table]:
    if drift.stages:
        yield _alone(drift, task)
    if drift.classes:
        flips: list[RowCells] = [
            (each.before, each.after, grouped(each.images)) for each in drift.classes
        ]
        caption = "Flips by class, the most frequent first"
        yield Table.of(caption, ("Reference", "Candidate", *numbers("Images")), flips)
    if drift.moved and task.class_scores:
        yield _moved(drift.moved, task)
    elif drift.moved:
        said = [(each.id, each.before, each.after) for each in drift.moved]
        caption = "Images whose prediction changes, then those whose prediction moves most"
        yield Table.of(caption, ("Image", "Reference", "Candidate"), said)


def _alone(drift: PredictionDrift, task: TaskFacts) -> Table:
    """Return the parts of the candidate, one at a time; of class scores their distance."""
    notes = Notes()
    parts = [(each.factor, each.flips, each.churn, each.mean_abs) for each in drift.stages]
    parts.append(("the whole path", drift.flips, drift.churn, drift.logits.mean_abs))
    rows: list[RowCells] = [
        (
            name,
            grouped(flips),
            notes.estimated(churn, 1, share=True),
            *(
                [notes.distance(mean, significant, drift.logits.reason)]
                if task.class_scores
                else []
            ),
        )
        for name, flips, churn, mean in parts
    ]
    distance = [f"Mean |Δ {task.output}|"] if task.class_scores else []
    caption = "The reference path with one stage alone as in the candidate"
    columns = ("Stage", *numbers("Predictions that change", "Share", *distance))
    return Table.of(caption, columns, rows, notes=notes)


def _moved(moved: Sequence[MovedImage], task: TaskFacts) -> Table:
    notes = Notes()
    rows: list[RowCells] = [
        (
            each.id,
            each.before,
            Shown(each.after, tone="" if each.before == each.after else "bad"),
            notes.number(each.max_abs, significant, NOT_FINITE),
            notes.number(each.margin, significant, NOT_FINITE),
            notes.number(each.lost, percent, unknown_margin(each)),
        )
        for each in moved
    ]
    numeric = numbers(f"Max |Δ {task.output}|", f"Margin before, {task.outputs}", "Margin lost")
    caption = "Images whose class changes, then those that lose most of their margin"
    return Table.of(caption, ("Image", "Reference", "Candidate", *numeric), rows, notes=notes)


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
