"""Files for other machines: changed lines to approve there, and a shard to merge there."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.gate.outputs import GateResult


@dataclass(frozen=True, slots=True)
class Pending:
    """A baseline file of the changed lines alone, for `alignkit baseline approve --from`."""

    def render(self, result: GateResult) -> str:
        """Return the lines; empty where no rule looks at a baseline."""
        from alignkit.baseline import baseline_text

        return baseline_text(result.pending) if result.pending else ""


@dataclass(frozen=True, slots=True)
class ShardPart:
    """Sums and histograms of one shard's images, for `alignkit report merge`."""

    def render(self, result: GateResult) -> str:
        """Return the JSON; empty without ``--shard`` or where nothing was measured."""
        from alignkit.gate.shard import part_text

        return part_text(result.part) if result.part else ""
