"""Outputs for people: the terminal's text, and Markdown for a comment or a step's summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from alignkit.gate.outputs import GateResult, OutcomeRow
from alignkit.record import RunRecord
from alignkit.report.matrix_words import simulations, warnings
from alignkit.text import columns, printable
from alignkit.text.markdown import Written, code, fenced, markdown_text
from alignkit.text.names import controls_words, surrogate_lines
from alignkit.text.numbers import shorten
from alignkit.text.outcome import said
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


@dataclass(frozen=True, slots=True)
class Text:
    """The verdict, the rules that did not pass, and what to do next."""

    def render(self, result: GateResult) -> str:
        """Return at most 30 lines, none of them shortened."""
        verdict = result.verdict
        ended = f"exit {result.exit_code}" * bool(result.exit_code)
        lines = [
            f"{result.name}: {verdict_word(verdict, ended)}",
            *"\n".join(result.said.lines).splitlines()[:_LINES],
            *_outcome_lines(result.rows),
        ]
        # without a record nothing was measured, and the sentence is the finding
        if result.record is not None:
            lines += [
                f"{each.level}: {each.file}:{each.line}: {each.message}"
                # the sentence says what concerns the whole file
                for each in [found for found in result.findings if found.line][:_FINDINGS]
            ]
        return "\n".join([*map(printable, lines), columns(_facts(result))]) + "\n"


def _shared_words(row: OutcomeRow) -> str:
    """Return the words by which outcomes of one place share a line."""
    outcome = row.outcome
    if any(each.kind == "earlier stage" for each in outcome.cause):
        return said(outcome, "remark")  # stages that only pass a change on
    # the reason of an error does not depend on the limit
    return said(outcome, "value") if outcome.state == "error" else row.text


def _outcome_lines(outcomes: Sequence[OutcomeRow]) -> list[str]:
    groups: dict[tuple[str, str, str], list[OutcomeRow]] = {}
    for each in outcomes:
        if (state := each.outcome.state) != "pass":
            groups.setdefault((state, each.place, _shared_words(each)), []).append(each)
    if not groups:
        return []
    rows = [
        (
            state,
            ", ".join(each.outcome.metric for each in members),
            place,
            words if len(members) > 1 else members[0].text,
        )
        for (state, place, words), members in groups.items()
    ]
    lines = columns(rows[:_OUTCOMES], indent="  ").splitlines()
    if len(rows) > _OUTCOMES:
        left = sum(map(len, [*groups.values()][_OUTCOMES:]))
        lines.append(f"  … and {left} more; see the report")
    return lines


def _facts(result: GateResult) -> list[tuple[str, str]]:
    record, rows = result.record, []
    if record is not None:
        rows.append(("self-test", controls_words(record.controls, "controls hold")))
        rows.append(("images", _images(record)))
        rows += [("simulated", text) for text in simulations(record.matrix)]
        rows += [("warning", text) for text in warnings(record.matrix)]
        rows += [("not run", f"{p.name}: {p.skipped}") for p in record.paths if p.skipped][:3]
        rows += [("surrogate", text) for text in surrogate_lines(record.paths, most=_FINDINGS)]
    if result.page is not None:
        rows.append(("report", str(result.page)))
    rows.append(("again", result.command))
    if result.pending is not None and result.pending.count:
        rows.append(("review", result.review))
    return rows


def _images(record: RunRecord) -> str:
    """Return how many images there were, and how many of them any two paths compared."""
    images, compared = record.data.eval, [each.decoded for each in record.coverage_diffs]
    few = min(compared, default=images)
    return f"{images}, {few} of them compared" if few < images else str(images)


@dataclass(frozen=True, slots=True)
class Markdown:
    """``summary.md``: the verdict, the rules, the stages and how to go on."""

    def render(self, result: GateResult) -> str:
        """Return at most 60,000 characters."""
        verdict = result.verdict
        said = result.said
        again = f"Again: {code(result.command)}"
        if result.pending is not None and result.pending.count:
            again += f"  \nIf the change is meant: {code(result.review)}"
        parts = [
            f"## {_SIGNS[verdict.state]} {markdown_text(result.name)}: {verdict_word(verdict)}",
            # a mistake in the file is shown with a caret below it, which needs a fixed pitch
            fenced(said.sentence) if "\n" in said.sentence else markdown_text(said.sentence),
            markdown_text(said.cause),
            *_steps(said),
            *map(markdown_text, surrogate_lines(result.record.paths if result.record else ())),
            _rule_table(result.rows),
            *(markdown_text(f"{each}.") for each in _simulated(result)),
            _stage_table(result),
            again,
        ]
        return shorten("\n\n".join(part for part in parts if part), _CHARACTERS) + "\n"


def _steps(verdict: SaidVerdict) -> Iterator[str]:
    for step in verdict.steps:
        yield f"**{step.lead}:** {markdown_text(step.marked)}"
        if step.given:
            yield fenced(step.given)


def _simulated(result: GateResult) -> list[str]:
    return simulations(result.record.matrix) if result.record else []


def _rule_table(outcomes: Sequence[OutcomeRow]) -> str:
    # passes are listed only if there is nothing else to show
    shown = [each for each in outcomes if each.outcome.state != "pass"][:_ROWS] or outcomes[:_ROWS]
    if not shown:
        return ""
    rows = [
        (
            f"{_SIGNS[each.state]} {each.state}",
            code(each.rule),
            row.place,
            said(each, "value"),
            said(each, "rule"),
            said(each, "remark"),
        )
        for row in shown
        for each in [row.outcome]
    ]
    table = _table(("", "rule", "where", "observed", "limit", "why"), rows)
    left = len(outcomes) - len(shown)
    return f"{table}\n\n{left} more checks are in the report." if left else table


def _stage_table(result: GateResult) -> str:
    stages, short = result.record.pixels if result.record else (), result.names.short
    rows = [
        (
            f"{short(each.candidate)} against {short(each.reference)}",
            each.stage,
            f"{each.mean_abs or 0:.4g}",
            f"{each.max_abs:.4g}",
            "" if each.share_differing is None else f"{100 * each.share_differing:.1f} %",
        )
        for each in stages
        if each.mode == "isolated" and each.max_abs
    ][:_ROWS]
    if not rows:
        return ""
    table = _table(("paths", "stage alone", "mean", "max", "pixels that differ"), rows)
    # folded: the rules above say what fails, this says where it begins
    return f"<details><summary>Stages that differ</summary>\n\n{table}\n</details>"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    # shortened first: a cut between a backslash and its pipe would end the cell
    return markdown_text(text if isinstance(text, Written) else shorten(text, 300))
