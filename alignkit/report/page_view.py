"""The page of a run: its verdict with the figures of its head, and its sections in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from alignkit.compare.image_table import LAST
from alignkit.progress import duration
from alignkit.record import MatrixEntry, RunRecord
from alignkit.report.cause_view import advice_section, cause_parts
from alignkit.report.distribution_view import distribution_parts
from alignkit.report.entries_view import churn_words, flips_words
from alignkit.report.figure_sections import answers_section, leading_remarks
from alignkit.report.flipped_view import classes_section, kinds_section
from alignkit.report.matrix_section import matrix_section
from alignkit.report.matrix_view import entry_id, interval_words, noise_floors
from alignkit.report.page import (
    Details,
    Graphic,
    KeyFigure,
    Link,
    Page,
    PagePart,
    PageVerdict,
    Paragraph,
    Piece,
    Section,
    Strong,
    Term,
    Terms,
    Words,
    day,
    sentence,
    written_by,
)
from alignkit.report.run_view import controls_section, coverage_parts, provenance_section
from alignkit.report.shown_view import changed_section, group_ids, pixels_section
from alignkit.report.stage_view import (
    NO_PIXELS,
    StageSection,
    baseline_parts,
    no_pixels,
    stage_parts,
    stage_sections,
)
from alignkit.report.training_data_view import mix_section, sizes_section
from alignkit.report.training_view import training_section
from alignkit.report.verdict_view import VerdictView, gate_view, groups_table, verdict_view
from alignkit.report.viewer_data import has_list
from alignkit.text.names import Names, quick_mark, quick_words, state_words
from alignkit.text.numbers import (
    DASH,
    count,
    grouped,
    listed,
    plain,
    significant,
)
from alignkit.text.task_words import TaskWords, size_in

SUMMARY = (
    "matrix", "answers", "gate", "stages", "advice", "kinds", "mix", "sizes", "controls",
    "provenance",
)  # fmt: skip
"""Sections of ``summary.md``."""


def run_page(
    record: RunRecord, folder: Path, *, stored: int, viewer: bool, away: bool, single_file: bool
) -> Page:
    """Return the page of a run in ``folder``, of whose ``stored`` images ``record`` shows some.

    ``away`` from its folder it names no record; a page that is a ``single_file`` repeats a picture
    wherever it shows it, so that it shows fewer. Raises `RecordError` if a file that the record
    names is missing.
    """
    names, intervals = Names(record.paths), interval_words(record)
    verdict = verdict_view(record)
    stages = stage_sections(record.pixels, names, record.spatial)
    shown = len({(each.reference, each.candidate, each.id) for each in record.shown})
    omitted = ""
    if shown < stored:
        omitted = f"This form of the report shows {shown or 'none'} of the {stored} stored images."
    changed = changed_section(record, names, omitted, listed=viewer and has_list(record))
    gate = _gate(record, names, verdict)
    # in this order, a section that a run has nothing of is None
    sections: list[Section | None] = [
        matrix_section(record, names, intervals) if record.matrix else gate,
        answers_section(record, names, single_file=single_file),
        changed,
        _stages(record, names, stages),
        advice_section(record, names),
        classes_section(record, names, folder, viewer=viewer),
        kinds_section(record, names, distribution_parts(record, names, folder, has_viewer=viewer)),
        mix_section(record, names, intervals),
        sizes_section(record, names, intervals),
        pixels_section(record, names, "" if changed else omitted),
        _listed(record, away=away) if viewer and has_list(record) else None,
        gate if record.matrix else None,
        controls_section(record),
        training_section(record, names) if record.matrix or record.trainings else None,
        provenance_section(record, names, viewer=viewer),
    ]
    icon = verdict.icon
    return Page(
        f"{icon.word}{quick_mark(record.quick)}: {record.name} · alignkit",
        record.name,
        record.alignkit,
        PageVerdict(
            (icon, quick_mark(record.quick)) if record.quick else (icon,),
            [*_verdict_parts(record, verdict)],
            _meta(record, names),
            [names.of(each.name) for each in record.paths],
            icon.state,
            record.question,
            key_figures(record, names, stages),
        ),
        [each for each in sections if each],
        _footer(record, away=away, single_file=single_file),
        verdict.favicon,
        viewer,
    )


def _verdict_parts(record: RunRecord, verdict: VerdictView) -> list[PagePart]:
    said = verdict.said
    terms = [Term("Cause", said.cause)] if said.cause else []
    terms += [Term(each.lead, each.words, each.mark, each.given) for each in said.steps]
    if remarks := leading_remarks(record):
        terms.append(Term("Advice", " ".join(remarks)))
    parts: list[PagePart] = [Paragraph(said.sentence, "sentence")]
    parts += [Terms(terms)] if terms else []
    parts.append(Paragraph(f"{verdict.tally} {verdict.remark}".rstrip(), "remark"))
    if quick := quick_words(record.quick):
        parts.append(Paragraph(quick, "alert"))
    if record.partial:
        again = " Some cells did not run; run the same command again to continue."
        parts.append(Paragraph((Strong("Interrupted."), again), "alert"))
    return parts


def _meta(record: RunRecord, names: Names) -> Words:
    seeds = len({each.seed for each in record.trainings})
    sample = count(record.data.eval, "evaluation image") + f", {count(seeds, 'seed')}" * bool(seeds)
    took = f"{day(record.started)} UTC · {duration(record.seconds)}"
    pieces: list[Piece] = [f"{took} · {sample} · paths: "]
    for place, path in enumerate(record.paths):
        said = " (reference)" if not place else ""
        said += " (not run)" if path.skipped else ""
        pieces += [names.of(path.name), said, ", "]
    return pieces[:-1]


def _footer(record: RunRecord, *, away: bool, single_file: bool) -> Words:
    version = f"Written by alignkit {record.alignkit}"
    if single_file:
        return (
            f"{version} as one file; the run’s folder also contains a viewer, the numbers of every "
            "image and results.json."
        )
    forms: list[Piece] = [
        "; for programs: ", Link("results.json", "results.json"),
        "; short version: ", Link("summary.md", "summary.md"),
    ]  # fmt: skip
    if away:
        return [version, *forms, ". The record and the arrays are in the run’s folder."]
    return written_by(record.alignkit, "record.json", *forms)


def _gate(record: RunRecord, names: Names, verdict: VerdictView) -> Section:
    """Return the rules of a run; those that passed are folded."""
    view = gate_view(record.verdict, names, record.matrix, group_ids(record))
    parts: list[PagePart] = [Paragraph(verdict.tally, "lead")]
    if view.open:
        title = "Rules that did not pass"
        table = groups_table(title, view.open, view.heads)
        shown = (title, view.open, view.heads)
        parts.append(Graphic("rules", shown, [table] if table else []))
    if view.passed:
        passed = Graphic("rules", ("Rules that passed", view.passed, view.heads))
        parts.append(Details(f"Rules that passed ({len(view.passed)})", [passed]))
    return Section("gate", "Gate", parts)


def _stages(record: RunRecord, names: Names, stages: Sequence[StageSection]) -> Section:
    parts: list[PagePart] = [*coverage_parts(record, names), *cause_parts(record, names)]
    parts += baseline_parts(record, names)
    # beside a matrix the numbers of the stages are folded
    parts += [part for each in stages for part in stage_parts(each, open=not record.matrix)]
    parts += [] if stages else [Paragraph(sentence(no_pixels(record)))]
    return Section("stages", "Which stage", parts, nav="Stages")


def _listed(record: RunRecord, *, away: bool) -> Section:
    moved = "flipped" if record.task.class_scores else "changed"
    lead = (
        "One row an image; its name opens it, with its pixels where they were kept, else with its "
        "numbers and the command that compares it. The arrow unfolds its other cells. A cell of "
        f"the matrix links to the images that {moved} in it."
    )
    where = "in the run’s folder" if away else "next to this page"
    return Section("images", "Images", [Paragraph(lead, "lead"), Graphic("image_list", where)])


def key_figures(
    record: RunRecord, names: Names, stages: tuple[StageSection, ...]
) -> tuple[KeyFigure, ...]:
    """Return the figures of the page's head; those of pixels alone for a run without a model."""
    if not record.matrix:
        return _images(record), _start(record, names, stages), _largest_difference(record, names)
    return (
        *([_change_of_headline(record, names)] if record.labelled else []),
        _churn(record, names),
        *_limits(record, names),
        _start(record, names, stages),
        _cells(record),
    )


