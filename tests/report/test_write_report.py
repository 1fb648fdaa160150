"""The forms of a report: a copy, a single file, fewer images, a limit."""

import re
from collections import Counter

import html5lib
import pytest

from alignkit.errors import ConfigError, RecordError
from alignkit.record import document
from alignkit.record.document import write_record
from alignkit.report import write_report as module
from alignkit.report.templates import trusted
from alignkit.report.write_report import SINGLE_FILE_IMAGES, ReportOptions, form, write_report
from tests.report.records import quickstart

NOTHING_LOADED = re.compile(r'(?:src|href)="(?!data:|#)([^"]*)"')


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's folder with its pictures."""
    folder = tmp_path_factory.mktemp("run")
    write_record(quickstart(folder), folder)
    return folder


def shown(page):
    return page.read_text().count('class="card"')


def test_a_single_file_needs_no_other_file(run, tmp_path):
    written = write_report(run, ReportOptions(single_file=True), tmp_path / "mail.html")
    text = (tmp_path / "mail.html").read_text()
    assert list(tmp_path.iterdir()) == [written.page]
    assert NOTHING_LOADED.findall(text) == []
    assert 0 < shown(written.page) <= SINGLE_FILE_IMAGES
    assert written.bytes == written.page.stat().st_size <= 15_000_000
    html5lib.HTMLParser(strict=True).parse(text)


def test_a_single_file_lies_beside_the_record_by_default(run):
    assert write_report(run, ReportOptions(single_file=True)).page == run / "report.html"


def test_a_copy_holds_what_it_shows_and_not_the_arrays(run, tmp_path):
    written = write_report(run, ReportOptions(), tmp_path)
    text = written.page.read_text()
    for path in NOTHING_LOADED.findall(text):
        assert (tmp_path / path).is_file(), path
    assert not (tmp_path / "record.json").exists()


def test_a_report_in_its_runs_folder_keeps_no_picture_in_memory(run, monkeypatch):
    alive, most = 0, 0

    class Picture(bytes):
        def __new__(cls, content):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)
            return super().__new__(cls, content)

        def __del__(self):
            nonlocal alive
            alive -= 1

    read = document.shown_bytes
    monkeypatch.setattr(module, "shown_bytes", lambda *args: Picture(read(*args)))
    write_report(run, ReportOptions())
    assert most == 1


@pytest.mark.parametrize(("text", "most"), [("none", 0), ("1", 1), ("2", 2)])
def test_no_more_images_are_shown_than_asked_for(run, tmp_path, text, most):
    wanted = form(single_file=False, images=text, max_report_size="")
    page = write_report(run, wanted, tmp_path).page
    groups = Counter((each.candidate, each.why) for each in quickstart().shown)
    expected = sum(min(most, number) for number in groups.values())
    assert shown(page) == expected
    assert f"shows {expected or 'none'} of the" in page.read_text()
    assert len(list((tmp_path / "img").glob("*"))) <= 3 * expected


def changed_run(folder, change):
    """A run's folder of pictures, whose shown images are others."""
    record = quickstart(folder)
    write_record(record.model_copy(update=change(record)), folder)
    return folder


def test_the_form_counts_an_image_that_is_shown_for_two_reasons_once(tmp_path):
    def twice(record):
        first = next(each for each in record.shown if each.why == "changed")
        return {"shown": (first, first.model_copy(update={"why": "pixels"}), *record.shown[-2:])}

    page = write_report(changed_run(tmp_path, twice), ReportOptions(images=0)).page.read_text()
    assert page.count("shows none of the 3 stored images") == 1


def test_a_single_file_counts_the_images_whose_cards_it_has(tmp_path):
    def many(record):
        first = next(each for each in record.shown if each.why == "changed")
        images = [first.model_copy(update={"id": f"{number}.jpg"}) for number in range(30)]
        return {"shown": tuple(images)}

    options = ReportOptions(single_file=True, images=99)
    page = write_report(changed_run(tmp_path, many), options).page
    assert f"shows {shown(page)} of the 30 stored images" in page.read_text()


