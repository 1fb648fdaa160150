"""What one shard measured, as a file that `alignkit report merge` joins with the others."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.gate.outputs import GateResult


@dataclass(frozen=True, slots=True)
class ShardPart:
    """Sums and histograms of the shard's images."""

    def render(self, result: GateResult) -> str:
        """Empty where the gate was not run with ``--shard``, or nothing was measured."""
        from alignkit.gate.shard import part_text

        return part_text(result.part) if result.part else ""
