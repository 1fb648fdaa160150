"""Outputs that CI systems read: GitHub's annotations, JUnit XML, OpenMetrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from alignkit.gate.outputs import GateResult
from alignkit.judge.verdict_words import explained, worst_first
from alignkit.record import RuleOutcome
from alignkit.text import printable
from alignkit.text.names import place_in_words
from alignkit.text.numbers import shorten
from alignkit.text.verdict_text import verdict_text, verdict_word

_SHOWN = 9
"""Annotations of a kind; the tenth says how many more there are."""
_KINDS = {"error": "error", "fail": "error", "inconclusive": "warning", "warn": "warning"}
"""GitHub's kind of annotation, by the state of an outcome."""
_MESSAGE = 200
"""Characters of an attribute: some readers fail on long ones; the body holds the whole text."""
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")
"""Characters that XML 1.0 cannot hold."""
_PIXELS = {
    "mean_abs": "Mean absolute difference of a stage alone, in its own units",
    "max_abs": "Greatest difference of a stage alone, in its own units",
    "share_differing": "Share of pixels that differ at a stage alone",
}
"""Field of a stage → its help in the metrics."""


@dataclass(frozen=True, slots=True)
class GitHub:
    """``::error file=…,line=…::…`` for every outcome that did not pass, on the rules' lines.

    docs.github.com, *Workflow commands*: a step shows 10 errors and 10 warnings.
    """

    def render(self, result: GateResult) -> str:
        """Return at most 10 lines of a kind, and one notice for a verdict that passes."""
        title = {"title": f"alignkit gate: {result.name} {verdict_word(result.verdict)}"}
        said = "\n".join(verdict_text(result.verdict))
        lines: dict[str, list[str]] = {"error": [], "warning": []}
        for finding in result.findings:
            where = {"file": finding.file}
            if finding.line:
                where |= {"line": str(finding.line), "col": str(finding.column)}
            text = _command(finding.level, {**where, "title": finding.rule}, finding.message)
            lines[finding.level].append(text)
        for outcome in worst_first(result.verdict.rules):
            if kind := _KINDS.get(outcome.state):
                where = {"file": str(result.file)}
                if outcome.line:  # 0 is a rule of --set, which stands on no line
                    where["line"] = str(outcome.line)
                where["title"] = f"{outcome.rule}: {outcome.state}"
                text = f"{place_in_words(outcome, result.names)}: {explained(outcome)}"
                lines[kind].append(_command(kind, where, text))
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
    worst = next((each for each in worst_first(result.verdict.rules) if each.state != "pass"), None)
    values = {
        "verdict": result.verdict.state,
        "exit-code": str(result.exit_code),
        "worst": f"{worst.rule} of {place_in_words(worst, result.names)}" if worst else "",
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
        cases = [_rule_case(result, outcome) for outcome in result.verdict.rules]
        cases += [
            _case(f"{result.name}.self-test", control.name, "error" * (control.passed is False),
                  f"expected {control.expected}; observed {control.observed}")
            for control in (record.controls if record else ())
        ]  # fmt: skip
        # readers take a suite without a case for a pass, or reject it
        if not result.verdict.rules:
            cases.append(_case(result.name, "the gate runs", "error", result.verdict.sentence))
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
        said.text = _xml_text("\n".join(verdict_text(result.verdict)))
        root = ET.Element("testsuites")
        root.append(suite)
        ET.indent(root)
        text = ET.tostring(root, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _rule_case(result: GateResult, outcome: RuleOutcome) -> ET.Element:
    kind = {"fail": "failure", "error": "error"}.get(outcome.state, "")
    # 7: the file says that an inconclusive rule fails the gate
    if outcome.state == "inconclusive" and result.verdict.exit_code == 7:
        kind = "failure"
    if outcome.not_run:
        kind = "skipped"
    place = place_in_words(outcome, result.names)
    case = _case(f"{result.name}.{outcome.rule}", place, kind, explained(outcome))
    if not kind:
        body = ET.SubElement(case, "system-out")
        body.text = _xml_text(f"{outcome.state}: {explained(outcome)}")
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


@dataclass(frozen=True, slots=True)
class Metrics:
    """OpenMetrics: the verdict's exit code, and every stage's and matrix entry's measurements.

    GitLab's metrics report and Prometheus read it.
    """

    def render(self, result: GateResult) -> str:
        """Return the lines; a missing measurement has none."""
        lines = [
            "# TYPE alignkit_exit_code gauge",
            "# HELP alignkit_exit_code What the gate ended with; 0 is a pass",
            f"alignkit_exit_code{_labels(gate=result.name)} {result.exit_code}",
            *_pixel_metrics(result),
            *_matrix_metrics(result),
            "# EOF",
        ]
        return "\n".join(lines) + "\n"


def _pixel_metrics(result: GateResult) -> Iterator[str]:
    stages = result.record.pixels if result.record else ()
    for field, words in _PIXELS.items():
        rows = [
            (stage, getattr(stage, field))
            for stage in stages
            if stage.mode == "isolated" and getattr(stage, field) is not None
        ]
        # a family is declared once, and never without a sample
        if rows:
            yield f"# TYPE alignkit_stage_{field} gauge"
            yield f"# HELP alignkit_stage_{field} {words}"
        for stage, value in rows:
            paths = {"reference": stage.reference, "candidate": stage.candidate}
            marks = _marks(result, *paths.values())
            labels = _labels(gate=result.name, **paths, stage=stage.stage, **marks)
            yield f"alignkit_stage_{field}{labels} {value:.9g}"


def _matrix_metrics(result: GateResult) -> Iterator[str]:
    entries = [each for each in (result.record.matrix if result.record else ()) if each.drift]
    if entries:
        yield "# TYPE alignkit_drift gauge"
        yield "# HELP alignkit_drift Candidate minus reference, as a fraction"
    for entry in entries:
        assert entry.drift is not None
        marks = _marks(result, entry.trained_with, entry.evaluated_with)
        if entry.simulation:
            marks["state"] = "simulated"
        for metric, estimate in {"churn": entry.drift.churn, **entry.drift.metrics}.items():
            if estimate.value is not None:
                labels = _labels(gate=result.name, **entry.place.fields, metric=metric, **marks)
                yield f"alignkit_drift{labels} {estimate.value:.9g}"


def _marks(result: GateResult, *paths: str) -> dict[str, str]:
    """Label a number of a surrogate by the stack that it replaces; no label without one."""
    real = result.names.replaced(*paths)
    return {"surrogate_of": ", ".join(dict.fromkeys(real.values()))} if real else {}


def _labels(**labels: str) -> str:
    escaped = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    pairs = (f'{name}="{value.translate(escaped)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"
