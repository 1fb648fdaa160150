"""The mechanisms that the pixels of one stage show; docs/attribution.md states the rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.compare.displacement import FEWEST, Displacement, LeastSquares, Normal, fit
from alignkit.compare.mechanism_terms import BANDS, DECODE_TERMS, GRIDS, RESIZE_TERMS
from alignkit.compare.spatial_sums import DrawnImage
from alignkit.compare.statistics import student_quantile
from alignkit.preprocess import StageName
from alignkit.record import Estimate
from alignkit.record.blame_facts import MechanismName, PixelMechanism

_ERRORS = 3  # these limits were chosen on photographs before the tests' planted cases were written
"""Standard errors that an effect must be away from none."""
_NEAR = 0.25
"""How far a coefficient may lie from 1."""
_MOST = 0.5
"""Share of the difference's power that must go with the mechanisms."""
_OWN = 0.1
"""Share that each of several must take away itself."""
_LESS = 0.9
"""Power above half of the Nyquist frequency that a filter must leave at most."""
_LATTICE = 3.0
"""How much less even blocks of 8 pixels must be than blocks of 7 and of 9."""
_SHIFT = 0.1
"""Pixels by which a shift may miss the expected one where its error is smaller; where the shift
itself names the grid, `_NEAR` holds nevertheless."""
_SIGNS = (1.0, -1.0)
"""Of an effect that the candidate has, and of one that the reference has."""
_NAMES: dict[str, MechanismName] = {
    "corners": "corners", "asymmetric": "asymmetric", "half-right": "half_pixel",
    "half-left": "half_pixel", "antialias": "antialias", "chroma": "chroma",
}  # fmt: skip


def interval(value: float, error: float, images: int) -> Estimate:
    """Return the 95 % interval of an estimate over images, each of which is one draw."""
    reach = student_quantile(images - 1) * error
    value, low, high = (float(f"{each:.6g}") for each in (value, value - reach, value + reach))
    return Estimate(value, low, high)


def rounded(value: float) -> float:
    """Round to four significant digits, as facts are stored."""
    return float(f"{value:.4g}")


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """The mechanisms that the pixels show, and the difference with and without them."""

    mechanisms: tuple[PixelMechanism, ...] = ()
    before: float | None = None
    """See `SpatialFacts`."""
    after: float | None = None


def mechanisms(
    stage: StageName, drawn: Sequence[DrawnImage], moved: Displacement | None
) -> Mechanisms:
    """Name what the drawn images show; nothing if they are few or the evidence is short of most."""
    terms = [each.terms for each in drawn if each.terms]
    if len(terms) < FEWEST:
        return Mechanisms()
    names = RESIZE_TERMS if stage == "resize" else DECODE_TERMS
    tried = _Tried(terms, names)
    if stage == "decode":
        found = tried.best([("chroma",)])
        return found if found.mechanisms else _with_lattice(found, drawn)
    grids: list[tuple[str, ...]] = [
        (name,)
        for name in GRIDS
        if moved and any(_agrees(name, drawn, moved, sign=each) for each in _SIGNS)
    ]
    filters: list[tuple[str, ...]] = [(), ("antialias",)] if _filtered(drawn) else [()]
    choices = [grid + filtered for grid, filtered in product([(), *grids], filters)]
    found = tried.best([each for each in choices if each])
    return found if found.mechanisms else _displaced(found, drawn, moved)


@dataclass(frozen=True, slots=True)
class _Tried:
    images: Sequence[Normal]
    names: tuple[str, ...]

    def left(self, *terms: str) -> float | None:
        found = fit(self.images, self._places(terms))
        return found.left if found else None

    def _places(self, terms: Sequence[str]) -> list[int]:
        return [self.names.index(term) for term in terms]

    def best(self, choices: Sequence[tuple[str, ...]]) -> Mechanisms:
        """Return the choice that leaves least of those that qualify, if there is any."""
        total, values = self.left("level"), sum(each.values for each in self.images)
        if not total:
            return Mechanisms()
        before = rounded(float(np.sqrt(total / values)))
        found = []
        for terms in choices:
            whole = fit(self.images, self._places((*terms, *self._softness, "level")))
            left = self._left_by(terms, whole, total) if whole else None
            if whole and left is not None:
                found.append((left, terms, whole))
        if not found:
            return Mechanisms(before=before)
        left, terms, whole = min(found, key=lambda each: each[:2])
        named = tuple(self._named(term, whole) for term in terms)
        return Mechanisms(named, before, rounded(float(np.sqrt(left / values))))

    @property
    def _softness(self) -> tuple[str, ...]:
        return ("sharpness",) if "sharpness" in self.names else ()

    def _left_by(self, terms: tuple[str, ...], whole: LeastSquares, total: float) -> float | None:
        """Return the power that terms leave; ``None`` if they do not qualify."""
        left, soft = self.left(*terms, "level"), self.left(*self._softness, "level")
        if left is None or soft is None or left > (1 - _MOST) * total:
            return None
        if whole.left > (1 - _MOST) * soft:
            return None
        for term in terms:
            place = self.names.index(term)
            value, error = whole.coefficients[place], whole.errors[place]
            if abs(abs(value) - 1) > _NEAR or abs(value) < _ERRORS * error:
                return None
            others = self.left(*(each for each in terms if each != term), "level")
            if len(terms) > 1 and (others is None or others - left < _OWN * total):
                return None
        return left

    def _named(self, term: str, whole: LeastSquares) -> PixelMechanism:
        place = self.names.index(term)
        value, error = float(whole.coefficients[place]), float(whole.errors[place])
        measured = interval(abs(value), error, len(self.images))
        return PixelMechanism(name=_NAMES[term], by=_side(value), measured=measured)