def test_images_that_changed_carry_the_sentence_about_the_form_and_no_others_do(run, tmp_path):
    text = write_report(run, ReportOptions(images=1), tmp_path / "some").page.read_text()
    assert text.count("This form of the report shows") == 1

    def unchanged(record):
        kept = tuple(each for each in record.shown if each.why == "pixels")
        return {"shown": kept, "shown_pairs": ()}

    folder = changed_run(tmp_path / "other", unchanged)
    text = write_report(folder, ReportOptions(images=1)).page.read_text()
    assert text.count("This form of the report shows") == 1


def test_random_images_alone_have_their_own_title(tmp_path):
    def random(record):
        image = record.shown[0].model_copy(update={"why": "random"})
        return {"shown": (image,), "shown_pairs": ()}

    text = write_report(changed_run(tmp_path, random), ReportOptions()).page.read_text()
    assert '<h2 id="largest-title">Images drawn at random</h2>' in text
    assert '<a href="#largest">Random images</a>' in text
    assert "Largest pixel differences" not in text
    assert "whose pixels differ most" not in text


def test_a_file_that_another_image_names_frees_nothing(run):
    first = quickstart().shown[0]
    wanted = [first, first.model_copy(update={"why": "random"}), *quickstart().shown[1:2]]
    sizes = {file: 10 for each in wanted for file in each.artifacts}
    kept = module._fewer(wanted, 1, lambda file: bytes(sizes[file]), ReportOptions())
    assert len({file for each in kept for file in each.artifacts}) < len(sizes)


def test_all_images_are_shown_without_a_remark(run, tmp_path):
    page = write_report(
        run, form(single_file=False, images="all", max_report_size=""), tmp_path
    ).page
    assert shown(page) == len(quickstart().shown)
    assert "This form of the report" not in page.read_text()


@pytest.mark.parametrize("single", [False, True])
def test_a_limit_leaves_out_the_least_bad_images_and_says_so(run, tmp_path, single):
    bare = write_report(
        run, ReportOptions(single_file=single, images=0), tmp_path / "a" / "r.html"
    ).bytes
    full = write_report(
        run,
        ReportOptions(single_file=single, images=99, max_bytes=10**8),
        tmp_path / "b" / "r.html",
    )
    limit = (bare + full.bytes) // 2
    out = tmp_path / "c" / "r.html"
    written = write_report(run, ReportOptions(single_file=single, images=99, max_bytes=limit), out)
    files = [each for each in (tmp_path / "c").rglob("*") if each.is_file()]
    assert sum(each.stat().st_size for each in files) == written.bytes <= limit
    assert 0 < written.left_out == len(quickstart().shown) - shown(written.page)
    first = quickstart().shown[0].id
    assert first in written.page.read_text()


@pytest.mark.parametrize("single", [True, False])
def test_each_picture_is_read_once(run, tmp_path, monkeypatch, single):
    opened, read_regular = [], document.read_regular
    monkeypatch.setattr(
        document, "read_regular", lambda path, *a: opened.append(path) or read_regular(path, *a)
    )
    full = write_report(run, ReportOptions(single_file=single, images=99, max_bytes=10**9))
    options = ReportOptions(single_file=single, images=99, max_bytes=full.bytes - 1)
    opened.clear()
    assert write_report(run, options, tmp_path / "copy").left_out > 0
    assert len(opened) == len(set(opened)) > 0


def test_a_limit_below_the_page_is_refused_with_the_size(run):
    with pytest.raises(ConfigError, match=r"without a single image.*--max-report-size"):
        write_report(run, ReportOptions(max_bytes=1000))


def test_a_missing_picture_is_told_so(tmp_path):
    write_record(quickstart(), tmp_path)
    with pytest.raises(RecordError, match="copy the whole folder"):
        write_report(tmp_path, ReportOptions(single_file=True))


@pytest.mark.parametrize(
    ("images", "size"),
    [("some", ""), ("worst:3", ""), ("-1", ""), ("", "big"), ("", "5M"), ("", "0MB")],
)
def test_unknown_forms_are_refused(images, size):
    with pytest.raises(ConfigError, match="--"):
        form(single_file=False, images=images, max_report_size=size)


@pytest.mark.parametrize(("text", "size"), [("100MB", 10**8), ("1.5 kb", 1500), ("2GB", 2 * 10**9)])
def test_sizes_are_read(text, size):
    assert form(single_file=False, images="", max_report_size=text).max_bytes == size


def test_an_asset_that_would_end_its_element_is_refused():
    with pytest.raises(ValueError, match="end of a script"):
        trusted("a </SCRIPT> b")
