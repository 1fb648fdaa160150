"""The page of a run: its verdict with the figures of its head, and its sections in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alignkit.compare.image_table import LAST
from alignkit.progress import duration
from alignkit.record import RuleOutcome, RunRecord
from alignkit.report.cause_view import advice_section, cause_parts
from alignkit.report.distribution_view import distribution_parts
from alignkit.report.figure_sections import answers_section, leading_remarks
from alignkit.report.flipped_view import classes_section, kinds_section
from alignkit.report.matrix_section import matrix_section
from alignkit.report.matrix_words import entry_id, flips_words, interval_words, noise_floors
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
from alignkit.report.training_view import mix_section, sizes_section, training_section
from alignkit.report.verdict_view import (
    ICONS,
    favicon,
    rules_tables,
    shown_icon,
    tally,
)
from alignkit.report.viewer_data import has_list
from alignkit.text.names import Names, quick_mark, quick_words, state_words
from alignkit.text.numbers import DASH, count, grouped, listed, percent, plain
from alignkit.text.run_columns import UNMEASURED
from alignkit.text.task_words import TaskWords, size_in
from alignkit.text.verdict import report_only, verdict_words

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
    names, intervals = Names(record.paths), interval_words(record.trainings)
    icon = shown_icon(record.verdict)
    stages = stage_sections(record.pixels, names, record.spatial)
    shown = len({(each.reference, each.candidate, each.id) for each in record.shown})
    omitted = ""
    if shown < stored:
        omitted = f"This form of the report shows {shown or 'none'} of the {stored} stored images."
    changed = changed_section(record, names, omitted, listed=viewer and has_list(record))
    gate = _gate(record, names, viewer=viewer)
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
    return Page(
        f"{icon.word}{quick_mark(record.quick)}: {record.name} · alignkit",
        record.name,
        record.alignkit,
        PageVerdict(
            (icon, quick_mark(record.quick)) if record.quick else (icon,),
            _verdict_parts(record),
            _meta(record, names),
            [names.of(each.name) for each in record.paths],
            icon.state,
            record.question,
            key_figures(record, names, stages),
        ),
        [each for each in sections if each],
        _footer(record, away=away, single_file=single_file),
        favicon(ICONS[record.verdict.state]),
        viewer,
    )


def _verdict_parts(record: RunRecord) -> list[PagePart]:
    verdict, said = record.verdict, verdict_words(record.verdict, record)
    terms = [Term("Cause", said.cause)] if said.cause else []
    terms += [Term(each.lead, each.words, each.mark, each.given) for each in said.steps]
    if remarks := leading_remarks(record):
        terms.append(Term("Advice", " ".join(remarks)))
    ended = f"The command ends with exit code {verdict.exit_code}." * bool(verdict.exit_code)
    if report_only(verdict):
        ended = "Report only: the file's gate is informational, so that no command fails."
    parts: list[PagePart] = [Paragraph(said.sentence, "sentence")]
    parts += [Terms(terms)] if terms else []
    parts.append(Paragraph(f"{tally(verdict)} {ended}".rstrip(), "remark"))
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


def _gate(record: RunRecord, names: Names, *, viewer: bool) -> Section:
    """Return the rules of a run; those that passed are folded."""
    places = {each.place: index for index, each in enumerate(record.matrix) if each.drift}
    pictures = group_ids(record)

    def link(rule: RuleOutcome) -> str:
        # without a viewer, or of pixels alone, to the pictures of its pair
        if viewer and rule.place in places and rule.state not in ("pass", "error"):
            return f"#/images?cell={places[rule.place]}&q=flip%3Ayes"
        anchor = pictures.get((rule.trained_with, rule.evaluated_with), "")
        return f"#{anchor}" if anchor and rule.state == "fail" and not rule.backend else ""

    open_rules, passed = rules_tables(record.verdict, names, link)
    parts: list[PagePart] = [Paragraph(tally(record.verdict), "lead")]
    parts += [open_rules] if open_rules else []
    if passed:
        parts.append(Details(f"{passed.caption} ({len(passed.rows)})", [passed]))
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


def key_figures(record: RunRecord, names: Names, stages: Sequence[StageSection]) -> list[KeyFigure]:
    """Return the figures of the page's head; those of pixels alone for a run without a model."""
    start = _start(record, names, stages)
    if not record.matrix:
        compared = max((stage.images for stage in record.pixels), default=0)
        images = f"of {count(record.data.eval, 'image')}"
        return [
            KeyFigure("Images compared", grouped(compared), images, "stages"),
            start,
            _largest_difference(record, names),
        ]
    states = [entry.state for entry in record.matrix]
    beside = ("simulated", "built", "skipped", "failed")
    others = [f"{states.count(each)} {state_words(each)}" for each in beside if each in states]
    measured = f"{states.count('measured')} of {len(states)}"
    return [
        *_changes(record, names),
        *([_resolution(record)] if record.labelled else []),
        start,
        KeyFigure("Matrix cells measured", measured, ", ".join(others) or "all measured", "matrix"),
    ]


