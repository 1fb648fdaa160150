"""JUnit XML, as GitLab, Jenkins and GitHub's test reporters read it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from alignkit.gate.outputs import GateResult
from alignkit.judge.words import explained
from alignkit.record import RuleOutcome
from alignkit.text.names import place_in_words
from alignkit.text.numbers import shorten

_MESSAGE = 200
"""Characters of an attribute: some readers fail on long ones; the body holds the whole text."""
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")
"""Characters that XML 1.0 cannot hold."""


@dataclass(frozen=True, slots=True)
class JUnit:
    """One test case for each rule and place, and one for each control."""

    def render(self, result: GateResult) -> str:
        """Return the XML: ``failure`` for drift and inconclusive outcomes that fail, ``error`` for
        missing measurements.
        """
        cases = [_of_rule(result, outcome) for outcome in result.verdict.rules]
        cases += [
            _case(f"{result.name}.self-test", control.name, _unless(control.passed, "error"),
                  f"expected {control.expected}; observed {control.observed}")
            for control in (result.record.controls if result.record else ())
        ]  # fmt: skip
        if not result.verdict.rules:
            cases.append(_case(result.name, "the gate runs", "error", result.verdict.sentence))
        suite = ET.Element("testsuite", name=result.name, tests=str(len(cases)))
        for kind in ("failure", "error"):
            number = sum(case.find(kind) is not None for case in cases)
            suite.set({"failure": "failures", "error": "errors"}[kind], str(number))
        suite.set("skipped", "0")
        suite.set("time", str(result.record.seconds if result.record else 0))
        suite.extend(cases)
        root = ET.Element("testsuites")
        root.append(suite)
        ET.indent(root)
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            + ET.tostring(root, encoding="unicode")
            + "\n"
        )


def _unless(passed: bool, kind: str) -> str:
    return "" if passed else kind


def _of_rule(result: GateResult, outcome: RuleOutcome) -> ET.Element:
    kind = {"fail": "failure", "error": "error"}.get(outcome.state, "")
    if outcome.state == "inconclusive" and result.verdict.exit_code == 7:
        kind = "failure"
    case = _case(f"{result.name}.{outcome.rule}", place_in_words(outcome), kind, explained(outcome))
    if not kind:
        body = ET.SubElement(case, "system-out")
        body.text = _clean(f"{outcome.state}: {explained(outcome)}")
    return case


def _case(group: str, name: str, kind: str, text: str) -> ET.Element:
    case = ET.Element("testcase", classname=_clean(group), name=_clean(name), time="0")
    if kind:
        body = ET.SubElement(case, kind, message=shorten(_clean(text).replace("\n", " "), _MESSAGE))
        body.text = _clean(text)
    return case


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
