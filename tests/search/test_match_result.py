"""What is left, and what a plainer hypothesis leaves, decide whether a configuration is found."""

from dataclasses import replace

import pytest

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.record import Estimate
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.search.configurations import Configuration
from alignkit.search.match_result import Match, Ranked, explained_share

PLAIN = Configuration(OpenCVDecoder(), OpenCVResizer())
OTHER = Configuration(OpenCVDecoder(), OpenCVResizer("area"))


def result(remains: float, plain: float, nearest: Configuration = OTHER, **more) -> Match:
    ranked = Ranked((nearest,), Estimate(remains, None, None), 9.0, 0, 0 if remains else 10)
    return replace(Match("t", (ranked,), ranked, PLAIN, plain, 2, (), 10, 0), **more)


@pytest.mark.parametrize(
    ("remains", "plain", "state"),
    [
        (0.0, 0.4, "found"),
        (0.001, 60.0, "near"),  # as no image is equal
        (0.9, 60.0, "near"),
        (0.5, 0.9, "near"),  # as near as a decoder, and the plainest is nearly as near
        (1.3, 2.8, "near"),
        (1.3, 2.4, "not found"),
        (5.0, 60.0, "not found"),
        (25.825, 25.86, "not found"),
    ],
)
def test_a_finding_leaves_little_and_explains_most(remains, plain, state):
    assert result(remains, plain).state == state


def test_the_plainest_configuration_has_nothing_to_explain():
    assert result(0.9, 0.9, PLAIN).explained is None
    assert result(0.9, 0.9, PLAIN).state == "near"
    assert result(2.0, 2.0, PLAIN).state == "not found"


def test_equal_pixels_are_found_and_a_known_target_has_at_least_a_nearest():
    assert result(0.0, 0.0).state == "found"
    assert result(0.0, 0.0, unseen=2).state == "near"  # on which it was not equal
    assert result(25.825, 25.86, known=True).state == "near"


def test_shares_stay_between_nothing_and_all():
    assert explained_share(3.0, 2.0) == 0.0
    assert explained_share(0.0, 2.0) == 1.0
    assert explained_share(0.0, 0.0) == 0.0
