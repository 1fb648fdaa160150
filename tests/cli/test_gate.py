"""`alignkit gate` as a CI job meets it: verdicts, exit codes, files."""

import hashlib
import json
import re
import shlex
from xml.etree import ElementTree as ET

import pytest

from alignkit.gate import gate_check as check_module
from alignkit.record import Control
from alignkit.record.document import read_record
from tests.gate_case import ONE_PATH, PATHS, make_case
from tests.sealed import rewrite

CHROMA = "preprocess.opencv.decode={name: simplejpeg, chroma: nearest}"
NEEDS_GPU = PATHS + "  cuda: {decode: torchvision-cuda, resize: {name: opencv, size: 32}}\n"


@pytest.fixture
def case(tmp_path, monkeypatch):
    for variable in ("CI", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.delenv(variable, raising=False)
    return make_case(tmp_path)


@pytest.fixture
def gate(alignkit, case):
    """Run the gate of a file, without the HTML page."""

    def call(file, *more):
        return alignkit("gate", file, "--reports", case.reports, "-q", "--no-html", *more)

    return call


def test_two_decoders_that_agree_pass(gate, case):
    told = gate(case.write("{preset: strict}"))
    assert told.code == 0, told
    assert told.out.startswith("small: PASS\nAligned: all 8 checks hold")
    assert "3 of 3 controls hold" in told.out


def test_without_rules_a_pixel_gate_is_strict(gate, case):
    assert gate(case.write()).code == 0
    told = gate(case.write(), "--set", CHROMA)
    assert told.code == 1
    assert "decode.changed" in told.out


@pytest.mark.parametrize(
    ("change", "stage"),
    [
        (CHROMA, "decode"),
        ("preprocess.opencv.decode={name: simplejpeg, dct: ifast}", "decode"),
        ("preprocess.opencv.resize.interpolation=area", "resize"),
        ("preprocess.opencv.resize.interpolation=nearest", "resize"),
        ("preprocess.opencv.colour=bgr", "colour"),
        ("preprocess.opencv.normalise={mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}", "normalise"),
    ],
)
def test_each_planted_change_fails_at_its_stage_and_at_no_other(gate, case, change, stage):
    told = gate(case.write("{preset: strict}"), "--set", change)
    assert told.code == 1
    failed = re.findall(r"^  fail +(\w+)\.changed", told.out, re.MULTILINE)
    assert failed == [stage]


def test_the_output_keeps_within_30_lines(gate, case):
    paths = PATHS + "".join(
        f"  p{n}: {{decode: {{name: simplejpeg, chroma: nearest}}, "
        f"resize: {{name: opencv, size: 32, interpolation: area}}, colour: bgr, "
        f"max_pixels: {10_000 + n}}}\n"
        for n in range(6)
    )
    told = gate(case.write("{preset: strict}", paths=paths))
    assert told.code == 1
    assert len(told.out.splitlines()) <= 30
    assert "more; see the report" in told.out


def test_a_mistake_in_the_file_ends_with_2_at_its_line(gate, case, tmp_path):
    file = case.write("{metric: decode.mean_abs, fail: 300}")
    told = gate(file, "--out", f"gitlab={tmp_path / 'quality.json'}")
    assert told.code == 2
    assert f"{file}:9:7: gate.rules.0: 'fail: 300' can never fire" in told.out
    result = json.loads((tmp_path / "quality.json").read_text())[0]
    assert result["location"]["lines"]["begin"] == 9


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{metric: recall.macro, fail: 0.1}", "no labels to train one with"),
        ("{preset: mlperf-99}", "no labels to train one with"),
        ("{metric: decode.max_abs, fail: 2, path: opencw}", "did you mean 'opencv'?"),
        ("{metric: decode.max_abs, fail: 2, path: pillow}", "is the reference itself"),
    ],
)
def test_a_rule_that_this_file_can_never_measure_is_a_mistake(gate, case, rule, said):
    told = gate(case.write(rule))
    assert told.code == 2
    assert said in told.out


