"""A tolerance document → text for a terminal: limits of outputs, and curves between two paths."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from alignkit.record.tolerance_facts import (
    CellReach,
    Limit,
    LogitTolerance,
    PixelTolerance,
    SeedCurve,
    ToleranceDocument,
)
from alignkit.text import columns
from alignkit.text.names import Names, quick_words, surrogate_lines
from alignkit.text.numbers import DASH, TIMES, count, grouped, listed, percent, significant

_SHOWN = (0.25, 0.5, 1.0, 2.0)
"""Multiples of the difference in the table; the document has more."""
_CELLS = ("served with", "runtime", "max |Δ|", "beyond atol", "could change", "changed")
_CURVES = (
    "served with", "within budget up to", "in grey levels",
    *(f"changed at {each:g}{TIMES}" for each in _SHOWN), "the curve is",
)  # fmt: skip


def tolerance_text(found: ToleranceDocument) -> str:
    """Return text without colour, in lines as wide as their content."""
    names = Names(found.paths)
    budget = f"{100 * found.budget:g} %"
    asked = f"at most {budget} of answers may change, with 95 % confidence"
    lines = [
        f"{found.name}: {asked}; predicted on {found.cpu}",
        *filter(None, [quick_words(found.quick)]),
        *surrogate_lines(found.paths),
        "",
        "Δ OF OUTPUTS, worst case: below its own limit no answer can change",
    ]
    for each in found.logits:
        lines += ["", *_logit_lines(each, names)]
    lines += [
        "",
        f"Δ OF PIXELS, from 0{TIMES}, the path of the training, to 1{TIMES}, the path served with",
    ]
    for row in dict.fromkeys(each.trained_with for each in found.pixels):
        curves = [each for each in found.pixels if each.trained_with == row]
        lines += ["", *_pixel_lines(row, curves, names)]
    if not found.pixels:
        lines += ["", "no model was evaluated on a second path in its own runtime"]
    return "\n".join([*lines, "", *_legend(found)])


def _logit_lines(row: LogitTolerance, names: Names) -> Iterator[str]:
    trained, _, runtime = names.cells(row)
    seeds, images = len(row.seeds), max(each.images for each in row.seeds)
    yield f"trained with {trained}, {runtime}, {count(images, 'image')}, {count(seeds, 'seed')}"
    if row.atol is None:
        reason = next(each.limit.reason for each in row.seeds if each.limit.value is None)
        yield f"  no atol: {reason}"
    elif row.atol == 0:
        yield "  no atol: more images than the budget bears stand at a limit already (a tie)"
    else:
        yield f"  --atol {row.atol:g} --rtol 0"
        yield f"  {_limits_words([each.limit for each in row.seeds])}"
    if lost := sum(each.non_finite for each in row.seeds):
        yield f"  {count(lost, 'answer')} with an output that is not finite; NaN bears no change"
    if row.cells:
        yield columns([_CELLS, *(_cell_row(each, names) for each in row.cells)], indent="  ")


def _limits_words(limits: Sequence[Limit]) -> str:
    """Say how the seeds' limits spread, and how many images they let change."""
    values = [each.value for each in limits if each.value is not None]
    changed = limits[0].changed
    spread = f"seeds from {min(values):.3g} to {max(values):.3g}; " if len(values) > 1 else ""
    bound = limits[0].bound
    assert changed is not None, "there is a value"
    assert bound is not None, "there is a value"
    return (
        f"{spread}at most {count(changed, 'image')} of this sample may change, "
        f"and of all images {percent(bound, 2)}"
    )


def _cell_row(cell: CellReach, names: Names) -> tuple[str, ...]:
    _, served, runtime = names.cells(cell)
    if not cell.images:
        return served, runtime, *[DASH] * 3, cell.reason
    return (
        served,
        runtime,
        cell.reason if cell.max_abs is None else significant(cell.max_abs),
        DASH if cell.beyond is None else percent(cell.beyond / cell.images, 2),
        percent(cell.could_change / cell.images, 2),
        percent(cell.changed / cell.images, 2),
    )


def _pixel_lines(row: str, curves: Sequence[PixelTolerance], names: Names) -> Iterator[str]:
    first = curves[0]
    yield f"trained with {names.short(row)}, {first.backend} {first.precision}"
    yield columns([_CURVES, *(_curve_row(each, names) for each in curves)], indent="  ")
    for each in curves:
        reasons = [each.reason, *(curve.reason or curve.limit.reason for curve in each.seeds)]
        for reason in dict.fromkeys(filter(None, reasons)):
            yield f"  {names.short(each.candidate)}: {reason}"


def _curve_row(pair: PixelTolerance, names: Names) -> tuple[str, ...]:
    served = names.short(pair.candidate)
    if not pair.seeds:
        return served, *[DASH] * (len(_CURVES) - 1)
    return (
        served,
        _factor_words(pair),
        DASH if pair.levels is None else f"{_down(pair.levels)} of mean |Δ|",
        *(_changed_words(pair.seeds, each) for each in _SHOWN),
        listed(list(dict.fromkeys(each.source for each in pair.seeds))),
    )


def _factor_words(pair: PixelTolerance) -> str:
    if pair.factor is None:
        return "none shown"
    # the least limit is open only if every seed's is
    more = all(each.limit.more for each in pair.seeds)
    return f"{'≥ ' if more else ''}{_down(pair.factor)}{TIMES}"


def _down(value: float) -> str:
    """Write three decimals, rounded down: a limit may not grow by its rounding."""
    return f"{math.floor(1000 * value) / 1000:.3f}"


def _changed_words(seeds: Sequence[SeedCurve], factor: float) -> str:
    """Give the line's share, and the network's behind a stroke; over all seeds."""
    checks = [check for each in seeds for check in each.checks if check.factor == factor]
    if checks:
        images = sum(each.images for each in checks)
        both = (sum(e.predicted for e in checks), sum(e.measured for e in checks))
        return " / ".join(percent(each / images) for each in both)
    points = [point for each in seeds for point in each.points if point.factor == factor]
    return percent(sum(e.changed for e in points) / sum(e.images for e in points))


def _legend(found: ToleranceDocument) -> Iterator[str]:
    yield (
        "beyond atol: images that fail a comparison with this tolerance; could change: images whose"
        " max |Δ| is not below their own limit; changed: another answer"
    )
    if found.pixels:
        ran = f" / by the network, run on {found.checked_on}" if found.checked_on else ""
        yield (
            f"changed at: by the line between the two paths' outputs{ran}; 1{TIMES} is measured. "
            f"Pixels beyond 1{TIMES} are not clipped, and no path makes them."
        )
    several = {grouped(len(each.seeds)) for each in found.logits} - {"1"}
    if several:
        yield "A limit is the least of all seeds; shares are over all seeds."
