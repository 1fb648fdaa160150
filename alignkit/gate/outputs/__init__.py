"""Outputs: the outcome of a gate in the formats that people and CI systems read.

The contract of every output, which tests check:

- it is a function of the result that returns the whole text and writes nothing;
- it is pure: it measures nothing, and one result gives one text, on every machine;
- it keeps within the limits of the system that reads it, and says how much it left out;
- it has a text for every result, also if nothing could be measured.

`deliver` alone writes: to standard output, to files, and to those that GitHub Actions names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.plugins import Plugin
from alignkit.record import Measurements
from alignkit.record.verdict_facts import worst_first
from alignkit.stored_file import explained, write_output
from alignkit.text.names import Names, place_in_words
from alignkit.text.outcome import said
from alignkit.text.verdict import SaidVerdict, verdict_words

if TYPE_CHECKING:
    from alignkit.baseline import Baseline
    from alignkit.record import Finding, RuleOutcome, RunRecord, Verdict, VerdictState

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
class GateProblem:
    """An outcome that did not pass, a mistake in the file, or the lack of any result."""

    state: VerdictState
    rule: str
    file: str
    line: int
    """From 1; 0 for a rule of ``--set``, which stands on no line, and for the whole file."""
    text: str
    key: str
    """Its identity: neither its number nor a label changes it."""
    column: int = 0


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
    def said(self) -> SaidVerdict:
        """The verdict in words."""
        return verdict_words(self.verdict, self.measured)

    @property
    def rows(self) -> list[OutcomeRow]:
        """The outcomes in words, the worst first."""
        names = Names(self.measured.paths)
        return [
            OutcomeRow(each, place_in_words(each, names), said(each, "line"))
            for each in worst_first(self.verdict.rules)
        ]

    @property
    def problems(self) -> list[GateProblem]:
        """All that stands in the way of a pass; something for every exit code but 0."""
        states: dict[str, VerdictState] = {"error": "error", "warning": "warn"}
        found = [
            GateProblem(states[each.level], each.rule, each.file, each.line, each.message,
                        each.message, each.column)
            for each in self.findings
        ]  # fmt: skip
        # the identity has no label of a surrogate
        found += [
            GateProblem(row.outcome.state, row.outcome.rule, str(self.file), row.outcome.line,
                        f"{row.place}: {row.text}", place_in_words(row.outcome, Names(())))
            for row in self.rows
            if row.outcome.state != "pass"
        ]  # fmt: skip
        # a report without errors is green, which a gate that measured nothing is not
        if self.exit_code and not any(each.state in ("error", "fail") for each in found):
            told = "\n".join(self.said.lines)
            found.append(GateProblem("error", "gate", str(self.file), 0, told, "not measured"))
        return found


def _output(target: str, summary: str) -> Plugin:
    return Plugin(f"alignkit.gate.outputs.{target}", summary=summary)


# names, not functions: `alignkit list` and `--help` show the table and import no output
OUTPUTS: Mapping[str, Plugin] = {
    "text": _output("people:text", "at most 30 lines for a terminal"),
    "json": _output("machines:results", "everything, with a format number"),
    "md": _output("people:markdown", "for a pull request's comment"),
    "junit": _output("machines:junit", "one test case a rule and place"),
    "github": _output("machines:github", "annotations on the rules' lines, for Actions"),
    "gitlab": _output("machines:gitlab", "code quality findings"),
    "pending": _output("machines:pending", "changed lines, for `baseline approve --from`"),
}


def rendered(kind: str, result: GateResult) -> str:
    """Return a result in the format of that name."""
    text: str = OUTPUTS[kind].load()(result)
    return text


def deliver(result: GateResult, to: Sequence[tuple[str, Path]]) -> None:
    """Write each kind to its path; print the text unless a kind goes to stdout, ``-``.

    For ``github``, also write the step's summary and outputs.
    """
    if Path("-") not in [path for _, path in to]:
        to = [*to, ("text", Path("-"))]
    for kind, path in to:
        write_output(path, rendered(kind, result))
    if "github" in dict(to):
        from alignkit.gate.outputs.machines import step_outputs

        # the limit is in bytes, and the cut may fall inside a character
        summary = rendered("md", result).encode()[:_STEP_SUMMARY].decode(errors="ignore")
        for variable, text in (
            ("GITHUB_STEP_SUMMARY", summary),
            ("GITHUB_OUTPUT", step_outputs(result)),
        ):
            # unset or empty outside Actions; earlier steps may have written to the same file
            if file_name := os.environ.get(variable):
                path = Path(file_name)
                with explained(path), path.open("a", encoding="utf-8") as file:
                    file.write(text)
