"""`alignkit run`, with the run itself replaced: what is told, in which order, with which code."""

import json
import re
from pathlib import Path

import pytest

from alignkit.cli import arguments
from alignkit.errors import DataError, WorkspaceError
from alignkit.record import RunRecord
from alignkit.report.files_page import FileRun
from alignkit.report.write_report import WrittenReport
from tests.judge.said import verdict_of
from tests.report.records import quickstart as sample_record


@pytest.fixture(scope="module")
def record() -> RunRecord:
    return sample_record()


@pytest.fixture
def runs(monkeypatch, tmp_path, record) -> dict:
    """Experiment name → what its run does: a verdict's exit code, or an error to raise."""
    outcomes: dict = {}
    done: list = []

    def run_or_check(experiment, context, *, fresh=False, cells=()):
        done.append((experiment.name, context.workspace.root, fresh))
        outcome = outcomes.get(experiment.name, 0)
        if isinstance(outcome, BaseException):
            raise outcome
        with context.progress.stage("train", 1) as stage:
            stage.advance()
        verdict = record.verdict.model_copy(update={"exit_code": outcome})
        return record.model_copy(update={"name": experiment.name, "verdict": verdict}), tmp_path

    monkeypatch.setattr("alignkit.gate.run_or_check", run_or_check)
    monkeypatch.setattr(
        "alignkit.report.write_report.kept_report",
        lambda folder, form: WrittenReport(folder / "index.html", bytes=0, left_out=0),
    )
    outcomes["done"] = done
    return outcomes


@pytest.fixture
def files(file) -> list[Path]:
    others = []
    for name in ("first", "second", "third"):
        other = file.with_name(f"{name}.yaml")
        other.write_text(file.read_text().replace("name: small", f"name: {name}"))
        others.append(other)
    return others


def test_it_tells_verdict_matrix_and_report_in_thirty_lines(alignkit, runs, file, tmp_path):
    told = alignkit("run", file)
    lines = told.out.splitlines()
    assert told.code == 0
    assert len(lines) <= 30
    assert lines[0].startswith("small: ")
    assert lines[-1] == f"report  {tmp_path / 'index.html'}"
    assert told.err.splitlines() == ["train: 0 of 1", "train: 1 of 1 in 0.0 s"]


def test_quiet_says_nothing_but_the_result(alignkit, runs, file):
    assert alignkit("run", file, "--quiet").err == ""
    assert alignkit("run", file, "--progress", "none").err == ""


def test_one_failing_experiment_does_not_stop_the_others(alignkit, runs, files):
    runs["first"] = DataError("class 'rose' has no image")
    runs["second"] = 1
    told = alignkit("run", *files)
    assert [name for name, *_ in runs["done"]] == ["first", "second", "third"]
    assert f"{files[0]}: class 'rose' has no image\n" in told.err
    assert "Traceback" not in told.err
    assert told.code == 2


def test_a_defect_in_one_experiment_does_not_stop_the_others(alignkit, runs, files):
    runs["first"] = ZeroDivisionError("x")
    told = alignkit("run", *files)
    assert len(runs["done"]) == 3
    assert "ZeroDivisionError" in told.err
    assert told.code == 3


@pytest.mark.parametrize(
    ("codes", "gravest"), [([0, 1, 0], 1), ([1, 5, 0], 5), ([7, 1, 0], 1), ([4, 3, 1], 3), ([2, 4, 1], 4)]
)  # fmt: skip
def test_the_exit_code_is_the_gravest(alignkit, runs, files, codes, gravest):
    runs.update(zip(("first", "second", "third"), codes, strict=True))
    assert alignkit("run", *files).code == gravest


def test_every_file_is_checked_before_the_first_is_run(alignkit, runs, files):
    files[2].write_text("name: [")
    told = alignkit("run", *files)
    assert told.code == 2
    assert told.err.index("third.yaml:1:") < told.err.index("train: 0 of 1")
    assert len(runs["done"]) == 2


def test_an_interrupt_tells_how_to_continue_and_stops(alignkit, runs, files):
    runs["first"] = KeyboardInterrupt()
    told = alignkit("run", *files, "--set", "train.seeds=[0, 1]")
    assert told.code == 130
    assert len(runs["done"]) == 1
    assert told.err.endswith(
        f"alignkit run {' '.join(map(str, files))} --set 'train.seeds=[0, 1]'\n"
    )


def test_overrides_folder_and_fresh_reach_the_run(alignkit, runs, file, tmp_path):
    alignkit("run", file, "--set", "name=other", "--reports", tmp_path / "r", "--fresh")
    assert runs["done"] == [("other", tmp_path / "r", True)]


