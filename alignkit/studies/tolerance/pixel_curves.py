"""Answers that change along the difference of two paths: predicted on a line, and checked.

The outputs at ``A + t · (B - A)`` are taken as linear in t, known at t = 0 and 1 from the run. The
network is then run at other t; where it contradicts the line, only its own points are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from decimal import Context as DecimalContext
from typing import TypeAlias

import numpy as np

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import aligned, plain_metrics
from alignkit.compare.image_table import LAST
from alignkit.compare.linear_answers import LinearAnswers, turning_points
from alignkit.compare.statistics import (
    exact_interval,
    greatest_share,
    holm,
    images_for_none,
    mcnemar,
    most_within,
)  # fmt: skip
from alignkit.errors import NothingCompared
from alignkit.outcome import Measured, capture
from alignkit.record import Cell, RunRecord
from alignkit.record.drift_facts import ALPHA
from alignkit.record.tolerance_facts import (
    MOST_CHECKED,
    MOST_FACTOR,
    CurvePoint,
    CurveSource,
    Limit,
    LineCheck,
    PixelTolerance,
    SeedCurve,
    least_value,
)
from alignkit.studies.tolerance.line_models import LineModels, PixelLine, StoredRow
from alignkit.text.numbers import count, grouped

# A multiple of a real difference and not noise: the same models bear 0.38 grey levels of one
# path's difference and 0.17 of another's. Beyond the second path the line may be far off, so the
# network is run there.
CHECK_AT = (0.25, 0.5, MOST_CHECKED)
"""Multiples of the difference at which the network is run; at 0 and 1 the line is exact."""
_CHECK_IMAGES = 1000
_DIGITS = 3
POINTS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, MOST_FACTOR)


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """A network run between two paths, at each of `CHECK_AT`."""

    points: tuple[CurvePoint, ...]
    """The network's answers to at most 1,000 images."""
    checks: tuple[LineCheck, ...]
    """The same beside the line; p-values adjusted."""

    @property
    def contradicted(self) -> tuple[float, ...]:
        """Where the network changes more or fewer answers than the line, beyond chance."""
        return tuple(each.factor for each in self.checks if each.p < ALPHA)


At: TypeAlias = Callable[[LinearAnswers, float], LinearAnswers]
"""Runs the network for the images of given answers at a multiple of the difference."""
_Served: TypeAlias = Mapping[str, Mapping[int, Cell]]
"""Path → seed → its cell in the row's runtime."""
CheckedPairs: TypeAlias = Mapping[int, Mapping[str, CheckedLine | str]]
"""Seed → path → its network run on the way there; a reason where that is impossible."""


def pair_passes(row: StoredRow) -> int:
    """Count the passes of networks with which `checked_pairs` checks a row."""
    return len(CHECK_AT) * sum(len(cells) for cells in row.served.values())


def checked_pairs(
    row: StoredRow, models: LineModels | None, advance: Callable[[int], None]
) -> CheckedPairs:
    """Run each seed's network between the row's path and each other one, for any budget.

    ``advance`` is called with the passes of the networks that are done.
    """
    return {seed: _seed_checked(models, row, seed, row.served, advance) for seed in row.homes}


def pixel_tolerances(
    row: StoredRow, budget: float, models: LineModels | None, checked: CheckedPairs
) -> tuple[PixelTolerance, ...]:
    """Draw the curve of each other path in the row's runtime; check it if ``models`` are given."""
    served = row.served
    curves: dict[str, list[SeedCurve]] = {name: [] for name in served}
    reasons: dict[str, str] = {}
    for seed in row.homes:
        for name, cells in served.items():
            if seed not in cells:
                continue
            try:
                home, other = aligned(row.home(seed), row.answers(cells[seed]))
            except NothingCompared as error:
                reasons[name] = str(error)
            else:
                names = row.record.task.matrices
                curves[name].append(curve(seed, home, other, budget, checked[seed][name], names))
    return tuple(_joined(row, name, curves[name], reasons.get(name, ""), models) for name in served)


def _seed_checked(
    models: LineModels | None,
    row: StoredRow,
    seed: int,
    served: _Served,
    advance: Callable[[int], None],
) -> dict[str, CheckedLine | str]:
    """Run a seed's network between its path and each other; a reason where that is impossible."""
    if models is None:
        return dict.fromkeys(served, "the check was not asked for")
    found: dict[str, CheckedLine | str] = {}

    def work() -> None:
        with models.opened(row, seed) as session:
            for name, cells in served.items():
                if seed not in cells:
                    continue

                def at(images: LinearAnswers, factor: float, name: str = name) -> LinearAnswers:
                    answered = session.answers(name, images.ids, factor)
                    advance(1)
                    return answered

                try:
                    sides = aligned(row.home(seed), row.answers(cells[seed]))
                    found[name] = checked_line(*sides, at, row.record.task.matrices)
                except NothingCompared as error:
                    found[name] = str(error)

    ended = capture(work)
    if isinstance(ended, Measured):
        return found
    return {name: found.get(name, ended.message) for name in served}


