"""Outputs between two paths on a line, beside those of the network run there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from alignkit.arrays import Labels
from alignkit.compare.answers import plain_metrics
from alignkit.compare.linear_answers import LinearAnswers
from alignkit.compare.statistics import exact_interval, holm, mcnemar
from alignkit.record.cell_facts import ALPHA
from alignkit.record.tolerance_facts import MOST_CHECKED, CurvePoint, LineCheck

CHECK_AT = (0.25, 0.5, MOST_CHECKED)
"""Multiples of the difference at which the network is run; at 0 and 1 the line is exact."""
_CHECK_IMAGES = 1000


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