def test_one_path_alone_needs_rules_against_a_baseline(gate, case):
    told = gate(case.write("{preset: strict}", paths=ONE_PATH))
    assert told.code == 2
    assert "needs two paths or more" in told.out


def test_a_control_that_fails_ends_with_3(gate, case, monkeypatch):
    broken = Control(name="A/A", expected="0", observed="1", passed=False)
    monkeypatch.setattr("alignkit.gate.pixel_gate.check_pixels", lambda *_: (broken,))
    told = gate(case.write("{preset: strict}"), "--exit-zero")
    assert told.code == 3
    assert "cannot be trusted" in told.out


def test_a_crash_ends_with_3_and_is_no_drift(gate, case, monkeypatch, tmp_path):
    def crash(*_):
        raise RuntimeError("boom")

    monkeypatch.setattr(check_module, "compare_pixels", crash)
    told = gate(case.write("{preset: strict}"), "--out", f"junit={tmp_path / 'j.xml'}")
    assert told.code == 3
    assert "RuntimeError: boom" in told.out
    suite = ET.parse(tmp_path / "j.xml").getroot()[0]
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")


def test_a_missing_gpu_ends_with_4_unless_it_may_be_missing(gate, case):
    file = case.write("{metric: decode.max_abs, fail: 2}", paths=NEEDS_GPU)
    told = gate(file)
    if "needs an NVIDIA GPU" not in told.out:
        pytest.skip("this machine has a GPU")
    assert told.code == 4
    allowed = gate(file, "--allow-missing", "gpu")
    assert allowed.code == 0
    assert "Not run: cuda: needs an NVIDIA GPU" in allowed.out


def test_no_images_end_with_an_error_and_images_nobody_decodes_with_5(gate, case):
    for file in case.images.iterdir():
        file.write_bytes(b"no image")
    told = gate(case.write("{preset: strict}"), "--exit-zero")
    assert told.code == 5
    assert "none of 5 images was decoded by both" in told.out


def test_no_baseline_ends_with_6_and_nothing_is_written(gate, case, monkeypatch):
    monkeypatch.setenv("CI", "true")
    told = gate(case.write("{preset: strict, against: baseline}", paths=ONE_PATH), "--exit-zero")
    assert told.code == 6
    assert f"alignkit baseline record {case.folder}" in told.out
    assert not case.baselines.exists()


def test_exit_zero_pardons_drift(gate, case):
    told = gate(case.write("{preset: strict}"), "--set", CHROMA, "--exit-zero")
    assert told.code == 0
    assert told.out.startswith("small: FAIL\n")


def test_the_verdict_names_what_was_judged_instead_of_the_file(gate, alignkit, case):
    file = case.write("{preset: strict}")
    rule = "gate.rules=[{metric: decode.max_abs, fail: 254}]"
    told = gate(file, "--set", rule, "--set", "data.seed=1")
    assert told.code == 0
    both = f"Not as in the file: --set {rule}, --set data.seed=1."
    assert told.out.splitlines()[1].endswith(both)
    run = alignkit("run", file, "--reports", case.reports, "--no-open", "-q", "--set", rule)
    assert f"Not as in the file: --set {rule}." in run.out
    (page,) = case.reports.glob("small/*/index.html")
    assert (case.reports / ".gitignore").read_text() == "*\n"  # nobody commits a report by mistake
    for written in (page, page.with_name("summary.md")):
        assert (
            "Not as in the file: --set gate.rules=[{metric: decode.max_abs" in written.read_text()
        )


def test_a_waiver_that_ended_is_told_at_its_line(gate, case):
    also = "waive: [{rule: decode.max_abs, until: 2020-01-01, reason: an old codec}]"
    told = gate(case.write("{preset: decode}", also=also), "--set", CHROMA)
    assert told.code == 1
    assert ":8: the waiver of decode.max_abs ended on 2020-01-01" in told.out


