"""Figures of a task: lines, words, and the table of the same numbers."""

import math
import re
from dataclasses import replace

import pandas as pd
import pytest

import alignkit
from alignkit.api.frames import fact_frame, figure_frame
from alignkit.record import (
    Artifact,
    Estimate,
    FactRow,
    FactTable,
    Figure,
    Mark,
    Neighbour,
    Neighbours,
    Series,
    Thumbnail,
)
from alignkit.record.document import write_record
from alignkit.report.figure_sections import (
    answers_section,
    entries_with_facts,
    fact_table,
    figure_plot,
    figure_table,
    leading_remarks,
)
from alignkit.report.page import (
    Beside,
    Details,
    Graphic,
    Heading,
    Page,
    PageVerdict,
    Paragraph,
    Section,
    page_html,
)
from alignkit.report.plot import Plot
from alignkit.report.terminal_view import summary
from alignkit.report.write_report import ReportOptions, write_report
from alignkit.text import markdown_text
from alignkit.text.names import Names
from alignkit.text.numbers import MINUS, NBSP
from tests.report.drawn_chart import axis, classes, figure, found, keys, values
from tests.report.embedding_records import embedding
from tests.report.gold import compare_gold, structure
from tests.report.records import quickstart

SIDES = ("opencv", "pillow")
PLAIN = Figure(
    name="density",
    title="Similarity",
    x_label="cosine",
    y_label="density",
    series=(
        Series("same", (0.0, 0.5, 1.0), (0.0, 2.0, 4.0), "reference"),
        Series("same", (0.0, 0.5, 1.0), (0.0, 1.0, 0.0), "candidate"),
    ),
)
ROC = replace(
    PLAIN,
    x_scale="log",
    series=(Series("", (0.001, 0.01, 0.1, 1.0), (0.0, 0.5, 0.9, 1.0), "reference"),),
)


def drawn(figure=PLAIN):
    return figure_plot(figure, SIDES)


def test_values_lie_where_the_axes_say():
    (_, candidate) = found(drawn(), "line")
    spots = values(drawn(), candidate.get("d"))
    assert spots == [pytest.approx(each, abs=0.01) for each in ((0, 0), (0.5, 1), (1, 0))]
    log = (math.log10, lambda power: 10**power)
    (line,) = found(drawn(ROC), "line")
    assert [x for x, _ in values(drawn(ROC), line.get("d"), x=log)] == pytest.approx(
        [0.001, 0.01, 0.1, 1.0], rel=0.01
    )


def test_a_single_place_can_be_drawn():
    point = Series("same", (0.01,), (0.5,))
    for each in (PLAIN, ROC):
        assert found(drawn(replace(each, series=(point,))), "line")


def test_values_far_from_zero_do_not_start_there():
    high = Series("same", (0.0, 1.0), (0.95, 0.99))
    assert axis(drawn(replace(PLAIN, series=(high,))), "end", "y")[0][1] == 0.95


def test_sides_have_the_colours_of_the_page_and_kinds_their_names():
    series = (
        *PLAIN.series,
        replace(PLAIN.series[0], name="different"),
        Series("chance", (0, 1), (1, 1)),
    )
    view = drawn(replace(PLAIN, series=series, marks=(Mark(0.5, "kept"),)))
    assert keys(view) == ["same, opencv", "same, pillow", "different, opencv", "chance"]
    assert [classes(each)[1:] for each in found(view, "line", figure(view))][:4] == [
        ["t0"],
        ["t1"],
        ["t0", "thin"],
        ["t2", "thin"],
    ]
    assert [each.text for each in found(view, "label")] == ["kept: 0.5"]


def test_readers_who_do_not_see_it_are_told_of_axes_lines_and_marks():
    made = drawn(replace(ROC, marks=(Mark(0.01, "kept"), Mark(0.1, "tuned again"))))
    assert figure(made).find(".//desc").text == (
        "density, from 0 to 1; cosine, from 0.001 to 1; opencv; kept: 0.01; tuned again: 0.1. "
        "A table beside or below it contains the numbers."
    )


