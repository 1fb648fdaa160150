"""The page of loaders and what a terminal shows of it: valid, with every number."""

from pathlib import Path

import pytest

from alignkit.errors import DamagedRecord
from alignkit.record import Estimate
from alignkit.record.bench_facts import LargestBatch, LoaderMemory
from alignkit.record.document import document_text
from alignkit.report.bench_page import read_bench, render_bench
from alignkit.report.timed_page import loader_table, loader_text
from alignkit.text.numbers import DASH
from tests.report.loader_records import WITHOUT, loader, rich_loaders
from tests.report.test_report import check_whole, parse, text_of


def rendered(record, folder):
    (folder / "loaders.json").write_text(document_text(record))
    return parse(render_bench(folder).read_text())


@pytest.mark.parametrize("record", [rich_loaders(), WITHOUT], ids=["timed", "nothing timed"])
def test_a_valid_page_has_every_cell_and_note_of_the_terminal(record, tmp_path):
    tree = rendered(record, tmp_path)
    check_whole(tree)
    text, said = (
        " ".join(each.split()) for each in (text_of(tree), loader_text(record, Path("f")))
    )
    cells = [cell.text for row in loader_table(record).rows for cell in row.cells]
    for each in (*cells, *(one.reason for one in record.loaders)):
        assert " ".join(each.split()) in text
        assert " ".join(each.split()) in said


def test_a_busy_machine_is_named_before_any_figure(tmp_path):
    text = " ".join(text_of(rendered(rich_loaders(), tmp_path)).split())
    said = "Contended, not to be used: 1 of 6 timings;"
    assert text.index(said) < text.index("Images/s")


def test_a_copy_can_be_rendered_again_and_a_damaged_document_is_refused(tmp_path):
    rendered(rich_loaders(), tmp_path)
    page = render_bench(tmp_path, tmp_path / "copy")
    assert read_bench(tmp_path / "copy") == rich_loaders()
    assert render_bench(tmp_path / "copy/loaders.json") == page
    file = tmp_path / "loaders.json"
    file.write_text(file.read_text().replace('"batch": 16', '"batch": 17'))
    with pytest.raises(DamagedRecord, match=r"loaders\.json is damaged.*bench FILE --loaders"):
        render_bench(tmp_path)


def rows_of(*loaders):
    """The cells of a bench of some loaders, and its notes."""
    table = loader_table(rich_loaders().model_copy(update={"loaders": loaders}))
    rows = [[cell.text for cell in row.cells] for row in table.rows]
    return [each.text for each in table.columns], rows, [each.text for each in table.notes]


def test_every_number_stands_in_its_table():
    heads, rows, notes = rows_of(
        loader("DataLoader"),
        loader("MixedLoader", gain=Estimate(0.5, 0.4, 0.625)),
        loader("MixedLoader", gain=Estimate(0.75, 0.7, 0.8), contended="others took 9 %"),
    )
    assert heads[3:7] == ["Memory at rest", "Peak", "After epoch 1", "After epoch 12"]
    sizes = [f"{each} MB" for each in ("300.0", "410.0", "405.0", "409.0")]
    assert rows[0] == ["opencv ▸ DataLoader", "812 [800, 830]", "reference", *sizes, DASH]
    assert rows[1][2] == "+50.0\N{NO-BREAK SPACE}% [+40.0, +62.5]"
    assert (rows[2][1:3]) == ["812 [800, 830] (contended)", DASH]
    assert notes[1:3] == ["contended: others took 9 %", "the machine was busy"]


def test_a_largest_batch_is_bounded_by_what_was_tried():
    memory = LoaderMemory(rest=1_000_000, peak=2_000_000, first=1_500_000, last=1_700_000)
    found = LargestBatch(limit=4_000_000_000, fits=1500, exceeds=1536, reason="out of memory")
    least = found.model_copy(update={"fits": None, "exceeds": 1})
    ended = found.model_copy(update={"exceeds": None})
    heads, rows, _ = rows_of(
        loader("DataLoader", memory=memory, largest=found), loader("MixedLoader", largest=least),
        loader("DALI", largest=ended),
    )  # fmt: skip
    assert heads[-1] == "Largest batch in 4000.0 MB"
    shown = ["1\N{NO-BREAK SPACE}500", DASH, "1\N{NO-BREAK SPACE}500 or more"]
    assert [row[-1] for row in rows] == shown
