"""Outputs for people: the terminal's text, and Markdown for a comment or a step's summary."""

from __future__ import annotations

from collections.abc import Iterator

from alignkit.gate.outputs import GateResult, OutcomeRow
from alignkit.record import PixelStage, RunRecord
from alignkit.report.matrix_words import simulations, warnings
from alignkit.report.table import Table
from alignkit.text import code, columns, fenced, markdown_text, printable
from alignkit.text.column import Fact
from alignkit.text.names import Names, controls_words, surrogate_lines
from alignkit.text.numbers import shorten
from alignkit.text.outcome import Style, said
from alignkit.text.verdict import SaidVerdict, verdict_word

_LINES = 12
"""Lines of the verdict."""
_OUTCOMES = 7
"""Outcomes that did not pass; with all else, fewer than 30 lines."""
_FINDINGS = 3
_CHARACTERS = 60_000
"""A comment on GitHub holds 65,536 characters, a step's summary 1 MiB."""
_ROWS = 50
_SIGNS = {"pass": "✅", "warn": "⚠️", "fail": "❌", "inconclusive": "❔", "error": "💥"}


def text(result: GateResult) -> str:
    """Return the verdict, the rules that did not pass, and what to do next, in at most 30 lines."""
    ended = f"exit {result.exit_code}" * bool(result.exit_code)
    lines = [
        f"{result.name}: {verdict_word(result.verdict, ended)}",
        *"\n".join(result.said.lines).splitlines()[:_LINES],
        *_outcome_lines([row for row in result.rows if row.outcome.state != "pass"]),
    ]
    # the sentence says what concerns the whole file; without a record it is the finding itself
    found = [each for each in result.findings if each.line and result.record is not None]
    lines += [f"{e.level}: {e.file}:{e.line}: {e.message}" for e in found[:_FINDINGS]]
    return "\n".join([*map(printable, lines), columns([*_facts(result)])]) + "\n"


def _shared_words(row: OutcomeRow) -> str:
    """Return the words by which outcomes of one place share a line."""
    outcome = row.outcome
    if any(each.kind == "earlier stage" for each in outcome.cause):
        return said(outcome, "remark")  # stages that only pass a change on
    # the reason of an error does not depend on the limit
    return said(outcome, "value") if outcome.state == "error" else row.text


def _outcome_lines(outcomes: list[OutcomeRow]) -> list[str]:
    groups: dict[tuple[str, str, str], list[OutcomeRow]] = {}
    for each in outcomes:
        key = each.outcome.state, each.place, _shared_words(each)
        groups.setdefault(key, []).append(each)
    rows = [
        (state, ", ".join(each.outcome.metric for each in same), place,
         words if len(same) > 1 else same[0].text)
        for (state, place, words), same in groups.items()
    ]  # fmt: skip
    lines = columns(rows[:_OUTCOMES], indent="  ").splitlines() if rows else []
    left = sum(map(len, [*groups.values()][_OUTCOMES:]))
    return [*lines, *([f"  … and {left} more; see the report"] if left else [])]


def _facts(result: GateResult) -> Iterator[tuple[str, str]]:
    if record := result.record:
        yield "self-test", controls_words(record.controls, "controls hold")
        yield "images", _images(record)
        yield from (("simulated", each) for each in simulations(record.matrix))
        yield from (("warning", each) for each in warnings(record.matrix))
        skipped = [each for each in record.paths if each.skipped]
        yield from (("not run", f"{each.name}: {each.skipped}") for each in skipped[:_FINDINGS])
        surrogates = surrogate_lines(record.paths, most=_FINDINGS)
        yield from (("surrogate", each) for each in surrogates)
    if result.page is not None:
        yield "report", str(result.page)
    yield "again", result.command
    if result.pending is not None and result.pending.count:
        yield "review", result.review


def _images(record: RunRecord) -> str:
    """Return how many images there were, and how many of them any two paths compared."""
    images, compared = record.data.eval, [each.decoded for each in record.coverage_diffs]
    few = min(compared, default=images)
    return f"{images}, {few} of them compared" if few < images else str(images)


def markdown(result: GateResult) -> str:
    """Return ``summary.md``: the verdict, the rules, the stages and how to go on."""
    verdict, words = result.verdict, result.said
    again = f"Again: {code(result.command)}"
    if result.pending is not None and result.pending.count:
        again += f"  \nIf the change is meant: {code(result.review)}"
    measured = result.measured
    parts = [
        f"## {_SIGNS[verdict.state]} {markdown_text(result.name)}: {verdict_word(verdict)}",
        # a mistake in the file is shown with a caret below it, which needs a fixed pitch
        fenced(words.sentence) if "\n" in words.sentence else markdown_text(words.sentence),
        markdown_text(words.cause),
        *_steps(words),
        *map(markdown_text, surrogate_lines(measured.paths)),
        *_rule_table(result.rows),
        *(markdown_text(f"{each}.") for each in simulations(measured.matrix)),
        *_stage_table(measured.pixels, Names(measured.paths)),
        again,
    ]
    return shorten("\n\n".join(filter(None, parts)), _CHARACTERS) + "\n"


def _steps(verdict: SaidVerdict) -> Iterator[str]:
    for step in verdict.steps:
        yield f"**{step.lead}:** {markdown_text(step.marked)}"
        if step.given:
            yield fenced(step.given)


def _rule_table(outcomes: list[OutcomeRow]) -> Iterator[str]:
    # passes are listed only if there is nothing else to show
    shown = [each for each in outcomes if each.outcome.state != "pass"][:_ROWS] or outcomes[:_ROWS]
    columns: list[Fact[OutcomeRow]] = [
        Fact("Outcome", lambda row: f"{_SIGNS[row.outcome.state]} {row.outcome.state}"),
        Fact("Rule", lambda row: row.outcome.rule),
        Fact("Where", lambda row: row.place),
        Fact("Observed", lambda row: _short(row, "value")),
        Fact("Limit", lambda row: _short(row, "rule")),
        Fact("Why", lambda row: _short(row, "remark")),
    ]
    if shown:
        yield Table.made("Rules", columns, shown).markdown()
    if left := len(outcomes) - len(shown):
        yield f"{left} more checks are in the report."


def _short(row: OutcomeRow, style: Style) -> str:
    return shorten(said(row.outcome, style), 300)


def _stage_table(stages: tuple[PixelStage, ...], names: Names) -> Iterator[str]:
    columns: list[Fact[PixelStage]] = [
        Fact("Paths", lambda e: f"{names.short(e.candidate)} against {names.short(e.reference)}"),
        Fact("Stage alone", lambda each: each.stage),
        Fact("Mean", lambda each: each.mean_abs, "value", 4),
        Fact("Max", lambda each: each.max_abs, "value", 4),
        Fact("Pixels that differ", lambda each: each.share_differing, "share", note="not known"),
    ]
    shown = [each for each in stages if each.mode == "isolated" and each.max_abs][:_ROWS]
    if shown:
        table = Table.made("Stages that differ", columns, shown).markdown()
        # folded: the rules above say what fails, this says where it begins
        yield f"<details><summary>Stages that differ</summary>\n\n{table}\n</details>"
