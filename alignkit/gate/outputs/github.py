"""GitHub Actions: workflow commands that annotate the rules' lines, and a step's outputs.

docs.github.com, *Workflow commands*: a step shows 10 errors and 10 warnings; property values have
``%``, line ends, ``:`` and ``,`` escaped, messages the first two.
"""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.gate.outputs import GateResult
from alignkit.judge.words import explained, worst_first
from alignkit.record import Finding, RuleOutcome
from alignkit.text.names import place_in_words

_SHOWN = 9
"""Annotations of a kind; the tenth says how many more there are."""
_KINDS = {"error": "error", "fail": "error", "inconclusive": "warning", "warn": "warning"}


@dataclass(frozen=True, slots=True)
class GitHub:
    """``::error file=…,line=…::…`` for every outcome that did not pass."""

    def render(self, result: GateResult) -> str:
        """Return at most 10 lines of a kind, and one notice for a verdict that passes."""
        lines: dict[str, list[str]] = {"error": [], "warning": []}
        for finding in result.findings:
            lines[finding.level].append(_of_finding(finding))
        for outcome in worst_first(result.verdict.rules):
            if outcome.state in _KINDS:
                kind = _KINDS[outcome.state]
                lines[kind].append(_of_rule(kind, result, outcome))
        if result.exit_code and not lines["error"]:
            lines["error"].append(
                _command("error", {"title": _title(result)}, result.verdict.sentence)
            )
        shown = [line for kind in lines for line in _limited(kind, lines[kind])]
        if not shown:
            shown.append(_command("notice", {"title": _title(result)}, result.verdict.sentence))
        return "\n".join(shown) + "\n"


def step_outputs(result: GateResult) -> str:
    """Return the ``name=value`` lines for ``$GITHUB_OUTPUT``: always all of them."""
    worst = next((each for each in worst_first(result.verdict.rules) if each.state != "pass"), None)
    values = {
        "verdict": result.verdict.state,
        "exit-code": str(result.exit_code),
        "worst": f"{worst.rule} of {place_in_words(worst)}" if worst else "",
        "report-path": str(result.page or ""),
        "pending": str(result.pending.count if result.pending else 0),
    }
    return "".join(f"{name}={' '.join(value.split())}\n" for name, value in values.items())


def _limited(kind: str, lines: list[str]) -> list[str]:
    if len(lines) <= _SHOWN + 1:
        return lines
    more = _command(kind, {}, f"{len(lines) - _SHOWN} more; see the step's summary")
    return [*lines[:_SHOWN], more]


def _title(result: GateResult) -> str:
    return f"alignkit gate: {result.name} {result.verdict.state}"


def _of_rule(kind: str, result: GateResult, outcome: RuleOutcome) -> str:
    where = {"file": str(result.file)}
    if outcome.line:
        where["line"] = str(outcome.line)
    title = f"{outcome.rule}: {outcome.state}"
    return _command(
        kind, {**where, "title": title}, f"{place_in_words(outcome)}: {explained(outcome)}"
    )


def _of_finding(finding: Finding) -> str:
    where = {"file": finding.file}
    if finding.line:
        where |= {"line": str(finding.line), "col": str(finding.column)}
    return _command(finding.level, {**where, "title": finding.rule}, finding.message)


def _command(kind: str, properties: dict[str, str], message: str) -> str:
    text = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{kind}{' ' if text else ''}{text}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
