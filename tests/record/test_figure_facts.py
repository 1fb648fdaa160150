"""Figures and tables of a pair of cells are stored as they were made."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter, ValidationError

from alignkit.record import (
    Estimate,
    FactRow,
    FactTable,
    Figure,
    Mark,
    Neighbour,
    Neighbours,
    Series,
)

FIGURE = Figure(
    name="roc", title="ROC", x_label="FAR", y_label="TAR", x_scale="log",
    series=(Series("reference", (0.001, 0.1), (0.5, 1.0), "reference"),),
    marks=(Mark(0.01, "kept"),),
)  # fmt: skip
TABLE = FactTable(
    name="thresholds", title="Thresholds", columns=("kept", "tuned again"),
    rows=(FactRow("TAR", (Estimate(0.5, 0.4, 0.6), Estimate(None, None, None, "no pairs"))),),
)  # fmt: skip
NEIGHBOURS = Neighbours(
    "a.jpg", (Neighbour("b.jpg", 0.9, right=True),), (Neighbour("c.jpg", 0.8, right=None),)
)


@pytest.mark.parametrize("fact", [FIGURE, TABLE, NEIGHBOURS])
def test_it_is_read_as_it_was_written(fact):
    adapter = TypeAdapter(type(fact))
    assert adapter.validate_json(adapter.dump_json(fact)) == fact


def test_series_and_rows_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="a: 1 x and 2 y"):
        Series("a", (0.0,), (0.0, 1.0))
    with pytest.raises(ValueError, match="thresholds, TAR: 2 cells in 1 columns"):
        FactTable(name="thresholds", title="", columns=("kept",), rows=TABLE.rows)
    with pytest.raises(ValueError, match=r"roc: 0\.0 on a logarithmic axis"):
        replace(FIGURE, marks=(Mark(0.0, "kept"),))
    with pytest.raises(ValidationError):
        TypeAdapter(Series).validate_python({"name": "a", "x": [float("nan")], "y": [0.0]})
