"""The verdict: its state by icon and word, and its rules by pair of paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from alignkit.record import RuleOutcome, Verdict, VerdictState
from alignkit.record.verdict_facts import SEVERITY, worst_first
from alignkit.report.table import PIXEL_PLACE, PLACE, Shown, Table
from alignkit.text.column import Fact
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, count, listed
from alignkit.text.outcome import said
from alignkit.text.verdict import REPORT_ONLY, report_only


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


def shown_icon(verdict: Verdict) -> Icon:
    """Return the icon of a verdict, with the mark of one that fails no command."""
    icon = ICONS[verdict.state]
    return replace(icon, word=f"{icon.word} ({REPORT_ONLY})") if report_only(verdict) else icon


def tally(verdict: Verdict) -> str:
    """Count the checks of rules by outcome."""
    if not verdict.rules:
        return "No gate rule was set; the state follows from the run itself."
    # in the order of severity
    counts = {state: sum(rule.state == state for rule in verdict.rules) for state in SEVERITY}
    words = [f"{number} {ICONS[state].outcome}" for state, number in counts.items() if number]
    return f"{count(len(verdict.rules), 'rule check')}: {listed(words)}."


def favicon(icon: Icon) -> str:
    """Return an icon as the ``data:`` URI of a page."""
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">'
        f'<path d="{icon.outline}" fill="{icon.colour}"/>'
        f'<path d="{icon.sign}" fill="none" stroke="#fff" stroke-width="2.4" '
        'stroke-linecap="round" stroke-linejoin="round"/></svg>'
    )
    return "data:image/svg+xml," + quote(svg)


def rules_tables(
    verdict: Verdict,
    names: Names,
    links: Callable[[RuleOutcome], str] = lambda _: "",
) -> tuple[Table | None, Table | None]:
    """Return the rules that did not pass, and those that did: the worst cell of each and its pair.

    Cells that share a rule, a state and a pair of paths share a row. ``links`` lead from its worst
    to the images of that cell.
    """
    groups: dict[tuple[str, ...], list[RuleOutcome]] = {}
    for each in worst_first(verdict.rules):
        # reasons of what was not measured may differ, and each is shown
        reason = said(each, "value") if each.state == "error" else ""
        key = (each.state, said(each, "rule"), each.trained_with, each.evaluated_with, reason)
        groups.setdefault(key, []).append(each)
    models = any(rule.column.runtime for rule in verdict.rules)
    trained, served = PLACE[:2] if models else PIXEL_PLACE
    columns: tuple[Fact[Sequence[RuleOutcome]], ...] = (
        Fact("Outcome", lambda same: Shown(ICONS[same[0].state].word, tone=same[0].state)),
        Fact("Rule", lambda same: said(same[0], "rule")),
        Fact(trained, lambda same: names.short(same[0].trained_with)),
        Fact(served, lambda same: names.short(same[0].evaluated_with)),
        Fact("Worst", lambda same: Shown(said(same[0], "value"), link=links(same[0]))),
        Fact("Cells", _runtimes),
        Fact("Remark", lambda same: said(same[0], "remark") or DASH),
    )

    def table(caption: str, found: Sequence[Sequence[RuleOutcome]]) -> Table | None:
        return Table.made(caption, columns, found) if found else None

    # all of a group are in one state
    passed = [same for same in groups.values() if same[0].state == "pass"]
    others = [same for same in groups.values() if same[0].state != "pass"]
    return table("Rules that did not pass", others), table("Rules that passed", passed)


def _runtimes(same: Sequence[RuleOutcome]) -> Shown:
    """Name the runtime of the worst; behind it, the value in each of several."""
    first, *more = same
    if not more or not first.column.runtime:
        return Shown(first.column.runtime or DASH)
    values = tuple(f"{each.column.runtime}: {said(each, 'value')}" for each in same)
    return Shown(f"{first.column.runtime} and {len(more)} more", more=values)
