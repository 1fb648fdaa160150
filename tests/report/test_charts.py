from itertools import pairwise

import pytest

from alignkit.report.charts import Interval, dot_plot, line_plot, nice_ticks


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-0.3, 0.02), (-21.6, 0), (0, 1e-4), (3, 3), (-7, 950)]
)
def test_ticks_are_round_and_cover_the_values(low, high):
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    steps = {round(b - a, 9) for a, b in pairwise(ticks)}
    assert len(steps) <= 1
    assert 1 <= len(ticks) <= 8


def test_dots_keep_their_order_and_zero_is_in_view():
    rows = [("cat", Interval(-3.0, -4.0, -2.0), None), ("dog", Interval(-1.0, -2.0, 0.0), None)]
    plot = dot_plot(rows, id="x", title="t", series=("a", "b"), unit="pp")
    cat, dog = (row.first for row in plot.rows)
    assert cat.low < cat.x < cat.high <= dog.x < plot.zero <= plot.width
    assert plot.rows[0].second is None


def test_lines_lie_inside_the_plot_and_higher_values_higher_up():
    plot = line_plot([("seed 0", [(1, 2.0), (2, 1.0), (3, 0.5)])], id="x", title="t", zero=True)
    points = [tuple(map(float, pair.split(","))) for pair in plot.lines[0].points.split()]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted(y for _, y in points)
    assert all(
        plot.frame.left <= x <= plot.frame.width and 0 <= y <= plot.frame.bottom for x, y in points
    )


def test_a_single_epoch_can_be_drawn():
    assert line_plot([("seed 0", [(1, 2.0)])], id="x", title="t").lines[0].points
