"""Shapley values against the definition, and games whose answer is known."""

from itertools import permutations

import numpy as np
import pytest

from alignkit.attribute.shares import interaction, shapley, shares
from alignkit.preprocess.stage_mixtures import all_mixtures, mixtures


def random_game(factors: str, seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)
    return {taken: rng.normal(size=3) for taken in all_mixtures(factors)}


@pytest.mark.parametrize("factors", ["a", "ab", "abc", "abcd"])
def test_a_share_is_the_mean_contribution_over_all_orders(factors):
    values = random_game(factors)
    for factor in factors:
        contributions = []
        for order in permutations(factors):
            before = frozenset(order[: order.index(factor)])
            contributions.append(values[before | {factor}] - values[before])
        expected = np.mean(contributions, axis=0)
        assert np.allclose(shapley(factor, factors, values), expected, atol=1e-12)


@pytest.mark.parametrize("factors", ["", "a", "abcd", "abcdef"])
def test_shares_and_interaction_make_the_whole(factors):
    values = random_game(factors)
    parts = shares(factors, values)
    whole = values[frozenset(factors)] - values[frozenset()]
    beside = interaction(factors, values) if len(factors) > 4 else 0.0
    assert np.allclose(sum(parts.values()) + beside, whole, atol=1e-12)


def test_a_factor_that_changes_nothing_gets_exactly_zero():
    values = random_game("abc")
    values = {taken: values[taken - {"b"}] for taken in values}
    assert not shapley("b", "abc", values).any()


def test_an_interaction_of_two_is_halved():
    values = {taken: np.float64(taken == frozenset("ab")) for taken in all_mixtures("ab")}
    assert shapley("a", "ab", values) == shapley("b", "ab", values) == 0.5
    assert interaction("ab", values) == 1.0


def test_the_factorial_is_given_up_beyond_four_factors():
    assert len(mixtures("abcd")) == 16
    assert len(mixtures("abcde")) == 7
