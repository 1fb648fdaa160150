"""The tables of runtimes and sessions."""

from __future__ import annotations

import numpy as np

from alignkit.compare import drift
from alignkit.compare.predictions import Predictions
from alignkit.record import BatchCheck, BuildSpread, LogitDistance, NumericDrift
from alignkit.report.entries_view import numeric_table, sessions_table
from alignkit.report.matrix_section import entries_in_short
from alignkit.report.matrix_view import matrix_views
from alignkit.text.names import Names
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
    assert numeric_table(record.matrix, Names(record.paths), record.task) is None
    assert sessions_table(record.cells, Names(record.paths), record.task) is None


def test_shares_are_of_the_images_compared_and_what_is_missing_is_told():
    record = changed(quickstart(), "matrix", 1, numeric=NUMERIC)
    table = numeric_table(record.matrix, Names(record.paths), record.task)
    [row] = texts(table)
    assert row[3:] == [
        "200", "0.5", "0.01", "0.002", "0.1", "0.3", "0.999900",
        "0\N{NO-BREAK SPACE}%", "5.03\N{NO-BREAK SPACE}%", "75.38\N{NO-BREAK SPACE}%",
        "98.49\N{NO-BREAK SPACE}%", "–", "3", "1",
    ]  # fmt: skip
    assert [note.text for note in table.notes] == ["with 5 classes or fewer there is no other set"]


def test_without_a_finite_logit_no_image_is_said_to_keep_its_margin():
    names = tuple("abcdefg")
    broken = Predictions(("1",), np.zeros(0, np.int64), np.full((1, 7), np.nan), (), names)
    record = quickstart()
    record = record.model_copy(update={"data": record.data.model_copy(update={"classes": ()})})
    record = changed(record, "matrix", 1, drift=drift([broken], [broken]))
    table = entries_in_short(record, Names(record.paths))
    assert texts(table)[1][3:] == ["–"] * 9
    own, why = (note.text for note in table.notes[:2])
    assert own.startswith("the baseline of its row")
    assert why == "nothing was compared: no image has finite outputs"


def test_flips_of_builds_are_shown_where_their_logits_are_not_kept():
    spread = BuildSpread(builds=2, images=90, flips=3, reason="five are kept")
    record = changed(quickstart(), "cells", 0, inputs="ab" * 32, builds=spread)
    table = sessions_table(record.cells, Names(record.paths), record.task)
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
    table = sessions_table(record.cells, Names(record.paths), record.task)
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
    assert [cell.mark for *_, cells in view.rows for cell in cells].count(*marks) == 1
