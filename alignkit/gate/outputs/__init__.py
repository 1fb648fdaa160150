"""Outputs: the outcome of a gate in the formats that people and CI systems read.

The contract of every output, which tests check:

- it is a frozen dataclass with ``render(result)``, which returns the whole text and writes nothing;
- it is pure: it measures nothing, and one result gives one text, on every machine;
- it keeps within the limits of the system that reads it, and says how much it left out;
- it has a text for every result, also if nothing could be measured.

`deliver` alone writes: to standard output, to files, and to those that GitHub Actions names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from alignkit.plugins import Plugin, PluginTable
from alignkit.record import Measurements
from alignkit.record.verdict_facts import worst_first
from alignkit.stored_file import explained, write_output
from alignkit.text.names import Names, place_in_words
from alignkit.text.outcome import said
from alignkit.text.verdict import SaidVerdict, verdict_words

if TYPE_CHECKING:
    from alignkit.baseline import Baseline
    from alignkit.record import Finding, RuleOutcome, RunRecord, Verdict

_STEP_SUMMARY = 900 * 1024
"""Bytes; GitHub refuses a step's summary above 1 MiB."""


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """An outcome as every output writes it."""

    outcome: RuleOutcome
    place: str
    text: str
    """The value, the limit, and what is known of why."""


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
    review: str = ""
    """Shell command that reviews what is pending."""

    @property
    def measured(self) -> Measurements:
        """The judged measurements; empty where nothing was measured."""
        return self.record or Measurements()

    @property
    def names(self) -> Names:
        """The paths by name, surrogates called so."""
        return Names(self.measured.paths)

    @property
    def said(self) -> SaidVerdict:
        """The verdict in words."""
        return verdict_words(self.verdict, self.measured)

    @property
    def rows(self) -> list[OutcomeRow]:
        """The outcomes in words, the worst first."""
        names = self.names
        return [
            OutcomeRow(each, place_in_words(each, names), said(each, "line"))
            for each in worst_first(self.verdict.rules)
        ]


class GateOutput(Protocol):
    """A frozen dataclass."""

    def render(self, result: GateResult) -> str:
        """Return the whole text."""
        ...


def _plugin(target: str, summary: str) -> Plugin:
    return Plugin(f"alignkit.gate.outputs.{target}", summary=summary)


# names, not classes: `alignkit list` and `--help` show the table and import no output
OUTPUTS = PluginTable(
    "outputs",
    {
        "text": _plugin("text_output:Text", "at most 30 lines for a terminal"),
        "json": _plugin("json_output:JsonResults", "everything, with a format number"),
        "md": _plugin("text_output:Markdown", "for a pull request's comment"),
        "junit": _plugin("ci_output:JUnit", "one test case a rule and place"),
        "github": _plugin("ci_output:GitHub", "annotations on the rules' lines, for Actions"),
        "gitlab": _plugin("json_output:CodeQuality", "code quality findings"),
        "pending": _plugin("json_output:Pending", "changed lines, for `baseline approve --from`"),
    },
)


def output(kind: str) -> GateOutput:
    """Load the output of that name; an unknown one raises `ConfigError` with the nearest."""
    built: GateOutput = OUTPUTS.find(kind).load()()
    return built


def deliver(result: GateResult, to: Sequence[tuple[str, Path]]) -> None:
    """Write each kind to its path; print the text unless a kind goes to stdout, ``-``.

    For ``github``, also write the step's summary and outputs.
    """
    if Path("-") not in [path for _, path in to]:
        to = [*to, ("text", Path("-"))]
    for kind, path in to:
        write_output(path, output(kind).render(result))
    if "github" in dict(to):
        from alignkit.gate.outputs.ci_output import step_outputs

        # the limit is in bytes, and the cut may fall inside a character
        summary = output("md").render(result).encode()[:_STEP_SUMMARY].decode(errors="ignore")
        for variable, text in (
            ("GITHUB_STEP_SUMMARY", summary),
            ("GITHUB_OUTPUT", step_outputs(result)),
        ):
            # unset or empty outside Actions; earlier steps may have written to the same file
            if file_name := os.environ.get(variable):
                path = Path(file_name)
                with explained(path), path.open("a", encoding="utf-8") as file:
                    file.write(text)
