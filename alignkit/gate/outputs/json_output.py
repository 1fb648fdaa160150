"""Outputs for programs: results and GitLab's findings in JSON, and changed lines to approve."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from alignkit.gate.outputs import GateResult
from alignkit.report.results import Results, measured_fields, results_text
from alignkit.text.names import Names, place_in_words
from alignkit.version import __version__

_SEVERITIES = {"error": "blocker", "fail": "critical", "inconclusive": "minor", "warn": "info"}
"""GitLab's, by the state of an outcome; one that passes is no finding."""


@dataclass(frozen=True, slots=True)
class JsonResults:
    """``results.json``: the verdict and all measurements; see `alignkit.report.results`."""

    def render(self, result: GateResult) -> str:
        """Return one document; a missing value is ``null`` with its reason beside it."""
        document = Results(
            alignkit=__version__,
            name=result.name,
            command=result.command,
            file=str(result.file),
            exit_code=result.exit_code,
            verdict=result.verdict,
            said=tuple(result.said.lines),
            findings=result.findings,
            pending=result.pending.count if result.pending else 0,
            report=str(result.page) if result.page else None,
            **measured_fields(result.record),
        )
        return results_text(document)


@dataclass(frozen=True, slots=True)
class CodeQuality:
    """GitLab's code quality report: every outcome that did not pass, every mistake in the file."""

    def render(self, result: GateResult) -> str:
        """Return the findings on the file's lines.

        Fingerprints hold no values and no labels, so that a finding stays the same while its number
        or label changes.
        """
        findings = [
            _finding(
                result, each.rule, f"{row.place}: {row.text}", each.line,
                _SEVERITIES[each.state], place_in_words(each, Names(())),
            )
            for row in result.rows
            for each in [row.outcome]
            if each.state in _SEVERITIES
        ]  # fmt: skip
        findings += [
            _finding(result, each.rule, each.message, each.line,
                     "critical" if each.level == "error" else "minor", each.message)
            for each in result.findings
        ]  # fmt: skip
        # an empty report is green in GitLab, which a gate that measured nothing is not
        if result.exit_code and not findings:
            findings.append(
                _finding(result, "gate", result.said.sentence, 1, "blocker", "not measured")
            )
        return json.dumps(findings, indent=1) + "\n"


def _finding(
    result: GateResult, rule: str, text: str, line: int, severity: str, where: str
) -> dict[str, object]:
    identity = "\n".join((result.name, str(result.file), rule, where))
    return {
        "description": text,
        "check_name": f"alignkit/{rule}",
        "fingerprint": hashlib.sha256(identity.encode()).hexdigest(),
        "severity": severity,
        "location": {"path": str(result.file), "lines": {"begin": max(1, line)}},
    }


@dataclass(frozen=True, slots=True)
class Pending:
    """A baseline file of the changed lines alone, for `alignkit baseline approve --from`."""

    def render(self, result: GateResult) -> str:
        """Return the lines; empty where no rule looks at a baseline."""
        from alignkit.baseline.pending import pending_text

        return pending_text(result.pending) if result.pending else ""
