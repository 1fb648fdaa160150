"""View of a run in short: Markdown for pull requests and agents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from alignkit.judge.measured_models import of_first_models
from alignkit.record import FlippedFacts, PixelStage, RunRecord
from alignkit.report.cause_view import advice_sentence
from alignkit.report.entries_view import (
    endings_table,
    meanings,
    measures_tables,
    short_columns,
)
from alignkit.report.figure_sections import (
    entries_with_facts,
    fact_table,
    leading_remarks,
)
from alignkit.report.flipped_view import flipped_sentences
from alignkit.report.logits_view import (
    engines_table,
    logits_legend,
    moved_tables,
    quantised_table,
    unlabelled_columns,
)
from alignkit.report.matrix_view import (
    interval_words,
    noise_floors,
    significance,
    simulations,
    warnings,
)
from alignkit.report.run_view import controls_table, coverage_words
from alignkit.report.stage_view import no_pixels, stage_columns, stage_sections
from alignkit.report.table import Table
from alignkit.report.training_data_view import across_paths, mix_sentences, size_sentence
from alignkit.report.verdict_view import gate_view, groups_table, verdict_view
from alignkit.text.column import Column
from alignkit.text.engine_words import BUILT_WORDS
from alignkit.text.names import Names, quick_mark, quick_words
from alignkit.text.numbers import count
from alignkit.text.run_columns import place_columns
from alignkit.text.task_words import TaskWords, capital, unlabelled
from alignkit.text.where_words import mechanism_sentences

MOST_ROWS = 100
"""Rows of one table: a pull request comment holds 65,536 characters."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with words, a table or both."""

    title: str
    words: str = ""
    table: Table | None = None
    omitted: str = ""


def summary_view(record: RunRecord) -> dict[str, Any]:
    """Return everything that the template of the Markdown summary reads."""
    names = Names(record.paths)
    verdict = verdict_view(record.verdict)
    seeds = len({training.seed for training in record.trainings})
    sample = count(record.data.eval, "evaluation image")
    if seeds:
        sample += f", {count(seeds, 'seed')}"
    known = [names.of(path.name) for path in record.paths]
    return {
        "alignkit": record.alignkit,
        "name": record.name,
        "verdict": verdict,
        "remarks": leading_remarks(record),
        "partial": record.partial,
        "quick": quick_words(record.quick),
        "quick_mark": quick_mark(record.quick),
        "question": record.question,
        "sample": f"{record.data.name}: {sample}.",
        "surrogates": [f"{path.name} is a {path.evidence}." for path in known if path.note],
        "sections": list(_sections(record, names)),
        "command": record.command,
    }


def _sections(record: RunRecord, names: Names) -> Iterator[Section]:
    yield from _entries(record, names)
    if divided := quantised_table(record.matrix, names, record.task):
        yield Section("int8: quantisation and kernels", f"{divided.caption}.", divided)
    if record.mixes:
        yield Section("Training on a mix of paths", " ".join(mix_sentences(record, names)))
    if sizes := [
        size_sentence(curve, names, TaskWords(record.task))
        for curve in across_paths(record, "churn")
    ]:
        yield Section("Drift and the size of the training set", " ".join(sizes))
    if record.verdict.rules:
        yield _rules(record, names)
    yield _stages(record, names)
    if record.flipped:
        yield _flipped(record, names)
    if record.advice:
        yield Section("Recommended change", " ".join(map(advice_sentence, record.advice)))
    yield Section("Coverage", coverage_words(record.coverage, record.coverage_diffs, names))
    yield _controls(record)


def _entries(record: RunRecord, names: Names) -> Iterator[Section]:
    words = TaskWords(record.task)
    if (ended := endings_table(record.matrix, names)) is not None:
        yield Section(ended.caption, "Each reason once, and the models it hit.", ended)
    if record.matrix:
        yield matrix_section(record, names)
    for place, measured in enumerate(measures_tables(record.matrix, names, words)):
        said = "" if place else " ".join(meanings(record.task))
        yield Section("Differences of the answers" + ", more" * (place > 0), said, measured)
    yield from _facts(record, names)
    for moved in moved_tables(record, names)[:1]:
        yield Section(moved.caption, "", moved)
    if (table := engines_table(record.cells, names)) is not None:
        yield Section("Engines that were built and not run", BUILT_WORDS, table)


