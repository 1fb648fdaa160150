"""`SummaryView`: the run in short, for pull requests and for agents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from alignkit.judge.words import worst_first
from alignkit.record import PublishedFacts, RunRecord
from alignkit.report.advice_view import advice_sentence
from alignkit.report.coverage_view import coverage_words
from alignkit.report.entry_view import MOST_REASON, entry_view
from alignkit.report.flipped_view import flipped_sentences
from alignkit.report.matrix_view import interval_words, significance, warnings
from alignkit.report.mix_view import mix_sentences
from alignkit.report.published_view import published_label, tally
from alignkit.report.stage_view import stage_sections
from alignkit.report.table import PLACE, Header, Table, number_columns, text_columns
from alignkit.report.training_size_view import across_paths, size_sentence
from alignkit.report.verdict_view import WORDS, verdict_view
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, count, estimated, percent, plain, points, shorten, unsigned

MOST_ROWS = 100
"""Rows of one table: a pull request comment holds 65,536 characters."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with words, a table or both."""

    title: str
    words: str = ""
    table: Table | None = None
    omitted: str = ""


@dataclass(frozen=True, slots=True)
class SummaryView:
    """The summary."""

    alignkit: str
    name: str
    word: str
    sentence: str
    tally: str
    remark: str
    partial: bool
    question: str
    sample: str
    surrogates: tuple[str, ...]
    sections: tuple[Section, ...]
    command: str


def summary_view(record: RunRecord) -> SummaryView:
    """The summary of a run."""
    names = Names(record.paths)
    verdict = verdict_view(record.verdict, names)
    seeds = len({training.seed for training in record.trainings})
    sample = [
        count(record.data.eval, "evaluation image"),
        *([count(seeds, "seed")] if seeds else []),
    ]
    known = [names.of(path.name) for path in record.paths]
    return SummaryView(
        alignkit=record.alignkit,
        name=record.name,
        word=verdict.icon.word,
        sentence=record.verdict.sentence,
        tally=verdict.tally,
        remark=verdict.remark,
        partial=record.partial,
        question=record.question,
        sample=f"{record.data.name}: {', '.join(sample)}.",
        surrogates=tuple(f"{path.name} is a {path.note}." for path in known if path.note),
        sections=tuple(_sections(record, names)),
        command=record.command,
    )


def _sections(record: RunRecord, names: Names) -> Iterable[Section]:
    if record.matrix:
        yield _matrix(record, names)
    if record.mixes:
        yield Section("Training on a mix of paths", " ".join(mix_sentences(record, names)))
    if record.published:
        yield _published(record.published)
    if across_paths(record, "churn"):
        yield _sizes(record, names)
    if record.verdict.rules:
        yield _rules(record, names)
    yield _stages(record, names)
    if record.flipped:
        yield _flipped(record, names)
    if record.advice:
        yield Section("Recommended change", " ".join(map(advice_sentence, record.advice)))
    yield Section("Coverage", coverage_words(record.coverage, names))
    yield _controls(record)


def _section(
    title: str, words: str, columns: Sequence[Header], rows: Sequence[tuple[str, ...]]
) -> Section:
    left = len(rows) - MOST_ROWS
    table = Table.of(title, columns, rows[:MOST_ROWS]) if rows else None
    return Section(
        title, words, table, f"{count(left, 'more row')} in index.html." if left > 0 else ""
    )


def _matrix(record: RunRecord, names: Names) -> Section:
    views = [entry_view(entry, names) for entry in record.matrix]
    rows = [(*view.place, view.change, view.churn, view.both, view.detectable) for view in views]
    floors = [
        f"{names.short(floor.preprocess)} {unsigned(floor.metrics['recall.macro'])}"
        for floor in record.noise_floor
        if len(floor.seeds) > 1 and "recall.macro" in floor.metrics
    ]
    words = (
        "Change of macro recall against the aligned cell of the row, in percentage points, "
        "with its 95 % interval; lost: right before, wrong now; gained: the other way. "
        f"{interval_words(record)}"
    )
    if floors:
        words += f" Noise floor of macro recall over seeds: {', '.join(floors)}."
    if told := significance(record.matrix, "recall.macro"):
        words += f" {told}"
    words += "".join(f" {told}." for told in warnings(record.matrix))
    columns = (
        *PLACE,
        *number_columns("Δ macro recall", "Churn", "Lost / gained", "Detectable Δ top-1"),
    )
    return _section("Drift matrix", words, columns, rows)


def _rules(record: RunRecord, names: Names) -> Section:
    ordered = worst_first(record.verdict.rules)
    rows = [
        (
            WORDS[rule.state],
            rule.limit,
            shorten(rule.observed, MOST_REASON),
            *names.cells(rule),
        )
        for rule in ordered
        if rule.state != "pass"
    ]
    columns = (*text_columns("Outcome", "Rule", "Observed"), *PLACE)
    words = "" if rows else "Every rule passed."
    return _section("Rules that did not pass", words, columns, rows)


def _published(facts: PublishedFacts) -> Section:
    rows = [
        (
            claim.words,
            claim.metric,
            claim.reading,
            points(claim.published),
            estimated(claim.measured),
        )
        for claim in facts.claims
    ]
    columns = (
        *text_columns("Difference", "Metric", "Reading"),
        *number_columns(f"{published_label(facts)}, pp", "Here, pp"),
    )
    words = " ".join(filter(None, (f"Source: {facts.source}.", facts.note, tally(facts))))
    return _section("Comparison with the published table", words, columns, rows)


def _sizes(record: RunRecord, names: Names) -> Section:
    told = [size_sentence(curve, names) for curve in across_paths(record, "churn")]
    return Section("Drift and the size of the training set", " ".join(told))


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
    columns = (
        *text_columns("Paths", "Stage (isolated)"),
        *number_columns("Max", "Mean", "Pixels differing"),
    )
    return _section("Which stage", words or "No pixels were compared.", columns, rows)


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
    columns = text_columns("Served with", "Images that change", "What they have in common")
    return _section("Which images change", words, columns, rows)


def _controls(record: RunRecord) -> Section:
    rows = [
        (
            control.name,
            control.expected,
            control.observed,
            "passed" if control.passed else "NOT PASSED",
        )
        for control in record.controls
    ]
    words = "" if rows else "This run has no controls."
    columns = text_columns("Control", "Expected", "Observed", "Outcome")
    return _section("Controls", words, columns, rows)