def _side(sign: float) -> Literal["candidate", "reference"]:
    return "candidate" if sign > 0 else "reference"


def _expected(name: str, drawn: Sequence[DrawnImage]) -> FloatArray:
    """Return the mean scales, less 1, and shifts of a grid: (4,)."""
    place = GRIDS.index(name)
    found = [each.expected[place] for each in drawn if each.expected is not None]
    return np.asarray(np.mean(found, axis=0) - (1, 1, 0, 0))


def _measured(moved: Displacement) -> tuple[FloatArray, FloatArray]:
    """Return scales, less 1, and shifts, and their standard errors: (4,) each."""
    values, errors = np.array([*moved.scale, *moved.shift]).T
    return values - (1, 1, 0, 0), errors


def _agrees(
    name: str, drawn: Sequence[DrawnImage], moved: Displacement, *, sign: float, near: float = 0.5
) -> bool:
    """Tell whether the measured displacement is that of a grid, on the side of ``sign``.

    It differs from none, and from the grid's by at most a share ``near`` of it or its error.
    """
    values, errors = _measured(moved)
    wanted = sign * _expected(name, drawn)
    least = np.array([0, 0, _SHIFT, _SHIFT])
    allowed = np.maximum(np.maximum(_ERRORS * errors, near * np.abs(wanted)), least)
    there = np.abs(values) > _ERRORS * errors
    return bool((np.abs(values - wanted) <= allowed).all() and there[wanted != 0].any())


def _displaced(
    found: Mechanisms, drawn: Sequence[DrawnImage], moved: Displacement | None
) -> Mechanisms:
    """Name the grid whose displacement explains most of the smoothed difference by itself."""
    if moved is None or moved.share < _MOST:
        return found
    values, errors = _measured(moved)
    agreeing = []
    for name, sign in product(GRIDS, _SIGNS):
        if _agrees(name, drawn, moved, sign=sign, near=_NEAR):
            wanted = sign * _expected(name, drawn)
            # along the axis of the surest effect
            place = int(np.argmax(np.abs(wanted) / np.maximum(errors, 1e-9)))
            ratio, error = float(values[place] / wanted[place]), abs(errors[place] / wanted[place])
            # the least shift that agrees with any may be several times the grid's
            if abs(ratio - 1) <= _NEAR:
                measured = interval(ratio, float(error), moved.images)
                agreeing.append((abs(ratio - 1), name, sign, measured))
    if not agreeing:
        return found
    _, name, sign, measured = min(agreeing, key=lambda each: each[0])
    names = {_NAMES[each] for _, each, *_ in agreeing}
    # of a large step the two shifts are alike, and the gradient's estimate is not exact
    either = names >= {"half_pixel", "asymmetric"}
    named = PixelMechanism(
        name="half_pixel_or_asymmetric" if either else _NAMES[name],
        by=_side(sign),
        measured=measured,
    )
    return replace(found, mechanisms=(named,))


def _filtered(drawn: Sequence[DrawnImage]) -> bool:
    """Tell whether either side has clearly less power at high frequencies."""
    power = [each.power for each in drawn if each.power is not None]
    if not power:
        return False
    image, gap, both = np.mean(power, axis=0)[:, BANDS // 2 :].sum(axis=1)
    other = image + gap + 2 * both
    return bool(min(image, other) <= _LESS * max(image, other))


def _with_lattice(found: Mechanisms, drawn: Sequence[DrawnImage]) -> Mechanisms:
    """Name the inverse DCT where luma differs in blocks of 8 pixels, and more than chroma."""
    folds = [each.folds for each in drawn if each.folds]
    if len(folds) < FEWEST:
        return found
    luma, chroma = np.mean([each[16].mean(axis=(1, 2)) for each in folds], axis=0)
    uneven = _unevenness(folds)
    # the jackknife: each image left out in turn
    without = [_unevenness([*folds[:place], *folds[place + 1 :]]) for place in range(len(folds))]
    error = float(np.sqrt((len(folds) - 1) * np.var(without)))
    if luma < chroma or uneven < _LATTICE or uneven - _ERRORS * error < 1:
        return found
    named = PixelMechanism(name="inverse_dct", by="", measured=interval(uneven, error, len(folds)))
    return replace(found, mechanisms=(named,))


def _unevenness(folds: Sequence[dict[int, FloatArray]]) -> float:
    """Divide the spread of luma's mean |Δ| over blocks of 8 pixels by that over 7 and 9 pixels."""
    spread = {}
    for period in folds[0]:
        mean = np.mean([each[period][0] for each in folds], axis=0)
        if period == 16:
            mean = mean.reshape(2, 8, 2, 8).mean(axis=(0, 2))
        spread[period] = float(mean.std())
    return spread[16] / max(spread[7], spread[9], 1e-9)
