"""The whole page of a run as its templates see it, beginning with the figures one reads first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alignkit.compare.image_table import LAST
from alignkit.progress import duration
from alignkit.record import RunRecord
from alignkit.report.cause_view import advice_sections, attribution_sections
from alignkit.report.engine_view import engines_table
from alignkit.report.entries_view import RECALL, entries_table, entry_view, failures, per_seed_table
from alignkit.report.flipped_view import class_sections, flipped_sections
from alignkit.report.logits_view import LEGEND, logits_table, moved_tables
from alignkit.report.matrix_view import EDGES, entry_id, interval_words, matrix_views, noise_floors
from alignkit.report.numeric_view import numeric_table, quantised_table, sessions_table
from alignkit.report.published_view import published_section
from alignkit.report.run_view import (
    controls_table,
    coverage_tables,
    coverage_words,
    data_table,
    environment_tables,
    paths_table,
)
from alignkit.report.stage_view import (
    NO_PIXELS,
    StageSection,
    baseline_view,
    no_pixels,
    stage_sections,
)
from alignkit.report.training_data_view import mix_section, size_sections
from alignkit.report.training_view import training_sections, training_table
from alignkit.report.verdict_view import verdict_view
from alignkit.report.worst_view import worst_groups
from alignkit.samples import UNLABELLED
from alignkit.text.names import Names, quick_mark, quick_words, state_words
from alignkit.text.numbers import (
    DASH,
    count,
    grouped,
    interval,
    listed,
    plain,
    points,
    significant,
    unsigned,
)


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One number of the page's head."""

    name: str
    value: str
    detail: str
    link: str = ""


def page_view(record: RunRecord) -> dict[str, Any]:
    """Return everything that templates read of a run, computed before the first of them runs.

    They read it by name; a name that is missing here is an error (`StrictUndefined`).
    """
    names = Names(record.paths)
    verdict = verdict_view(record.verdict, names)
    stages = stage_sections(record.pixels, names)
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
        "question": record.question,
        "paths": [(names.of(path.name), bool(path.skipped)) for path in record.paths],
        "figures": key_figures(record, names, stages),
        "matrices": matrix_views(record, names),
        "edges": EDGES,
        "engines": engines_table(record, names),
        "logits": logits_table(record, names),
        "moved": moved_tables(record, names),
        "legend": LEGEND,
        "unlabelled": "" if record.labelled or not record.matrix else UNLABELLED.capitalize(),
        "entries": entries_table(record, names),
        "per_seed": per_seed_table(record, names),
        "numeric": numeric_table(record, names),
        "quantised": quantised_table(record, names),
        "sessions": sessions_table(record, names),
        "failures": failures(record, names),
        "causes": attribution_sections(record, names),
        "mix": mix_section(record, names),
        "published": published_section(record, names),
        "sizes": size_sections(record, names),
        "stages": stages,
        "no_pixels": no_pixels(record),
        "flipped": flipped_sections(record, names),
        "advice": advice_sections(record, names),
        "baseline": baseline_view(record, names),
        "coverage": coverage_words(record.coverage, record.coverage_diffs, names),
        "coverage_tables": coverage_tables(record.coverage, record.coverage_diffs, names),
        "worst": worst_groups(record.worst, names, record.command),
        "classes": class_sections(record, names),
        "intervals": interval_words(record),
        "trainings": training_sections(record, names),
        "training_table": training_table(record, names),
        "controls": controls_table(record),
        "paths_table": paths_table(record.paths, names),
        "data": data_table(record),
        "environment": environment_tables(record),
        "yaml": record.yaml,
        "overrides": record.overrides,
        "command": record.command,
    }


def key_figures(
    record: RunRecord, names: Names, stages: tuple[StageSection, ...]
) -> tuple[KeyFigure, ...]:
    """Return the figures of the page's head; those of pixels alone for a run without a model."""
    if not record.matrix:
        return _images(record), _start(stages), _largest_difference(record, names)
    return (
        *([_largest_recall_change(record, names)] if record.labelled else []),
        _largest_churn(record, names),
        _resolution(record) if record.labelled else _largest_logit(record, names),
        _start(stages),
        _cells(record),
    )


def _largest_recall_change(record: RunRecord, names: Names) -> KeyFigure:
    name = "Largest change of macro recall"
    # of equal changes the first entry: its negative index is the greatest
    found = [
        (abs(change.value), -index, change)
        for index, entry in enumerate(record.matrix)
        if entry.drift and (change := entry.drift.metrics.get(RECALL))
        if change.value is not None
    ]
    if not found:
        return KeyFigure(name, DASH, "nothing was compared")
    _, index, change = max(found, key=lambda each: each[:2])
    assert change.value is not None
    detail = f"{interval(change)} · {names.title(record.matrix[-index])}"
    return KeyFigure(name, f"{points(change.value)} pp", detail, link=entry_id(-index))


def _largest_churn(record: RunRecord, names: Names) -> KeyFigure:
    name = "Most predictions changed"
    found = [
        (entry.drift.churn.value, -index)
        for index, entry in enumerate(record.matrix)
        if entry.drift and entry.drift.churn.value is not None
    ]
    if not found:
        return KeyFigure(name, DASH, "nothing was compared")
    index = -max(found)[1]
    entry = record.matrix[index]
    view = entry_view(entry, names)
    return KeyFigure(name, view.churn, f"{view.flips} · {names.title(entry)}", link=entry_id(index))


def _largest_logit(record: RunRecord, names: Names) -> KeyFigure:
    name = "Greatest change of a logit"
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
    name = "Detectable change of top-1"
    drifts = [entry.drift for entry in record.matrix if entry.drift]
    limits = [drift.detectable for drift in drifts if drift.detectable is not None]
    floors = noise_floors(record).values()
    noise = (
        f"noise floor of macro recall over seeds up to {unsigned(max(floors))}"
        if floors
        else "one seed only: no noise floor"
    )
    if not limits:
        return KeyFigure(name, DASH, noise)
    return KeyFigure(name, unsigned(*limits), f"80 % power, 5 % level · {noise}", link="matrix")


def _start(stages: tuple[StageSection, ...]) -> KeyFigure:
    name = "Where drift starts"
    if not stages:
        return KeyFigure(name, DASH, NO_PIXELS)
    firsts = list(dict.fromkeys(section.first or "nowhere" for section in stages))
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
