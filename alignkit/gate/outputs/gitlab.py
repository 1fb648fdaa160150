"""GitLab's code quality report: a JSON list of findings on the file's lines."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from alignkit.gate.outputs import GateResult
from alignkit.judge.words import explained, worst_first
from alignkit.text.names import place_in_words

_SEVERITIES = {"error": "blocker", "fail": "critical", "inconclusive": "minor", "warn": "info"}


@dataclass(frozen=True, slots=True)
class CodeQuality:
    """One finding for every outcome that did not pass, and for every mistake in the file."""

    def render(self, result: GateResult) -> str:
        """Return the report.

        Fingerprints hold no values, so that a finding stays the same while its number changes.
        """
        findings = [
            _finding(result, each.rule, f"{place_in_words(each)}: {explained(each)}", each.line,
                     _SEVERITIES[each.state], place_in_words(each))
            for each in worst_first(result.verdict.rules)
            if each.state in _SEVERITIES
        ]  # fmt: skip
        findings += [
            _finding(result, each.rule, each.message, each.line,
                     "critical" if each.level == "error" else "minor", each.message)
            for each in result.findings
        ]  # fmt: skip
        if result.exit_code and not findings:
            findings.append(
                _finding(result, "gate", result.verdict.sentence, 1, "blocker", "not measured")
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
