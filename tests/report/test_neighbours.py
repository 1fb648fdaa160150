"""Nearest images before and after, as the page shows them, in every form of the report."""

import re

import pytest

from alignkit.errors import DamagedRecord
from alignkit.record import Artifact, Neighbour, Neighbours, Thumbnail
from alignkit.record.document import artifacts_of, read_record, write_record
from alignkit.report.page import Graphic, Page, PageVerdict, Section, page_html
from alignkit.report.write_report import ReportOptions, write_report
from alignkit.text.numbers import MINUS
from tests.report.embedding_records import embedding

PICTURE = re.compile(r'<img src="([^"]*)" alt="[^"]*" width="86"')


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_record(embedding(folder), folder)
    return folder


def queries(page):
    """Of each comparison, the queries in sight and folded, as HTML."""
    part = page.partition('<section id="answers"')[2].partition("</section>")[0]
    return [each.split('<div class="near">')[1:] for each in part.split("Nearest images")[1:]]


def test_a_card_has_both_sides_with_similarities_and_what_is_right():
    found = Neighbours(
        "a.jpg",
        (Neighbour("b.jpg", 0.98765, True), Neighbour("c.jpg", -0.25, False)),
        (Neighbour("d.jpg", 0.5, None),),
    )
    file = Artifact(path="img/b.png", sha256="0" * 64)
    pictures = {"b.jpg": Thumbnail(path="p", id="b.jpg", label="bee", picture=file)}
    section = Section("s", "S", [Graphic("near_cards", ((found,), ("opencv", "pillow"), pictures))])
    page = page_html(Page("t", "k", "1", PageVerdict(("h",)), [section], "f"))
    assert re.findall(r"<p>((?:Before|After): .*)</p>", page) == ["Before: opencv", "After: pillow"]
    query, b, c, d = re.findall(r'(?s)<(?:div class="query"|li class=.*?)>.*?</(?:div|li)>', page)
    assert PICTURE.findall(page) == ["img/b.png"]
    assert ("img/b.png" in b, "bee" in b, 'class="right"' in b, "✓</span> 0.9877" in b) == (
        True,
    ) * 4
    assert ('class="wrong"' in c, f"✕</span> {MINUS}0.2500" in c) == (True, True)
    assert ('class=""' in d, "<b>0.5000</b>" in d) == (True, True)
    assert "<b>" not in query


def test_the_page_shows_queries_with_pictures_that_lie_beside_it(run):
    page = write_report(run, ReportOptions()).page.read_text()
    own = [each for each in read_record(run).matrix if each.drift and each.drift.neighbours]
    found = queries(page)
    assert [len(each) for each in found] == [6] * len(own)
    first = found[0][0]
    near = own[0].drift.neighbours[0]
    assert re.findall(r'<span title="([^"]*)">', first) == [
        near.query, *(each.id for each in (*near.before, *near.after)),
    ]  # fmt: skip
    kinds = ["right" if each.right else "wrong" for each in (*near.before, *near.after)]
    assert re.findall(r'<li class="(\w+)">', first) == kinds
    assert "<p>Before: opencv</p>" in first
    assert "<p>After: pillow</p>" in first
    assert len(PICTURE.findall(first)) == 11
    assert all((run / path).is_file() for path in PICTURE.findall(page))
    # the run kept no picture of the last query's
    assert PICTURE.findall(found[0][-1]) == []


def test_a_single_file_has_pictures_of_the_first_comparison_alone(run, tmp_path):
    written = write_report(run, ReportOptions(single_file=True), tmp_path / "mail.html")
    first, *others = queries(written.page.read_text())
    assert all(
        path.startswith("data:image/png;base64,")
        for each in first
        for path in PICTURE.findall(each)
    )
    assert [len(PICTURE.findall(each)) > 0 for each in first] == [True] * 4 + [False] * 2
    assert not [path for found in others for each in found for path in PICTURE.findall(each)]


def test_without_room_their_pictures_go_first_and_the_lists_have_names(run, tmp_path):
    whole = write_report(run, ReportOptions(max_bytes=10**8), tmp_path / "whole").bytes
    written = write_report(run, ReportOptions(max_bytes=whole - 1), tmp_path / "less")
    none = write_report(run, ReportOptions(images=0), tmp_path / "none")
    assert written.left_out == 0
    for page in (written.page.read_text(), none.page.read_text()):
        assert "Nearest images before and after" in page
        assert "Pictures: as" not in page
        assert PICTURE.findall(page) == []


def test_a_copy_has_the_pictures(run, tmp_path):
    page = write_report(run, ReportOptions(), tmp_path).page.read_text()
    assert PICTURE.findall(page)
    assert all((tmp_path / path).is_file() for path in PICTURE.findall(page))


def test_a_picture_that_was_changed_is_no_part_of_a_report(tmp_path):
    record = embedding(tmp_path)
    write_record(record, tmp_path)
    picture = record.thumbnails[0].picture
    assert picture in artifacts_of(record)
    (tmp_path / picture.path).write_bytes(b"<svg onload='alert()'/>")
    with pytest.raises(DamagedRecord, match="not as alignkit wrote it"):
        write_report(tmp_path, ReportOptions())