def test_a_waiver_that_holds_is_a_warning_with_its_reason(gate, case):
    also = "waive: [{rule: decode.max_abs, until: 2999-01-01, reason: known to be so}]"
    told = gate(case.write("{metric: decode.max_abs, fail: 2}", also=also), "--set", CHROMA)
    assert told.code == 0
    assert "waived until 2999-01-01: known to be so" in told.out


def test_every_output_is_written_whatever_came_of_it(gate, case, tmp_path):
    kinds = ("text", "json", "md", "junit", "github", "gitlab")
    for folder, change in (("ok", ()), ("bad", ("--set", "gate.rulez=1"))):
        outs = [word for k in kinds for word in ("--out", f"{k}={tmp_path / folder / k}")]
        gate(case.write("{preset: strict}"), *outs, *change)
        assert {file.name for file in (tmp_path / folder).iterdir()} == set(kinds)
        assert all(file.stat().st_size for file in (tmp_path / folder).iterdir())


def test_a_wrong_output_is_refused_before_any_work(gate, case):
    told = gate(case.write(), "--out", "junitt=x.xml")
    assert (told.code, told.out) == (2, "")
    assert "did you mean 'junit'?" in told.err
    assert gate(case.write(), "--out", "junit").code == 2
    assert "no kind 'jsn'; did you mean 'json'?" in gate(case.write(), "--out", "jsn=-").err


def test_github_gets_annotations_a_summary_and_outputs(gate, case, tmp_path, monkeypatch):
    summary, outputs = tmp_path / "summary", tmp_path / "outputs"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
    file = case.write("{preset: decode}", "{metric: resize.max_abs, fail: 2}")
    told = gate(file, "--set", CHROMA, "--out", "github=-")
    assert told.out.startswith(f"::error file={file},line=9,title=decode.m")
    assert "❌ small: FAIL" in summary.read_text()
    given = dict(row.split("=", 1) for row in outputs.read_text().splitlines())
    assert set(given) == {"verdict", "exit-code", "worst", "report-path", "pending"}
    assert (given["verdict"], given["exit-code"]) == ("fail", "1")


def test_empty_variables_of_github_are_as_good_as_none(gate, case, monkeypatch):
    for variable in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.setenv(variable, "")
    done = gate(case.write("{metric: decode.max_abs, fail: 2}"), "--out", "github=-")
    assert "Traceback" not in done.err
    assert done.code == 0


def test_the_report_is_rendered_for_a_pixel_gate(alignkit, case):
    told = alignkit("gate", case.write(), "--reports", case.reports, "-q", "--set", CHROMA)
    assert told.code == 1
    (page,) = case.reports.glob("small/*/index.html")
    assert str(page) in told.out
    assert "decode.changed" in page.read_text() or "not bit-identical" in page.read_text()


def test_the_command_it_prints_does_it_again(gate, case, alignkit):
    told = gate(case.write("{preset: strict}"), "--set", CHROMA)
    words = shlex.split(re.findall("^again +alignkit (.*)$", told.out, re.MULTILINE)[0])
    again = alignkit(*words, "--reports", case.reports, "-q", "--no-html")
    assert again.code == 1
    assert again.out == told.out


def test_the_record_names_the_command_that_writes_it_again(gate, case):
    file = case.write("{preset: strict}")
    gate(file, "--set", "data.limit=4")
    (stored,) = case.reports.glob("small/*/record.json")
    words = ["alignkit", "gate", str(file), "--set", "data.limit=4", "--reports", str(case.reports)]
    assert shlex.split(read_record(stored.parent).command) == words


AGAINST = "{preset: strict, against: baseline}"


@pytest.fixture
def before(alignkit, case, tmp_path):
    """The folder of a run, as CI keeps it of the main branch."""
    told = alignkit("run", case.write(AGAINST), "--reports", tmp_path / "main", "--no-open", "-q")
    assert told.code == 0, told
    (record,) = (tmp_path / "main").glob("small/*/record.json")
    return record.parent


