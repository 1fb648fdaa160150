"""The report of a run that is there already is not written again."""

import os
from dataclasses import replace

import pytest

from alignkit import version
from alignkit.record.document import read_record, write_record
from alignkit.report import kept_report as module
from alignkit.report.kept_report import kept_report
from alignkit.report.write_report import ReportOptions
from tests.report.run_folder import write_run

WHOLE = ReportOptions()


@pytest.fixture
def run(tmp_path):
    write_run(tmp_path)
    return tmp_path


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
    first = kept_report(run, WHOLE)
    files = {each: each.stat().st_mtime_ns for each in run.rglob("*") if each.is_file()}
    assert not written_again(run, monkeypatch)
    again = kept_report(run, WHOLE)
    assert replace(again, files=first.files) == first
    assert files == {each: each.stat().st_mtime_ns for each in run.rglob("*") if each.is_file()}


@pytest.mark.parametrize("path", ["index.html", "assets/report.css", "data/run.js", "report.json"])
def test_a_file_that_was_changed_or_deleted_is_written_again(run, monkeypatch, path):
    kept_report(run, WHOLE)
    content = (run / path).read_bytes()
    for change in (lambda file: file.write_bytes(content + b" "), os.unlink):
        change(run / path)
        assert written_again(run, monkeypatch)
        assert (run / path).read_bytes() == content
        assert not written_again(run, monkeypatch)


def test_another_form_is_another_report(run, monkeypatch):
    kept_report(run, WHOLE)
    assert written_again(run, monkeypatch, ReportOptions(images=1))
    assert written_again(run, monkeypatch)
    assert written_again(run, monkeypatch, ReportOptions(single_file=True))
    assert not written_again(run, monkeypatch, ReportOptions(single_file=True))


def test_another_record_or_other_code_is_rendered_again(run, monkeypatch):
    kept_report(run, WHOLE)
    write_record(read_record(run).model_copy(update={"question": "And now?"}), run)
    assert written_again(run, monkeypatch)
    assert "And now?" in (run / "index.html").read_text()
    monkeypatch.setattr(module, "code_version", lambda layers: version.code_version(layers) + "x")
    assert written_again(run, monkeypatch)
