"""A run in a few lines for a terminal: its verdict, the entries that moved most, the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from alignkit.record import Drift, MatrixEntry, RuleOutcome, RunRecord
from alignkit.record.verdict_facts import worst_first
from alignkit.report.cause_view import advice_sentence
from alignkit.report.entries_view import change_words, churn_words, endings, flips_words
from alignkit.report.figure_sections import leading_remarks
from alignkit.report.logits_view import unlabelled_columns
from alignkit.report.matrix_view import (
    interval_words,
    seeds_of,
    significance,
    simulations,
    warnings,
)
from alignkit.report.run_view import coverage_words
from alignkit.report.table import Table
from alignkit.text.column import Fact
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
from alignkit.text.run_columns import LOGITS, of_drifts, place_columns
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
    verdict, state = record.verdict, record_word(record)
    # the word above says which models could not be measured
    first, *others = verdict_words(verdict, record, without=["part"]).lines
    lines = [
        f"{record.name}: {state}",
        first,
        *others,
        *([quick_words(record.quick)] if record.quick else []),
        "",
        *_worst_entries(record),
        *surrogate_lines(record.paths, most=_MOST_NOTES),
        *(
            f"mechanism {each}"
            for each in mechanism_sentences(record.spatial, Names(record.paths).short)[:_MOST_NOTES]
        ),
        "",
        *(f"advice    {each}" for each in _advice(record)[:_MOST_NOTES]),
    ]
    if any(each.corrupt + each.failed + each.unsupported for each in record.coverage):
        names = Names(record.paths)
        lines.append(coverage_words(record.coverage, record.coverage_diffs, names))
    lines += _first_undecided(verdict.rules, Names(record.paths))
    failed = [control for control in record.controls if control.passed is False]
    lines += [
        f"control failed: {control.name}: expected {control.expected}, observed {control.observed}"
        for control in [each for each in failed if each.failing == "error"][:3]
    ]
    if not any(each.failing == "error" for each in failed):
        # the sentence states a doubt in full
        lines.append(f"controls  {controls_words(record.controls)}")
    return "\n".join([*lines, f"report  {page}"])


def _first_undecided(outcomes: Sequence[RuleOutcome], names: Names) -> list[str]:
    """Return a line for the first inconclusive rule, with how many others there are, if any is."""
    undecided = [each for each in worst_first(outcomes) if each.state == "inconclusive"]
    if not undecided:
        return []
    first, *others = undecided
    are = "is" if len(others) == 1 else "are"
    more = f"; {len(others)} more {are} inconclusive" if others else ""
    place = place_in_words(first, names)
    return [f"inconclusive  {first.metric}: {place}: {said(first, 'line')}{more}"]


def _advice(record: RunRecord) -> list[str]:
    return [*map(advice_sentence, record.advice), *leading_remarks(record)]


def _endings(record: RunRecord, names: Names) -> list[str]:
    """Return a line for each distinct reason why entries did not run, and the models it hit."""
    ended, rows = endings(record.matrix, names), {entry.row for entry in record.matrix}
    said = verdict_words(record.verdict, record).sentence
    lines = []
    for each in ended[:_MOST_REASONS]:
        # a reason that hits every model is one of the machine or of a path
        of = "" if len(each.rows) == len(rows) else f" of {listed(each.rows)}"
        entries = count(each.entries, "entry", "entries")
        # one of the user's code may be long, and the verdict ends with it
        known = each.state == "failed" and each.reason in said
        reason = "for the reason that the verdict names" if known else each.reason
        lines.append(f"{state_words(each.state)}: {entries}{of}; {reason}")
    if len(ended) > _MOST_REASONS:
        lines.append(f"… and {len(ended) - _MOST_REASONS} more reasons; see the report")
    return lines


def _shown_entries(record: RunRecord) -> list[MatrixEntry]:
    """List the entries of the terminal's table, by falling churn.

    Of each pair of paths it is the runtime in which most predictions changed; but each runtime of
    models that are given, or of a single path: which of them changes predictions is the question.
    """
    compared = [entry for entry in record.matrix if entry.drift]
    compared.sort(key=lambda each: each.churn, reverse=True)  # stable
    if by_runtime(record):
        return compared
    worst: dict[tuple[str, str], MatrixEntry] = {}
    for entry in compared:
        worst.setdefault((entry.trained_with, entry.evaluated_with), entry)
    return list(worst.values())


def by_runtime(record: RunRecord) -> bool:
    """Tell whether each runtime has a line of its own in the terminal."""
    return len(record.paths) == 1 or any(entry.row.model for entry in record.matrix)


def _columns(record: RunRecord, names: Names) -> tuple[Fact[MatrixEntry], ...]:
    words, every = TaskWords(record.task), by_runtime(record)
    trained, served, runtime, *_ = place_columns(names)
    place = (trained, served, replace(runtime, head="in" if every else "worst in"))
    if not record.labelled:
        return (*place, *unlabelled_columns(words))
    greatest = replace(LOGITS["max_abs"], head=f"max |Δ{record.task.output}|")
    # where runtimes alone differ, logits may move and no prediction change
    shown = [greatest] if every and record.task.class_scores else []
    moved: list[Fact[Drift]] = [each.of(lambda drift: drift.logits) for each in shown]

    def change(entry: MatrixEntry) -> str:
        shown = entry.drift and entry.drift.is_significant(words.headline)
        return change_words(entry, words) + " *" * bool(shown)

    return (
        *place,
        Fact(words.header(words.headline), change),
        Fact("churn", churn_words),
        Fact(f"{words.turns}s", lambda entry: flips_words(entry, words)),
        *of_drifts(moved),
    )


def _worst_entries(record: RunRecord) -> list[str]:
    """Return a row for each of the `_shown_entries`, and remarks on the matrix."""
    names = Names(record.paths)
    compared = _shown_entries(record)
    lines = Table.made("", _columns(record, names), compared[:_MOST_PAIRS]).text()
    if len(compared) > _MOST_PAIRS:
        lines.append(f"… and {len(compared) - _MOST_PAIRS} that moved less; see the report")
    words = TaskWords(record.task)
    if tested := significance(record.matrix, words, words.headline):
        marked = any(" *" in line for line in lines)
        lines.append(f"* {tested}" if marked else tested)
    if compared and not record.labelled:
        lines.append(f"{capital(unlabelled(words))}.")
    elif compared and len(seeds_of(record)) == 1:  # one seed says nothing of others
        lines.append(interval_words(record))
    if any(entry.churn > _HIGH_CHURN for entry in compared):
        lines.append(f"changed: {record.task.changed}")
    lines += _endings(record, names)
    simulated = simulations(record.matrix)
    lines += simulated[:_MOST_NOTES]
    if len(simulated) > _MOST_NOTES:
        lines.append(f"… and {count(len(simulated) - _MOST_NOTES, 'simulation')}; see the report")
    return lines + [f"warning: {warning}" for warning in warnings(record.matrix)]
