"""The page of `alignkit diff`, from its record alone; whole without a script or a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from alignkit.progress import duration
from alignkit.record import Estimate
from alignkit.record.diff_document import (
    DiffRecord,
    DistanceFacts,
    KindCount,
    KindDrift,
    PairDiff,
    PredictionDrift,
    read_diff_record,
)
from alignkit.report.axis import Axis, Interval
from alignkit.report.entries_view import moved_columns
from alignkit.report.page import (
    Code,
    Details,
    Heading,
    Lines,
    Page,
    PagePart,
    PageVerdict,
    Paragraph,
    Section,
    Words,
    against,
    day,
    machine,
    sentence,
    write_page,
    written_by,
)
from alignkit.report.plot import Plot, dot_rows
from alignkit.report.run_view import coverage_tables, coverage_words, machine_tables, paths_table
from alignkit.report.shown_view import pixels_section
from alignkit.report.stage_view import (
    IDENTICAL,
    NO_PIXELS,
    StageSection,
    few_compared,
    planes_table,
    stage_parts,
    stage_sections,
)
from alignkit.report.table import ZERO, Group, Notes, RowCells, Table, facts, numbers
from alignkit.report.viewer_data import viewer_script
from alignkit.task_facts import TaskFacts
from alignkit.text.column import Fact
from alignkit.text.diff_words import (
    NO_MODEL,
    ending,
    images_words,
    input_words,
    kinds_words,
    prediction_lines,
)
from alignkit.text.names import Names
from alignkit.text.numbers import estimated, grouped, listed, percent, plain

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
    return write_page(diff_page(record, viewer=bool(data)), folder, data)


def diff_page(record: DiffRecord, *, viewer: bool = False) -> Page:
    """Return the page of a diff."""
    names = Names(record.paths)
    measured = [pair for pair in record.pairs if pair.compared]
    sections = (
        _model(record, names),
        _coverage(record, names),
        _stages_section(measured, names),
        _kinds(record, measured, names),
        _stress(record, names),
        pixels_section(record, names),
        _provenance(record, names),
    )
    title = _title(record)
    return Page(
        f"{title} · alignkit diff",
        "diff",
        record.alignkit,
        PageVerdict(
            (title,),
            list(_findings(record, names)),
            _meta(record, names),
            [names.of(each.name) for each in record.paths],
        ),
        [each for each in sections if each],
        written_by(record.alignkit, "record.json"),
        viewer=viewer,
    )


def _title(record: DiffRecord) -> str:
    """``opencv-train against 2 candidates: pillow-train and gpu``."""
    reference, candidates = record.paths[0].name, [pair.candidate for pair in record.pairs]
    if len(candidates) == 1:
        return f"{reference} against {candidates[0]}"
    return f"{reference} against {len(candidates)} candidates: {listed(candidates)}"


def _meta(record: DiffRecord, names: Names) -> Words:
    said = f"{images_words(record)} · {day(record.started)} UTC · {duration(record.seconds)}"
    coverage = coverage_words(record.coverage, record.coverage_diffs, names)
    return f"{said} · {coverage} · reference ", names.of(record.paths[0].name)


def _findings(record: DiffRecord, names: Names) -> Iterator[PagePart]:
    """Yield the sentence of each candidate, its causes, and whether it matters."""
    effects: list[str] = []
    for pair in record.pairs:
        said = pair.sentence or f"skipped: {pair.reason}"
        yield Paragraph((names.of(pair.candidate), f": {said}."), "sentence")
        # effects known of other stacks are said once for all candidates
        known = [] if pair.predictions else [each for each in pair.matter if each != NO_MODEL]
        if lines := [sentence(each) for each in ending(pair) if each not in known]:
            yield Lines(lines)
        effects += known
    if any(NO_MODEL in pair.matter for pair in record.pairs):
        yield Paragraph(f"Does it matter? {sentence(NO_MODEL)}")
    if effects:
        yield Lines([sentence(each) for each in dict.fromkeys(effects)])


def _model(record: DiffRecord, names: Names) -> Section | None:
    predicted = [pair for pair in record.pairs if pair.predictions]
    if record.model is None or not predicted:
        return None
    parts: list[PagePart] = [
        Paragraph(sentence(input_words(record.model, record.paths[0])), "lead")
    ]
    for pair in predicted:
        assert pair.predictions is not None
        said = prediction_lines(pair.predictions, record.model, record.task, classes=0)
        parts += [
            against(names.of(pair.candidate), names.of(pair.reference)),
            Paragraph(sentence(pair.matter[0]), "lead"),
            Lines([sentence(each) for each in said]),
            *_prediction_tables(pair.predictions, record.task),
        ]
    return Section("model", "A model's predictions", parts, nav="Model")


def _coverage(record: DiffRecord, names: Names) -> Section | None:
    tables = coverage_tables(record.coverage, record.coverage_diffs, names)
    if not tables:  # the facts of the verdict say that everything was decoded
        return None
    said = coverage_words(record.coverage, record.coverage_diffs, names)
    return Section("coverage", "Coverage", [Paragraph(said, "lead"), *tables])


def _stages_section(measured: Sequence[PairDiff], names: Names) -> Section:
    levels = _levels(measured, names)
    stages = _stages(measured, names)
    parts: list[PagePart] = [levels] if levels else []
    parts += [part for each in stages for part in stage_parts(each, open=True)]
    return Section("stages", "Which stage", parts or [Paragraph(sentence(NO_PIXELS))], nav="Stages")


def _kinds(record: DiffRecord, measured: Sequence[PairDiff], names: Names) -> Section:
    parts: list[PagePart] = []
    for pair in measured:
        if tables := kind_tables(pair):
            said = kinds_words(pair)
            parts.append(against(names.of(pair.candidate), names.of(pair.reference)))
            parts += [Paragraph(sentence(said), "lead")] if said else []
            parts += [
                Details(each.caption, [each], open=not place) for place, each in enumerate(tables)
            ]
    parts.append(Details("Image counts", [census_table(record.census)]))
    return Section("kinds", "Kinds of images", parts)


def _stress(record: DiffRecord, names: Names) -> Section | None:
    if not record.stress:
        return None
    lead = (
        "The same comparison after re-encoding the images as decoded by the reference; it shows "
        "differences that the original encoding hides."
    )
    parts: list[PagePart] = [Paragraph(lead, "lead")]
    for each in record.stress:
        parts.append(Heading(f"{each.name}, by {each.encoder}"))
        for section in _stages(each.pairs, names):
            parts += stage_parts(section, open=True, level=4)
    return Section("stress", "Re-encoded images", parts, nav="Stress")


def _provenance(record: DiffRecord, names: Names) -> Section:
    limits = record.limits
    pairs = {
        "Images": record.data.source,
        "How many": grouped(record.data.images),
        "Fingerprint (SHA-256)": record.data.fingerprint,
        "Most pixels by header": f"{limits['max_pixels'] / 1e6:g} MP",
        "Most time on a path": f"{limits['seconds']:g} s",
        "Most memory on a path": f"{limits['memory'] / 2**30:g} GiB",
    }
    run = {
        "alignkit": record.alignkit,
        "Started (UTC)": record.started,
        "Duration": duration(record.seconds),
    }
    parts: list[PagePart] = [
        Heading("Reproduce"),
        Code(record.command),
        paths_table(record.paths, names),
        facts("The images and what each may take", pairs),
        machine(machine_tables(run, record.environment)),
    ]
    return Section("provenance", "Provenance", parts)


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


def _prediction_tables(drift: PredictionDrift, task: TaskFacts) -> Iterator[Table]:
    if drift.stages:
        yield _alone(drift, task)
    if drift.classes:
        flips: list[RowCells] = [
            (each.before, each.after, grouped(each.images)) for each in drift.classes
        ]
        caption = "Flips by class, the most frequent first"
        yield Table.of(caption, ("Reference", "Candidate", *numbers("Images")), flips)
    if drift.moved:
        caption = "Images whose prediction changes, then those whose prediction moves most"
        if task.class_scores:
            caption = "Images whose class changes, then those that lose most of their margin"
        yield Table.made(caption, moved_columns(task), drift.moved)


def _alone(drift: PredictionDrift, task: TaskFacts) -> Table:
    """Return the parts of the candidate, one at a time; of class scores their distance."""
    whole = ("the whole path", drift.flips, drift.churn, drift.logits.mean_abs)
    parts = [(each.factor, each.flips, each.churn, each.mean_abs) for each in drift.stages]
    columns: list[Fact[tuple[str, int, Estimate, float | None]]] = [
        Fact("Stage", lambda part: part[0]),
        Fact("Predictions that change", lambda part: part[1], "count"),
        Fact("Share", lambda part: part[2], "share",
               format=lambda churn, _: estimated(churn, 1, share=True)),
    ]  # fmt: skip
    if task.class_scores:
        head, why = f"Mean |Δ {task.output}|", drift.logits.reason
        columns.append(Fact(head, lambda part: part[3], "value", note=why))
    caption = "The reference path with one stage alone as in the candidate"
    return Table.made(caption, columns, [*parts, whole])
