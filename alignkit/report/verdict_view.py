"""The verdict: one sentence, its state by icon and word, and the rules behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from alignkit.judge.words import SEVERITY, remark, worst_first
from alignkit.record import RuleOutcome, Verdict, VerdictState
from alignkit.report.table import Shown, Table, text_columns
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, NBSP, listed

WORDS: dict[VerdictState, str] = {
    "pass": "Pass",
    "warn": "Warning",
    "fail": "Fail",
    "inconclusive": "Inconclusive",
    "error": "Error",
}
OUTCOMES: dict[VerdictState, str] = {
    "pass": "passed",
    "warn": "warned",
    "fail": "failed",
    "inconclusive": "inconclusive",
    "error": "could not be measured",
}
COLOURS: dict[VerdictState, str] = {
    "pass": "#1f7a4d",
    "warn": "#8a5a00",
    "fail": "#b3261e",
    "inconclusive": "#4a5568",
    "error": "#7b2d8b",
}
# One outline a state, told apart by shape alone: circle, triangle, octagon, square, diamond.
OUTLINES: dict[VerdictState, str] = {
    "pass": "M12 2a10 10 0 1 0 0 20a10 10 0 0 0 0-20z",
    "warn": "M12 2L23 21.5H1z",
    "fail": "M7.6 1.5h8.8l6.1 6.1v8.8l-6.1 6.1H7.6l-6.1-6.1V7.6z",
    "inconclusive": "M4 2h16a2 2 0 0 1 2 2v16a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2V4a2 2 0 0 1 2-2z",
    "error": "M12 .8L23.2 12L12 23.2L.8 12z",
}
SIGNS: dict[VerdictState, str] = {
    "pass": "M7 12.4l3.4 3.4L17 9",
    "warn": "M12 9v5.6M12 17.6v.5",
    "fail": "M8.4 8.4l7.2 7.2M15.6 8.4l-7.2 7.2",
    "inconclusive": "M9 9.6a3 3 0 1 1 4.4 2.6c-.9.5-1.4 1-1.4 2M12 17v.5",
    "error": "M12 6.8v6.4M12 16.6v.5",
}


@dataclass(frozen=True, slots=True)
class Icon:
    """A state as two SVG paths in a 24 x 24 box: a filled outline and a white sign on it."""

    state: VerdictState
    word: str
    outline: str
    sign: str


@dataclass(frozen=True, slots=True)
class VerdictView:
    """What the top of the page says."""

    icon: Icon
    sentence: str
    remark: str
    """That it is informational, and how the run ended."""
    tally: str
    """Rules by outcome, in words."""
    favicon: str
    """A ``data:`` URI."""
    attention: Table | None
    """Rules that did not pass; ``None`` if all did."""
    passed: Table | None
    """Rules that passed."""


def icon(state: VerdictState) -> Icon:
    """The icon of a state."""
    return Icon(state, WORDS[state], OUTLINES[state], SIGNS[state])


def verdict_view(verdict: Verdict, names: Names) -> VerdictView:
    """The verdict and its rules, the worst first."""
    ordered = worst_first(verdict.rules)
    attention = [rule for rule in ordered if rule.state != "pass"]
    passed = [rule for rule in ordered if rule.state == "pass"]
    return VerdictView(
        icon=icon(verdict.state),
        sentence=unbroken(verdict.sentence),
        remark=_remark(verdict),
        tally=_tally(verdict),
        favicon=_favicon(verdict.state),
        attention=_table("Rules that did not pass", attention, names),
        passed=_table("Rules that passed", passed, names),
    )


def unbroken(sentence: str) -> str:
    """The sentence with its intervals and units kept on one line."""
    kept = re.sub(r"\[(\S+), (\S+)\]", f"[\\1,{NBSP}\\2]", sentence)
    return re.sub(r"(\d) (pp|%|grey levels)", f"\\1{NBSP}\\2", kept)


def _remark(verdict: Verdict) -> str:
    if verdict.informational:
        return f"Informational: the gate does not fail the run. Exit code {verdict.exit_code}."
    return f"Exit code {verdict.exit_code}."


def _tally(verdict: Verdict) -> str:
    if not verdict.rules:
        return "No gate rule was set; the state follows from the run itself."
    counts = {state: sum(rule.state == state for rule in verdict.rules) for state in SEVERITY}
    words = [f"{number} {OUTCOMES[state]}" for state, number in counts.items() if number]
    return f"{len(verdict.rules)} rule checks: {listed(words)}."


def _favicon(state: VerdictState) -> str:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">'
        f'<path d="{OUTLINES[state]}" fill="{COLOURS[state]}"/>'
        f'<path d="{SIGNS[state]}" fill="none" stroke="#fff" stroke-width="2.4" '
        'stroke-linecap="round" stroke-linejoin="round"/></svg>'
    )
    return "data:image/svg+xml," + quote(svg)


def _table(caption: str, rules: list[RuleOutcome], names: Names) -> Table | None:
    if not rules:
        return None
    rows = [
        (
            Shown(WORDS[rule.state], tone=rule.state),
            rule.limit,
            rule.observed,
            *names.cells(rule),
            remark(rule) or DASH,
        )
        for rule in rules
    ]
    columns = text_columns(
        "Outcome",
        "Rule",
        "Observed",
        "Trained with",
        "Evaluated with",
        "Runtime",
        "Remark",
    )
    return Table.of(caption, columns, rows)
