"""Pages of a scenario and of loaders: valid, and with every cell that a terminal shows."""

import pytest

from alignkit.errors import DamagedRecord
from alignkit.record.document import document_text
from alignkit.report.bench.write_bench import read_bench, render_bench
from alignkit.text.bench_words import BenchWords
from alignkit.text.loader_words import loader_tables
from alignkit.text.scenario_words import drift_table, result_table, shown_runs, stage_table
from tests.report.plain_records import PLAIN, rich_scenario
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


def tables_of(name):
    record = PLAIN[name][1]
    if "loader" in name:
        return loader_tables(record)
    words, shown = BenchWords(record), shown_runs(record)
    return [
        result_table(record, shown, words),
        drift_table(shown, words),
        stage_table(record, shown, words),
    ]


@pytest.mark.parametrize("name", PLAIN)
def test_every_cell_and_sentence_of_the_terminal_is_on_the_page(name, tmp_path):
    tree = rendered(name, tmp_path)
    text = " ".join(text_of(tree).split())
    for table in tables_of(name):
        cells = [each for row in table.rows for each in row if each]
        for each in (*cells, *(note for note in table.notes)):
            assert " ".join(each.split()) in text
    for each in [*getattr(PLAIN[name][1], "options", ()), *getattr(PLAIN[name][1], "loaders", ())]:
        assert each.reason in text


def test_the_first_sentences_name_verdicts_busy_machines_and_leaks(tmp_path):
    text = " ".join(text_of(rendered("server", tmp_path)).split())
    assert "LoadGen calls 2 of 3 options VALID: opencv ▸ torch fp32 and opencv ▸" in text
    assert "Contended, not to be used: 1 of 3 timings: opencv ▸ openvino" in text
    (tmp_path / "scenario.json").unlink()
    text = " ".join(text_of(rendered("loaders", tmp_path)).split())
    assert (
        "opencv ▸ MixedLoader has the greatest throughput of the 5 that nothing else disturbed: 1137"
        in text
    )
    assert "Memory leaks: pillow ▸ MixedLoader." in text


def test_a_copy_can_be_rendered_again_and_a_damaged_document_is_refused(tmp_path):
    rendered("server", tmp_path)
    page = render_bench(tmp_path, tmp_path / "copy")
    assert "requests.parquet" not in page.read_text()
    assert read_bench(tmp_path / "copy") == rich_scenario()
    assert render_bench(tmp_path / "copy/scenario.json") == page
    file = tmp_path / "scenario.json"
    file.write_text(file.read_text().replace('"samples": 1234', '"samples": 2234'))
    with pytest.raises(DamagedRecord, match=r"scenario\.json is damaged.*--scenario"):
        render_bench(tmp_path)