def test_another_run_takes_the_place_of_a_baseline(gate, case, before):
    file = case.write(AGAINST)
    assert gate(file).code == 6
    assert gate(file, "--against", before).code == 0
    assert gate(file, "--against", before / "record.json").code == 0
    told = gate(file, "--against", before, "--set", CHROMA)
    assert told.code == 1
    assert "decode.changed" in told.out
    assert "images change here first: opencv" in told.out
    assert f"--against {before}" in told.out
    assert not list(case.reports.glob("small/pending*"))


def test_a_run_is_not_compared_with_itself(gate, alignkit, case, before):
    file = case.write(AGAINST)
    told = alignkit("gate", file, "--reports", before.parents[1], "-q", "--against", before)
    assert told.code == 6
    assert "is this very run" in told.out
    assert gate(file, "--against", before).code == 0


def test_a_gate_keeps_the_stages_that_a_run_left_in_its_folder(gate, alignkit, case, before):
    file = case.write(AGAINST)
    alignkit("baseline", "record", file)
    assert alignkit("gate", file, "--reports", before.parents[1], "-q", "--no-html").code == 0
    assert gate(file, "--against", before).code == 0


def test_runs_that_cannot_be_compared_with_are_refused(gate, case, before, tmp_path):
    file = case.write(AGAINST)
    told = gate(file, "--against", tmp_path / "nowhere")
    assert (told.code, "no record.json" in told.out) == (6, True)
    told = gate(case.write("{preset: strict}", name="alone.yaml"), "--against", before)
    assert (told.code, "'against: baseline'" in told.out) == (2, True)
    stages = before / "stages.jsonl"
    stages.write_text(stages.read_text().replace('"system": "', '"system": "Plan 9 '))
    told = gate(file, "--against", before)
    assert (told.code, "stages.jsonl is not as alignkit wrote it" in told.out) == (6, True)
    sha256 = hashlib.sha256(stages.read_bytes()).hexdigest()
    rewrite(before / "record.json", lambda stored: stored["stages"].update(sha256=sha256))
    told = gate(file, "--against", before)
    assert (told.code, "Plan 9" in told.out, "another environment" in told.out) == (6, True, True)
    stages.write_text(stages.read_text()[:-100])
    assert gate(file, "--against", before).code == 6
    rewrite(before / "record.json", lambda stored: stored.update(stages=None))
    told = gate(file, "--against", before)
    assert (told.code, "keeps no stages" in told.out) == (6, True)


THREE = PATHS + "  area: {decode: opencv, resize: {name: opencv, size: 32, interpolation: area}}\n"


def test_fail_fast_ends_with_the_first_path_that_drifts(gate, case, monkeypatch):
    rules = ("{preset: strict}", "{metric: resize.mean_abs, fail: 50, path: area}")
    file = case.write(
        *rules, "{metric: decode.mean_abs, fail: 200, where: {format: jpeg}}", paths=THREE
    )
    told = gate(file, "--set", CHROMA, "--fail-fast")
    assert told.code == 1
    assert "not looked at: area, 2\N{NO-BREAK SPACE}other rules." in told.out
    assert not re.search("area against", told.out)
    assert "3 of 3 controls hold" in told.out
    assert "--fail-fast" in told.out.splitlines()[-1]

    later = gate(file, "--fail-fast")  # opencv holds, so area is looked at
    assert later.code == 1
    assert "not looked at: 1\N{NO-BREAK SPACE}other rule." in later.out
    assert "resize.changed  area against pillow" in later.out


def test_fail_fast_of_what_holds_is_the_whole_gate(gate, case):
    file = case.write("{preset: strict}")
    assert gate(file, "--fail-fast").out.replace(" --fail-fast", "") == gate(file).out
    assert gate(file, "--fail-fast", "--shard", "1/2").code == 2
    assert gate(file, "--changed-only", "--shard", "1/2").code == 2
