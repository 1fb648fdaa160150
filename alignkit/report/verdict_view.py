"""The verdict: one sentence, its state by icon and word, and the rules behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import quote

from alignkit.judge.verdict_words import SEVERITY, remark, worst_first
from alignkit.record import RuleOutcome, Verdict, VerdictState
from alignkit.report.table import PIXEL_PLACE, PLACE, RowCells, Shown, Table
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, NBSP, listed


@dataclass(frozen=True, slots=True)
class Icon:
    """A state as two SVG paths in a 24 x 24 box: a filled outline and a white sign on it."""

    state: VerdictState
    word: str
    outcome: str
    """Of rules in this state."""
    colour: str
    """Of the favicon alone; the page has those of its style sheet."""
    outline: str
    sign: str


# one outline a state, so that shape alone tells them apart:
# circle, triangle, octagon, square, diamond
_ICONS = (
    Icon(
        "pass", "Pass", "passed", "#1f7a4d",
        outline="M12 2a10 10 0 1 0 0 20a10 10 0 0 0 0-20z",
        sign="M7 12.4l3.4 3.4L17 9",
    ),
    Icon(
        "warn", "Warning", "warned", "#8a5a00",
        outline="M12 2L23 21.5H1z",
        sign="M12 9v5.6M12 17.6v.5",
    ),
    Icon(
        "fail", "Fail", "failed", "#b3261e",
        outline="M7.6 1.5h8.8l6.1 6.1v8.8l-6.1 6.1H7.6l-6.1-6.1V7.6z",
        sign="M8.4 8.4l7.2 7.2M15.6 8.4l-7.2 7.2",
    ),
    Icon(
        "inconclusive", "Inconclusive", "inconclusive", "#4a5568",
        outline="M4 2h16a2 2 0 0 1 2 2v16a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2V4a2 2 0 0 1 2-2z",
        sign="M9 9.6a3 3 0 1 1 4.4 2.6c-.9.5-1.4 1-1.4 2M12 17v.5",
    ),
    Icon(
        "error", "Error", "could not be measured", "#7b2d8b",
        outline="M12 .8L23.2 12L12 23.2L.8 12z",
        sign="M12 6.8v6.4M12 16.6v.5",
    ),
)  # fmt: skip
ICONS = {icon.state: icon for icon in _ICONS}
"""State → its icon."""


@dataclass(frozen=True, slots=True)
class VerdictView:
    """The top of the page."""

    icon: Icon
    sentence: str
    remark: str
    """Whether it is informational, and how the run ended."""
    tally: str
    """Rules by outcome, in words."""
    favicon: str
    """A ``data:`` URI."""
    attention: Table | None
    """Rules that did not pass; ``None`` if all did."""
    passed: Table | None
    """Rules that passed."""


def verdict_word(verdict: Verdict) -> str:
    """Return the state of a verdict as text outputs begin with it: ``FAIL``, ``FINDINGS``, …."""
    findings = verdict.informational and verdict.state == "fail"
    return "FINDINGS" if findings else verdict.state.upper()


def verdict_view(verdict: Verdict, names: Names) -> VerdictView:
    """Return the verdict and its rules, the worst first."""
    ordered = worst_first(verdict.rules)
    attention = [rule for rule in ordered if rule.state != "pass"]
    passed = [rule for rule in ordered if rule.state == "pass"]
    icon = ICONS[verdict.state]
    informational = "Not enforced: the gate does not fail the run. " * (verdict.state != "error")
    return VerdictView(
        icon=replace(icon, word="Findings") if verdict_word(verdict) == "FINDINGS" else icon,
        sentence=unbroken(verdict.sentence),
        remark=f"{informational * verdict.informational}Exit code {verdict.exit_code}.",
        tally=_tally(verdict),
        favicon=_favicon(ICONS[verdict.state]),
        attention=_table("Rules that did not pass", attention, names),
        passed=_table("Rules that passed", passed, names),
    )


def unbroken(sentence: str) -> str:
    """Keep a sentence's intervals and units on one line."""
    # a line break inside an interval is misread
    kept = re.sub(r"\[(\S+), (\S+)\]", f"[\\1,{NBSP}\\2]", sentence)
    return re.sub(r"(\d) (pp|%|grey levels)", f"\\1{NBSP}\\2", kept)


def _tally(verdict: Verdict) -> str:
    if not verdict.rules:
        return "No gate rule was set; the state follows from the run itself."
    # in the order of severity
    counts = {state: sum(rule.state == state for rule in verdict.rules) for state in SEVERITY}
    words = [f"{number} {ICONS[state].outcome}" for state, number in counts.items() if number]
    return f"{len(verdict.rules)} rule checks: {listed(words)}."


def _favicon(icon: Icon) -> str:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">'
        f'<path d="{icon.outline}" fill="{icon.colour}"/>'
        f'<path d="{icon.sign}" fill="none" stroke="#fff" stroke-width="2.4" '
        'stroke-linecap="round" stroke-linejoin="round"/></svg>'
    )
    return "data:image/svg+xml," + quote(svg)


def _table(caption: str, rules: list[RuleOutcome], names: Names) -> Table | None:
    if not rules:
        return None
    # without a runtime pixels alone are compared, and nothing was trained
    models = any(rule.column.runtime for rule in rules)
    rows: list[RowCells] = [
        (
            Shown(ICONS[rule.state].word, tone=rule.state),
            rule.limit,
            rule.observed,
            *names.cells(rule)[: 3 if models else 2],
            remark(rule) or DASH,
        )
        for rule in rules
    ]
    columns = ("Outcome", "Rule", "Observed", *(PLACE if models else PIXEL_PLACE), "Remark")
    return Table.of(caption, columns, rows)
