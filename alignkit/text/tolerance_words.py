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
from alignkit.text.numbers import (
    DASH,
    TIMES,
    copies_words,
    count,
    grouped,
    listed,
    percent,
    significant,
)

_SHOWN = (0.25, 0.5, 1.0, 2.0)
"""Multiples of the difference in the table; the document has more."""
CELL_COLUMNS = ("served with", "runtime", "max |Δ|", "beyond atol", "could change", "changed")
"""Columns of the other cells of a row."""
CURVE_COLUMNS = (
    "within budget up to", "in grey levels",
    *(f"changed at {each:g}{TIMES}" for each in _SHOWN), "the curve is",
)  # fmt: skip
"""Columns of a curve."""


def tolerance_text(found: ToleranceDocument) -> str:
    """Return text without colour, in lines as wide as their content."""
    names = Names(found.paths)
    budget = f"{100 * found.budget:g} %"
    asked = f"at most {budget} of answers may change, with 95 % confidence"
    lines = [
        f"{found.name}: {asked}; predicted on {found.cpu}",
        *filter(None, [quick_words(found.quick), counted_once(found)]),
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


def counted_once(found: ToleranceDocument) -> str:
    """Say how many images are copies; empty if none is."""
    if not found.copies:
        return ""
    return f"{copies_words(found.copies, found.images)}, each counted once"


def _logit_lines(row: LogitTolerance, names: Names) -> Iterator[str]:
    trained, _, runtime = names.cells(row)
    seeds, images = len(row.seeds), max(each.images for each in row.seeds)
    yield f"trained with {trained}, {runtime}, {count(images, 'image')}, {count(seeds, 'seed')}"
    if row.atol:
        yield f"  --atol {row.atol:g} --rtol 0"
        yield f"  {limits_words([each.limit for each in row.seeds])}"
    else:
        yield f"  {why_no_atol(row)}"
    if lost := sum(each.non_finite for each in row.seeds):
        yield f"  {count(lost, 'answer')} with an output that is not finite; NaN bears no change"
    if row.cells:
        yield columns([CELL_COLUMNS, *(cell_row(each, names) for each in row.cells)], indent="  ")


def why_no_atol(row: LogitTolerance) -> str:
    """Say why a row has no tolerance of its outputs."""
    if row.atol is None:
        reason = next(each.limit.reason for each in row.seeds if each.limit.value is None)
        return f"no atol: {reason}"
    return "no atol: more images than the budget bears stand at a limit already (a tie)"


def limits_words(limits: Sequence[Limit]) -> str:
    """Say how the seeds' limits spread, and how many images they let change."""
    known = [each for each in limits if each.value is not None]
    values = [each.value for each in known if each.value is not None]
    counts = [each.changed for each in known if each.changed is not None]
    bounds = [each.bound for each in known if each.bound is not None]
    spread = f"seeds from {min(values):.3g} to {max(values):.3g}; " if len(values) > 1 else ""
    # seeds may have answered different numbers of images
    fewest = f"{grouped(min(counts))} to " if min(counts) < max(counts) else ""
    return (
        f"{spread}at most {fewest}{count(max(counts), 'image')} of this sample may change, "
        f"and of all images {percent(max(bounds), 2)}"
    )


def cell_row(cell: CellReach, names: Names) -> tuple[str, ...]:
    """Word another cell of a row in the columns `CELL_COLUMNS`."""
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
    rows = ((names.short(each.candidate), *curve_row(each)) for each in curves)
    yield columns([("served with", *CURVE_COLUMNS), *rows], indent="  ")
    for each in curves:
        for reason in reasons_of(each):
            yield f"  {names.short(each.candidate)}: {reason}"


def reasons_of(found: PixelTolerance) -> list[str]:
    """List why parts of a tolerance are missing, each once."""
    reasons = [found.reason, *(each.reason or each.limit.reason for each in found.seeds)]
    return list(dict.fromkeys(filter(None, reasons)))


def curve_row(pair: PixelTolerance) -> tuple[str, ...]:
    """Word a curve in the columns `CURVE_COLUMNS`."""
    if not pair.seeds:
        return (DASH,) * len(CURVE_COLUMNS)
    return (
        factor_words(pair),
        DASH if pair.levels is None else f"{_least(pair)}{rounded_words(pair.levels)} of mean |Δ|",
        *(changed_words(pair.seeds, each) for each in _SHOWN),
        source_words(pair),
    )


def source_words(found: PixelTolerance) -> str:
    """Say where the curves of all seeds come from."""
    return listed(list(dict.fromkeys(each.source for each in found.seeds))) or DASH


def factor_words(pair: PixelTolerance) -> str:
    """Write the multiple within the budget, rounded down, as ``≥ 3.000×``."""
    if pair.factor is None:
        return "none shown"
    return f"{_least(pair)}{rounded_words(pair.factor)}{TIMES}"


def _least(found: PixelTolerance) -> str:
    return "≥ " if found.open_end else ""


def rounded_words(value: float) -> str:
    """Write three decimals, rounded down: a limit may not grow by its rounding."""
    return f"{math.floor(1000 * value) / 1000:.3f}"


def changed_words(seeds: Sequence[SeedCurve], factor: float) -> str:
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
            f"changed at: by the curve between the two paths' outputs{ran}; 1{TIMES} is measured. "
            f"Pixels beyond 1{TIMES} are not clipped, and no path makes them."
        )
    several = {grouped(len(each.seeds)) for each in found.logits} - {"1"}
    if several:
        yield "A limit is the least of all seeds; shares are over all seeds."
