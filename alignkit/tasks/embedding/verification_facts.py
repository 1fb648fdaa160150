"""The records of a pair's verification: densities of similarity, ROC, kept and tuned thresholds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from alignkit.compare.answers import Weights
from alignkit.record import Estimate, FactRow, FactTable, Figure, Mark, Series
from alignkit.record.drift_facts import FigureSide
from alignkit.tasks.embedding.embedding_facts import at_far
from alignkit.tasks.embedding.verification import NO_SIMILARITY, Verification
from alignkit.tasks.embedding.verified_pairs import RESOLVABLE
from alignkit.text.numbers import count, grouped

if TYPE_CHECKING:
    from alignkit.tasks.embedding.embedding_answers import EmbeddingAnswers

_BARS = 80
_POINTS = 60
_SIDES: tuple[FigureSide, FigureSide] = ("reference", "candidate")
_SHOWN = 1e-3
"""False accept rate whose threshold a figure marks, or the nearest that is resolvable."""


def verification_figures(one: EmbeddingAnswers, other: EmbeddingAnswers) -> tuple[Figure, ...]:
    """Draw similarities and ROC of two sides; nothing without same and different pairs."""
    sides = one.verification, other.verification
    if sides[0] is None or sides[1] is None:
        return ()
    both = sides[0], sides[1]
    rates = [each for each in both[0].rates if each in both[1].rates]
    if not (rates and all((each.same > NO_SIMILARITY).any() for each in both)):
        return ()
    whole = np.ones((len(one), 1), np.float32)
    tuned = [each.tuned(whole) for each in both]
    rate = min(rates, key=lambda each: abs(math.log(each / _SHOWN)))
    places = [
        int(found.places[each.rates.index(rate), 0])
        for each, found in zip(both, tuned, strict=True)
    ]
    limits = [float(e.thresholds[p]) for e, p in zip(both, places, strict=True)]
    pairs = one.verified
    assert pairs is not None
    listed = f"{grouped(len(pairs.same))} same and {grouped(len(pairs.different))} different pairs"
    drawn = "" if pairs.all_drawn else ", a sample of all"
    return (
        Figure(
            name="similarity",
            title="Similarity of same and different pairs",
            x_label="Cosine of the two images of a pair",
            y_label="Density",
            series=_densities(both),
            marks=(
                Mark(limits[0], f"threshold at FAR {rate:g} of the reference, kept"),
                Mark(limits[1], "tuned again on the candidate"),
            ),
            note=f"{listed}{drawn}.",
        ),
        Figure(
            name="roc",
            title="Same pairs accepted for each false accept rate",
            x_label="FAR: different pairs accepted",
            y_label="TAR: same pairs accepted",
            x_scale="log",
            series=_roc(both, whole),
            marks=_kept_marks(both, whole, rate, places[0]),
            note=f"From the least FAR that is resolvable: {listed}{drawn}.",
        ),
    )


def _densities(both: Sequence[Verification]) -> tuple[Series, ...]:
    """Count similarities in bars of one width for all lines; each line has an area of 1."""
    lines = [
        (f"{kind} pairs", side, found[found > NO_SIMILARITY])
        for each, side in zip(both, _SIDES, strict=True)
        for kind, found in (("same", each.same), ("different", each.different))
    ]
    known = np.concatenate([found for _, _, found in lines])
    low, high = float(known.min()), float(known.max())
    edges = np.linspace(low, max(high, low + 1e-6), _BARS + 1)
    middle = tuple(((edges[:-1] + edges[1:]) / 2).tolist())
    return tuple(
        Series(name, middle, tuple(np.histogram(found, edges, density=True)[0].tolist()), side)
        for name, side, found in lines
        if len(found)
    )


def _roc(both: Sequence[Verification], whole: Weights) -> tuple[Series, ...]:
    lines = []
    for each, side in zip(both, _SIDES, strict=True):
        drawn = each.drawn(whole)
        accepted = each.binned(each.thresholds).weighed(drawn)
        every = np.arange(len(each.thresholds))[:, None]
        far, tar = (rate(every)[:, 0] for rate in (accepted.far, accepted.tar))
        x = np.geomspace(min(1.0, RESOLVABLE / drawn.different[0]), 1.0, _POINTS)
        y = tar[np.searchsorted(far, x, side="right") - 1]
        lines.append(Series("", tuple(x.tolist()), tuple(y.tolist()), side))
    return tuple(lines)


def _kept_marks(
    both: Sequence[Verification], whole: Weights, rate: float, place: int
) -> tuple[Mark, ...]:
    drawn = both[1].drawn(whole)
    accepted = both[1].binned(both[0].thresholds[: place + 1]).weighed(drawn)
    marks = (Mark(rate, "FAR tuned for"),)
    realised = float(accepted.far(np.array([place]))[0])
    # a logarithmic axis has no 0
    return (*marks, Mark(realised, "FAR with the threshold kept")) if realised > 0 else marks


def thresholds_table(
    rates: Sequence[float], changes: Mapping[str, Estimate], pairs: int
) -> FactTable | None:
    """Tabulate what kept thresholds do beside those tuned again; ``None`` if no rate has a value.

    ``changes`` are the drift's, by metric and measure.
    """
    rows = []
    for rate in rates:
        name = at_far(rate)
        kept, tuned = changes[f"tar@{name}.kept"], changes[f"tar@{name}"]
        if kept.value is None or tuned.value is None:
            continue
        realised = Estimate(None, None, None, f"at most {rate:g}, as it is tuned for")
        rows += [
            FactRow(f"Change of TAR at FAR {rate:g}", (kept, tuned), "points"),
            FactRow(f"FAR, tuned for {rate:g}", (changes[f"far@{name}.kept"], realised), "share"),
        ]
    if not rows:
        return None
    return FactTable(
        name="thresholds",
        title="Thresholds kept, and tuned again",
        columns=("Kept from the reference", "Tuned again on the candidate"),
        rows=tuple(rows),
        note=f"Rates of {count(pairs, 'different pair')} accepted; intervals draw identities and "
        "tune every threshold again in each draw. A same pair whose embedding is zero or not "
        "finite is rejected; such a different pair does not count.",
    )
