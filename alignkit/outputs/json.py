"""Everything, for programs: a versioned JSON document."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from alignkit import __version__
from alignkit.outputs import GateResult

FORMAT = 1
# 1: 2026-11, first format.
OF_RECORD = (
    "started", "seconds", "environment", "data", "paths", "controls", "pixels", "coverage_diffs",
    "matrix", "noise_floor", "baseline",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Json:
    """``results.json``: the verdict, every outcome, and what was measured."""

    def render(self, result: GateResult) -> str:
        """One document; what could not be computed is ``null`` with its reason beside it."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "alignkit": __version__,
            "name": result.name,
            "file": str(result.file),
            "command": result.command,
            "exit_code": result.exit_code,
            "verdict": result.verdict.model_dump(mode="json"),
            "findings": [asdict(finding) for finding in result.findings],
            "pending": len(result.pending.lines) if result.pending else 0,
            "report": str(result.page) if result.page else None,
        }
        if result.record is not None:
            document |= result.record.model_dump(mode="json", include=set(OF_RECORD))
        return json.dumps(document, indent=1, allow_nan=False) + "\n"
