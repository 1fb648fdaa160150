"""Waterfalls: from the value as trained, over each stage, to the value as served."""

import pytest

from alignkit.report.charts import Interval
from alignkit.report.waterfall import Steps, waterfalls
from alignkit.text.numbers import MINUS


def steps(id="a", title="Macro recall, %", distance=False, **changes):  # noqa: A002
    given = {
        "start": 93.0,
        "steps": (
            ("decode", Interval(0.0, 0.0, 0.0)),
            ("resize", Interval(-4.0, -5.0, -3.0)),
            ("precision", Interval(1.0, 0.5, 1.5)),
        ),
        "total": Interval(-3.0, -4.0, -2.0),
    }
    return Steps(id=id, title=title, distance=distance, **given | changes)


def test_each_step_begins_where_the_last_one_ends():
    bars = waterfalls([steps()])["a"].bars
    assert [bar.name for bar in bars] == ["baseline", "decode", "resize", "precision", "served"]
    assert [bar.tone for bar in bars] == ["level", "same", "worse", "better", "level"]
    _, decode, resize, precision, served = bars
    assert decode.end == bars[0].x == resize.x + resize.width
    assert precision.x == resize.end == resize.x
    assert served.x == precision.end == pytest.approx(precision.x + precision.width, abs=0.2)


def test_each_bar_has_its_number_and_interval():
    texts = [bar.text for bar in waterfalls([steps()])["a"].bars]
    assert texts == [
        "93.00",
        "0",
        f"{MINUS}4.00 [{MINUS}5.00, {MINUS}3.00]",
        "+1.00 [+0.50, +1.50]",
        "90.00 [89.00, 91.00]",
    ]


def test_waterfalls_of_one_metric_share_an_axis_and_those_of_others_do_not():
    small = steps(
        "b", steps=(("resize", Interval(-0.1, -0.2, 0.0)),), total=Interval(-0.1, -0.2, 0)
    )
    churn = steps("c", "Churn, %", distance=True, start=0.0)
    made = waterfalls([steps(), small, churn])
    assert made["a"].frame.x_marks == made["b"].frame.x_marks != made["c"].frame.x_marks
    narrow, wide = (made[each].bars for each in "ba")
    assert narrow[1].width < wide[2].width / 10


def test_a_value_that_no_stage_changes_has_round_marks_around_it():
    still = Interval(0.0, 0.0, 0.0)
    made = waterfalls([steps(start=0.526316, steps=(("decode", still),), total=still)])["a"]
    assert made.frame.x_marks == [0.45, 0.5, 0.55, 0.6]


def test_a_rise_of_churn_is_for_the_worse_and_has_no_sign():
    rise = (("resize", Interval(6.5, 5.0, 8.0)),)
    made = waterfalls([steps(distance=True, start=0.0, steps=rise, total=Interval(6.5, 5.0, 8.0))])
    bar = made["a"].bars[1]
    assert (bar.tone, bar.text) == ("worse", "6.50 [5.00, 8.00]")
