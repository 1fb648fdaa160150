"""SARIF 2.1.0: mistakes in the file, without drift, which has no line of source.

docs.oasis-open.org/sarif/sarif/v2.1.0; GitHub shows the first 5,000 results of a run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from alignkit.gate.outputs import GateResult
from alignkit.record import Finding
from alignkit.version import __version__

_MOST = 5_000


@dataclass(frozen=True, slots=True)
class Sarif:
    """The findings about the file."""

    def render(self, result: GateResult) -> str:
        """Return one run, even without results, so that fixed mistakes disappear."""
        rules = sorted({finding.rule for finding in result.findings})
        run = {
            "tool": {
                "driver": {
                    "name": "alignkit",
                    "version": __version__,
                    "rules": [{"id": rule} for rule in rules],
                }
            },
            "results": [_result(each, rules) for each in result.findings[:_MOST]],
        }
        document = {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [run],
        }
        return json.dumps(document, indent=1) + "\n"


def _result(finding: Finding, rules: list[str]) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": finding.file}}
    if finding.line:
        place["region"] = {"startLine": finding.line, "startColumn": max(1, finding.column)}
    return {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": finding.level,
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": place}],
    }
