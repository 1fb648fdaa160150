"""Views of a run in short: Markdown for pull requests and agents, a few lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignkit.judge.measured_models import measured_part
from alignkit.judge.verdict_words import first_undecided, worst_first
from alignkit.record import MatrixEntry, PublishedFacts, RunRecord
from alignkit.report.cause_view import advice_sentence
from alignkit.report.engine_view import BUILT_WORDS, engines_table
from alignkit.report.entries_view import (
    MOST_REASON,
    EntryView,
    endings,
    endings_table,
    entry_view,
)
from alignkit.report.flipped_view import flipped_sentences
from alignkit.report.logits_view import LEGEND, LOGIT_COLUMNS, logit_cells, moved_tables
from alignkit.report.matrix_view import (
    interval_words,
    noise_floors,
    seeds_of,
    significance,
    simulations,
    warnings,
)
from alignkit.report.numeric_view import quantised_table
from alignkit.report.published_view import published_label, published_words, tally
from alignkit.report.run_view import CONTROL_WORDS, coverage_words
from alignkit.report.stage_view import no_pixels, stage_sections
from alignkit.report.table import PLACE, Columns, Table, numbers
from alignkit.report.training_data_view import across_paths, mix_sentences, size_sentence
from alignkit.report.verdict_view import ICONS, verdict_view, verdict_word
from alignkit.samples import UNLABELLED
from alignkit.text import columns
from alignkit.text.names import (
    QUICK_LOOK,
    Names,
    controls_words,
    quick_mark,
    quick_words,
    state_words,
    surrogate_lines,
)
from alignkit.text.numbers import (
    DASH,
    count,
    estimated,
    listed,
    percent,
    plain,
    points,
    shorten,
    unsigned,
)

MOST_ROWS = 100
"""Rows of one table: a pull request comment holds 65,536 characters."""
_MOST_PAIRS = 14
"""Pairs of paths on a terminal; with all else, at most 30 lines."""
_MOST_REASONS = 6
"""Reasons why entries did not run, on a terminal."""
_MOST_NOTES = 3
"""Surrogates, and kinds of simulation, that a terminal names."""


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
    verdict = verdict_view(record.verdict, names)
    seeds = len({training.seed for training in record.trainings})
    sample = count(record.data.eval, "evaluation image")
    if seeds:
        sample += f", {count(seeds, 'seed')}"
    known = [names.of(path.name) for path in record.paths]
    return {
        "alignkit": record.alignkit,
        "name": record.name,
        "verdict": verdict,
        "sentence": record.verdict.sentence,
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
    if record.published and record.published.claims:
        yield _published(record.published)
    if sizes := [size_sentence(curve, names) for curve in across_paths(record, "churn")]:
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
    for moved in moved_tables(record, names)[:1]:
        yield Section(moved.caption, "", moved)
    if (table := engines_table(record, names)) is not None:
        yield Section("Engines that were built and not run", BUILT_WORDS, table)


def _section(title: str, words: str, headers: Columns, rows: Sequence[tuple[str, ...]]) -> Section:
    left = len(rows) - MOST_ROWS  # the page has every row
    table = Table.of(title, headers, rows[:MOST_ROWS]) if rows else None
    omitted = f"{count(left, 'more row')} in index.html." if left > 0 else ""
    return Section(title, words, table, omitted)


def _logits_section(record: RunRecord, names: Names) -> Section:
    words = [f"{UNLABELLED.capitalize()}.", LEGEND]
    words += [f"{each}." for each in simulations(record.matrix)]
    words += [f"{warning}." for warning in warnings(record.matrix)]
    rows = [(*names.cells(each), *logit_cells(each)) for each in record.matrix]
    headers = (*PLACE, *numbers(*LOGIT_COLUMNS))
    return _section("Drift matrix", " ".join(words), headers, rows)


def matrix_section(record: RunRecord, names: Names) -> Section:
    """Return a row for each entry of the drift matrix, under its legend."""
    if not record.labelled:
        return _logits_section(record, names)
    views = [entry_view(entry, names) for entry in record.matrix]
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
        "Change of macro recall against the aligned cell of the row, in percentage points, "
        "with its 95 % interval; lost: right before, wrong now; gained: the other way."
    )
    words = [legend, interval_words(record)]
    floors = [
        f"{names.short(row)} {unsigned(floor)}" for row, floor in noise_floors(record).items()
    ]
    if floors:
        words.append(f"Noise floor of macro recall over seeds: {', '.join(floors)}.")
    if tested := significance(record.matrix, "recall.macro"):
        words.append(tested)
    words += [f"{each}." for each in simulations(record.matrix)]
    words += [f"{warning}." for warning in warnings(record.matrix)]
    headers = (*PLACE, *numbers("Δ macro recall", "Churn", "Lost / gained", "Detectable Δ top-1"))
    return _section("Drift matrix", " ".join(words), headers, rows)


def _change(entry: MatrixEntry, view: EntryView) -> str:
    if not entry.ran:  # a table of its own has the reasons
        return state_words(entry.state)
    return f"{view.change}, simulated" if entry.simulation else view.change


def _rules(record: RunRecord, names: Names) -> Section:
    alike: dict[tuple[tuple[str, ...], int], list[tuple[str, str, str]]] = {}
    for index, rule in enumerate(worst_first(record.verdict.rules)):
        if rule.state != "pass":
            # a reason may quote a library's whole message
            outcome = ICONS[rule.state].word, rule.limit, shorten(rule.observed, MOST_REASON)
            # of what was measured, each place counts; a reason is shown once
            own = -1 if rule.state == "error" else index
            alike.setdefault((outcome, own), []).append(names.cells(rule))
    rows = [
        (*outcome, *first[:2], _and_more(first[2], len(more)))
        for (outcome, _), (first, *more) in alike.items()
    ]
    words = "" if rows else "Every rule passed."
    headers = ("Outcome", "Rule", "Observed", *PLACE)
    return _section("Rules that did not pass", words, headers, rows)


def _and_more(runtime: str, more: int) -> str:
    return f"{runtime} and {count(more, 'more entry', 'more entries')}" if more else runtime


def _published(facts: PublishedFacts) -> Section:
    rows = [
        (
            claim.words,
            claim.metric,
            claim.reading,
            points(claim.published),
            estimated(claim.here),
            claim.why,
        )
        for claim in facts.claims
    ]
    differences = numbers(f"{published_label(facts)}, pp", "Here, pp")
    headers = ("Difference", "Metric", "Reading", *differences, "Because")
    return _section("Comparison with the published table", published_words(facts), headers, rows)


def _stages(record: RunRecord, names: Names) -> Section:
    words = " ".join(
        f"{section.candidate.short} against {section.reference.short}: {section.words}"
        for section in stage_sections(record.pixels, names)
    )
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
            each.reason or "; ".join(flipped_sentences(each)),
        )
        for each in record.flipped
    ]
    words = "Models of the reference path, in the reference runtime."
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


def summary(record: RunRecord, page: Path) -> str:
    """Return at most 30 lines: verdict, the entries that moved most, the report."""
    notes = [QUICK_LOOK.lower()] if record.quick else []
    verdict, part = record.verdict, measured_part(record.cells)
    # an error is never without an exit code
    notes += ["not enforced"] if verdict.informational and verdict.state != "error" else []
    bracket = f" ({', '.join(notes)})" if notes else ""
    word = verdict_word(verdict)
    state = f"{word}, {part}" if part else word
    lines = [
        f"{record.name}: {state}{bracket}",
        verdict.sentence.replace(f"{part}. ", "", 1) if part else verdict.sentence,
        *([quick_words(record.quick)] if record.quick else []),
        "",
        *_worst_entries(record),
        *surrogate_lines(record.paths, most=_MOST_NOTES),
        "",
        # three, to stay within thirty lines
        *(f"advice    {advice_sentence(each)}" for each in record.advice[:3]),
    ]
    lines += first_undecided(verdict.rules, Names(record.paths))
    if record.published and record.published.claims:
        lines.append(f"{published_label(record.published)}: {tally(record.published)}")
    failed = [control for control in record.controls if control.passed is False]
    lines += [
        f"control failed: {control.name}: expected {control.expected}, observed {control.observed}"
        for control in [each for each in failed if each.failing == "error"][:3]
    ]
    if not any(each.failing == "error" for each in failed):
        # the sentence states a doubt in full
        lines.append(f"controls  {controls_words(record.controls)}")
    return "\n".join([*lines, f"report  {page}"])


def _endings(record: RunRecord, names: Names) -> list[str]:
    """Return a line for each distinct reason why entries did not run, and the models it hit."""
    ended, rows = endings(record, names), {entry.row for entry in record.matrix}
    lines = []
    for each in ended[:_MOST_REASONS]:
        # a reason that hits every model is one of the machine or of a path
        of = "" if len(each.rows) == len(rows) else f" of {listed(each.rows)}"
        entries = count(each.entries, "entry", "entries")
        lines.append(f"{state_words(each.state)}: {entries}{of}; {each.reason}")
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


def _entry_rows(
    record: RunRecord, compared: Sequence[MatrixEntry], names: Names
) -> list[tuple[str, ...]]:
    place = ("trained with", "evaluated with", "in" if by_runtime(record) else "worst in")
    if not record.labelled:
        heads = [(*place, *(each[:1].lower() + each[1:] for each in LOGIT_COLUMNS))]
        return heads + [(*names.cells(each), *logit_cells(each)) for each in compared]
    # where runtimes alone differ, logits may move and no prediction change
    logits = ("max |Δlogit|",) if by_runtime(record) else ()
    rows: list[tuple[str, ...]] = [(*place, "Δ macro recall, pp", "churn", "flips", *logits)]
    for entry in compared:
        view = entry_view(entry, names)
        change = view.change + " *" * view.is_significant
        moved = [logit_cells(entry)[LOGIT_COLUMNS.index("Max")]] if logits else []
        rows.append((*view.place, change, view.churn, view.flips, *moved))
    return rows


def _worst_entries(record: RunRecord) -> list[str]:
    """Return a row for each of the `_shown_entries`, and remarks on the matrix."""
    names = Names(record.paths)
    compared = _shown_entries(record)
    rows = _entry_rows(record, compared[:_MOST_PAIRS], names)
    lines = columns(rows).splitlines() if compared else []
    if len(compared) > _MOST_PAIRS:
        lines.append(f"… and {len(compared) - _MOST_PAIRS} that moved less; see the report")
    if tested := significance(record.matrix, "recall.macro"):
        marked = any(row[3].endswith(" *") for row in rows)
        lines.append(f"* {tested}" if marked else tested)
    if compared and not record.labelled:
        lines.append(f"{UNLABELLED.capitalize()}.")
    elif compared and len(seeds_of(record)) == 1:  # one seed says nothing of others
        lines.append(interval_words(record))
    lines += _endings(record, names)
    simulated = simulations(record.matrix)
    lines += simulated[:_MOST_NOTES]
    if len(simulated) > _MOST_NOTES:
        lines.append(f"… and {count(len(simulated) - _MOST_NOTES, 'simulation')}; see the report")
    return lines + [f"warning: {warning}" for warning in warnings(record.matrix)]
