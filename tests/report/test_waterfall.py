"""Waterfalls: from the value as trained, over each stage, to the value as served."""

import pytest

from alignkit.report.axis import Interval
from alignkit.report.marks import Dot, Line
from alignkit.report.plot import facets
from alignkit.report.waterfall import waterfall
from alignkit.text.numbers import MINUS
from tests.report.drawn_chart import axis

STEPS = (
    ("decode", Interval(0.0, 0.0, 0.0)),
    ("resize", Interval(-4.0, -5.0, -3.0)),
    ("precision", Interval(1.0, 0.5, 1.5)),
)
TOTAL = Interval(-3.0, -4.0, -2.0)


def made(caption="Macro recall, %", start=93.0, steps=STEPS, total=TOTAL, **changes):
    return waterfall(caption, start, steps, total, **changes)


def test_each_step_begins_where_the_last_one_ends():
    plot = made()
    assert plot.y.rows == ("baseline", "decode", "resize", "precision", "served")
    assert [(each.points, each.tone) for each in bars(plot)] == [
        (((93.0, 2), (89.0, 2)), "t1 bar"),  # a loss
        (((89.0, 3), (90.0, 3)), "t0 bar"),  # a gain
    ]
    dots = [(each.y, each.x, each.shape) for each in plot.marks if isinstance(each, Dot)]
    assert dots == [
        (0, 93.0, "level"),
        (1, Interval(93.0, 93.0, 93.0), "point"),
        (2, Interval(89.0, 88.0, 90.0), "tick"),
        (3, Interval(90.0, 89.5, 90.5), "tick"),
        (4, Interval(90.0, 89.0, 91.0), "level"),
    ]


def bars(plot):
    return [each for each in plot.marks if isinstance(each, Line) and "bar" in each.tone]


def test_each_row_has_its_number_and_interval():
    assert made().y.beside == (
        "93.00",
        "0",
        f"{MINUS}4.00 [{MINUS}5.00, {MINUS}3.00]",
        "+1.00 [+0.50, +1.50]",
        "90.00 [89.00, 91.00]",
    )


def test_waterfalls_of_one_metric_share_an_axis_and_those_of_others_do_not():
    small = made(steps=(("resize", Interval(-0.1, -0.2, 0.0)),), total=Interval(-0.1, -0.2, 0))
    churn = made("Churn, %", start=0.0, distance=True)
    ends = [
        [value for _, value in axis(each, "middle", "x")] for each in facets([made(), small, churn])
    ]
    assert ends[0] == ends[1] != ends[2]


def test_a_value_that_no_stage_changes_has_round_marks_around_it():
    still = Interval(0.0, 0.0, 0.0)
    plot = made(start=0.526316, steps=(("decode", still),), total=still)
    assert [value for _, value in axis(plot, "middle", "x")] == [0.45, 0.5, 0.55, 0.6]


@pytest.mark.parametrize(("changes", "tone", "text"), [
    ({"distance": True}, "t1", "6.50 [5.00, 8.00]"),
    ({"rise_is_worse": True}, "t1", "+6.50 [+5.00, +8.00]"),
    ({}, "t0", "+6.50 [+5.00, +8.00]"),
])  # fmt: skip
def test_a_rise_is_for_the_worse_where_the_metric_says_so(changes, tone, text):
    rise = Interval(6.5, 5.0, 8.0)
    plot = made(start=0.0, steps=(("resize", rise),), total=rise, **changes)
    (bar,) = bars(plot)
    assert (bar.tone, plot.y.beside[1]) == (f"{tone} bar", text)
