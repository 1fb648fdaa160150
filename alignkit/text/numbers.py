"""Numbers → text, the same way in sentences, on pages and in terminals.

A difference carries its sign, with a true minus; the digits of a column agree. Zero alone reads
``0``: a difference that rounds to it reads ``0.00``, without a sign, and a size ``<0.01``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from alignkit.record import Estimate

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"
NBSP = "\N{NO-BREAK SPACE}"
_MOST_DECIMALS = 6
TIMES = "\N{MULTIPLICATION SIGN}"


def written(value: float, form: str) -> str:
    """Format a number, with a true minus sign; ``form`` is a format such as ``+.2f``.

    Zero reads ``0``; a number that rounds to it has no sign, which would be all that is left of it.
    """
    if not value:
        return "0"
    text = format(value, form)
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", MINUS)


def signed(value: float, decimals: int) -> str:
    """Write ``+0.42``; ``0.00`` for less than the digits can show, ``0`` for zero alone."""
    return written(value, f"+.{decimals}f")


def plain(value: float, decimals: int, *limits: float) -> str:
    """``1.234``; ``<0.001`` for a positive number that would round to zero.

    A number that would round to one of the ``limits`` has the digits that tell it apart.
    """
    text = written(value, f".{decimals}f")
    if value > 0 and float(text) == 0:  # only zero reads as a bare zero
        return f"<{10**-decimals:.{decimals}f}"
    shown = float(text.replace(MINUS, "-"))
    limit = next((each for each in limits if each != value and round(each, 9) == shown), value)
    if limit == value:
        return text
    if decimals < _MOST_DECIMALS:
        return plain(value, decimals + 1, *limits)
    return f"{'<' if value < limit else '>'}{text}"


def at_most(value: float) -> str:
    """``0.5``, ``12.4``, ``111``: the greatest of some numbers, a whole one without decimals."""
    return f"{value:.0f}" if value == round(value) else plain(value, 1, round(value))


def points(fraction: float, decimals: int = 2) -> str:
    """A difference of fractions in percentage points, without the unit."""
    return signed(100 * fraction, decimals)


def percent(fraction: float, decimals: int = 1, *limits: float) -> str:
    """``97.3 %``; ``100 %`` and ``0 %`` for exactly all and none; ``limits`` as of `plain`."""
    if fraction in (0, 1):
        return f"{100 * fraction:.0f}{NBSP}%"
    if fraction < 1 and round(100 * fraction, decimals) == 100:  # nor does almost all read as all
        return f">{100 - 10**-decimals:.{decimals}f}{NBSP}%"
    return f"{plain(100 * fraction, decimals, *(100 * each for each in limits))}{NBSP}%"


def interval(estimate: Estimate, decimals: int = 2, *, share: bool = False) -> str:
    """``[+0.23, +0.61]`` in percentage points, or percent for a share; else `no_interval`."""
    write = plain if share else signed  # a share cannot be negative
    return written_interval(estimate, lambda end: write(100 * end, decimals))


def written_interval(estimate: Estimate, write: Callable[[float], str]) -> str:
    """Write both ends of an interval, or what may be unseen where no image moved a change."""
    if estimate.low is None or estimate.high is None:
        return no_interval(estimate)
    # no zero is as sure as ``[0, 0]`` looks
    if estimate.low == estimate.high == 0:
        return f"({estimate.reason or 'none seen'})"
    return f"[{write(estimate.low)}, {write(estimate.high)}]"


def no_interval(estimate: Estimate) -> str:
    """Say that a value has no interval, if a reason is known; empty otherwise."""
    return "(no interval)" if estimate.value is not None and estimate.reason else ""


def estimated(estimate: Estimate, decimals: int = 2, *, share: bool = False, unit: str = "") -> str:
    """Write ``+0.42 [+0.23, +0.61]``, ``2.1 % [1.9, 2.3]`` for a share, or why there is no value.

    ``unit`` follows a difference in percentage points; a share always carries its percent sign.
    """
    if estimate.value is None:
        return f"{DASH} ({estimate.reason or 'not measured'})"
    value = percent(estimate.value, decimals) if share else points(estimate.value, decimals) + unit
    return f"{value} {interval(estimate, decimals, share=share)}".strip()


def unsigned(*fractions: float) -> str:
    """Write a size in percentage points: ``0.42 pp``, or the range of several, ``0.31–0.52 pp``."""
    low, high = (plain(100 * end, 2) for end in (min(fractions), max(fractions)))
    return f"{low} pp" if low == high else f"{low}{DASH}{high} pp"


def p_value(p: float, equals: str = "") -> str:
    """Write three decimals, after ``equals`` in a sentence; ``<0.001`` below."""
    return "<0.001" if p < 0.001 else f"{equals}{p:.3f}"


def significant(value: float, digits: int = 3) -> str:
    """Write the digits that count, for quantities of unknown scale such as logits."""
    return written(value, f".{digits}g")


def count(number: int, one: str, many: str = "") -> str:
    """``1 image``, ``1 200 images``: the number with its noun."""
    return f"{grouped(number)}{NBSP}{one if number == 1 else many or one + 's'}"


def copies_words(copies: int, images: int) -> str:
    """Write ``540 of 600 images have the pixels of another: 60 different images``."""
    have = "has" if copies == 1 else "have"
    return (
        f"{grouped(copies)} of {count(images, 'image')} {have} the pixels of another: "
        f"{count(images - copies, 'different image')}"
    )


def copies_sentence(copies: int, images: int) -> str:
    """Write `copies_words` as a sentence; nothing without copies."""
    return f"{copies_words(copies, images)}." if copies else ""


def grouped(number: int) -> str:
    """Thousands apart by a no-break space."""
    return f"{number:,}".replace(",", NBSP)


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def shorten(text: str, most: int) -> str:
    """``text``, or its beginning with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


