"""`alignkit report`."""

from alignkit.record import write_record
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
