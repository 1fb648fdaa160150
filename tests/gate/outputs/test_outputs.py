"""Every output, on every kind of result: it is well formed, within limits, and leaves nothing out
unsaid."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from alignkit.gate.outputs import OUTPUTS, GateResult, rendered
from alignkit.gate.outputs.machines import step_outputs
from alignkit.record import Control, Estimate, Finding, RuleOutcome, Verdict
from alignkit.record.verdict_facts import RuleLimits, Waived, stated
from tests.report.records import quickstart

STATES = ("pass", "warn", "inconclusive", "fail", "error")
NASTY = 'a "quote", <tag> & 100 %: one,two | pipe\nnext\x0bline ☃'


def outcome(number: int, state: str, text: str = "0.4 grey levels") -> RuleOutcome:
    return RuleOutcome(
        metric="decode.mean_abs", label="decode mean absolute difference",
        limits=RuleLimits("grey levels", fail=0.05), trained_with="pillow",
        evaluated_with=f"path{number}", backend="", precision="", state=state,
        value=Estimate(None, None, None, text), rule="decode.mean_abs",
        cause=(stated("change", change=text),), line=9,
    )  # fmt: skip


def result(outcomes=(), *, record=True, code=1, state="fail", findings=(), sentence="It drifted."):
    verdict = Verdict(
        state=state,
        sentence=(stated("message", text=sentence),),
        informational=False,
        exit_code=code,
        rules=tuple(outcomes),
    )
    return GateResult(
        name="gate", file=Path("experiments/gate.yaml"), command="alignkit gate x", verdict=verdict,
        exit_code=code, record=quickstart() if record else None, findings=tuple(findings),
    )  # fmt: skip


MISTAKE = Finding("gate.yaml", 9, 7, "error", "config", NASTY)
RESULTS = {
    "a pass": result([outcome(0, "pass")], code=0, state="pass"),
    "every state": result([outcome(n, s) for n, s in enumerate(STATES)]),
    "nasty texts": result([outcome(n, s, NASTY) for n, s in enumerate(STATES)], sentence=NASTY),
    "hundreds": result([outcome(n, s, "x" * 3000) for n in range(100) for s in STATES]),
    "a mistake": result(record=False, code=2, state="error", findings=[MISTAKE], sentence=NASTY),
    "nothing measured": result(record=False, code=5, state="error", sentence="no images"),
}


@pytest.fixture(params=RESULTS)
def any_result(request):
    return RESULTS[request.param]


@pytest.fixture
def of(any_result):
    def render(kind: str) -> str:
        return rendered(kind, any_result)

    return render


@pytest.mark.parametrize("kind", [kind for kind in OUTPUTS if kind != "pending"])
def test_an_output_is_never_empty_and_always_the_same(any_result, kind):
    text = rendered(kind, any_result)
    assert text.endswith("\n")
    assert text == rendered(kind, any_result)


def test_text_keeps_within_30_lines(of):
    assert len(of("text").splitlines()) <= 30


@pytest.mark.parametrize("kind", ["text", "md"])
def test_people_are_shown_which_paths_are_surrogates(kind):
    (path,) = [each for each in quickstart().paths if each.surrogate_of]
    text = rendered(kind, result([outcome(0, "fail")]))
    assert f"{path.name}: surrogate of torchpipe's GPU path" in text.replace("\\", "")


@pytest.mark.parametrize("kind", ["text", "md", "junit", "github", "gitlab"])
def test_an_outcome_calls_its_surrogate_so_and_keeps_its_fingerprint(kind):
    failed = outcome(0, "fail").model_copy(update={"evaluated_with": "torchpipe-gpu"})
    found = result([failed])
    told = rendered(kind, found).replace("\\", "")
    assert "torchpipe-gpu (surrogate) against pillow" in told
    if kind == "gitlab":
        real = found.record.model_copy(update={"paths": found.record.paths[:1]})
        other = json.loads(rendered(kind, replace(found, record=real)))
        assert json.loads(told)[0]["fingerprint"] == other[0]["fingerprint"]


def test_text_says_which_runtime_holds_on_this_machine_alone():
    found = result()
    entry = found.record.matrix[1].model_copy(update={"warning": "saturates here"})
    record = found.record.model_copy(update={"matrix": (entry,)})
    told = rendered("text", replace(found, record=record))
    assert f"{entry.backend} {entry.precision}, 1\N{NO-BREAK SPACE}entry: saturates here" in told


def test_json_is_strict_and_says_its_format(any_result, of):
    document = json.loads(of("json"), parse_constant=pytest.fail)
    assert document["format"] == 3
    assert document["exit_code"] == any_result.exit_code
    assert len(document["verdict"]["rules"]) == len(any_result.verdict.rules)


def test_markdown_fits_a_comment_and_keeps_its_tables_whole(of):
    text = of("md")
    assert len(text) <= 65_536
    rows = [line for line in text.splitlines() if line.startswith("| ") and line.endswith(" |")]
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) in (6, 7)


def test_junit_counts_its_cases_and_keeps_attributes_short(any_result, of):
    suite = ET.fromstring(of("junit").encode())[0]
    cases = suite.findall("testcase")
    assert int(suite.get("tests", 0)) == len(cases) > 0
    kinds = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    for kind, attribute in kinds.items():
        found = suite.findall(f"testcase/{kind}")
        assert int(suite.get(attribute, 0)) == len(found)
        assert all(len(each.get("message", "")) <= 200 for each in found)
    red = any(case.find("failure") is not None or case.find("error") is not None for case in cases)
    assert red == (any_result.exit_code != 0)


def test_junit_tells_drift_from_what_was_not_measured():
    suite = ET.fromstring(rendered("junit", RESULTS["every state"]).encode())[0]
    kinds = {case.get("name"): [each.tag for each in case] for case in suite.findall("testcase")}
    assert kinds["path3 against pillow"] == ["failure"]
    assert kinds["path4 against pillow"] == ["error"]
    assert kinds["path1 against pillow"] == ["system-out"]


def test_a_check_that_the_gate_allows_to_be_missing_is_skipped_in_junit_and_a_waiver_is_not():
    words = "not run: built, not run: needs a GPU"
    left_out = outcome(0, "warn", "built, not run: needs a GPU").model_copy(
        update={"not_run": True}
    )
    waiver = Waived("2030-01-01", "known")
    waived = outcome(1, "warn").model_copy(update={"waived": waiver})
    suite = ET.fromstring(rendered("junit", result([left_out, waived], code=0)).encode())[0]
    assert (suite.get("skipped"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
    (skipped,) = suite.findall("testcase/skipped")
    assert skipped.get("message", "").startswith(words)


def test_a_control_that_fails_is_an_error_in_junit():
    broken = Control(name="A/A", expected="0", observed="3", passed=False)
    record = quickstart().model_copy(update={"controls": (broken,)})
    base = RESULTS["a pass"]
    shown = GateResult(base.name, base.file, base.command, base.verdict, 3, record=record)
    suite = ET.fromstring(rendered("junit", shown).encode())[0]
    assert suite.get("errors") == "1"


def test_github_shows_ten_of_a_kind_and_escapes(any_result, of):
    lines = of("github").rstrip("\n").split("\n")
    for kind in ("error", "warning", "notice"):
        assert sum(line.startswith(f"::{kind}") for line in lines) <= 10
    assert all(re.match(r"::(error|warning|notice)( \S.*?)?::", line) for line in lines)
    assert any(line.startswith("::error") for line in lines) == (any_result.exit_code != 0)


@pytest.mark.parametrize("place", ["title", "outcome", "mistake", "sentence"])
@pytest.mark.parametrize(
    # a colour, a bell, C1's way to begin a sequence, NUL, marks that turn text, a line of Unicode
    "character",
    ["\x1b", "\x07", "\x9b", "\x00", "\u202e", "\u2066", "\u2028", "\x7f"],
)
def test_a_log_of_github_shows_no_character_that_a_terminal_obeys(character, place):
    text = f"a{character}[31mb"
    found = {
        "title": replace(RESULTS["a pass"], name=text),
        "outcome": result([outcome(0, "fail", text)]),
        "mistake": result(record=False, code=2, state="error", findings=[
            replace(MISTAKE, message=text, file=text, rule=text)]),
        "sentence": result(record=False, code=5, state="error", sentence=text),
    }[place]  # fmt: skip
    for written in (rendered("github", found), step_outputs(found)):
        assert character not in written
    assert f"{ord(character):02x}[31mb" in rendered("github", found)


def test_github_says_how_many_it_left_out():
    text = rendered("github", RESULTS["hundreds"])
    assert "::error::191 more; see the step's summary" in text


def test_step_outputs_are_one_line_each_and_always_all(any_result):
    lines = step_outputs(any_result).splitlines()
    assert [line.partition("=")[0] for line in lines] == [
        "verdict", "exit-code", "worst", "report-path", "pending",
    ]  # fmt: skip


def test_gitlab_fingerprints_are_unique_and_hold_no_values(any_result, of):
    found = json.loads(of("gitlab"))
    assert bool(found) == any(
        (any_result.exit_code, *(each.state != "pass" for each in any_result.verdict.rules))
    )
    for each in found:
        assert set(each) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert each["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert each["location"]["lines"]["begin"] >= 1


def test_a_fingerprint_stays_while_the_value_moves():
    prints = [
        json.loads(rendered("gitlab", result([outcome(0, "fail", text)])))[0]["fingerprint"]
        for text in ("0.4 grey levels", "0.5 grey levels")
    ]
    assert prints[0] == prints[1]


def test_every_output_names_the_rules_that_replaced_the_file_s():
    given = "gate.rules=[{metric: churn, fail: 0.9}]"
    known = RESULTS["a pass"]
    verdict = known.verdict.model_copy(
        update={"overrides": (given,), "sentence": (stated("overrides"),)}
    )
    found = Finding("gate.yaml", 0, 0, "warning", "override", f"judged with --set {given}")
    changed = replace(known, verdict=verdict, findings=(found,))
    for kind in ("text", "md", "json", "junit", "github", "gitlab"):
        assert given in rendered(kind, changed), kind
