"""The share of images whose answer changes, with what so few files could not show."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Labels
from alignkit.compare.bootstrap import mean_estimate
from alignkit.compare.class_changes import drawn_units
from alignkit.compare.statistics import rule_of_three
from alignkit.record import Estimate
from alignkit.text.numbers import count, percent


def changed_share(changed: npt.NDArray[np.bool_], groups: Labels | None) -> Estimate:
    """Estimate the share of images, (n,), that changed; with the reason where there is no interval.

    ``groups`` are those that a draw takes whole, `alignkit.compare.bootstrap.joined_groups`.
    """
    if not len(changed):
        return Estimate(None, None, None, "no image has finite outputs on both paths")
    if changed.any() and not changed.all():
        return mean_estimate(changed.astype(np.float64), groups)
    # no resample holds what no image shows: its interval would be zero wide
    units = drawn_units(len(changed), groups)
    unseen = percent(min(1.0, rule_of_three(units)))
    of = f"{units}" if groups is None else count(units, "different file")
    kept = " keep its answer and" * bool(changed.all())
    reason = f"a share of up to {unseen} may{kept} show in none of {of}"
    return Estimate(float(changed.all()), None, None, reason)