def _change_of_headline(record: RunRecord, names: Names) -> KeyFigure:
    words = TaskWords(record.task)
    metric = words.headline

    def value(entry: MatrixEntry) -> float | None:
        return entry.drift.metrics[metric].value if entry.drift else None

    def shown(entry: MatrixEntry, size: float) -> tuple[str, str]:
        assert entry.drift is not None
        estimate = entry.drift.metrics[metric]
        change = words.change(metric, size, estimate) + words.change_unit(metric)
        return change, words.interval(metric, estimate)

    return _figure(f"Change of {words.phrase(metric)}", record, names, value, shown)


def _limits(record: RunRecord, names: Names) -> list[KeyFigure]:
    if record.labelled:
        return [_resolution(record)]
    if not record.task.class_scores:
        return []
    return [_largest_logit(record, names)]


def _churn(record: RunRecord, names: Names) -> KeyFigure:
    def value(entry: MatrixEntry) -> float | None:
        return entry.drift.churn.value if entry.drift else None

    def shown(entry: MatrixEntry, _: float) -> tuple[str, str]:
        return churn_words(entry), flips_words(entry, words)

    words = TaskWords(record.task)
    of_classes = record.task.class_scores
    name = "Predictions that changed" if of_classes else f"Images whose {words.answer_changed}"
    return _figure(name, record, names, value, shown)