def curve(
    seed: int,
    reference: LinearAnswers,
    candidate: LinearAnswers,
    budget: float,
    checked: CheckedLine | str,
    metrics: Sequence[str],
) -> SeedCurve:
    """Draw a model's curve: by the line as far as ``checked`` does not contradict it.

    Beyond, the network's own points are taken. ``checked`` is a reason where it was not run.
    """
    turns = turning_points(reference, candidate)
    drawn = {
        each: curve_point(reference, reference.toward(candidate, each), each, metrics)
        for each in POINTS
    }
    ran = {} if isinstance(checked, str) else {each.factor: each for each in checked.points}
    source: CurveSource = "line, not checked" if isinstance(checked, str) else "line, checked"
    limit = limit_of(turns, budget, MOST_FACTOR)
    wrong = set() if isinstance(checked, str) else set(checked.contradicted)
    # few images show no contradiction, and a limit must not lie beyond a point that exceeds it
    wrong |= _exceeding(ran.values(), limit, budget)
    if any(each < 1 for each in wrong):
        source = "measured points"
        drawn = {**ran, 1.0: drawn[1.0]}
        limit = measured_limit([drawn[each] for each in sorted(drawn)], budget)
    elif wrong:
        # between two measured ends the line holds; only its continuation does not
        source = "line to 1, measured beyond"
        beyond = [ran[each] for each in ran if each > 1]
        drawn = {each: drawn[each] for each in POINTS if each <= 1}
        drawn |= {each.factor: each for each in beyond}
        limit = limit_of(turns, budget, 1.0)
        if limit.more:
            limit = measured_limit([drawn[1.0], *beyond], budget)
    return SeedCurve(
        seed=seed,
        images=len(reference),
        source=source,
        limit=limit,
        points=tuple(drawn[each] for each in sorted(drawn)),
        checks=() if isinstance(checked, str) else checked.checks,
        reason=checked if isinstance(checked, str) else "",
    )


def _exceeding(points: Iterable[CurvePoint], limit: Limit, budget: float) -> set[float]:
    """Return the multiples up to a limit at which more answers change than the budget."""
    return {
        each.factor
        for each in points
        if each.factor <= (limit.value or 0) and each.changed > budget * each.images
    }


def _joined(
    row: StoredRow, name: str, curves: Sequence[SeedCurve], reason: str, models: LineModels | None
) -> PixelTolerance:
    own = row.place.column
    mean, why = mean_levels(row.record, own.preprocess, name)
    if mean is None and models is not None and curves:
        mean, why = _prepared_levels(row, name, models)
    factor = least_value([each.limit for each in curves])
    return PixelTolerance(
        trained_with=str(row.place.row),
        backend=own.backend,
        precision=own.precision,
        reference=own.preprocess,
        candidate=name,
        mean_abs=mean,
        factor=factor,
        levels=None if factor is None or mean is None else factor * mean,
        seeds=tuple(curves),
        reason=reason if not curves else why,
    )


def mean_levels(record: RunRecord, one: str, other: str) -> tuple[float | None, str]:
    """Return the mean |Δ| of two paths' last pixels in grey levels, or why it is not known."""
    for each in record.pixels:
        pair = {each.reference, each.candidate}
        if pair == {one, other} and each.mode == "cumulative" and each.stage == LAST:
            return each.mean_abs, each.reason
    return None, f"the run compared pixels with those of {record.paths[0].name} alone"


def _prepared_levels(row: StoredRow, name: str, models: LineModels) -> tuple[float | None, str]:
    """Compare the prepared images of two paths that the run did not compare."""
    home = row.home(next(iter(row.homes)))
    try:
        own, other = map(models.side, (row.place.column.preprocess, name))
        line = PixelLine(own, other)
        drawn = (home.ids[each] for each in drawn_rows(len(home)))
        both = tuple(each for each in drawn if all(each in side.decoded for side in (own, other)))
        line.batch(both[:1], 1.0)
        return line.mean_levels(both), ""
    except NothingCompared as error:
        return None, str(error)


def checked_line(
    reference: LinearAnswers, candidate: LinearAnswers, at: At, metrics: Sequence[str]
) -> CheckedLine:
    """Run the network at each of `CHECK_AT`, on at most 1,000 images, and compare with the line.

    No output there was used to draw the line, so that all images are held out.
    """
    drawn = drawn_rows(len(reference))
    home, other = reference.rows(drawn), candidate.rows(drawn)
    answered = {factor: at(home, factor) for factor in CHECK_AT}
    points = tuple(curve_point(home, each, factor, metrics) for factor, each in answered.items())
    lines = {each: home.toward(other, each) for each in CHECK_AT}
    return CheckedLine(points, _compared(home, lines, answered))


