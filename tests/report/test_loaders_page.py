"""The page of loaders: valid, and with every cell that a terminal shows."""

import pytest

from alignkit.errors import DamagedRecord
from alignkit.record.document import document_text
from alignkit.report.bench.write_bench import read_bench, render_bench
from alignkit.text.loader_words import loader_table
from tests.report.loader_records import WITHOUT, rich_loaders
from tests.report.test_report import check_whole, parse, text_of


def rendered(record, folder):
    (folder / "loaders.json").write_text(document_text(record))
    return parse(render_bench(folder).read_text())


@pytest.mark.parametrize("record", [rich_loaders(), WITHOUT], ids=["timed", "nothing timed"])
def test_a_valid_page_has_every_cell_and_note_of_the_terminal(record, tmp_path):
    tree = rendered(record, tmp_path)
    check_whole(tree)
    text = " ".join(text_of(tree).split())
    shown = loader_table(record)
    cells = [each for row in shown.rows for each in row if each]
    for each in (*cells, *shown.notes, *(one.reason for one in record.loaders)):
        assert " ".join(each.split()) in text


def test_a_busy_machine_is_named_before_any_figure(tmp_path):
    text = " ".join(text_of(rendered(rich_loaders(), tmp_path)).split())
    said = "Contended, not to be used: 1 of 6 timings: nvjpeg"
    assert text.index(said) < text.index("images/s")


def test_a_copy_can_be_rendered_again_and_a_damaged_document_is_refused(tmp_path):
    rendered(rich_loaders(), tmp_path)
    page = render_bench(tmp_path, tmp_path / "copy")
    assert read_bench(tmp_path / "copy") == rich_loaders()
    assert render_bench(tmp_path / "copy/loaders.json") == page
    file = tmp_path / "loaders.json"
    file.write_text(file.read_text().replace('"batch": 16', '"batch": 17'))
    with pytest.raises(DamagedRecord, match=r"loaders\.json is damaged.*bench FILE --loaders"):
        render_bench(tmp_path)