def test_the_table_has_the_numbers_of_the_lines_and_none_between():
    more = replace(PLAIN, series=(*PLAIN.series, Series("other", (0.25,), (7.0,))))
    table = figure_table(more, SIDES)
    assert [each.text for each in table.columns] == [
        "cosine",
        "same, opencv",
        "same, pillow",
        "other",
    ]
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["0", "0", "0", "–"],
        ["0.25", "–", "–", "7"],
        ["0.5", "2", "1", "–"],
        ["1", "4", "0", "–"],
    ]
    assert [note.text for note in table.notes] == ["the line has no point here"]


def test_a_long_line_has_a_short_table_with_both_ends():
    xs = tuple(each / 500 for each in range(501))
    table = figure_table(replace(PLAIN, series=(Series("same", xs, xs),)), SIDES)
    assert len(table.rows) == 21
    assert [table.rows[at].cells[0].text for at in (0, 10, 20)] == ["0", "0.5", "1"]
    assert table.caption.endswith("21 of 501 places")


def test_cells_of_a_table_are_in_the_unit_of_their_row():
    reason = "3 different pairs are too few"
    rows = (
        FactRow("TAR", (Estimate(0.9731, 0.968, 0.978), Estimate(None, None, None, reason)), "share"),
        FactRow("Δ TAR", (Estimate(-0.0312, -0.04, -0.02), Estimate(0.0, None, None)), "points"),
        FactRow("Threshold", (Estimate(-0.0123, -0.02, 0.01), Estimate(0.4125, None, None)), "value"),
    )  # fmt: skip
    table = fact_table(
        FactTable(name="t", title="T", columns=("a", "b"), rows=rows), "opencv → pillow"
    )
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["TAR", f"97.31{NBSP}% [96.80, 97.80]", "–"],
        ["Δ TAR", f"{MINUS}3.12 pp [{MINUS}4.00, {MINUS}2.00]", "0 pp"],
        ["Threshold", f"{MINUS}0.0123 [{MINUS}0.0200, 0.0100]", "0.412"],
    ]
    assert [note.text for note in table.notes] == [reason]
    assert table.caption == "T, opencv → pillow"


def test_section_of_the_page():
    rows = (
        FactRow(
            "TAR",
            (Estimate(0.9731, 0.968, 0.978), Estimate(None, None, None, "few")),
        ),
    )
    table = fact_table(FactTable(name="t", title="Rates", columns=("kept", "tuned"), rows=rows))
    marked = replace(ROC, marks=(Mark(0.01, "kept"), Mark(0.012, "tuned <again>")), note="A note.")
    picture = Artifact(path="img/b.png", sha256="0" * 64)
    near = Neighbours("a.jpg", (Neighbour("b.jpg", 0.9, True),), (Neighbour("c.jpg", 0.8, False),))
    pictures = {"b.jpg": Thumbnail(path="o", id="b.jpg", label="bee", picture=picture)}
    cards = ((near,), SIDES, pictures)
    figures = [
        part
        for each, of in ((PLAIN, ""), (marked, "marked"))
        for part in (figure_plot(each, SIDES, of), figure_table(each, SIDES, of))
    ]
    section = Section("answers", "Answers", [*figures, table, Graphic("near_cards", cards)])
    page = Page("t", "k", "1", PageVerdict(("h",)), [section], "f")
    compare_gold("figures.txt", structure(page_html(page)))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A record with figures, and the folder of its report."""
    folder = tmp_path_factory.mktemp("embeddings")
    record = embedding(folder)
    write_record(record, folder)
    write_report(folder, ReportOptions())
    return record, folder


def test_every_comparison_with_figures_is_on_the_page_the_headline_s_first(run):
    record, folder = run
    page = (folder / "index.html").read_text()
    part = page.partition('<section id="answers"')[2].partition("</section>")[0]
    shown = re.findall(r"<h3>(.*?)</h3>|<summary>(.* → .*)</summary>", part)
    own = [each for each in record.matrix if each.drift and each.drift.figures]
    assert len(shown) == len(own)
    assert shown[0] == ("opencv → pillow, torch fp32", "")
    assert part.count('<svg class="chart ') == 2 * len(own)


def test_ids_of_the_page_are_unique(run):
    ids = re.findall(r' id="([^"]*)"', (run[1] / "index.html").read_text())
    assert len(ids) == len({*ids})


def test_advice_stands_beside_the_verdict_on_every_surface(run):
    record, folder = run
    page, advice = (
        (folder / "index.html").read_text(),
        f"opencv → pillow, torch fp32: {record.matrix[leading(record)].drift.remarks[0]}",
    )
    verdict = page.partition('<section class="verdict')[2].partition("</section>")[0]
    assert f"<dt>Advice</dt><dd>{advice}</dd>" in verdict
    assert f"\n**Advice:** {markdown_text(advice)}\n" in (folder / "summary.md").read_text()
    assert f"\nadvice    {advice}\n" in summary(record, folder)


def leading(record):
    return entries_with_facts(record)[0]


def test_the_summary_has_the_tables_of_the_headline_with_reasons(run):
    text = (run[1] / "summary.md").read_text()
    part = text.partition("\nRecall@1 by index and query, opencv → pillow, torch fp32\n")[2]
    part = part.partition("\n## ")[0]
    assert "| index opencv, query pillow | 59.58" in part
    assert "the others are compared with it" in part


def answers(record):
    """The folds of the page's section, of which the first one is open."""
    section = answers_section(record, Names(record.paths))
    folds = [each for each in section.parts if isinstance(each, Details)]
    return [each.words for each in section.parts if isinstance(each, Heading | Paragraph)], folds


