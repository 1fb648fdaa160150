"""`alignkit report`."""

import json

from alignkit.record.document import document_text, write_record
from alignkit.report.write_report import ReportOptions, write_report
from tests.report.bench_records import rich_bench
from tests.report.records import quickstart as sample_record


def test_a_record_is_rendered_again_and_the_page_named(alignkit, tmp_path):
    write_record(sample_record(), tmp_path)
    told = alignkit("report", tmp_path, "--no-open")
    assert (told.code, told.out) == (0, f"{tmp_path / 'index.html'}\n")
    assert (tmp_path / "index.html").read_text().lower().startswith("<!doctype html>")


def test_the_files_that_were_written_are_printed_as_json(alignkit, tmp_path):
    write_record(sample_record(), tmp_path)
    told = alignkit("report", tmp_path, "--no-open", "--json")
    (page,) = json.loads(told.out)
    assert page == {
        "kind": "html",
        "file": str(tmp_path / "index.html"),
        "bytes": page["bytes"],
        "omitted_image_pairs": 0,
    }


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


def test_a_bench_is_rendered_again_from_its_own_record(alignkit, tmp_path):
    (tmp_path / "bench.json").write_text(document_text(rich_bench(clients=(5,))))
    told = alignkit("report", tmp_path, "--no-open")
    assert (told.code, told.out) == (0, f"{tmp_path / 'index.html'}\n")
    again = alignkit("report", tmp_path / "bench.json", "--json", "--out", f"html={tmp_path / 'o'}")
    assert json.loads(again.out) == [{"kind": "html", "file": str(tmp_path / "o/index.html")}]
    pages = [tmp_path / "index.html", tmp_path / "o/index.html"]
    assert all("alignkit bench" in each.read_text() for each in pages)


def test_a_form_that_a_bench_has_not_is_refused(alignkit, tmp_path):
    (tmp_path / "bench.json").write_text(document_text(rich_bench(clients=(5,))))
    told = alignkit("report", tmp_path, "--single-file")
    assert (told.code, told.out) == (2, "")
    assert "the page of a bench has no images and no other form" in told.err
    assert alignkit("report", tmp_path, "--out", "json=x").code == 2
