"""Outputs: the outcome of a gate in the formats that people and CI systems read.

The contract of every output, which tests check:

- it is a frozen dataclass with ``render(result)``, which returns the whole text and writes nothing;
- it is pure: it measures nothing, and one result gives one text, on every machine;
- it keeps within the limits of the system that reads it, and says how much it left out;
- it has a text for every result, also if nothing could be measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from alignkit.plugins import Plugin

if TYPE_CHECKING:
    from alignkit.baseline import Baseline
    from alignkit.gate.shard import ShardResult
    from alignkit.record import Finding, RunRecord, Verdict


@dataclass(frozen=True, slots=True)
class GateResult:
    """Everything that an output may contain."""

    name: str
    file: Path
    command: str
    """Shell command that reproduces this."""
    verdict: Verdict
    exit_code: int
    """Exit code of the process: the verdict's, unless ``--exit-zero`` asks for 0."""
    record: RunRecord | None = None
    """``None`` where nothing was measured."""
    page: Path | None = None
    """The HTML report."""
    findings: tuple[Finding, ...] = ()
    pending: Baseline | None = None
    """Lines that wait for an approval."""
    part: ShardResult | None = None
    """Measurements of a shard."""


class GateOutput(Protocol):
    """A frozen dataclass."""

    def render(self, result: GateResult) -> str:
        """Return the whole text."""
        ...


OUTPUTS = {
    "text": Plugin("alignkit.gate.outputs.text:Text", summary="at most 30 lines for a terminal"),
    "json": Plugin(
        "alignkit.gate.outputs.json:JsonResults", summary="everything, with a format number"
    ),
    "md": Plugin("alignkit.gate.outputs.markdown:Markdown", summary="for a pull request's comment"),
    "junit": Plugin("alignkit.gate.outputs.junit:JUnit", summary="one test case a rule and place"),
    "github": Plugin(
        "alignkit.gate.outputs.github:GitHub",
        summary="annotations on the rules' lines, for Actions",
    ),
    "gitlab": Plugin("alignkit.gate.outputs.gitlab:CodeQuality", summary="code quality findings"),
    "metrics": Plugin("alignkit.gate.outputs.metrics:Metrics", summary="OpenMetrics, for GitLab"),
    "sarif": Plugin(
        "alignkit.gate.outputs.sarif:Sarif", summary="mistakes in the file, as SARIF 2.1.0"
    ),
    "pending": Plugin(
        "alignkit.gate.outputs.handover:Pending",
        summary="changed lines, for `baseline approve --from`",
    ),
    "shard": Plugin(
        "alignkit.gate.outputs.handover:ShardPart",
        summary="what a shard measured, for `alignkit report merge`",
    ),
}
