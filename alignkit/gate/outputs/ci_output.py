"""Outputs that CI systems read: GitHub's annotations and JUnit XML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from alignkit.gate.outputs import GateResult, OutcomeRow
from alignkit.text import printable
from alignkit.text.numbers import shorten
from alignkit.text.verdict import verdict_word

_SHOWN = 9
"""Annotations of a kind; the tenth says how many more there are."""
_KINDS = {"error": "error", "fail": "error", "inconclusive": "warning", "warn": "warning"}
"""GitHub's kind of annotation, by the state of an outcome."""
_MESSAGE = 200
"""Characters of an attribute: some readers fail on long ones; the body holds the whole text."""
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")
"""Characters that XML 1.0 cannot hold."""


@dataclass(frozen=True, slots=True)
class GitHub:
    """``::error file=…,line=…::…`` for every outcome that did not pass, on the rules' lines.

    docs.github.com, *Workflow commands*: a step shows 10 errors and 10 warnings.
    """

    def render(self, result: GateResult) -> str:
        """Return at most 10 lines of a kind, and one notice for a verdict that passes."""
        title = {"title": f"alignkit gate: {result.name} {verdict_word(result.verdict)}"}
        said = "\n".join(result.said.lines)
        lines: dict[str, list[str]] = {"error": [], "warning": []}
        for finding in result.findings:
            where = {"file": finding.file}
            if finding.line:
                where |= {"line": str(finding.line), "col": str(finding.column)}
            text = _command(finding.level, {**where, "title": finding.rule}, finding.message)
            lines[finding.level].append(text)
        for row in result.rows:
            outcome = row.outcome
            if kind := _KINDS.get(outcome.state):
                where = {"file": str(result.file)}
                if outcome.line:  # 0 is a rule of --set, which stands on no line
                    where["line"] = str(outcome.line)
                where["title"] = f"{outcome.rule}: {outcome.state}"
                lines[kind].append(_command(kind, where, f"{row.place}: {row.text}"))
        if result.exit_code and not lines["error"]:
            lines["error"].append(_command("error", title, said))
        for kind, of_kind in lines.items():
            if len(of_kind) > _SHOWN + 1:
                more = f"{len(of_kind) - _SHOWN} more; see the step's summary"
                of_kind[_SHOWN:] = [_command(kind, {}, more)]
        shown = [*lines["error"], *lines["warning"]]
        if not shown:
            shown.append(_command("notice", title, said))
        return "\n".join(shown) + "\n"


def step_outputs(result: GateResult) -> str:
    """Return the ``name=value`` lines for ``$GITHUB_OUTPUT``: always all of them."""
    worst = next((each for each in result.rows if each.outcome.state != "pass"), None)
    values = {
        "verdict": result.verdict.state,
        "exit-code": str(result.exit_code),
        "worst": f"{worst.outcome.rule} of {worst.place}" if worst else "",
        "report-path": str(result.page or ""),
        "pending": str(result.pending.count if result.pending else 0),
    }
    # a value with a line end would begin an output of its own
    return "".join(
        f"{name}={printable(' '.join(value.split()))}\n" for name, value in values.items()
    )


# a message ends at the end of its line, a property at a colon or a comma too
_IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = _IN_MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})


def _command(kind: str, properties: dict[str, str], message: str) -> str:
    text = ",".join(
        f"{key}={printable(value).translate(_IN_PROPERTY)}" for key, value in properties.items()
    )
    return f"::{kind}{' ' if text else ''}{text}::{printable(message).translate(_IN_MESSAGE)}"


@dataclass(frozen=True, slots=True)
class JUnit:
    """One test case for each rule and place, and one for each control."""

    def render(self, result: GateResult) -> str:
        """Return the XML: ``failure`` for drift and inconclusive outcomes that fail, ``error`` for
        missing measurements, ``skipped`` for those that the gate allows to be missing.
        """
        record = result.record
        cases = [_rule_case(result, row) for row in result.rows]
        cases += [
            _case(f"{result.name}.self-test", control.name, "error" * (control.passed is False),
                  f"expected {control.expected}; observed {control.observed}")
            for control in (record.controls if record else ())
        ]  # fmt: skip
        # readers take a suite without a case for a pass, or reject it
        if not result.verdict.rules:
            cases.append(_case(result.name, "the gate runs", "error", result.said.sentence))
        suite = ET.Element(
            "testsuite",
            name=result.name,
            tests=str(len(cases)),
            failures=str(sum(case.find("failure") is not None for case in cases)),
            errors=str(sum(case.find("error") is not None for case in cases)),
            skipped=str(sum(case.find("skipped") is not None for case in cases)),
            time=str(record.seconds if record else 0),
        )
        if result.verdict.overrides:
            properties = ET.SubElement(suite, "properties")
            for each in result.verdict.overrides:
                ET.SubElement(properties, "property", name="set", value=_xml_text(each))
        suite.extend(cases)
        said = ET.SubElement(suite, "system-out")
        said.text = _xml_text("\n".join(result.said.lines))
        root = ET.Element("testsuites")
        root.append(suite)
        ET.indent(root)
        text = ET.tostring(root, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _rule_case(result: GateResult, row: OutcomeRow) -> ET.Element:
    outcome = row.outcome
    kind = {"fail": "failure", "error": "error"}.get(outcome.state, "")
    # 7: the file says that an inconclusive rule fails the gate
    if outcome.state == "inconclusive" and result.verdict.exit_code == 7:
        kind = "failure"
    if outcome.not_run:
        kind = "skipped"
    case = _case(f"{result.name}.{outcome.rule}", row.place, kind, row.text)
    if not kind:
        body = ET.SubElement(case, "system-out")
        body.text = _xml_text(f"{outcome.state}: {row.text}")
    return case


def _case(group: str, name: str, kind: str, text: str) -> ET.Element:
    case = ET.Element("testcase", classname=_xml_text(group), name=_xml_text(name), time="0")
    if kind:
        whole = _xml_text(text)
        body = ET.SubElement(case, kind, message=shorten(whole.replace("\n", " "), _MESSAGE))
        body.text = whole
    return case


def _xml_text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
