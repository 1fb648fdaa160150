"""The tables of runtimes and sessions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alignkit.compare import drift
from alignkit.compare.predictions import Predictions
from alignkit.compare.top_predictions import TopPredictions, top_records
from alignkit.record import BatchCheck, BuildSpread, LogitDistance, NumericDrift
from alignkit.report.entries_view import entries_table
from alignkit.report.logits_view import (
    logits_legend,
    logits_table,
    moved_tables,
    numeric_table,
    sessions_table,
    unlabelled_cells,
    unlabelled_columns,
)
from alignkit.report.matrix_view import matrix_views
from alignkit.report.page_view import key_figures
from alignkit.task_facts import TOP_LOGITS
from alignkit.text.names import Names
from alignkit.text.task_words import TaskWords
from tests.compare.test_top_predictions import pair, top
from tests.report.records import quickstart

NUMERIC = NumericDrift(
    n=200,
    flips=3,
    non_finite=1,
    logits=LogitDistance(
        max_abs=0.5, mean_abs=0.01, cosine=0.9999, p50=0.002, p99=0.1, p99_9=0.3, compared=199,
        inside={"1e-05": 0, "1e-03": 10, "1e-02": 150}, same_top={"1": 196},
    ),
)  # fmt: skip


def texts(table) -> list[list[str]]:
    return [[shown.text for shown in row.cells] for row in table.rows]


def changed(record, part, index, **fields):
    entries = list(getattr(record, part))
    entries[index] = entries[index].model_copy(update=fields)
    return record.model_copy(update={part: tuple(entries)})


def test_a_record_without_these_numbers_has_no_tables():
    record = quickstart()
    assert numeric_table(record, Names(record.paths)) is None
    assert sessions_table(record, Names(record.paths)) is None


def test_shares_are_of_the_images_compared_and_what_is_missing_is_told():
    record = changed(quickstart(), "matrix", 1, numeric=NUMERIC)
    table = numeric_table(record, Names(record.paths))
    [row] = texts(table)
    assert row[3:] == [
        "200", "0.5", "0.01", "0.002", "0.1", "0.3", "0.999900",
        "0\N{NO-BREAK SPACE}%", "5.03\N{NO-BREAK SPACE}%", "75.38\N{NO-BREAK SPACE}%",
        "98.49\N{NO-BREAK SPACE}%", "–", "3", "1",
    ]  # fmt: skip
    assert [note.text for note in table.notes] == ["with 5 classes or fewer there is no other set"]


def test_five_logits_of_images_that_are_never_finite_have_a_reason_and_no_share():
    names, labels = tuple("abcdefg"), np.zeros(4, np.int64)
    kept = top_records(np.full((4, 7), np.nan, np.float32))
    broken = TopPredictions(tuple("1234"), labels, kept, names)
    distance = TopPredictions.distance([(broken, broken)])
    numeric = NumericDrift(n=4, flips=0, non_finite=4, logits=distance)
    record = changed(quickstart(), "matrix", 1, numeric=numeric)
    table = numeric_table(record, Names(record.paths))
    reason = "no sample has finite logits on both sides"
    assert texts(table)[0][3:] == ["4", "–", "–", "0", "4"]
    assert [note.text for note in table.notes] == [reason]
    assert table.caption.endswith(f"; no distance of logits: {reason}")
    assert sum(group.span for group in table.groups) == len(table.columns)


def test_comparisons_of_five_logits_have_no_column_of_distances():
    record = quickstart()
    whole = entries_table(record, Names(record.paths))
    unknown = replace(record.matrix[1].drift, logits=LogitDistance(None, None, None, "five"))
    record = changed(record, "matrix", 1, drift=unknown)
    five = entries_table(record.model_copy(update={"task": TOP_LOGITS}), Names(record.paths))
    assert "five" not in [note.text for note in five.notes]
    assert len(whole.columns) - len(five.columns) == 3
    assert {len(row.cells) for row in five.rows} == {len(five.columns)}
    assert five.caption.endswith(TOP_LOGITS.no_logits)


def test_without_a_finite_logit_no_image_is_said_to_keep_its_margin():
    names = tuple("abcdefg")
    broken = Predictions(("1",), np.zeros(0, np.int64), np.full((1, 7), np.nan), (), names)
    record = quickstart()
    record = record.model_copy(update={"data": record.data.model_copy(update={"classes": ()})})
    record = changed(record, "matrix", 1, drift=drift([broken], [broken]))
    table = logits_table(record, Names(record.paths))
    assert texts(table)[1][3:] == ["–"] * 9
    (why,) = [note.text for note in table.notes]
    assert why == "nothing was compared: no image has finite outputs"


def test_without_labels_five_logits_leave_no_column_of_dashes():
    full = pair(0.1, labelled=False)
    record = quickstart()
    record = record.model_copy(
        update={"task": TOP_LOGITS, "data": record.data.model_copy(update={"classes": ()})}
    )
    found = drift([top(full[0])], [top(full[1])])
    record = changed(record, "matrix", 1, drift=found)
    record = record.model_copy(update={"matrix": record.matrix[:2]})
    names, words = Names(record.paths), TaskWords(record.task)
    table = logits_table(record, names)
    assert [each.text for each in table.columns[3:]] == [
        "Churn", "Changed", "Margin halved", "Margin lost, median", "p99"
    ]  # fmt: skip
    assert texts(table)[1][5] == str(found.margins.halved) != "0"
    (moved,) = moved_tables(record, names)
    assert [each.text for each in moved.columns[2:]] == ["Margin", "Margin lost"]
    assert len(unlabelled_cells(record.matrix[1], words)) == len(unlabelled_columns(words)) == 3
    assert f"No distance of logits: {TOP_LOGITS.no_logits}." in logits_legend(record.task)
    assert "Δlogit" not in logits_legend(record.task)
    figures = {each.name: each for each in key_figures(record, names, [])}
    halved = figures["Images that lost half of their margin"]
    assert halved.value == str(found.margins.halved)
    assert "of 600, with the same class" in halved.detail


def test_flips_of_builds_are_shown_where_their_logits_are_not_kept():
    spread = BuildSpread(builds=2, images=90, flips=3, reason="five are kept")
    record = changed(quickstart(), "cells", 0, inputs="ab" * 32, builds=spread)
    table = sessions_table(record, Names(record.paths))
    assert texts(table)[0][-4:-1] == ["2", "–", "3"]
    assert "five are kept" in [note.text for note in table.notes]


def test_a_session_shows_its_tensors_its_batches_and_its_builds():
    record = quickstart()
    record = changed(
        record, "cells", 0, inputs="ab" * 32, non_finite=2,
        batch=BatchCheck(images=16, batch=250, max_abs=1.25, flips=1),
        builds=BuildSpread(builds=3, images=90, max_abs=0.5, mean_abs=0.1, flips=4),
    )  # fmt: skip
    record = changed(
        record, "cells", 1, inputs="ab" * 32, batch=BatchCheck(reason="a batch holds one image"),
        builds=BuildSpread(builds=1, reason="this build failed"),
    )  # fmt: skip
    table = sessions_table(record, Names(record.paths))
    first, second = texts(table)
    assert first[4:] == ["abababababab", "16 of 250", "1.25", "1", "3", "0.5", "4", "2"]
    assert second[5:] == ["–", "–", "–", "1", "–", "–", "0"]
    assert [note.text for note in table.notes] == ["a batch holds one image", "this build failed"]


def test_outputs_that_are_not_finite_are_marked_in_the_matrix():
    record = changed(quickstart(), "matrix", 0, non_finite=2)
    for view in matrix_views(record, Names(record.paths)):
        told = [note.text for note in view.notes]
        assert "2\N{NO-BREAK SPACE}outputs NaN or infinite: counted as wrong" in told


def test_a_session_that_holds_on_this_machine_alone_is_marked_in_the_matrix():
    record = changed(quickstart(), "matrix", 1, warning="saturates here")
    view = matrix_views(record, Names(record.paths))[0]
    marks = [note.mark for note in view.notes if note.text == "saturates here"]
    assert [cell.mark for row in view.rows for cell in row.cells].count(*marks) == 1
