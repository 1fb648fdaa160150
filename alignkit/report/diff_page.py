"""The page of `alignkit diff`, from its record alone; whole without a script or a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

from alignkit.progress import duration
from alignkit.record import PixelStage
from alignkit.record.diff_document import (
    ClassFlips,
    DiffRecord,
    DistanceFacts,
    KindCount,
    KindDrift,
    PairDiff,
    PredictionDrift,
    StageFlips,
    read_diff_record,
)
from alignkit.report.axis import Axis, spread
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
from alignkit.report.table import Table, facts
from alignkit.report.viewer_data import viewer_script
from alignkit.task_facts import TaskFacts
from alignkit.text.column import Fact, of_part
from alignkit.text.diff_words import (
    NO_MODEL,
    ending,
    images_words,
    input_words,
    prediction_lines,
)
from alignkit.text.names import Names
from alignkit.text.numbers import grouped, listed

Distance: TypeAlias = PixelStage | DistanceFacts
SUBSAMPLING = "subsampling"
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
_KINDS = "What the images are, by their headers"
_CENSUS: tuple[Fact[KindCount], ...] = (
    Fact("What", lambda each: _TITLES[each.dimension]),
    Fact("Kind", lambda each: each.kind),
    Fact("Images", lambda each: each.images, "count"),
)


def _compared(each: Distance) -> Distance | None:
    # zeros of the images that happen to have one shape would mislead
    return each if each.images and not each.shapes_alone else None


def _others(each: Distance) -> str:
    """Say how many images were compared; empty where all were."""
    if each.shape_mismatches:
        return few_compared(each.images, each.shape_mismatches)
    return "" if each.images else getattr(each, "reason", "") or "no image was compared"


_MEASURES: tuple[Fact[Distance], ...] = (
    Fact("Mean Δ", attrgetter("mean_abs"), "levels", 3, remark=_others),
    # none where no value is finite
    Fact("Max Δ", lambda each: None if each.mean_abs is None else each.max_abs, "levels", 1),
    Fact("Pixels differing", attrgetter("share_differing"), "share"),
)
APART: tuple[Fact[Distance], ...] = of_part(_MEASURES, _compared, _others)
"""How far images of two paths are apart, where their shapes are equal."""
_PSNR: Fact[Distance] = Fact("PSNR, dB", attrgetter("psnr"), "levels", 1, note=IDENTICAL)
_FURTHER: tuple[Fact[DistanceFacts], ...] = (
    _PSNR.of(_compared, _others),
    Fact("Identical", lambda each: f"{grouped(each.identical)} of {grouped(each.images)}", "count"),
)


def kind_table(dimension: str, kinds: Sequence[KindDrift], *, further: bool = True) -> Table:
    """Return how far images of each kind are apart, ``further`` with PSNR and equal images."""
    # columns of zeros say less than the caption
    decoded = any(each.decode.mean_abs != 0 or each.decode.shape_mismatches for each in kinds)
    title = _TITLES[dimension]
    measures: tuple[Fact[DistanceFacts], ...] = (*APART, *_FURTHER * further)
    columns: tuple[Fact[KindDrift], ...] = (
        # the caption has the unit, and a terminal no caption
        Fact(title if further else f"{title}, in levels", lambda each: each.kind),
        Fact("Images", lambda each: each.images, "count"),
        *of_part(measures * decoded, attrgetter("decode"), group="Decoded image"),
        *of_part(measures, attrgetter("last"), group="Model’s input"),
    )
    equal = "" if decoded else "; every image decodes to equal pixels"
    return Table.made(f"{title}: grey levels{equal}", columns, kinds)


def kinds_of(pair: PairDiff) -> dict[str, list[KindDrift]]:
    """Return the dimensions with two kinds or more, and subsampling."""
    found: dict[str, list[KindDrift]] = {}
    for each in pair.kinds:
        found.setdefault(each.dimension, []).append(each)
    # one kind alone has nothing to be compared with, but subsampling often is the cause
    return {name: kinds for name, kinds in found.items() if len(kinds) > 1 or name == SUBSAMPLING}


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
    candidates = listed([pair.candidate for pair in record.pairs])
    title = f"{record.paths[0].name} against {candidates}"
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


def _meta(record: DiffRecord, names: Names) -> Words:
    said = f"{images_words(record)} · {day(record.started)} UTC · {duration(record.seconds)}"
    coverage = coverage_words(record.coverage, record.coverage_diffs, names)
    return f"{said} · {coverage} · reference ", names.of(record.paths[0].name)


def _findings(record: DiffRecord, names: Names) -> Iterator[PagePart]:
    """Yield the sentence of each candidate, its causes, and whether it matters."""
    for pair in record.pairs:
        said = pair.sentence or f"skipped: {pair.reason}"
        yield Paragraph((names.of(pair.candidate), f": {said}."), "sentence")
        if lines := ending(pair):
            yield Lines([*map(sentence, lines)])
    if any(NO_MODEL in pair.matter for pair in record.pairs):
        yield Paragraph(f"Does it matter? {sentence(NO_MODEL)}")


def _model(record: DiffRecord, names: Names) -> Section | None:
    predicted = [pair for pair in record.pairs if pair.predictions]
    if record.model is None or not predicted:
        return None
    parts: list[PagePart] = [
        Paragraph(sentence(input_words(record.model, record.paths[0])), "lead")
    ]
    for pair in predicted:
        assert pair.predictions is not None
        said = prediction_lines(pair.predictions, record.model, record.task)
        parts += [
            against(names.of(pair.candidate), names.of(pair.reference)),
            Paragraph(sentence(pair.matter[0]), "lead"),
            Lines([sentence(each) for each in said]),
            *prediction_tables(pair.predictions, record.task),
        ]
    return Section("model", "A model's predictions", parts, nav="Model")


def _coverage(record: DiffRecord, names: Names) -> Section | None:
    found = coverage_tables(record.coverage, record.coverage_diffs, names)
    tables = [each for each in found if each.rows]
    if not tables:  # the facts of the verdict say that everything was decoded
        return None
    said = coverage_words(record.coverage, record.coverage_diffs, names)
    return Section("coverage", "Coverage", [Paragraph(said, "lead"), *tables])


def _stages_section(measured: Sequence[PairDiff], names: Names) -> Section:
    parts: list[PagePart] = [*_levels(measured, names)]
    for each in _stages(measured, names):
        parts += stage_parts(each, open=True)
    return Section("stages", "Which stage", parts or [Paragraph(sentence(NO_PIXELS))], nav="Stages")


def _kinds(record: DiffRecord, measured: Sequence[PairDiff], names: Names) -> Section:
    parts: list[PagePart] = []
    for pair in measured:
        if kinds := kinds_of(pair):
            tables = [kind_table(*each) for each in kinds.items()]
            parts.append(against(names.of(pair.candidate), names.of(pair.reference)))
            parts += [
                Details(each.caption, [each], open=not place) for place, each in enumerate(tables)
            ]
    parts.append(Details("Image counts", [Table.made(_KINDS, _CENSUS, record.census)]))
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


def _levels(pairs: Sequence[PairDiff], names: Names) -> list[Plot]:
    """Draw the mean |Δ| of each stage that differs, all candidates on one axis."""
    rows = []
    for pair in pairs:
        means = {
            (stage.stage, stage.mode): spread(stage.mean_abs)
            for stage in pair.stages
            # normalised units are no grey levels
            if stage.stage != "normalise" and not stage.shapes_alone and stage.mean_abs is not None
        }
        rows += [
            (f"{names.short(pair.candidate)}: {stage}", mean, means.get((stage, "cumulative")))
            for (stage, mode), mean in means.items()
            if mode == "isolated" and mean.value
        ]
    if len(rows) < 2:  # one stage of one path: its sentence says as much
        return []
    plot = dot_rows(
        rows,
        ("this stage alone, on the same input", "the path up to this stage"),
        joined=True,
        title="Mean difference of each stage that differs",
        x=Axis(name="mean |Δ| in grey levels of 255"),
        size="wide",
    )
    return [plot]


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


_CLASSES: tuple[Fact[ClassFlips], ...] = (
    Fact("Reference", attrgetter("before")),
    Fact("Candidate", attrgetter("after")),
    Fact("Images", attrgetter("images"), "count"),
)


def prediction_tables(drift: PredictionDrift, task: TaskFacts) -> list[Table]:
    """Return each stage alone, the classes that flip, and the images that move most."""
    classes = Table.made("Flips by class, the most frequent first", _CLASSES, drift.classes)
    found = [stages_alone(drift, task), classes, moved_table(drift, task)]
    return [each for each in found if each.rows]


def moved_table(drift: PredictionDrift, task: TaskFacts) -> Table:
    """Return the images that move most."""
    caption = "Images whose prediction changes, then those whose prediction moves most"
    if task.class_scores:
        caption = "Images whose class changes, then those that lose most of their margin"
    return Table.made(caption, moved_columns(task), drift.moved)


def stages_alone(drift: PredictionDrift, task: TaskFacts) -> Table:
    """Return the parts of the candidate, one at a time; of class scores their distance."""
    whole = StageFlips(
        factor="the whole path", flips=drift.flips, churn=drift.churn,
        mean_abs=drift.logits.mean_abs,
    )  # fmt: skip
    columns: tuple[Fact[StageFlips], ...] = (
        Fact("Stage", attrgetter("factor")),
        Fact("Predictions that change", attrgetter("flips"), "count"),
        Fact("Share", attrgetter("churn"), "share", 1),
        Fact(f"Mean |Δ {task.output}|", attrgetter("mean_abs"), "value", note=drift.logits.reason),
    )
    caption = "The reference path with one stage alone as in the candidate"
    shown = columns if task.class_scores else columns[:-1]
    return Table.made(caption, shown, [*drift.stages, whole] if drift.stages else [])
