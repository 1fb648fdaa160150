"""View of a run in short: Markdown for pull requests and agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from alignkit.record import MatrixEntry, RunRecord
from alignkit.report.cause_view import advice_sentence
from alignkit.report.engine_view import BUILT_WORDS, engines_table
from alignkit.report.entries_view import (
    EntryView,
    endings_table,
    entry_view,
)
from alignkit.report.figures.figure_sections import (
    entries_with_facts,
    fact_table,
    leading_remarks,
)
from alignkit.report.flipped_view import flipped_sentences
from alignkit.report.logits_view import (
    logits_legend,
    moved_tables,
    quantised_table,
    unlabelled_cells,
    unlabelled_columns,
)
from alignkit.report.matrix_view import (
    interval_words,
    noise_floors,
    significance,
    simulations,
    warnings,
)
from alignkit.report.measures_view import meanings, measures_tables
from alignkit.report.run_view import CONTROL_WORDS, coverage_words
from alignkit.report.stage_view import no_pixels, stage_sections
from alignkit.report.table import PLACE, Columns, Table, numbers
from alignkit.report.training_data_view import across_paths, mix_sentences, size_sentence
from alignkit.report.verdict_view import gate_view, groups_table, verdict_view
from alignkit.text.measured import of_first_models
from alignkit.text.names import (
    Names,
    quick_mark,
    quick_words,
    state_words,
)
from alignkit.text.numbers import (
    DASH,
    count,
    percent,
    plain,
)
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
    verdict = verdict_view(record)
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
    if divided := quantised_table(record, names):
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
    if (ended := endings_table(record, names)) is not None:
        yield Section(ended.caption, "Each reason once, and the models it hit.", ended)
    if record.matrix:
        yield matrix_section(record, names)
    for place, measured in enumerate(measures_tables(record, names)):
        said = "" if place else " ".join(meanings(record))
        yield Section("Differences of the answers" + ", more" * (place > 0), said, measured)
    yield from _facts(record, names)
    for moved in moved_tables(record, names)[:1]:
        yield Section(moved.caption, "", moved)
    if (table := engines_table(record, names)) is not None:
        yield Section("Engines that were built and not run", BUILT_WORDS, table)


def _facts(record: RunRecord, names: Names) -> Iterator[Section]:
    """Yield the tables that the task gives of the comparison which comes first."""
    for entry in [record.matrix[index] for index in entries_with_facts(record)[:1]]:
        for each in entry.drift.tables if entry.drift else ():
            table = fact_table(each)
            missing = "; ".join(f"{DASH} {note.text}" for note in table.notes)
            yield Section(each.title, f"{names.title(entry)}. {each.note}", table, missing)


def _section(title: str, words: str, headers: Columns, rows: Sequence[tuple[str, ...]]) -> Section:
    left = len(rows) - MOST_ROWS  # the page has every row
    table = Table.of(title, headers, rows[:MOST_ROWS]) if rows else None
    omitted = f"{count(left, 'more row')} in index.html." if left > 0 else ""
    return Section(title, words, table, omitted)


def _logits_section(record: RunRecord, names: Names) -> Section:
    words, scores = TaskWords(record.task), record.task.class_scores
    said = [f"{capital(unlabelled(words))}.", *([logits_legend(record.task)] if scores else [])]
    said += [f"{each}." for each in simulations(record.matrix)]
    said += [f"{warning}." for warning in warnings(record.matrix)]
    rows = [(*names.cells(each), *unlabelled_cells(each, words)) for each in record.matrix]
    headers = (*PLACE, *numbers(*unlabelled_columns(words)))
    return _section("Drift matrix", " ".join(said), headers, rows)


def matrix_section(record: RunRecord, names: Names) -> Section:
    """Return a row for each entry of the drift matrix, under its legend."""
    if not record.labelled:
        return _logits_section(record, names)
    words = TaskWords(record.task)
    metric, sides = words.phrase(words.headline), words.sides
    views = [entry_view(entry, names, words) for entry in record.matrix]
    rows = [
        (
            *view.place,
            _change(entry, view),
            view.churn,
            view.both,
            view.detectable,
        )
        for entry, view in zip(record.matrix, views, strict=True)
    ]
    legend = (
        f"Change of {metric} against the baseline of the row (served as trained), "
        f"{'in percentage points, ' if words.is_share(words.headline) else ''}with its 95 % "
        f"interval; {sides}."
    )
    said = [legend, interval_words(record)]
    floors = [
        f"{names.short(row)} {words.size(words.headline, floor)}"
        for row, floor in noise_floors(record).items()
    ]
    if floors:
        said.append(f"Retraining with another seed changes {metric} by up to: {', '.join(floors)}.")
    if tested := significance(record.matrix, words, words.headline):
        said.append(tested)
    said += [f"{each}." for each in simulations(record.matrix)]
    said += [f"{warning}." for warning in warnings(record.matrix)]
    counted = capital(" / ".join(words.task.sides))
    heads = (f"Δ {words.brief(words.headline)}", "Churn", counted)
    headers = (*PLACE, *numbers(*heads, f"Detectable Δ {words.task.rated}"))
    return _section("Drift matrix", " ".join(said), headers, rows)


def _change(entry: MatrixEntry, view: EntryView) -> str:
    if not entry.ran:  # a table of its own has the reasons
        return state_words(entry.state)
    return f"{view.change}, simulated" if entry.simulation else view.change


def _rules(record: RunRecord, names: Names) -> Section:
    view = gate_view(record.verdict, names)
    title = "Rules that did not pass"
    table = groups_table(title, view.open[:MOST_ROWS], view.heads)
    left = len(view.open) - MOST_ROWS  # the page has every row
    omitted = f"{count(left, 'more row')} in index.html." if left > 0 else ""
    return Section(title, "" if table else "Every rule passed.", table, omitted)


def _stages(record: RunRecord, names: Names) -> Section:
    words = " ".join(
        f"{section.candidate.short} against {section.reference.short}: {section.words}"
        for section in stage_sections(record.pixels, names)
    )
    # after a pair's first and largest stage: why, where the pixels show it
    words += "".join(f" At {each}." for each in mechanism_sentences(record.spatial, names.short))
    rows = [
        (
            f"{names.short(stage.candidate)} against {names.short(stage.reference)}",
            stage.stage,
            plain(stage.max_abs, 1),
            plain(stage.mean_abs, 3),
            percent(stage.share_differing) if stage.share_differing is not None else DASH,
        )
        for stage in record.pixels
        if stage.mode == "isolated" and stage.max_abs and stage.mean_abs is not None
    ]
    headers = ("Paths", "Stage (isolated)", *numbers("Max", "Mean", "Pixels differing"))
    none = f"{no_pixels(record).capitalize()}."
    return _section("Which stage", words or none, headers, rows)


def _flipped(record: RunRecord, names: Names) -> Section:
    rows = [
        (
            names.short(each.candidate),
            f"{each.flipped} of {each.images}",
            each.reason or "; ".join(flipped_sentences(each, TaskWords(record.task))),
        )
        for each in record.flipped
    ]
    models = of_first_models(record, record.flipped[0].reference, names)
    words = f"Models of the reference path{models}, in the reference runtime."
    headers = ("Served with", "Images that change", "What they have in common")
    return _section("Which images change", words, headers, rows)


def _controls(record: RunRecord) -> Section:
    rows = [
        (
            each.name,
            each.expected,
            each.observed,
            CONTROL_WORDS[each.passed].replace("not passed", "NOT PASSED"),
        )
        for each in record.controls
    ]
    words = "" if rows else "This run has no controls."
    return _section("Controls", words, ("Control", "Expected", "Observed", "Outcome"), rows)
