"""The whole page of a run as its templates see it, and the figures of its head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from alignkit.compare.image_table import LAST
from alignkit.progress import duration
from alignkit.record import MatrixEntry, RunRecord
from alignkit.report.cause_view import advice_sections, attribution_sections
from alignkit.report.drawn_view import legend
from alignkit.report.engine_view import engines_table
from alignkit.report.entries_view import entries_table, entry_view, failures, per_seed_table
from alignkit.report.figures.figure_sections import figure_sections, leading_remarks
from alignkit.report.flipped_view import class_sections, flipped_sections
from alignkit.report.logits_view import (
    logits_legend,
    logits_table,
    moved_tables,
    numeric_table,
    quantised_table,
    sessions_table,
)
from alignkit.report.matrix_cells import EDGES
from alignkit.report.matrix_fold import AGREE
from alignkit.report.matrix_view import entry_id, interval_words, matrix_views, noise_floors
from alignkit.report.measures_view import meanings, measures_tables
from alignkit.report.run_view import (
    controls_table,
    coverage_tables,
    coverage_words,
    data_table,
    environment_tables,
    paths_table,
)
from alignkit.report.shown_view import changed_groups, other_groups
from alignkit.report.stage_view import (
    NO_PIXELS,
    StageSection,
    baseline_view,
    no_pixels,
    stage_sections,
)
from alignkit.report.training_data_view import mix_section, size_sections
from alignkit.report.training_view import training_sections, training_table
from alignkit.report.verdict_view import gate_view, verdict_view
from alignkit.text.names import Names, controls_words, quick_mark, quick_words, state_words
from alignkit.text.numbers import (
    DASH,
    count,
    grouped,
    listed,
    megabytes,
    percent,
    plain,
    significant,
    unsigned,
)
from alignkit.text.part_commands import image_command
from alignkit.text.task_words import TaskWords, capital, in_sentence, size_in, unlabelled

_CHURN = "Churn is the share of images whose {} against the baseline of the row."


def _units(words: TaskWords) -> str:
    """Name, for the legend of colours, the metrics whose changes are no percentage points."""
    others = [words.phrase(each) for each in words.task.matrices if not words.is_share(each)]
    return f"; of {listed(others)}, in percent of the baseline’s value" if others else ""


def _agree(words: TaskWords) -> str:
    """Return how near runtimes are that share a column, in points or as a part of a value."""
    others = any(not words.is_share(each) for each in words.task.matrices)
    return f"{unsigned(AGREE)}{f' or {percent(AGREE)} of the value' if others else ''}"


def page_view(record: RunRecord, *, single_file: bool = False) -> dict[str, Any]:
    """Return everything that templates read of a run, computed before the first of them runs.

    They read it by name; a name that is missing here is an error (`StrictUndefined`). A page that
    is a ``single_file`` repeats a picture wherever it shows it, so that it shows fewer.
    """
    names, words = Names(record.paths), TaskWords(record.task)
    verdict = verdict_view(record)
    stages = stage_sections(record.pixels, names, record.spatial)
    largest = other_groups(record, names, "pixels")
    pictures = {(each.reference.name, each.candidate.name): each.anchor for each in largest}
    return {
        "alignkit": record.alignkit,
        "name": record.name,
        "title": f"{verdict.icon.word}{quick_mark(record.quick)}: {record.name}",
        # to the second, without the zone: the page says UTC
        "started": record.started.replace("T", " ").split("+")[0].split(".")[0].rstrip("Z"),
        "duration": duration(record.seconds),
        "partial": record.partial,
        "quick": quick_words(record.quick),
        "quick_mark": quick_mark(record.quick),
        "verdict": verdict,
        "gate": gate_view(record.verdict, names, record.matrix, pictures),
        "question": record.question,
        "paths": [(names.of(path.name), bool(path.skipped)) for path in record.paths],
        "figures": key_figures(record, names, stages),
        "matrices": matrix_views(record, names),
        "edges": [f"{edge:g}" for edge in EDGES],
        "agree": _agree(words),
        "engines": engines_table(record, names),
        "logits": logits_table(record, names),
        "moved": moved_tables(record, names),
        "answers": figure_sections(record, names, single_file=single_file),
        "remarks": leading_remarks(record),
        "legend": logits_legend(words.task)
        if words.task.class_scores
        else _CHURN.format(words.answer_changed),
        "unlabelled": "" if record.labelled or not record.matrix else capital(unlabelled(words)),
        "measures": measures_tables(record, names),
        "meanings": meanings(record),
        "units": _units(words),
        "in_cells": listed([words.in_cell(each) for each in record.task.matrices]),
        "class_metrics": words.class_metrics,
        "entries": entries_table(record, names),
        "per_seed": per_seed_table(record, names),
        "numeric": numeric_table(record, names),
        "quantised": quantised_table(record, names),
        "sessions": sessions_table(record, names),
        "failures": failures(record, names),
        "causes": attribution_sections(record, names),
        "mix": mix_section(record, names),
        "sizes": size_sections(record, names),
        "stages": stages,
        "no_pixels": no_pixels(record),
        "flipped": flipped_sections(record, names),
        "advice": advice_sections(record, names),
        "baseline": baseline_view(record, names),
        "coverage": coverage_words(record.coverage, record.coverage_diffs, names),
        "coverage_tables": coverage_tables(record.coverage, record.coverage_diffs, names),
        "changed": changed_groups(record, names),
        "kept_bytes": megabytes(max((each.limit for each in record.shown_pairs), default=0)),
        "largest": largest,
        "random": other_groups(record, names, "random"),
        "turned": record.task.turned[0] if words.task.class_scores else "changed for the worse",
        "class_scores": record.task.class_scores,
        "outputs": record.task.outputs,
        "changes_if": "" if record.task.class_scores else in_sentence(record.task.changed),
        "draws": legend(record.shown),
        "classes": class_sections(record, names),
        "intervals": interval_words(record),
        "trainings": training_sections(record, names),
        "training_table": training_table(record, names),
        "controls": controls_table(record),
        "controls_words": f"{controls_words(record.controls)}.",
        "controls_passed": all(each.passed for each in record.controls),
        "paths_table": paths_table(record.paths, names),
        "data": data_table(record),
        "environment": environment_tables(record),
        "yaml": record.yaml,
        "overrides": record.overrides,
        "command": record.command,
        "image_command": _image_command(record),
    }


def _image_command(record: RunRecord) -> str:
    """Return the line that compares the first two paths on an image; empty without two paths."""
    pairs = [(each.reference, each.candidate) for each in record.pixels]
    return image_command(record.command, *pairs[0]).strip() if pairs else ""


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One number of the page's head."""

    name: str
    value: str
    detail: str
    link: str = ""


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
        view = entry_view(entry, names, TaskWords(record.task))
        return view.churn, view.flips

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
