"""`alignkit report`."""

from alignkit.record.document import write_record
from alignkit.report.write_report import ReportOptions, write_report
from tests.report.records import quickstart as sample_record


def test_a_record_is_rendered_again_and_the_page_named(alignkit, tmp_path):
    write_record(sample_record(), tmp_path)
    told = alignkit("report", tmp_path, "--no-open")
    assert (told.code, told.out) == (0, f"{tmp_path / 'index.html'}\n")
    assert (tmp_path / "index.html").read_text().lower().startswith("<!doctype html>")


def test_a_folder_without_a_record_is_told_so(alignkit, tmp_path):
    told = alignkit("report", tmp_path)
    assert (told.code, told.out) == (2, "")
    assert f"no record.json in {tmp_path}" in told.err


def test_images_that_do_not_fit_are_told_on_stderr(alignkit, tmp_path):
    write_record(sample_record(tmp_path), tmp_path)
    bare = write_report(tmp_path, ReportOptions(images=0)).bytes
    size = f"{(bare + 30_000) // 1000}KB"
    told = alignkit(
        "report", tmp_path, "--out", f"html={tmp_path / 'o'}", "--max-report-size", size
    )
    assert told.code == 0
    assert "image pairs were omitted" in told.err


def test_a_single_file_is_named(alignkit, tmp_path):
    write_record(sample_record(tmp_path), tmp_path)
    told = alignkit("report", tmp_path, "--single-file", "--no-open")
    assert told.out == f"{tmp_path / 'report.html'}\n"
