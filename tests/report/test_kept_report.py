"""The report of a run that is there already is not written again."""

import os
import shutil

import pytest

from alignkit import version
from alignkit.record.document import read_record, write_record
from alignkit.report import write_report as module
from alignkit.report.write_report import ReportOptions, kept_report
from tests.report.records import quickstart
from tests.run_pair import write_small_run

WHOLE = ReportOptions()


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rendered")
    write_small_run(folder, shown=quickstart(folder).shown[:2])
    kept_report(folder, WHOLE)
    return folder


@pytest.fixture
def run(tmp_path, rendered):
    return shutil.copytree(rendered, tmp_path / "run")


def written_again(run, monkeypatch, options=WHOLE) -> bool:
    """Ask for the report; the report must be whole after it in either case."""
    calls = []
    write = module.write_report

    def counted(*arguments):
        calls.append(arguments)
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_report", counted)
        found = kept_report(run, options)
    assert found.page.read_text().endswith("</html>\n")
    return bool(calls)


def test_the_second_time_nothing_is_written(run, monkeypatch):
    files = {each: each.stat().st_mtime_ns for each in run.rglob("*") if each.is_file()}
    assert not written_again(run, monkeypatch)
    assert files == {each: each.stat().st_mtime_ns for each in run.rglob("*") if each.is_file()}


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("index.html", lambda file: file.write_bytes(file.read_bytes() + b" ")),
        ("report.json", lambda file: file.write_bytes(file.read_bytes() + b" ")),
        ("data/run.js", os.unlink),
    ],
)
def test_a_file_that_was_changed_or_deleted_is_written_again(run, monkeypatch, path, change):
    content = (run / path).read_bytes()
    change(run / path)
    assert written_again(run, monkeypatch)
    assert (run / path).read_bytes() == content
    assert not written_again(run, monkeypatch)


def test_another_form_is_another_report(run, monkeypatch):
    assert written_again(run, monkeypatch, ReportOptions(single_file=True))
    assert not written_again(run, monkeypatch, ReportOptions(single_file=True))
    assert written_again(run, monkeypatch)


def test_another_record_is_rendered_again(run, monkeypatch):
    write_record(read_record(run).model_copy(update={"question": "And now?"}), run)
    assert written_again(run, monkeypatch)
    assert "And now?" in (run / "index.html").read_text()


def test_other_code_renders_again(run, monkeypatch):
    monkeypatch.setattr(module, "code_version", lambda layers: version.code_version(layers) + "x")
    assert written_again(run, monkeypatch)
