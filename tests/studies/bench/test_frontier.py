"""The frontier of speed and drift, on hand-made options."""

import pytest

from alignkit.record import Estimate
from alignkit.serve.served_facts import gain_over
from alignkit.studies.bench import Contender, frontier, price

QUIET = (1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01, 0.99)
NOISY = (1.6, 0.7, 1.1, 0.6, 1.5, 0.9, 1.3, 0.8, 1.0)


def option(name, speed, *churn, noise=QUIET):
    drift = {"churn": Estimate(*churn)} if churn else {}
    return Contender(name, tuple(speed * each for each in noise), **drift)


REFERENCE = option("reference", 100)


def test_a_faster_option_that_drifts_no_more_dominates():
    places = frontier([REFERENCE, option("same", 150, 0.0, 0.0, 0.004)])
    assert places["same"].standing == "frontier"
    found = places["reference"]
    assert (found.standing, found.by, found.shown) == ("dominated", "same", ("speed",))


def test_speed_for_drift_is_a_choice():
    places = frontier([REFERENCE, option("int8", 200, 0.03, 0.02, 0.04)])
    assert {each.standing for each in places.values()} == {"frontier"}
    assert places["reference"].price is None
    assert places["int8"].since == "reference"
    # twice as fast for 3 points: a third of the throughput a point
    assert places["int8"].price.value == pytest.approx(1 / 3)
    assert places["int8"].price.low == pytest.approx(1 / 4)
    assert places["int8"].price.high == pytest.approx(1 / 2)


def test_less_drift_is_shown_where_the_intervals_do_not_touch():
    mild = option("mild", 101, 0.01, 0.005, 0.015, noise=NOISY)
    places = frontier([mild, option("wild", 100, 0.1, 0.08, 0.2)])
    found = places["wild"]
    assert (found.standing, found.by, found.shown) == ("dominated", "mild", ("drift",))


def test_noise_shows_nothing():
    slow, fast = option("slow", 100, 0.02, 0.01, 0.03), option("fast", 104, 0.019, 0.01, 0.03,
                                                                noise=NOISY)  # fmt: skip
    places = frontier([slow, fast])
    assert (places["slow"].standing, places["slow"].by) == ("not separable", "fast")
    assert places["fast"].standing == "frontier"


def test_equal_options_are_both_kept():
    places = frontier([option("one", 100, 0.01, 0.0, 0.02), option("two", 100, 0.01, 0.0, 0.02)])
    assert {each.standing for each in places.values()} == {"frontier"}
    assert places["two"].price.reason == "the churns are equal"


def test_the_price_says_where_the_sample_ends():
    near = option("near", 110, 0.01, 0.0, 0.02)
    found = price(REFERENCE, near)
    assert found.value == pytest.approx(0.1)
    assert (found.low, found.high) == (None, None)
    assert found.reason == "the sample does not show that the churns differ"
    few = Contender("few", (2.0, 3.0), near.churn), Contender("first", (1.0, 1.0))
    assert price(*few[::-1]).reason == "the interval of a churn or of the gain is not known"


def test_each_step_of_the_frontier_has_the_price_of_that_step_alone():
    places = frontier([
        REFERENCE, option("graph", 150, 0.0, 0.0, 0.001),
        option("half", 160, 0.01, 0.008, 0.012), option("int8", 300, 0.05, 0.04, 0.06),
    ])  # fmt: skip
    assert places["reference"].standing == "dominated"
    assert (places["graph"].since, places["graph"].price) == ("", None)
    assert places["half"].since == "graph"
    assert places["half"].price.value == pytest.approx(160 / 150 - 1)
    assert places["int8"].since == "half"
    assert places["int8"].price.value == pytest.approx((300 / 160 - 1) / 4)


def test_a_gain_needs_six_rounds_for_an_interval():
    assert gain_over((2.0,) * 5, (1.0,) * 5) == Estimate(
        1.0, None, None, "5 rounds are too few for an interval"
    )
    assert gain_over((2.0,) * 6, (1.0,) * 6) == Estimate(1.0, 1.0, 1.0)
