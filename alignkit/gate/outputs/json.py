"""Everything, for programs: ``results.json``."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.gate.outputs import GateResult
from alignkit.report.results import FindingFacts, Results, _measured
from alignkit.version import __version__


@dataclass(frozen=True, slots=True)
class Json:
    """The verdict, every outcome, and what was measured; see `alignkit.report.results`."""

    def render(self, result: GateResult) -> str:
        """One document; what could not be computed is ``null`` with its reason beside it."""
        from alignkit.report.results import results_text

        return results_text(results_from_gate(result))


def results_from_gate(result: GateResult) -> Results:
    """What ``alignkit gate --format json`` prints."""
    return Results(
        alignkit=__version__,
        name=result.name,
        command=result.command,
        file=str(result.file),
        exit_code=result.exit_code,
        verdict=result.verdict,
        findings=tuple(
            FindingFacts.model_validate(each, from_attributes=True) for each in result.findings
        ),
        pending=result.pending.count if result.pending else 0,
        report=str(result.page) if result.page else None,
        **(_measured(result.record) if result.record else {}),
    )
