"""The table of swaps: what a run measured, the most churn first, on one screen."""

import runpy
from pathlib import Path

import pytest

from alignkit.record.document import write_record
from tests.report.records import quickstart

SCRIPT = Path(__file__).parents[2] / "benchmarks/atlas.py"


def test_a_line_has_the_numbers_of_its_cell_and_the_most_churn_is_first(tmp_path, capsys):
    record = quickstart()
    write_record(record, tmp_path)
    runpy.run_path(str(SCRIPT))["main"](tmp_path)
    text = capsys.readouterr().out
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    rows = rows[2:]
    assert 0 < len(rows) <= 20
    own = next(each for each in record.matrix if each.aligned)
    swaps = {
        each.evaluated_with if each.evaluated_with != own.evaluated_with else each.column.runtime: each
        for each in record.matrix
        if each.row == own.row and each.drift
        and (each.evaluated_with == own.evaluated_with)
        != (each.column.runtime == own.column.runtime)
    }  # fmt: skip
    assert {row[0] for row in rows} == {*swaps}
    churns = [float(row[1].split()[0]) for row in rows]
    assert churns == sorted(churns, reverse=True)
    for row, churn in zip(rows, churns, strict=True):
        assert churn == pytest.approx(100 * swaps[row[0]].drift.churn.value, abs=0.006)
