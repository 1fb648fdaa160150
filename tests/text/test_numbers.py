from dataclasses import replace
from functools import partial

import pytest

from alignkit.record import Estimate
from alignkit.text.numbers import (
    MINUS,
    at_most,
    count,
    estimated,
    interval,
    listed,
    p_value,
    percent,
    plain,
    points,
    shorten,
    shorten_middle,
    signed,
    significant,
    unsigned,
)
from alignkit.text.task_words import OF_CLASSES, fact_words, interval_in


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (-0.0042, f"{MINUS}0.42"),
        (0.0042, "+0.42"),
        (0.0, "0"),
        (-0.0, "0"),
        (-1e-6, "0.00"),
        (1e-6, "0.00"),
        (-0.00005, f"{MINUS}0.01"),
    ],
)
def test_a_difference_carries_its_sign_unless_it_is_or_rounds_to_zero(fraction, text):
    assert points(fraction) == text


def test_digits_of_an_interval_agree_with_its_value():
    estimate = Estimate(value=-0.0042, low=-0.0061, high=-0.0023)
    assert interval(estimate) == f"[{MINUS}0.61, {MINUS}0.23]"
    assert interval(estimate, 1) == f"[{MINUS}0.6, {MINUS}0.2]"


def test_a_missing_interval_is_empty():
    assert interval(Estimate(value=0.1, low=None, high=None)) == ""


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.9731, "97.3 %"), (1.0, "100 %"), (0.0, "0 %"), (0.99996, ">99.9 %"), (0.00001, "<0.1 %")],
)
def test_only_all_and_none_read_as_all_and_none(fraction, text):
    assert percent(fraction).replace("\N{NO-BREAK SPACE}", " ") == text


def test_a_small_positive_number_never_reads_as_zero():
    assert plain(0.0001, 3) == "<0.001"
    assert plain(0.0006, 3) == "0.001"
    assert plain(0.0, 3) == "0"


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(0.5, 0, "<1"), (0.0005, 3, "0.001"), (0.00049, 3, "<0.001"), (0.05, 1, "0.1"),
     (0.04, 1, "<0.1"), (0.25, 0, "<1")],
)  # fmt: skip
def test_half_of_the_last_digit_is_no_zero_either(value, decimals, text):
    assert plain(value, decimals) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0004, "1.0004"), (0.9996, "0.9996"), (1.0, "1.000"), (0.99999, "0.99999"), (1.2, "1.200"),
     (1.000000001, ">1.000000"), (0.02004, "0.02004"), (0.0199, "0.020")],
)  # fmt: skip
def test_a_number_beside_a_limit_is_not_rounded_to_it(value, text):
    limit = 0.02 if value == 0.02004 else 1.0
    assert plain(value, 3, limit) == text
    assert percent(0.4996, 0, 0.5).startswith("49.96")
    assert percent(0.5, 0, 0.5).startswith("50\N{NO-BREAK SPACE}")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (0.04, "<0.1"), (12.4, "12.4"), (111.0, "111"), (0.0, "0"), (110.98, "110.98"),
     (0.96, "0.96"), (1.0, "1")],
)  # fmt: skip
def test_the_greatest_of_some_numbers_is_not_rounded_to_a_whole_one(value, text):
    assert at_most(value) == text


def test_a_number_that_rounds_to_zero_has_no_sign_in_an_interval_either():
    estimate = Estimate(value=-1e-7, low=-0.0023, high=2e-7)
    assert interval(estimate) == f"[{MINUS}0.23, 0.00]"
    assert estimated(estimate) == f"0.00 [{MINUS}0.23, 0.00]"
    assert interval(replace(estimate, low=1e-7, high=0.01), share=True) == "[<0.01, 1.00]"
    assert plain(-1e-7, 3) == "0.000"
    assert unsigned(1e-6, 0.0042) == "<0.01–0.42 pp"


def test_signs_are_true_minus_signs():
    assert signed(-2.5, 1) == f"{MINUS}2.5"
    assert significant(-0.00012345) == f"{MINUS}0.000123"


@pytest.mark.parametrize(("p", "text"), [(0.2, "0.200"), (0.0004, "<0.001"), (1.0, "1.000")])
def test_p_values_have_three_decimals(p, text):
    assert p_value(p) == text


def test_words_follow_their_numbers():
    assert count(1, "image").split() == ["1", "image"]
    assert count(1200, "class", "classes").split() == ["1", "200", "classes"]
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_long_texts_are_shortened():
    assert shorten("chrysanthemum", 8) == "chrysan…"
    assert shorten("rose", 8) == "rose"


def test_a_negative_zero_is_zero():
    assert signed(-0.0, 2) == "0"


ZERO = Estimate(0.0, 0.0, -0.0)
TOLD = Estimate(0.0, 0.0, 0.0, "none of 300; up to 1.2 % unseen")


@pytest.mark.parametrize(
    "write",
    [
        interval,
        partial(interval, share=True),
        partial(estimated, unit=" pp"),
        partial(OF_CLASSES.changed, "top1"),
        partial(OF_CLASSES.estimated, "churn"),
        partial(interval_in, unit="px", size=True),
        partial(interval_in, unit="value", size=False),
        partial(fact_words, unit="value"),
        partial(fact_words, unit="share"),
    ],
)
def test_no_zero_has_an_interval_without_a_width(write):
    """Of no image that moved, a bootstrap knows nothing: what may be unseen stands there."""
    assert "[" not in write(ZERO) + write(TOLD)
    assert "(none seen)" in write(ZERO)
    assert f"({TOLD.reason})" in write(TOLD)
    for moved in (Estimate(0.0, -0.01, 0.01), Estimate(0.01, 0.0, 0.03)):
        assert "[" in write(moved)


@pytest.mark.parametrize("most", [5, 6, 30])
def test_a_name_shortened_in_the_middle_keeps_both_ends(most):
    name = "".join(chr(ord("a") + place % 26) for place in range(180))
    found = shorten_middle(name, most)
    first, last = found.split("…")
    assert len(found) == most
    assert name.startswith(first)
    assert name.endswith(last)
    assert len(first) - len(last) in {0, 1}
    assert shorten_middle(name[:most], most) == name[:most]


def test_a_change_that_no_image_moves_has_no_interval_of_no_width():
    still = Estimate(0.0, 0.0, 0.0, "none of 60; up to 6.1 % unseen")
    assert estimated(still, unit=" pp") == "0 pp (none of 60; up to 6.1 % unseen)"
    assert estimated(still, share=True).endswith("% (none of 60; up to 6.1 % unseen)")
    # a reason for an interval that is missing is no such remark
    assert interval(replace(still, low=None, high=None)) == "(no interval)"
