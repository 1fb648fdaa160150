"""``results.json``: everything, for programs."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.gate.outputs import GateResult
from alignkit.report.results import Results, ResultsHead, measured_fields, results_text
from alignkit.version import __version__


@dataclass(frozen=True, slots=True)
class JsonResults:
    """The verdict, every outcome and all measurements; see `alignkit.report.results`."""

    def render(self, result: GateResult) -> str:
        """Return one document; a missing value is ``null`` with its reason beside it."""
        return results_text(results_from_gate(result))


def results_from_gate(result: GateResult) -> ResultsHead:
    """Build the document of ``alignkit gate --format json``."""
    return Results(
        alignkit=__version__,
        name=result.name,
        command=result.command,
        file=str(result.file),
        exit_code=result.exit_code,
        verdict=result.verdict,
        findings=result.findings,
        pending=result.pending.count if result.pending else 0,
        report=str(result.page) if result.page else None,
        **measured_fields(result.record),
    )