def test_a_page_leaves_out_comparisons_beyond_its_limit_and_says_so(run, monkeypatch):
    monkeypatch.setattr("alignkit.report.figure_sections._MOST", 2)
    said, folds = answers(run[0])
    assert len([each for each in folds if "→" in each.summary]) == 1  # the other one is open
    number = len(entries_with_facts(run[0])) - 2
    assert said[-1] == f"{number}{NBSP}more comparisons, with smaller changes: in record.json only."


def test_a_comparison_in_another_runtime_is_named_by_it(run):
    labels = {
        fold.summary: keys(part.columns[1][0])
        for fold in answers(run[0])[1]
        for part in fold.parts
        if isinstance(part, Beside) and isinstance(part.columns[0][0], Plot)
    }
    assert labels["opencv → pillow, torch bf16"] == ["opencv, torch fp32", "pillow, torch bf16"]
    assert labels["pillow → pillow, onnxruntime fp32"] == ["torch fp32", "onnxruntime fp32"]


def test_a_run_without_figures_has_no_section_of_them():
    record = quickstart()
    assert answers_section(record, Names(record.paths)) is None
    assert leading_remarks(record) == ()


def test_frames_have_every_point_and_every_cell(run):
    record, folder = run
    loaded = alignkit.load_run(folder)
    place = {
        "trained_with": "opencv",
        "evaluated_with": "pillow",
        "backend": "torch",
        "precision": "fp32",
    }
    figures, tables = (
        each.loc[(each[list(place)] == list(place.values())).all(axis=1)]
        for each in (loaded.figures, loaded.tables)
    )
    drift = record.matrix[leading(record)].drift
    roc = figures[(figures.figure == "roc") & (figures.side == "candidate")]
    assert tuple(roc.x) == drift.figures[1].series[1].x
    assert tuple(roc.y) == drift.figures[1].series[1].y
    assert len(figures) == sum(len(line.x) for each in drift.figures for line in each.series)
    cell = tables[(tables.table == "thresholds") & (tables.row == "Δ TAR")].iloc[1]
    stored = drift.tables[1].rows[2].cells[1]
    assert (cell.column, cell.value, cell.unit) == (
        drift.tables[1].columns[1],
        stored.value,
        "points",
    )
    assert pd.isna(cell.low)
    assert len(tables) == sum(len(row.cells) for each in drift.tables for row in each.rows)


def test_frames_of_a_run_without_figures_have_their_columns():
    assert list(figure_frame(())) == [*place_columns(), "figure", "series", "side", "x", "y"]
    assert list(fact_frame(()))[:6] == [*place_columns(), "table", "row"]


def place_columns():
    return ["trained_with", "evaluated_with", "backend", "precision"]
