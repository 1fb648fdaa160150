"""The verdict: state by icon and word, three lines, and the gate by rule and pair of paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from alignkit.place import Place
from alignkit.record import MatrixEntry, RuleOutcome, RunRecord, Verdict, VerdictState
from alignkit.record.verdict_facts import SEVERITY, worst_first
from alignkit.report.table import PIXEL_PLACE, PLACE, Shown, Table
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, count, listed
from alignkit.text.outcome import said
from alignkit.text.verdict import REPORT_ONLY, SaidVerdict, report_only, verdict_words


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
    said: SaidVerdict
    remark: str
    """Whether it fails a command, and how the run ended if it did."""
    tally: str
    """Rules by outcome, in words."""
    favicon: str
    """A ``data:`` URI."""


def verdict_view(record: RunRecord) -> VerdictView:
    """Return the verdict as a page shows it."""
    verdict = record.verdict
    icon, only = ICONS[verdict.state], report_only(verdict)
    return VerdictView(
        icon=replace(icon, word=f"{icon.word} ({REPORT_ONLY})") if only else icon,
        said=verdict_words(verdict, record),
        remark=_remark(verdict),
        tally=tally(verdict),
        favicon=favicon(icon),
    )


def _remark(verdict: Verdict) -> str:
    if report_only(verdict):
        return "Report only: the file's gate is informational, so that no command fails."
    return f"The command ends with exit code {verdict.exit_code}." if verdict.exit_code else ""


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


@dataclass(frozen=True, slots=True)
class GateCell:
    """One outcome of a group."""

    runtime: str
    """Empty where pixels alone are compared."""
    observed: str


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """The outcomes of one rule in one state for a pair of paths."""

    icon: Icon
    rule: str
    trained: str
    served: str
    worst: str
    """The value that lies farthest from its limit, or the reason why there is none."""
    cells: tuple[GateCell, ...]
    """All of them, the worst first."""
    remark: str
    cell: int | None
    """Index of the worst in the matrix, for the list of images; ``None`` without predictions."""
    pictures: str
    """Id of the images of its pair on the page, for a failed rule about pixels; empty if none."""

    @property
    def size(self) -> str:
        """The number of its cells in words."""
        return count(len(self.cells), "cell")


@dataclass(frozen=True, slots=True)
class GateView:
    """The rules of a run or gate."""

    open: tuple[RuleGroup, ...]
    """Those that did not pass."""
    passed: tuple[RuleGroup, ...]
    heads: tuple[str, ...]
    """Of the pair's two columns."""


def gate_view(
    verdict: Verdict,
    names: Names,
    matrix: Sequence[MatrixEntry] = (),
    pictures: Mapping[tuple[str, str], str] | None = None,
) -> GateView:
    """Group the rules of a verdict.

    ``matrix`` is that of its record; ``pictures`` has the id of the images of each pair of paths.
    """
    places = {each.place: index for index, each in enumerate(matrix) if each.drift}
    groups: dict[tuple[str, ...], list[RuleOutcome]] = {}
    for each in worst_first(verdict.rules):
        # reasons of what was not measured may differ, and each is shown
        reason = said(each, "value") if each.state == "error" else ""
        key = (each.state, said(each, "rule"), each.trained_with, each.evaluated_with, reason)
        groups.setdefault(key, []).append(each)
    views = [_group(same, names, places, pictures or {}) for same in groups.values()]
    models = any(rule.column.runtime for rule in verdict.rules)
    return GateView(
        tuple(each for each in views if each.icon.state != "pass"),
        tuple(each for each in views if each.icon.state == "pass"),
        PLACE[:2] if models else PIXEL_PLACE,
    )


def _group(
    same: Sequence[RuleOutcome],
    names: Names,
    places: dict[Place, int],
    pictures: Mapping[tuple[str, str], str],
) -> RuleGroup:
    first = same[0]
    pair = first.trained_with, first.evaluated_with
    trained, served, _ = names.cells(first)
    return RuleGroup(
        ICONS[first.state],
        said(first, "rule"),
        trained,
        served,
        said(first, "value"),
        tuple(GateCell(each.column.runtime, said(each, "value")) for each in same),
        said(first, "remark"),
        places.get(first.place) if first.state != "error" else None,
        pictures.get(pair, "") if first.state == "fail" and not first.backend else "",
    )


def groups_table(caption: str, groups: Sequence[RuleGroup], heads: tuple[str, ...]) -> Table | None:
    """Return groups as a plain table; ``None`` without any."""
    if not groups:
        return None
    rows = [
        (
            Shown(each.icon.word, tone=each.icon.state),
            each.rule,
            each.trained,
            each.served,
            each.worst,
            _cells(each),
            each.remark or DASH,
        )
        for each in groups
    ]
    return Table.of(caption, ("Outcome", "Rule", *heads, "Worst", "Cells", "Remark"), rows)


def _cells(group: RuleGroup) -> str:
    first, *more = group.cells
    if not first.runtime:
        return DASH
    return f"{first.runtime} and {len(more)} more" if more else first.runtime