def _figure(
    name: str,
    record: RunRecord,
    names: Names,
    value: Callable[[MatrixEntry], float | None],
    shown: Callable[[MatrixEntry, float], tuple[str, str]],
) -> KeyFigure:
    """Return a value of the entry that the verdict speaks of, and the largest if it is another."""
    known = {i: size for i, e in enumerate(record.matrix) if (size := value(e)) is not None}
    if not known:
        return KeyFigure(name, DASH, "nothing was compared")
    largest = max(known, key=lambda index: abs(known[index]))  # of equal ones the first
    own = record.headline
    index = own if own in known else largest
    assert index is not None
    text, more = shown(record.matrix[index], known[index])
    parts = [more, names.title(record.matrix[index])]
    greatest = shown(record.matrix[largest], known[largest])[0]
    if greatest != text:
        parts.append(f"largest: {greatest}, {names.title(record.matrix[largest])}")
    return KeyFigure(name, text, " · ".join(parts), link=entry_id(index))


def _largest_logit(record: RunRecord, names: Names) -> KeyFigure:
    name = f"Greatest change of a {record.task.output}"
    found = [
        (entry.drift.logits.max_abs, -index)
        for index, entry in enumerate(record.matrix)
        if entry.drift and entry.drift.logits.max_abs is not None
    ]
    if not found:
        return KeyFigure(name, DASH, "nothing was compared")
    most, index = max(found)
    entry = record.matrix[-index]
    margins = entry.drift.margins if entry.drift else None
    known = margins is not None and margins.p50 is not None  # else nothing is counted
    halved = count(margins.halved, "image") if margins and known else f"{DASH} images"
    detail = f"{halved} lost half of the margin · {names.title(entry)}"
    return KeyFigure(name, significant(most), detail, link=entry_id(-index))


def _resolution(record: RunRecord) -> KeyFigure:
    name = "Smallest change this run could have seen"
    drifts = [entry.drift for entry in record.matrix if entry.drift]
    limits = [drift.detectable for drift in drifts if drift.detectable is not None]
    floors, words = noise_floors(record).values(), TaskWords(record.task)
    metric = words.headline
    noise = (
        f"retraining alone moves {words.phrase(metric)} by up to {words.size(metric, max(floors))}"
        if floors
        else "one seed: the effect of retraining is unknown"
    )
    if not limits:
        return KeyFigure(name, DASH, noise)
    # in the entry that needs most: any other one sees as much
    task = record.task
    rated = f"quality ({task.quality})" if task.rated == "quality" else task.rated
    detail = f"of {rated}, with 80 % power in every cell · {noise}"
    return KeyFigure(name, size_in(record.task.rated_unit, max(limits)), detail, link="matrix")


def _start(record: RunRecord, names: Names, stages: tuple[StageSection, ...]) -> KeyFigure:
    """Name the stage in which the pixels of the verdict's pair begin to differ, and of each."""
    name = "Where drift starts"
    if not stages:
        return KeyFigure(name, DASH, NO_PIXELS)
    first = record.verdict.first
    served = names.of(first.evaluated_with) if first else None
    own = [each for each in stages if each.candidate == served] or stages
    firsts = list(dict.fromkeys(each.first for each in own if each.first)) or ["nowhere"]
    details = [f"{section.candidate.short}: {_course(section)}" for section in stages]
    return KeyFigure(name, listed(firsts), " · ".join(details), link="stages")


def _course(section: StageSection) -> str:
    if not section.first:
        return "no stage differs"
    if section.largest in ("", section.first):
        return section.first
    return f"{section.first}, largest at {section.largest}"


def _images(record: RunRecord) -> KeyFigure:
    compared = max((stage.images for stage in record.pixels), default=0)
    detail = f"of {count(record.data.eval, 'image')}"
    return KeyFigure("Images compared", grouped(compared), detail, link="stages")


def _largest_difference(record: RunRecord, names: Names) -> KeyFigure:
    name = "Largest mean difference of pixels"
    found = [
        (stage.mean_abs, names.short(stage.candidate))
        for stage in record.pixels
        if stage.mode == "cumulative" and stage.stage == LAST and stage.mean_abs is not None
    ]
    if not found:
        return KeyFigure(name, DASH, NO_PIXELS)
    # the last pixels: those that a model would see
    mean, candidate = max(found)
    return KeyFigure(name, plain(mean, 2), f"grey levels of 255 · {candidate}", link="stages")


def _cells(record: RunRecord) -> KeyFigure:
    states = [entry.state for entry in record.matrix]
    states_beside = ("simulated", "built", "skipped", "failed")
    others = [f"{states.count(s)} {state_words(s)}" for s in states_beside if s in states]
    seeds = len({training.seed for training in record.trainings})
    sample = f"{count(record.data.eval, 'image')}, {count(seeds, 'seed')}"
    detail = f"{', '.join(others) or 'all measured'} · {sample}"
    value = f"{states.count('measured')} of {len(states)}"
    return KeyFigure("Matrix cells measured", value, detail, link="matrix")
