"""The page of loaders: valid, and with every cell that a terminal shows."""

import pytest

from alignkit.errors import DamagedRecord
from alignkit.record.document import document_text
from alignkit.report.bench.write_bench import read_bench, render_bench
from alignkit.text.loader_words import loader_tables
from tests.report.plain_records import PLAIN, rich_loaders
from tests.report.test_report import check_whole, elements, parse, text_of


def rendered(name, folder):
    file, record = PLAIN[name]
    (folder / file).write_text(document_text(record))
    return parse(render_bench(folder).read_text())


@pytest.mark.parametrize("name", PLAIN)
def test_every_page_is_valid_and_loads_nothing_from_a_network(name, tmp_path):
    tree = rendered(name, tmp_path)
    check_whole(tree)
    assert PLAIN[name][0] in {a.get("href") for a in elements(tree, "a")}


@pytest.mark.parametrize("name", PLAIN)
def test_every_cell_and_sentence_of_the_terminal_is_on_the_page(name, tmp_path):
    tree = rendered(name, tmp_path)
    text = " ".join(text_of(tree).split())
    for table in loader_tables(PLAIN[name][1]):
        cells = [each for row in table.rows for each in row if each]
        for each in (*cells, *(note for note in table.notes)):
            assert " ".join(each.split()) in text
    for each in PLAIN[name][1].loaders:
        assert each.reason in text


def test_the_first_sentences_name_the_fastest_and_busy_machines(tmp_path):
    text = " ".join(text_of(rendered("loaders", tmp_path)).split())
    assert (
        "opencv ▸ MixedLoader has the greatest throughput of the 5 that nothing else disturbed: 1137"
        in text
    )
    assert "Contended, not to be used: 1 of 6 timings: nvjpeg" in text


def test_a_copy_can_be_rendered_again_and_a_damaged_document_is_refused(tmp_path):
    rendered("loaders", tmp_path)
    page = render_bench(tmp_path, tmp_path / "copy")
    assert read_bench(tmp_path / "copy") == rich_loaders()
    assert render_bench(tmp_path / "copy/loaders.json") == page
    file = tmp_path / "loaders.json"
    file.write_text(file.read_text().replace('"batch": 16', '"batch": 17'))
    with pytest.raises(DamagedRecord, match=r"loaders\.json is damaged.*bench-loaders"):
        render_bench(tmp_path)
