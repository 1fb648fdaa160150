"""Limits of differences in words."""

import pytest

from alignkit.record.tolerance_facts import (
    CurvePoint,
    Limit,
    PixelTolerance,
    SeedCurve,
)
from alignkit.text.tolerance_words import curve_row

PLACE = {"trained_with": "a", "backend": "torch", "precision": "fp32", "reference": "a"}


def curves(value, *, more):
    points = tuple(
        CurvePoint(each, 100, 1, 0.0, 0.1, worse=None, better=None, metrics={})
        for each in (0.25, 0.5, 1.0, 2.0)
    )
    limit = Limit(value, 2, 0.04, more=more)
    return (SeedCurve(seed=0, images=100, source="line, checked", limit=limit, points=points),)


@pytest.mark.parametrize(("more", "least"), [(True, "≥ "), (False, "")])
def test_a_bound_is_called_one_in_levels_too(more, least):
    known = {**PLACE, "factor": 3.0, "seeds": curves(3.0, more=more)}
    pair = PixelTolerance(**known, candidate="b", mean_abs=0.5, levels=1.5)
    assert curve_row(pair)[:2] == (f"{least}3.000×", f"{least}1.500 of mean |Δ|")
