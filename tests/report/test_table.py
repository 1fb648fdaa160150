"""One list of columns: what a page, a summary, a terminal and a data frame show of the same rows."""

from dataclasses import dataclass

import pytest

from alignkit.record import Estimate
from alignkit.report.table import Note, Table
from alignkit.text.column import Fact, arrow, of_part

NBSP = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Lens:
    """A made row."""

    name: str
    images: int
    share: float | None
    change: Estimate
    inner: "Lens | None" = None


COLUMNS = (
    Fact("Name", lambda lens: lens.name, name="name"),
    Fact("Images", lambda lens: lens.images, "count", name="images", alarm=True),
    Fact("Share", lambda lens: lens.share, "share", note="too dark", group="Both"),
    Fact("Δ recall", lambda lens: lens.change, "points", name="change", interval=True,
           group="Both"),
    Fact("", lambda lens: lens.share, "share", name="share"),
)  # fmt: skip
DARK = Lens("dark|er", 0, None, Estimate(None, None, None, "no label"))
WIDE = Lens("wide", 2324232, 0.25, Estimate(-0.0123, None, None, "one image"), DARK)
LONG = Lens("long", 3000, 0.0, Estimate(0.01, -0.02, 0.04))
TABLE = Table.made("Lenses", COLUMNS, (WIDE, LONG, DARK))


def test_cells_are_written_by_their_unit_and_a_missing_one_says_why():
    assert [each.text for each in TABLE.columns] == ["Name", "Images", "Share", "Δ recall"]
    assert [each.numeric for each in TABLE.columns] == [False, True, True, True]
    assert [(each.text, each.span) for each in TABLE.groups] == [("", 2), ("Both", 2)]
    assert [[cell.said for cell in row.cells] for row in TABLE.rows] == [
        ["wide", f"2{NBSP}324{NBSP}232", f"25.0{NBSP}%", "−1.23 (no interval) (a)"],
        ["long", f"3{NBSP}000", f"0{NBSP}%", "+1.00 [−2.00, +4.00]"],
        ["dark|er", "0", "– (b)", "– (c)"],
    ]
    assert TABLE.notes == (Note("a", "one image"), Note("b", "too dark"), Note("c", "no label"))
    assert [row.cells[1].tone for row in TABLE.rows] == ["bad", "bad", ""]


def test_programs_get_the_values_themselves():
    found = arrow(COLUMNS, (WIDE, LONG, DARK))
    assert {field.name: str(field.type) for field in found.schema} == {
        "name": "string", "images": "int64", "change": "double", "change_low": "double",
        "change_high": "double", "share": "double",
    }  # fmt: skip
    assert found["change"].to_pylist() == [-0.0123, 0.01, None]
    assert found["change_low"].to_pylist() == [None, -0.02, None]
    assert found["share"].to_pylist() == [0.25, 0.0, None]
    assert arrow(COLUMNS, ()).schema == found.schema


def test_a_part_has_the_same_columns_and_the_whole_says_why_it_has_none():
    inner = of_part(COLUMNS[1:3], lambda lens: lens.inner, lambda lens: f"{lens.name} has none")
    table = Table.made("", (COLUMNS[0], *inner), (WIDE, LONG))
    assert [cell.said for cell in table.rows[0].cells] == ["wide", "0", "– (a)"]
    assert [cell.said for cell in table.rows[1].cells] == ["long", "– (b)", "– (b)"]
    assert [note.text for note in table.notes] == ["too dark", "long has none"]


def test_a_part_of_a_part_says_itself_why_it_lacks_one():
    share = Fact("Share", lambda lens: lens.share, "share", note="too dark")
    inner = share.of(lambda lens: lens.inner, "no inner lens").of(lambda held: held[0], "empty")
    table = Table.made("Held", [inner], [(LONG,), (WIDE,), (None,)])
    assert [each.text for each in table.notes] == ["no inner lens", "too dark", "empty"]


def test_every_printer_has_every_cell_and_note():
    html, markdown, text = TABLE.html(), TABLE.markdown(), "\n".join(TABLE.text())
    for row in TABLE.rows:
        for cell in row.cells[1:]:
            assert cell.text in html
            assert " ".join(cell.text.split()) in markdown
            assert cell.text in text
    assert "dark\\|er" in markdown
    assert markdown.endswith("\n\na: one image; b: too dark; c: no label")
    assert text.splitlines()[0].split("  ")[0] == "name"
    first, left = TABLE.first(2, " in index.html")
    assert (len(first.rows), left) == (2, f"1{NBSP}more row in index.html.")


def test_a_row_of_another_width_is_refused():
    with pytest.raises(ValueError, match="2 columns"):
        Table.of("narrow", ("a", "b"), [("one",)])
