"""The section of a run's page with its matrices, and what lies behind each of their cells."""

from __future__ import annotations

from collections.abc import Iterator

from alignkit.record import RunRecord
from alignkit.report.entries_view import (
    engines_table,
    failures,
    logits_legend,
    meanings,
    measures_tables,
    moved_tables,
    numeric_table,
    quantised_table,
    sessions_table,
    short_columns,
)
from alignkit.report.matrix_view import EDGES, matrix_views
from alignkit.report.matrix_words import (
    by_runtime,
    churn_meaning,
    entry_id,
    interval_words,
    noise_floors,
    simulations,
    starred,
    warnings,
)
from alignkit.report.page import Details, Graphic, Heading, Lines, PagePart, Paragraph, Section
from alignkit.report.table import Table
from alignkit.text.names import Names
from alignkit.text.numbers import listed
from alignkit.text.run_columns import cell_columns, entry_columns
from alignkit.text.task_words import TaskWords, capital, unlabelled


def matrix_section(record: RunRecord, names: Names, intervals: str) -> Section:
    """Return the matrices, and below them tables of their cells."""
    words, task = TaskWords(record.task), record.task
    lead = (
        "Rows: the path that models were trained with. Columns: the path and runtime that serve "
        f"them. {intervals}"
    )
    if record.labelled:
        lead += " Baseline: served as trained."
    else:
        lead = f"{capital(unlabelled(words))}. {lead}"
    engines = engines_table(record.cells, names)
    others = [words.phrase(each) for each in task.matrices if not words.is_share(each)]
    view = {
        "matrices": matrix_views(record, names),
        "simulations": simulations(record.matrix),
        "edges": [f"{edge:g}" for edge in EDGES],
        # metrics whose changes are no percentage points
        "units": f"; of {listed(others)}, in percent of the baseline’s value" if others else "",
        "built": engines is not None,
    }
    short = entries_in_short(record, names)
    # of logits no matrix shows more than churn; else a text alone needs the table
    shown = not record.labelled and task.class_scores
    parts: list[PagePart] = [
        Paragraph(lead.rstrip(), "lead"),
        Graphic("matrices", view, [each for each in (None if shown else short, engines) if each]),
        *([short] if shown else []),
        *_below(record, names, engines),
    ]
    return Section("matrix", "Drift matrix", parts, nav="Matrix")


def _below(record: RunRecord, names: Names, engines: Table | None) -> Iterator[PagePart]:
    task, words, matrix = record.task, TaskWords(record.task), record.matrix
    if measures := measures_tables(matrix, names, words):
        yield Heading("Differences of the answers", id="measures")
        if defined := meanings(task):
            yield Details("Definitions", [Lines(defined, "")])
        yield from measures
    # other paths have pictures of the images whose pixels differ most
    if not record.labelled or len(record.paths) == 1:
        for place, moved in enumerate(moved_tables(matrix, names, task)):
            yield Details(moved.caption, [moved], open=not place)
    if quantised := quantised_table(matrix, names, task):
        yield quantised
    yield from failures(record.trainings, record.cells, names)
    # a cell without a list of images leads to its row
    ids = map(entry_id, range(len(matrix)))
    every = Table.made(
        "All comparisons, summed over seeds", entry_columns(words, names), matrix, ids
    )
    seeds = Table.made("Every cell, seed by seed", cell_columns(words, names), record.cells)
    scores = f", distance of the {task.outputs}" if task.class_scores else ""
    for anchor, summary, table in (
        ("engines", "Engines that were built and not run: layers, size, hash", engines),
        ("", f"All comparisons in numbers: tests, detectable effect{scores}", every),
        (
            "numeric",
            f"Runtimes in numbers: distance of the {task.outputs} on the same tensors",
            numeric_table(matrix, names, task),
        ),
        (
            "sessions",
            "Runtime sessions and input hashes: batch size, builds, non-finite outputs",
            sessions_table(record.cells, names, task),
        ),
        ("cells", "Every cell, seed by seed", seeds),
    ):
        if table:
            yield Details(summary, [table], id=anchor)


def _answers(words: TaskWords) -> str:
    """Say what the matrices of images without labels show."""
    return logits_legend(words.task) if words.task.class_scores else f"{churn_meaning(words)}."


def entries_in_short(record: RunRecord, names: Names) -> Table:
    """Return a row for each entry of the drift matrix, under its legend."""
    words, outputs = TaskWords(record.task), by_runtime(record.matrix)
    columns = short_columns(words, names, labelled=record.labelled, outputs=outputs, whole=True)
    said = [f"{capital(unlabelled(words))}.", _answers(words)]
    if record.labelled:
        said = [*_legend(record, names)]
    said += [f"{each}." for each in (*simulations(record.matrix), *warnings(record.matrix))]
    return Table.made(" ".join(said), columns, record.matrix)


def _legend(record: RunRecord, names: Names) -> Iterator[str]:
    words = TaskWords(record.task)
    metric = words.phrase(words.headline)
    yield (
        f"Change of {metric} against the baseline of the row (served as trained), with its 95 % "
        f"interval; {words.sides}."
    )
    yield interval_words(record.trainings)
    floors = [
        f"{names.short(row)} {words.size(words.headline, sizes[words.headline])}"
        for row, sizes in noise_floors(record.noise_floor).items()
        if words.headline in sizes
    ]
    if floors:
        yield f"Retraining with another seed changes {metric} by up to: {', '.join(floors)}."
    if tested := starred(record.matrix, words, words.headline):
        yield tested
