"""Outputs: what a gate says, in the forms that people and CI systems read.

The contract every output keeps, and the tests check:

- a frozen dataclass with ``render(result)``, which gives the whole text and writes nothing;
- pure: nothing is measured, and one result gives one text, on every machine;
- keeps within the limits of the system that reads it, and says how much it left out;
- says something for every result, also where nothing could be measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from alignkit.plugins import Plugin

if TYPE_CHECKING:
    from alignkit.baseline import Baseline
    from alignkit.gate.shard import Part
    from alignkit.record import Finding, RunRecord, Verdict


@dataclass(frozen=True, slots=True)
class GateResult:
    """Everything an output may say."""

    name: str
    file: Path
    command: str
    """Does it again."""
    verdict: Verdict
    exit_code: int
    """Of the process: the verdict's, unless it was asked to be 0."""
    record: RunRecord | None = None
    """``None`` where nothing was measured."""
    page: Path | None = None
    """The HTML report."""
    findings: tuple[Finding, ...] = ()
    pending: Baseline | None = None
    """Lines that wait for an approval."""
    part: Part | None = None
    """What a shard measured."""


class Output(Protocol):
    """A frozen dataclass."""

    def render(self, result: GateResult) -> str:
        """The whole text."""
        ...


OUTPUTS = {
    "text": Plugin("alignkit.gate.outputs.text:Text", summary="at most 30 lines for a terminal"),
    "json": Plugin("alignkit.gate.outputs.json:Json", summary="everything, with a format number"),
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
        "alignkit.gate.outputs.pending:Pending",
        summary="changed lines, for `baseline approve --from`",
    ),
    "shard": Plugin(
        "alignkit.gate.outputs.shard:ShardPart",
        summary="what a shard measured, for `alignkit report merge`",
    ),
}
