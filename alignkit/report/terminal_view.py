"""A run in a few lines for a terminal: its verdict, the entries that moved most, the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from alignkit.record import MatrixEntry, RuleOutcome, RunRecord, State
from alignkit.record.cell_facts import REFERENCE_ENDED
from alignkit.record.verdict_facts import worst_first
from alignkit.report.cause_view import advice_sentence
from alignkit.report.entries_view import short_columns
from alignkit.report.figure_sections import leading_remarks
from alignkit.report.matrix_words import (
    by_runtime,
    interval_words,
    several_seeds,
    simulations,
    starred,
    warnings,
)
from alignkit.report.run_view import coverage_words
from alignkit.report.table import Table
from alignkit.text.measured import measured_part
from alignkit.text.names import (
    QUICK_LOOK,
    Names,
    controls_words,
    place_in_words,
    quick_words,
    state_words,
    surrogate_lines,
)
from alignkit.text.numbers import count, listed
from alignkit.text.outcome import said
from alignkit.text.task_words import TaskWords, capital, unlabelled
from alignkit.text.verdict import verdict_word, verdict_words
from alignkit.text.where_words import mechanism_sentences

_MOST_PAIRS = 10
"""Pairs of paths; with all else, at most 30 lines."""
_MOST_REASONS = 6
"""Reasons why entries did not run."""
_HIGH_CHURN = 0.5
"""Churn above which a reader asks when an answer counts as changed."""
_MOST_NOTES = 3
"""Surrogates, kinds of simulation, mechanisms and pieces of advice that are named."""


def record_word(record: RunRecord) -> str:
    """Return the verdict in a word, with what it does not cover."""
    part = measured_part(record.cells)
    return verdict_word(record.verdict, part, QUICK_LOOK.lower() * bool(record.quick))


def summary(record: RunRecord, page: Path) -> str:
    """Return at most 30 lines: verdict, the entries that moved most, the report."""
    verdict, names = record.verdict, Names(record.paths)
    # the word names the models that could not be measured
    first, *others = verdict_words(verdict, record, without=["part"]).lines
    lines = [f"{record.name}: {record_word(record)}", first, *others]
    lines += filter(None, [quick_words(record.quick)])
    lines += ["", *_entries(record, names), *surrogate_lines(record.paths, most=_MOST_NOTES)]
    mechanisms = mechanism_sentences(record.spatial, names.short)
    lines += [f"mechanism {each}" for each in mechanisms[:_MOST_NOTES]]
    advice = [*map(advice_sentence, record.advice), *leading_remarks(record)]
    lines += ["", *(f"advice    {each}" for each in advice[:_MOST_NOTES])]
    if any(each.corrupt + each.failed + each.unsupported for each in record.coverage):
        lines.append(coverage_words(record.coverage, record.coverage_diffs, names))
    lines += _first_undecided(verdict.rules, names)
    lines += [
        f"control failed: {each.name}: expected {each.expected}, observed {each.observed}"
        for each in record.controls
        if each.passed is False and each.failing == "error"
    ][:3]
    # a doubt is stated in full by the sentence
    lines += [f"controls  {controls_words(record.controls)}", f"report  {page}"]
    return "\n".join(lines)


def _first_undecided(outcomes: Sequence[RuleOutcome], names: Names) -> list[str]:
    """Return a line for the first inconclusive rule, with how many others there are, if any is."""
    undecided = [each for each in worst_first(outcomes) if each.state == "inconclusive"]
    more = f"; {len(undecided) - 1} more inconclusive" if len(undecided) > 1 else ""
    return [
        f"inconclusive  {each.metric}: {place_in_words(each, names)}: {said(each, 'line')}{more}"
        for each in undecided[:1]
    ]


def _endings(record: RunRecord, names: Names) -> list[str]:
    """Return a line for each distinct reason why entries did not run, and the models it hit."""
    verdict = verdict_words(record.verdict, record).sentence
    found: dict[tuple[State, str], list[MatrixEntry]] = {}
    for state in ("failed", "skipped", "built"):
        for entry in (each for each in record.matrix if each.state == state):
            # what a whole row lacks has one reason
            reason = entry.reason.removeprefix(REFERENCE_ENDED)
            found.setdefault((entry.state, reason), []).append(entry)
    lines = []
    for (state, reason), hit in found.items():
        # one of the user's code may be long, and the verdict ends with it
        known = state == "failed" and reason in verdict
        why = "for the reason that the verdict names" if known else reason
        rows = dict.fromkeys(each.row.model or names.short(each.trained_with) for each in hit)
        entries = count(len(hit), "entry", "entries")
        lines.append(f"{state_words(state)}: {entries} of {listed([*rows])}; {why}")
    return _first(lines, _MOST_REASONS, "reason")


def _first(lines: Sequence[str], most: int, of: str) -> list[str]:
    """Return the first lines, and how many the report has besides."""
    left = len(lines) - most
    return [*lines[:most], *[f"… and {count(left, f'more {of}')}; see the report"] * (left > 0)]


def _entries(record: RunRecord, names: Names) -> list[str]:
    """Return a row for each of the entries that moved most, and remarks on the matrix.

    Of each pair of paths it is the runtime in which most predictions changed; but each runtime
    where runtimes are the question.
    """
    words, matrix = TaskWords(record.task), record.matrix
    every = by_runtime(matrix)
    moved = sorted((each for each in matrix if each.drift), key=lambda each: -each.churn)
    shown: dict[tuple[str, ...], MatrixEntry] = {}
    for each in moved:
        shown.setdefault(each.place.names if every else each.place.names[:2], each)
    trained, served, runtime, *rest = short_columns(
        words, names, labelled=record.labelled, outputs=every
    )
    columns = (trained, served, replace(runtime, head="in" if every else "worst in"), *rest)
    lines = Table.made("", columns, [*shown.values()][:_MOST_PAIRS]).text()
    if len(shown) > _MOST_PAIRS:
        lines.append(f"… and {len(shown) - _MOST_PAIRS} that moved less; see the report")
    if tested := starred(matrix, words, words.headline):
        lines.append(tested)
    if moved and not record.labelled:
        lines.append(f"{capital(unlabelled(words))}.")
    elif moved and record.trainings and not several_seeds(record.trainings):
        lines.append(interval_words(record.trainings))
    if any(entry.churn > _HIGH_CHURN for entry in moved):
        lines.append(f"changed: {record.task.changed}")
    lines += _endings(record, names)
    lines += _first(simulations(matrix), _MOST_NOTES, "simulation")
    return lines + [f"warning: {warning}" for warning in warnings(matrix)]