def _facts(record: RunRecord, names: Names) -> Iterator[Section]:
    """Yield the tables that the task gives of the comparison which comes first."""
    for entry in [record.matrix[index] for index in entries_with_facts(record)[:1]]:
        for each in entry.drift.tables if entry.drift else ():
            yield Section(each.title, f"{names.title(entry)}. {each.note}", fact_table(each))


def _section(title: str, words: str, table: Table | None) -> Section:
    if table is None or not table.rows:
        return Section(title, words)
    # the page has every row
    return Section(title, words, *table.first(MOST_ROWS, " in index.html"))


def matrix_section(record: RunRecord, names: Names) -> Section:
    """Return a row for each entry of the drift matrix, under its legend."""
    words, scores = TaskWords(record.task), record.task.class_scores
    if record.labelled:
        said, columns = list(_legend(record, names)), short_columns(words, names)
    else:
        said = [f"{capital(unlabelled(words))}.", *([logits_legend(record.task)] if scores else [])]
        columns = (*place_columns(names), *unlabelled_columns(words))
    said += [f"{each}." for each in (*simulations(record.matrix), *warnings(record.matrix))]
    return _section("Drift matrix", " ".join(said), Table.made("", columns, record.matrix))


def _legend(record: RunRecord, names: Names) -> Iterator[str]:
    words = TaskWords(record.task)
    metric = words.phrase(words.headline)
    yield (
        f"Change of {metric} against the baseline of the row (served as trained), "
        f"{'in percentage points, ' if words.is_share(words.headline) else ''}with its 95 % "
        f"interval; {words.sides}."
    )
    yield interval_words(record)
    floors = [
        f"{names.short(row)} {words.size(words.headline, floor)}"
        for row, floor in noise_floors(record).items()
    ]
    if floors:
        yield f"Retraining with another seed changes {metric} by up to: {', '.join(floors)}."
    if tested := significance(record.matrix, words, words.headline):
        yield tested


def _rules(record: RunRecord, names: Names) -> Section:
    view = gate_view(record.verdict, names)
    title = "Rules that did not pass"
    table = groups_table(title, view.open, view.heads)
    return _section(title, "" if table else "Every rule passed.", table)


def _stages(record: RunRecord, names: Names) -> Section:
    words = " ".join(
        f"{section.candidate.short} against {section.reference.short}: {section.words}"
        for section in stage_sections(record.pixels, names)
    )
    # after a pair's first and largest stage: why, where the pixels show it
    words += "".join(f" At {each}." for each in mechanism_sentences(record.spatial, names.short))
    largest, mean, _, share, *_ = stage_columns()
    columns: tuple[Column[PixelStage], ...] = (
        Column("Paths", lambda s: f"{names.short(s.candidate)} against {names.short(s.reference)}"),
        Column("Stage (isolated)", lambda stage: stage.stage),
        replace(largest, head="Max"),
        replace(mean, head="Mean"),
        share,
    )
    differing = [
        stage
        for stage in record.pixels
        if stage.mode == "isolated" and stage.max_abs and stage.mean_abs is not None
    ]
    none = f"{no_pixels(record).capitalize()}."
    return _section("Which stage", words or none, Table.made("", columns, differing))


def _flipped(record: RunRecord, names: Names) -> Section:
    task = TaskWords(record.task)
    columns: tuple[Column[FlippedFacts], ...] = (
        Column("Served with", lambda each: names.short(each.candidate)),
        Column("Images that change", lambda each: f"{each.flipped} of {each.images}"),
        Column(
            "What they have in common",
            lambda each: each.reason or "; ".join(flipped_sentences(each, task)),
        ),
    )
    models = of_first_models(record, record.flipped[0].reference, names)
    words = f"Models of the reference path{models}, in the reference runtime."
    return _section("Which images change", words, Table.made("", columns, record.flipped))


def _controls(record: RunRecord) -> Section:
    table = controls_table(record)
    return _section("Controls", "" if table else "This run has no controls.", table)
