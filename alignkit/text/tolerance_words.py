"""A tolerance document → text for a terminal: limits of outputs, and curves between two paths."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from alignkit.record import Estimate
from alignkit.record.tolerance_facts import (
    OPEN_END,
    UNIT,
    CellReach,
    Limit,
    LogitTolerance,
    NamedTolerance,
    PixelTolerance,
    RowTolerance,
    SeedCurve,
    ToleranceDocument,
)
from alignkit.text import columns
from alignkit.text.names import Names, quick_words, surrogate_lines
from alignkit.text.numbers import DASH, TIMES, count, grouped, listed, percent, significant

_SHOWN = (0.25, 0.5, 1.0, 2.0)
"""Multiples of the difference in the table; the document has more."""
CELL_COLUMNS = ("served with", "runtime", "max |Δ|", "beyond atol", "could change", "changed")
"""Columns of the other cells of a row."""
CURVE_COLUMNS = (
    "within budget up to", "in grey levels",
    *(f"changed at {each:g}{TIMES}" for each in _SHOWN), "the curve is",
)  # fmt: skip
"""Columns of a curve."""
EXCHANGE_COLUMNS = (
    "difference", "made by", "at 1×", "within budget up to", "which is", "rate", "changed at 1×",
    "the curve is",
)  # fmt: skip
"""Columns of the exchange table."""


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
    for row in dict.fromkeys(each.trained_with for each in found.stages):
        curves = [each for each in found.stages if each.trained_with == row]
        lines += ["", *_pixel_lines(row, curves, names)]
    if not found.pixels:
        lines += ["", "no model was evaluated on a second path in its own runtime"]
    lines += ["", "NAMED DIFFERENCES, each alone: those of one unit can be exchanged"]
    for row in dict.fromkeys(each.trained_with for each in found.exchange):
        rows = [each for each in found.exchange if each.trained_with == row]
        lines += ["", *_exchange_lines(rows, names)]
    return "\n".join([*lines, "", *_legend(found)])


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
    heads = ("served with", *(("this stage alone",) if first.stage else ()), *CURVE_COLUMNS)
    rows = (
        (names.short(each.candidate), *((each.stage,) if each.stage else ()), *curve_row(each))
        for each in curves
    )
    yield columns([heads, *rows], indent="  ")
    for each in curves:
        for reason in reasons_of(each):
            stage = f", {each.stage}" if each.stage else ""
            yield f"  {names.short(each.candidate)}{stage}: {reason}"


def reasons_of(found: RowTolerance) -> list[str]:
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


def source_words(found: RowTolerance) -> str:
    """Say where the curves of all seeds come from."""
    return listed(list(dict.fromkeys(each.source for each in found.seeds))) or DASH


def exchange_row(found: NamedTolerance) -> tuple[str, ...]:
    """Word a named difference in the columns `EXCHANGE_COLUMNS`."""
    unit = "levels" if found.unit == "grey levels" else "max |Δ| of outputs"
    return (
        found.difference,
        found.by or DASH,
        DASH if found.size is None else f"{significant(found.size)} {unit}",
        factor_words(found) if found.seeds else DASH,
        DASH if found.borne is None else f"{_least(found)}{significant(found.borne)} {unit}",
        DASH if found.rate is None else rate_words(found.rate),
        changed_words(found.seeds, 1.0) if found.seeds else DASH,
        source_words(found),
    )


def rate_words(rate: Estimate) -> str:
    """Write ``3.2 (1.9–6.0)``; without an interval the value alone, ``≥`` of an open one."""
    if rate.value is None:
        return DASH
    least = "≥ " if rate.reason == OPEN_END else ""
    ends = ""
    if rate.low is not None and rate.high is not None:
        ends = f" ({significant(rate.low)}{DASH}{significant(rate.high)})"
    return f"{least}{significant(rate.value)}{ends}"


def rate_sentences(rows: Sequence[NamedTolerance]) -> list[str]:
    """Say what a level of the costliest difference of a row costs in levels of the others."""
    base = next((each for each in rows if each.rate and each.rate.reason == UNIT), None)
    if base is None:
        return []
    return [
        f"1 level of {base.difference} costs as much as {rate_words(each.rate)} levels of "
        f"{each.difference}"
        for each in rows
        if each.rate is not None and each is not base
    ]


def _exchange_lines(rows: Sequence[NamedTolerance], names: Names) -> Iterator[str]:
    first = rows[0]
    trained = names.short(first.trained_with)
    yield f"trained with {trained}, {first.backend} {first.precision}"
    yield columns([EXCHANGE_COLUMNS, *map(exchange_row, rows)], indent="  ")
    for reason, found in exchange_reasons(rows).items():
        yield f"  {listed(found)}: {reason}"


def exchange_reasons(rows: Sequence[NamedTolerance]) -> dict[str, list[str]]:
    """Say why parts of an exchange table are missing: reason → differences, or their runtimes."""
    found: dict[str, list[str]] = {}
    for each in rows:
        rate = each.rate.reason if each.rate else ""
        known = rate and rate not in (UNIT, OPEN_END)
        for why in [*reasons_of(each), *([rate] if known else [])]:
            found.setdefault(why, []).append(each.difference)
    return found


def factor_words(pair: RowTolerance) -> str:
    """Write the multiple within the budget, rounded down, as ``≥ 3.000×``."""
    if pair.factor is None:
        return "none shown"
    return f"{_least(pair)}{rounded_words(pair.factor)}{TIMES}"


def _least(found: RowTolerance) -> str:
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
            f"changed at: by the curve between the two paths' outputs{ran}; 1{TIMES} is measured, "
            f"and so is 0.5{TIMES} of a quadratic, whose check has half of the images. "
            f"Pixels beyond 1{TIMES} are not clipped, and no path makes them."
        )
    if any(each.rate for each in found.exchange):
        yield (
            "rate: levels of this difference that cost as much as 1 level of the row's costliest "
            "one that has a limit, at the same budget, with its 95 % interval where images suffice"
        )
    several = {grouped(len(each.seeds)) for each in found.logits} - {"1"}
    if several:
        yield "A limit is the least of all seeds; shares are over all seeds."