def test_a_workspace_error_ends_with_its_own_code(alignkit, runs, file):
    runs["small"] = WorkspaceError("no room")
    assert alignkit("run", file).code == 3


@pytest.mark.parametrize(
    ("options", "terminal", "ci", "opens"),
    [([], False, "", 0), ([], True, "", 1), ([], True, "true", 0), (["--open"], False, "true", 1), (["--no-open"], True, "", 0)],
)  # fmt: skip
def test_the_browser_opens_on_a_terminal_only_and_never_in_ci(
    alignkit, runs, file, monkeypatch, options, terminal, ci, opens
):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(arguments, "on_terminal", lambda: terminal)
    alignkit("run", file, *options)
    assert len(opened) == opens
    assert all(url.startswith("file://") for url in opened)


@pytest.mark.parametrize(
    "override", ["data.root=s3://me:open-sesame@box/a", "data.storage.secret=open-sesame"]
)
def test_the_page_of_refused_files_holds_no_password_and_stays_out_of_git(
    alignkit, files, tmp_path, monkeypatch, override
):
    words = ("run", *map(str, files), "--reports", str(tmp_path / "r"), "--set", override)
    monkeypatch.setattr("sys.argv", ["alignkit", *words])
    assert alignkit(*words).code == 2
    text = (tmp_path / "r" / "index.html").read_text()
    assert "alignkit run" in text
    assert "open-sesame" not in text
    assert (tmp_path / "r" / ".gitignore").exists()


def test_json_is_a_list_of_the_results_of_the_files_that_ran(alignkit, runs, files, tmp_path):
    runs["second"] = DataError("no image")
    told = alignkit("run", *files, "--json", "--quiet")
    first, third = json.loads(told.out)
    assert (first["name"], third["name"]) == ("first", "third")
    assert first["report"] == str(tmp_path / "index.html")
    assert told.code == 2
    assert "no image" in told.err


def test_several_files_end_with_a_table_and_a_page_that_leads_to_theirs(
    alignkit, runs, files, tmp_path, record
):
    runs["first"] = 1
    runs["second"] = DataError("class 'rose' has no image\nand more")
    broken = files[0].with_name("broken.yaml")
    broken.write_text("name: [")
    told = alignkit("run", broken, *files, "--reports", tmp_path / "r")
    lines = told.out.splitlines()
    page = tmp_path / "r" / "index.html"
    assert (told.code, lines[-1]) == (2, f"all pages  {page}")
    head, *rows = [re.split(r"  +", each) for each in lines[-6:-1]]
    assert head == ["file", "verdict", "headline", "time", "page"]
    assert [row[0] for row in rows] == [str(broken), *map(str, files)]
    assert [row[-1] for row in rows] == ["–", str(tmp_path / "index.html"), "–", rows[1][-1]]
    assert rows[2][1:3] == ["STOPPED", "class 'rose' has no image"]
    assert rows[0][3] == "–"  # never begun
    assert all(re.fullmatch(r"\d+\.\d s", row[3]) for row in rows[1:])
    (decides,) = {row[2] for row in (rows[1], rows[3])}
    value, trained, served = re.split(": | → ", decides)
    sentence = verdict_of(record).sentence
    assert sentence.lower().startswith(value.lower())
    assert f": trained with {trained}, served with {served}" in sentence
    text = page.read_text()
    assert re.findall(r'<a href="([^"#]+)">(\w+)', text) == [
        ("../index.html", "first"),
        ("../index.html", "third"),
    ]
    assert "class &#39;rose&#39; has no image" in text


def test_one_file_alone_has_no_table_and_no_page_of_files(alignkit, runs, file, tmp_path):
    assert "all pages" not in alignkit("run", file, "--reports", tmp_path / "r").out
    assert not (tmp_path / "r" / "index.html").exists()


def test_several_files_open_one_page(alignkit, runs, files, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    alignkit("run", *files, "--open", "--reports", tmp_path / "r")
    assert opened == [(tmp_path / "r" / "index.html").as_uri()]


def test_the_headline_without_rules_is_the_greatest_churn(record):
    verdict = record.verdict.model_copy(update={"rules": (), "headline": None})
    moved = record.model_copy(update={"verdict": verdict})
    most = max((each for each in record.matrix if each.drift), key=lambda each: each.churn)
    headline = FileRun(Path("a.yaml"), 0, 1.0, moved).headline
    place = f"{most.trained_with} → {most.evaluated_with}"
    assert headline.startswith(f"churn {100 * most.churn:.1f}\N{NO-BREAK SPACE}%: {place}")
