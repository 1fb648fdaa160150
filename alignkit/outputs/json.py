"""Everything, for programs: ``results.json``."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.outputs import GateResult


@dataclass(frozen=True, slots=True)
class Json:
    """The verdict, every outcome, and what was measured; see `alignkit.results`."""

    def render(self, result: GateResult) -> str:
        """One document; what could not be computed is ``null`` with its reason beside it."""
        from alignkit.results import results_from_gate, results_text

        return results_text(results_from_gate(result))
