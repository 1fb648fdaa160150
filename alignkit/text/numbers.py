"""Numbers → text, the same way everywhere in the report.

A difference carries its sign, with a true minus; the digits of a column agree; what is not zero
never reads as a bare zero.
"""

from __future__ import annotations

from alignkit.record import Estimate

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"
NBSP = "\N{NO-BREAK SPACE}"
TIMES = "\N{MULTIPLICATION SIGN}"


def signed(value: float, decimals: int) -> str:
    """``+0.42``; ``0.00`` for zero alone, ``+0.00`` for less than the digits can show."""
    if value == 0:
        return f"{0:.{decimals}f}"
    return f"{value:+.{decimals}f}".replace("-", MINUS)


def plain(value: float, decimals: int) -> str:
    """``1.234``; ``<0.001`` for a positive number that would round to zero."""
    smallest = 10**-decimals
    if 0 < value < smallest / 2:
        return f"<{smallest:.{decimals}f}"
    return f"{value:.{decimals}f}".replace("-", MINUS)


def points(fraction: float, decimals: int = 2) -> str:
    """A difference of fractions in percentage points, without the unit."""
    return signed(100 * fraction, decimals)


def percent(fraction: float, decimals: int = 1) -> str:
    """``97.3 %``; ``100 %`` and ``0 %`` for exactly all and none."""
    if fraction in (0, 1):
        return f"{100 * fraction:.0f}{NBSP}%"
    if fraction < 1 and round(100 * fraction, decimals) == 100:
        return f">{100 - 10**-decimals:.{decimals}f}{NBSP}%"
    return f"{plain(100 * fraction, decimals)}{NBSP}%"


def interval(estimate: Estimate, decimals: int = 2, *, share: bool = False) -> str:
    """``[+0.23, +0.61]`` in percentage points, or percent for a share; empty without one."""
    if estimate.low is None or estimate.high is None:
        return ""
    low, high = 100 * estimate.low, 100 * estimate.high
    if share:
        return f"[{low:.{decimals}f}, {high:.{decimals}f}]"
    return f"[{signed(low, decimals)}, {signed(high, decimals)}]"


def p_value(p: float) -> str:
    """Three decimals; ``<0.001`` below."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def significant(value: float) -> str:
    """Three significant digits, for quantities of unknown scale such as logits."""
    return f"{value:.3g}".replace("-", MINUS)


def duration(seconds: float) -> str:
    """``48 s``, ``3 min 05 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}{NBSP}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}{NBSP}min {rest:02}{NBSP}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{NBSP}h {minutes:02}{NBSP}min"


def count(number: int, one: str, many: str = "") -> str:
    """``1 image``, ``1 200 images``: the number with its noun."""
    return f"{grouped(number)}{NBSP}{one if number == 1 else many or one + 's'}"


def grouped(number: int) -> str:
    """Thousands apart by a no-break space."""
    return f"{number:,}".replace(",", NBSP)


def listed(words: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def shorten(text: str, most: int) -> str:
    """``text``, or its beginning with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
