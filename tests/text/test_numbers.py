from dataclasses import replace

import pytest

from alignkit.record import Estimate
from alignkit.text.numbers import (
    MINUS,
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
    assert interval(Estimate(value=-0.0, low=-0.0, high=-0.0)) == "[0, 0]"


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