def _compared(
    home: LinearAnswers,
    predicted: Mapping[float, LinearAnswers],
    answered: Mapping[float, LinearAnswers],
) -> tuple[LineCheck, ...]:
    """Test at each factor whether predictions and the network change as many answers."""
    checks = []
    for factor, own in predicted.items():
        by_line, by_network = home.changed(own), home.changed(answered[factor])
        alone = int((by_line & ~by_network).sum()), int((by_network & ~by_line).sum())
        checks.append(
            LineCheck(
                factor,
                len(home),
                predicted=int(by_line.sum()),
                measured=int(by_network.sum()),
                only_predicted=alone[0],
                only_measured=alone[1],
                p=mcnemar(*alone),
            )
        )
    adjusted = holm([each.p for each in checks])
    return tuple(replace(each, p=p) for each, p in zip(checks, adjusted, strict=True))


def drawn_rows(images: int) -> Labels:
    """Draw at most 1,000 of some images, in their order: those on which networks are run."""
    drawn: Labels = np.sort(np.random.default_rng(0).permutation(images)[:_CHECK_IMAGES])
    return drawn


def curve_point(
    home: LinearAnswers, answered: LinearAnswers, factor: float, metrics: Sequence[str]
) -> CurvePoint:
    """Compare the answers at a multiple of the difference with those at 0."""
    changed = home.changed(answered)
    gained = answered.quality() - home.quality()
    before, after = plain_metrics(home), plain_metrics(answered)
    return CurvePoint(
        factor,
        len(home),
        int(changed.sum()),
        *exact_interval(int(changed.sum()), len(home)),
        worse=int((gained < 0).sum()) if home.labelled else None,
        better=int((gained > 0).sum()) if home.labelled else None,
        metrics={
            name: new - old
            for name in metrics
            if (old := before.get(name)) is not None and (new := after.get(name)) is not None
        },
    )


def limit_of(turns: FloatArray, budget: float, most: float = math.inf) -> Limit:
    """Find the greatest size within the budget, of sizes (n,) at which each image's answer changes.

    It is the size of the (k + 1)-th image in order, for the greatest k whose one-sided 95 % bound
    is within the budget: a distribution-free tolerance limit, whose confidence holds although the
    size is chosen by the same images (Wilks, Annals of Mathematical Statistics 12, 1941). Sizes are
    looked at up to ``most``.
    """
    n = len(turns)
    changed = most_within(budget, n) if n else None
    if changed is None:
        return Limit(None, None, None, reason=too_few(n, budget))
    # changed < n, as the bound of n of n is 1
    value = float(np.partition(turns, changed)[changed])
    bound = greatest_share(changed, n)
    if value <= most and math.isfinite(value):
        return Limit(value, changed, bound)
    if math.isfinite(most):
        return Limit(most, changed, bound, more=True)
    return Limit(None, changed, bound, more=True, reason="no change of the outputs changes more")


def too_few(n: int, budget: float) -> str:
    """Say how many images the budget needs if n are too few; empty if they suffice."""
    needed = images_for_none(budget)
    if n >= needed:
        return ""
    return (
        f"inconclusive: a budget of {100 * budget:g} % needs {count(needed, 'image')}, and "
        f"{count(n, 'image')} were compared"
    )


def rounded_down(value: float) -> float:
    """Round a positive number down to three digits, and below itself.

    >>> rounded_down(0.0123987), rounded_down(2.5), rounded_down(0.0)
    (0.0123, 2.49, 0.0)
    """
    if value <= 0:
        return 0.0
    # an answer may change at the limit itself
    below = Decimal(float(np.nextafter(value, 0.0)))
    return float(DecimalContext(prec=_DIGITS, rounding=ROUND_DOWN).create_decimal(below))


def measured_limit(points: Sequence[CurvePoint], budget: float) -> Limit:
    """Find the last measured point, in order, before the first that exceeds the budget.

    Points are tested in a fixed order and the first failure ends it, so that the confidence of each
    is that of the result (Maurer, Hothorn and Lehmacher, 1995).
    """
    first = points[0]
    reason = (
        f"at {first.factor:g} of the difference {grouped(first.changed)} of "
        f"{count(first.images, 'image')} changed, which does not show a share within the budget"
    )
    limit = Limit(None, None, None, reason=too_few(first.images, budget) or reason)
    for each in points:
        bound = greatest_share(each.changed, each.images)
        if bound > budget:
            return limit
        limit = Limit(each.factor, each.changed, bound)
    return replace(limit, more=True)