def _changes(record: RunRecord, names: Names) -> list[KeyFigure]:
    """Return what changes in the entry that the verdict speaks of, else in that of most churn."""
    words = TaskWords(record.task)
    metric, changed = words.headline, f"Images whose {words.answer_changed}"
    if record.task.class_scores:  # one image has many boxes, and one prediction
        changed = "Predictions that changed"
    of_metric = [f"Change of {words.phrase(metric)}"] * record.labelled
    # the verdict may speak of a cell that did not run
    churns = {i: each.churn for i, each in enumerate(record.matrix) if each.drift}
    index = record.headline
    if index not in churns:
        index = max(churns, key=lambda each: churns[each], default=None)
    if index is None:
        none = "nothing was compared"
        return [KeyFigure(name, DASH, none) for name in (*of_metric, changed)]
    entry = record.matrix[index]
    drift = entry.drift
    assert drift is not None
    change = drift.metrics.get(metric, UNMEASURED)
    size = DASH
    if change.value is not None:
        size = words.change(metric, change.value, change) + words.change_unit(metric)
    figures = [(name, size, words.interval(metric, change)) for name in of_metric]
    churn = DASH if drift.churn.value is None else percent(drift.churn.value, 2)
    figures.append((changed, churn, flips_words(drift, words) or drift.churn.reason))
    return [
        KeyFigure(name, value, f"{more} · {names.title(entry)}", entry_id(index))
        for name, value, more in figures
    ]


def _resolution(record: RunRecord) -> KeyFigure:
    words, task = TaskWords(record.task), record.task
    metric = words.headline
    drifts = [entry.drift for entry in record.matrix if entry.drift]
    limits = [drift.detectable for drift in drifts if drift.detectable is not None]
    floors = [each[metric] for each in noise_floors(record.noise_floor).values() if metric in each]
    noise = "one seed: the effect of retraining is unknown"
    if floors:
        size = words.size(metric, max(floors))
        noise = f"retraining alone moves {words.phrase(metric)} by up to {size}"
    # in the entry that needs most: any other one sees as much
    least = size_in(task.rated_unit, max(limits)) if limits else DASH
    rated = f"quality ({task.quality})" if task.rated == "quality" else task.rated
    detail = f"of {rated}, with 80 % power in every cell · {noise}"
    return KeyFigure("Smallest change this run could have seen", least, detail, "matrix")


def _start(record: RunRecord, names: Names, stages: Sequence[StageSection]) -> KeyFigure:
    """Name the stage in which the pixels of the verdict's pair begin to differ, and of each."""
    name = "Where drift starts"
    if not stages:
        return KeyFigure(name, DASH, NO_PIXELS)
    first = record.verdict.first
    served = names.of(first.evaluated_with) if first else None
    own = [each for each in stages if each.candidate == served] or stages
    firsts = list(dict.fromkeys(each.first for each in own if each.first)) or ["nowhere"]
    details = []
    for each in stages:
        largest = f", largest at {each.largest}" if each.largest not in ("", each.first) else ""
        details.append(f"{each.candidate.short}: {each.first or 'no stage differs'}{largest}")
    return KeyFigure(name, listed(firsts), " · ".join(details), "stages")


def _largest_difference(record: RunRecord, names: Names) -> KeyFigure:
    name = "Largest mean difference of pixels"
    # of the last pixels: those that a model would see
    found = [
        (stage.mean_abs, names.short(stage.candidate))
        for stage in record.pixels
        if stage.mode == "cumulative" and stage.stage == LAST and stage.mean_abs is not None
    ]
    if not found:
        return KeyFigure(name, DASH, NO_PIXELS)
    mean, candidate = max(found)
    return KeyFigure(name, plain(mean, 2), f"grey levels of 255 · {candidate}", "stages")
