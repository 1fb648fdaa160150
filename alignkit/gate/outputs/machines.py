"""Outputs for programs and CI systems: results, GitHub's and GitLab's findings, JUnit's cases."""

from __future__ import annotations

import hashlib
import json
import re
from xml.etree import ElementTree as ET

from alignkit.gate.outputs import GateResult, OutcomeRow
from alignkit.report.results import Results, measured_fields, results_text
from alignkit.text import printable
from alignkit.text.numbers import shorten
from alignkit.text.verdict import verdict_word
from alignkit.version import __version__

_SHOWN = 9
"""Annotations of a kind; the tenth says how many more there are."""
_SEVERITIES = {"error": "blocker", "fail": "critical", "inconclusive": "minor", "warn": "info"}
"""GitLab's, by the state of an outcome."""
_MESSAGE = 200
"""Characters of an attribute: some readers fail on long ones; the body holds the whole text."""
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")
"""Characters that XML 1.0 cannot hold."""
# a message ends at the end of its line, a property at a colon or a comma too
_IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = _IN_MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})


def results(result: GateResult) -> str:
    """Return ``results.json``: the verdict and all measurements; see `alignkit.report.results`.

    A missing value is ``null`` with its reason beside it.
    """
    document = Results(
        alignkit=__version__,
        name=result.name,
        command=result.command,
        file=str(result.file),
        exit_code=result.exit_code,
        verdict=result.verdict,
        said=tuple(result.said.lines),
        findings=result.findings,
        pending=result.pending.count if result.pending else 0,
        report=str(result.page) if result.page else None,
        **measured_fields(result.record),
    )
    return results_text(document)


def pending(result: GateResult) -> str:
    """Return a baseline file of the changed lines alone; empty where no rule looks at one."""
    from alignkit.baseline.pending import pending_text

    return pending_text(result.pending) if result.pending else ""


def gitlab(result: GateResult) -> str:
    """Return GitLab's code quality report: every problem on the file's lines.

    Fingerprints hold no values and no labels, so that a finding stays the same while its number
    or label changes.
    """
    found = []
    for each in result.problems:
        identity = "\n".join((result.name, str(result.file), each.rule, each.key))
        found.append({
            "description": each.text,
            "check_name": f"alignkit/{each.rule}",
            "fingerprint": hashlib.sha256(identity.encode()).hexdigest(),
            "severity": _SEVERITIES[each.state],
            "location": {"path": each.file, "lines": {"begin": max(1, each.line)}},
        })  # fmt: skip
    return json.dumps(found, indent=1) + "\n"


def github(result: GateResult) -> str:
    """Return ``::error file=…,line=…::…`` for every problem, on the rules' lines.

    docs.github.com, *Workflow commands*: a step shows 10 errors and 10 warnings. A verdict that
    passes is one notice.
    """
    lines: dict[str, list[str]] = {"error": [], "warning": []}
    for each in result.problems:
        kind = "error" if each.state in ("error", "fail") else "warning"
        where = {"file": each.file}
        where |= {"line": str(each.line)} if each.line else {}
        where |= {"col": str(each.column)} if each.column else {}
        title = f"{each.rule}: {each.state}"
        lines[kind].append(_command(kind, {**where, "title": title}, each.text))
    for kind, of_kind in lines.items():
        if len(of_kind) > _SHOWN + 1:
            more = f"{len(of_kind) - _SHOWN} more; see the step's summary"
            of_kind[_SHOWN:] = [_command(kind, {}, more)]
    shown = [*lines["error"], *lines["warning"]]
    if not shown:
        title = f"alignkit gate: {result.name} {verdict_word(result.verdict)}"
        shown.append(_command("notice", {"title": title}, "\n".join(result.said.lines)))
    return "\n".join(shown) + "\n"


def _command(kind: str, properties: dict[str, str], message: str) -> str:
    text = ",".join(
        f"{key}={printable(value).translate(_IN_PROPERTY)}" for key, value in properties.items()
    )
    return f"::{kind}{' ' if text else ''}{text}::{printable(message).translate(_IN_MESSAGE)}"


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


def junit(result: GateResult) -> str:
    """Return one test case for each rule and place, and one for each control.

    ``failure`` is for drift and inconclusive outcomes that fail, ``error`` for missing
    measurements, ``skipped`` for those that the gate allows to be missing.
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
        time=str(record.seconds if record else 0),
    )
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(kind) is not None for case in cases)))
    if result.verdict.overrides:
        properties = ET.SubElement(suite, "properties")
        for each in result.verdict.overrides:
            ET.SubElement(properties, "property", name="set", value=_xml_text(each))
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = _xml_text("\n".join(result.said.lines))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


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
        ET.SubElement(case, "system-out").text = _xml_text(f"{outcome.state}: {row.text}")
    return case


def _case(group: str, name: str, kind: str, text: str) -> ET.Element:
    case = ET.Element("testcase", classname=_xml_text(group), name=_xml_text(name), time="0")
    if kind:
        whole = _xml_text(text)
        message = shorten(whole.replace("\n", " "), _MESSAGE)
        ET.SubElement(case, kind, message=message).text = whole
    return case


def _xml_text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
