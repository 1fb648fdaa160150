"""The changed lines, as a file that `alignkit baseline approve --from` takes on another machine."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.gate.outputs import GateResult


@dataclass(frozen=True, slots=True)
class Pending:
    """A baseline file of the changed lines alone."""

    def render(self, result: GateResult) -> str:
        """Empty where no rule looks at a baseline."""
        from alignkit.baseline import baseline_text

        return baseline_text(result.pending) if result.pending else ""
