"""The section of a run's page with its matrices, and what lies behind each of their cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from alignkit.record import RunRecord
from alignkit.report.entries_view import (
    endings_table,
    entries_table,
    failures,
    meanings,
    measures_tables,
    per_seed_table,
    short_columns,
)
from alignkit.report.logits_view import (
    engines_table,
    logits_legend,
    logits_table,
    moved_tables,
    numeric_table,
    quantised_table,
    sessions_table,
    unlabelled_columns,
)
from alignkit.report.matrix_cells import EDGES
from alignkit.report.matrix_fold import AGREE
from alignkit.report.matrix_view import (
    MatrixView,
    interval_words,
    matrix_views,
    noise_floors,
    significance,
    simulations,
    warnings,
)
from alignkit.report.page import (
    Alert,
    Code,
    Details,
    Graphic,
    Heading,
    Lines,
    PagePart,
    Paragraph,
    Section,
    Strong,
)
from alignkit.report.table import Table
from alignkit.task_facts import TaskFacts
from alignkit.text.names import Names
from alignkit.text.numbers import listed, percent, unsigned
from alignkit.text.run_columns import place_columns
from alignkit.text.task_words import TaskWords, capital, unlabelled


@dataclass(frozen=True, slots=True)
class Matrices:
    """The matrices of a run with their legend."""

    matrices: tuple[MatrixView, ...]
    edges: tuple[str, ...]
    """Of the colours, in ascending order."""
    units: str
    """Metrics whose changes are no percentage points."""
    agree: str
    """How near runtimes are that share a column, in points or as a part of a value."""
    in_cells: str
    """What a cell shows."""
    built: bool
    """Whether an engine was built and not run."""


def matrix_section(record: RunRecord, names: Names, intervals: str) -> Section:
    """Return the matrices, and below them tables of their cells."""
    words = TaskWords(record.task)
    task = record.task
    lead = (
        "Rows: the path that models were trained with. Columns: the path and runtime that serve "
        "them."
    )
    if record.labelled:
        lead += " Baseline: served as trained."
    else:
        lead = f"{capital(unlabelled(words))}. {lead} {_changes(words)}"
    engines = engines_table(record.cells, names)
    others = [words.phrase(each) for each in task.matrices if not words.is_share(each)]
    view = Matrices(
        matrix_views(record, names),
        tuple(f"{edge:g}" for edge in EDGES),
        f"; of {listed(others)}, in percent of the baseline’s value" if others else "",
        f"{unsigned(AGREE)}{f' or {percent(AGREE)} of the value' if others else ''}",
        listed([words.in_cell(each) for each in task.matrices]),
        engines is not None,
    )
    said = Paragraph(f"{lead} {intervals}".rstrip(), "lead")
    parts: list[PagePart] = [
        said,
        Graphic("matrices", view, _tables(record, names)),
        *_below(record, names),
    ]
    return Section("matrix", "Drift matrix", parts, nav="Matrix")


def _below(record: RunRecord, names: Names) -> Iterator[PagePart]:
    task, words = record.task, TaskWords(record.task)
    if measures := measures_tables(record.matrix, names, words):
        yield Heading("Differences of the answers", id="measures")
        if defined := meanings(task):
            yield Details("Definitions", [Lines(defined, "")])
        yield from measures
    if logits := logits_table(record.matrix, names, words, labelled=record.labelled):
        yield logits
    for place, moved in enumerate(moved_tables(record, names)):
        yield Details(moved.caption, [moved], open=not place)
    if quantised := quantised_table(record.matrix, names, task):
        yield quantised
    for each in failures(record, names):
        trace = [Details("Traceback", [Code(each.traceback, command=False)])]
        said = Paragraph((Strong("Failed:"), f" {each.title}. {each.reason}"))
        yield Alert("Failure", [said, *(trace if each.traceback else [])])
    folded = {
        "engines": engines_table(record.cells, names),
        "": entries_table(record.matrix, names, words),
        "numeric": numeric_table(record.matrix, names, task),
        "sessions": sessions_table(record.cells, names, task),
        "cells": per_seed_table(record.cells, names, words),
    }
    for anchor, table in folded.items():
        if table:
            yield Details(_summary(anchor, task), [table], id=anchor)


def _summary(anchor: str, task: TaskFacts) -> str:
    scores = f", distance of the {task.outputs}" if task.class_scores else ""
    return {
        "engines": "Engines that were built and not run: layers, size, hash",
        "": f"All comparisons in numbers: tests, detectable effect{scores}",
        "numeric": f"Runtimes in numbers: distance of the {task.outputs} on the same tensors",
        "sessions": "Runtime sessions and input hashes: batch size, builds, non-finite outputs",
        "cells": "Every cell, seed by seed",
    }[anchor]


def _changes(words: TaskWords) -> str:
    if words.task.class_scores:
        return logits_legend(words.task)
    changes = words.answer_changed
    return f"Churn is the share of images whose {changes} against the baseline of the row."


def _tables(record: RunRecord, names: Names) -> list[Table]:
    ended = endings_table(record.matrix, names)
    engines = engines_table(record.cells, names)
    return [*filter(None, (ended, entries_in_short(record, names), engines))]


def entries_in_short(record: RunRecord, names: Names) -> Table:
    """Return a row for each entry of the drift matrix, under its legend."""
    words, scores = TaskWords(record.task), record.task.class_scores
    if record.labelled:
        said, columns = list(_legend(record, names)), short_columns(words, names)
    else:
        said = [f"{capital(unlabelled(words))}.", *([logits_legend(record.task)] if scores else [])]
        columns = (*place_columns(names), *unlabelled_columns(words))
    said += [f"{each}." for each in (*simulations(record.matrix), *warnings(record.matrix))]
    return Table.made(" ".join(said), columns, record.matrix)


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
