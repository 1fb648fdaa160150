"""The time that a whole run has left, from its plan and the pace of stored work."""

import io

import pytest

from alignkit.plan.forecast import Forecast
from alignkit.plan.rates import UNKNOWN, Cost
from alignkit.progress import NoProgress, PlainProgress
from alignkit.runner.time_left import TimedProgress, time_left


def expected(**costs):
    return Forecast(trainings=(), cells=(), attributions=(), comparisons=(), costs=costs)


@pytest.mark.parametrize(
    ("costs", "since", "words"),
    [
        ({"cells": Cost(90.0, 1), "trainings": Cost(30.0, 1)}, 0, "about 2 min 00 s left in all"),
        ({"cells": Cost(90.0, 1)}, 30, "about 1 min 00 s left in all"),
        ({"cells": Cost(9.0, 1)}, 60, ""),
        (
            {"cells": Cost(60.0, 1), "attributions": UNKNOWN},
            0,
            "more than 1 min 00 s left in all; not measured here yet: attribution",
        ),
        ({"cells": UNKNOWN, "trainings": Cost(0.0, 0)}, 0, ""),
        ({"cells": UNKNOWN, "trainings": Cost(9.0, 1)}, 60, ""),
    ],
)
def test_the_time_is_that_of_the_work_that_is_left(costs, since, words):
    assert time_left(expected(**costs), since) == words


def test_work_beside_that_of_the_forecast_makes_it_a_lower_bound():
    costs = expected(cells=Cost(90.0, 1))
    assert time_left(costs, at_least=True) == "more than 1 min 30 s left in all"
    assert not time_left(costs, 100, at_least=True)


class Told(NoProgress):
    """A display that keeps the times that it is given."""

    def __init__(self):
        self.times = []

    def left(self, text):
        self.times.append(text)


def test_it_is_estimated_again_as_stages_end_and_runs_down_between():
    told, now, seconds = Told(), [100.0], [60.0]
    progress = TimedProgress(
        told, lambda: expected(cells=Cost(seconds[0], 1)), clock=lambda: now[0]
    )
    progress.estimate()
    with progress.stage("cells", 2) as stage:
        now[0] += 10
        stage.advance()
        stage.advance()  # within the same second
        now[0] += 10
        seconds[0] = 25.0
    assert told.times == [f"about {each} left in all" for each in ("1 min 00 s", "50 s", "25 s")]


def test_an_estimate_takes_a_small_part_of_the_time():
    now, made = [0.0], []

    def slow():
        now[0] += 2.0
        made.append(now[0])
        return expected(cells=Cost(1.0, 1))

    progress = TimedProgress(Told(), slow, clock=lambda: now[0])
    for _ in range(300):
        with progress.stage("x", 1):
            now[0] += 1.0
    assert sum(each > 0 for each in made) * 2.0 <= 0.03 * now[0]


def test_a_plain_display_prints_it_once_in_a_while_and_a_stage_of_stages_none_of_its_own():
    out = io.StringIO()
    progress = PlainProgress(out)
    progress.left("")
    progress.left("about 3 s left in all")
    progress.left("about 2 s left in all")
    assert out.getvalue() == "about 3 s left in all\n"
    out = io.StringIO()
    progress = PlainProgress(out, quiet_seconds=0.0)
    with progress.stage("cells", 3) as outer:
        with progress.stage("train", 2) as inner:
            inner.advance()
        outer.advance()
    assert "cells: 1 of 3\n" in out.getvalue()
    assert "train: 1 of 2, about 0.0 s left\n" in out.getvalue()
