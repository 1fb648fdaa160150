"""Shares of changed images: their intervals are over files, and none is of no width."""

import math

import numpy as np
import pytest

from alignkit.compare.bootstrap import joined_groups, mean_estimate
from alignkit.compare.idle_answers import changed_share


def marks(images, changed):
    found = np.zeros(images, np.bool_)
    found[:changed] = True
    return found


def ids(images):
    return [str(at) for at in range(images)]


@pytest.mark.parametrize("times", [2, 5, 10])
def test_copies_have_the_interval_of_their_files(times):
    files = marks(60, 12)
    copies = {str(at): str(at // times * times) for at in range(60 * times) if at % times}
    groups = joined_groups(ids(60 * times), None, copies)
    copied = changed_share(np.repeat(files, times), groups)
    once, blind = changed_share(files, None), changed_share(np.repeat(files, times), None)
    assert copied.value == once.value == 0.2
    # files are drawn in another order
    assert [copied.low, copied.high] == pytest.approx([once.low, once.high], abs=0.02)
    assert blind.high - blind.low < (once.high - once.low) / math.sqrt(times) * 1.15


def test_files_with_unequal_copies_have_the_interval_of_a_ratio():
    """Against the linearised error of a ratio of sums over clusters."""
    draw = np.random.default_rng(3)
    sizes = draw.integers(1, 9, 200)
    flips = draw.random(200) < 0.2
    groups = np.repeat(np.arange(200), sizes)
    found = changed_share(flips[groups], groups)
    share = float((flips * sizes).sum() / sizes.sum())
    error = np.sqrt(((sizes * (flips - share)) ** 2).sum()) / sizes.sum()
    assert found.value == pytest.approx(share)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)


@pytest.mark.parametrize(("images", "times"), [(30, 1), (30, 10), (300, 2)])
@pytest.mark.parametrize("every", [False, True])
def test_what_none_or_all_show_has_no_interval_but_what_files_may_hide(images, times, every):
    copies = {str(at): str(at // times * times) for at in range(images * times) if at % times}
    groups = joined_groups(ids(images * times), None, copies)
    found = changed_share(np.full(images * times, every), groups)
    unseen = -math.log(0.025) / images
    assert (found.value, found.low, found.high) == (float(every), None, None)
    assert f"{100 * unseen:.1f}\N{NO-BREAK SPACE}%" in found.reason
    assert ("different images" in found.reason) == (times > 1)
    assert ("keep" in found.reason) == every


def test_one_file_many_times_has_no_interval():
    found = mean_estimate(np.array([0.0, 1.0, 1.0]), np.zeros(3, np.int64))
    assert (found.value, found.low) == (pytest.approx(2 / 3), None)
