"""For a terminal or a log: at most 30 lines."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.gate.outputs import GateResult
from alignkit.judge.words import explained, worst_first
from alignkit.report.matrix_view import warnings
from alignkit.text import columns
from alignkit.text.names import place_in_words

_SHOWN = 12
"""Outcomes that did not pass; with all else, fewer than 30 lines."""
FINDINGS = 3


@dataclass(frozen=True, slots=True)
class Text:
    """The verdict, the rules that did not pass, and what to do next."""

    def render(self, result: GateResult) -> str:
        """Return at most 30 lines, none of them shortened."""
        verdict = result.verdict
        informational = ", informational" if verdict.informational else ""
        lines = [
            f"{result.name}: {verdict.state.upper()} (exit {result.exit_code}{informational})",
            *verdict.sentence.splitlines()[:8],
            *_outcomes(result),
            *_findings(result),
            *_facts(result),
        ]
        return "\n".join(lines) + "\n"


def _outcomes(result: GateResult) -> list[str]:
    shown = [each for each in worst_first(result.verdict.rules) if each.state != "pass"]
    if not shown:
        return []
    rows = [
        (each.state, each.metric, place_in_words(each), explained(each)) for each in shown[:_SHOWN]
    ]
    lines = columns(rows, indent="  ").splitlines()
    if len(shown) > _SHOWN:
        lines.append(f"  … and {len(shown) - _SHOWN} more; see the report")
    return lines


def _findings(result: GateResult) -> list[str]:
    if result.record is None:
        return []  # the sentence is the finding
    return [
        f"{each.level}: {each.file}:{each.line}: {each.message}"
        for each in result.findings[:FINDINGS]
    ]


def _facts(result: GateResult) -> list[str]:
    record, rows = result.record, []
    if record is not None:
        held = sum(control.passed for control in record.controls)
        rows.append(("self-test", f"{held} of {len(record.controls)} controls hold"))
        rows.append(("images", str(record.data.eval)))
        rows += [("warning", told) for told in warnings(record.matrix)]
        rows += [("not run", f"{p.name}: {p.skipped}") for p in record.paths if p.skipped][:3]
    if result.page is not None:
        rows.append(("report", str(result.page)))
    rows.append(("again", result.command))
    if result.pending is not None and result.pending.count:
        rows.append(("review", f"alignkit review {result.file}"))
    return columns(rows).splitlines()