MOST_NAME = 30
"""Letters of a class in a sentence; tables and the viewer have the whole name."""


def shorten_middle(text: str, most: int) -> str:
    """``text``, or its beginning and its end: names of files often differ at the end."""
    end = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - end]}…{text[-end:]}"


Quantity = Literal[
    "text", "flag", "count", "ordinal", "share", "points", "levels", "change", "value", "p", "bytes"
]
"""What a number counts or measures. An ``ordinal`` is a number for a name: a seed; ``levels`` are
grey levels or another size of known scale, ``change`` the same with a sign; ``value`` has no known
scale, as logits."""
_WRITERS: dict[Quantity, tuple[Callable[[Any, int], str], int]] = {
    "count": (lambda number, _: grouped(number), 0),
    "ordinal": (lambda number, _: str(number), 0),
    "share": (percent, 1),
    "points": (points, 2),
    "levels": (plain, 2),
    "change": (signed, 2),
    "value": (significant, 3),
    "p": (lambda p, _: p_value(p), 0),
    "bytes": (lambda size, _: megabytes(size), 0),
}
"""How each is written, with the usual decimals; of a ``value`` the digits that count."""


# assets/src/numbers.js writes by the same rules, and tests/text/test_numbers.py holds both equal
def quantity(value: float, unit: Quantity, digits: int | None = None) -> str:
    r"""Write a number by its unit, in every table.

    >>> quantity(0.0, "levels"), quantity(0.004, "levels"), quantity(0.5, "share")
    ('0', '<0.01', '50.0\xa0%')
    """
    write, usual = _WRITERS[unit]
    return write(value, usual if digits is None else digits)


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def megabytes(size: int) -> str:
    """``1.9 MB``."""
    return f"{size / 10**6:.1f} MB" if size >= 10**5 else f"{size / 1000:.1f} KB"


def share_of(text: str) -> float | None:
    """Read ``0.5%``, ``0.5 %`` or ``0.005`` as a share; ``None`` for any other text.

    >>> share_of("0.5 %"), share_of("0.005")
    (0.005, 0.005)
    """
    number = text.strip()
    try:
        return float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        return None


def byte_count(text: str) -> int | None:
    """Read ``2 MB``, ``100KB`` or a number of bytes; ``None`` for any other text."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMG]?B)?", text.upper())
    return int(float(match[1]) * _UNITS[match[2] or ""]) if match else None
