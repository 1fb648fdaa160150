"""Places of the matrix: `Row`, what its models were trained with; `Column`, how they are served.

A record stores the names flat, as `alignkit.record.stored.Placed` declares them; `Row.parse` alone
reads a name back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Self

FULL = 1.0
_NAME = re.compile(
    r"(?P<preprocesses>.+?) \((?:mix)?(?:, )?(?:model (?P<model>.+?))?(?:, )?"
    r"(?:(?P<percent>\d+(?:\.\d+)?) %)?\)"
)


@dataclass(frozen=True, slots=True)
class Row:
    """Everything that models were trained with besides the seed.

    Raises `ValueError` for parts whose name would be read back as another row, for instance a mix
    with a preprocess called ``a+b``: cells are stored, and asked for, by the name.
    """

    preprocesses: tuple[str, ...]
    """Names; more than one of a mix."""
    fraction: float = FULL
    """Share of the training images."""
    model: str = ""
    """Name of the user's own model; empty for one that is trained here."""

    def __post_init__(self) -> None:
        # records and `--cell` name a row by its text alone
        if _parts(str(self)) != (self.preprocesses, self.fraction, self.model):
            raise ValueError(f"the row {str(self)!r} reads like the name of another row")

    def __str__(self) -> str:
        """Return the preprocesses, with everything else that sets the row apart in brackets.

        >>> str(Row(("opencv",), 0.05)), str(Row(("opencv", "pillow"))), str(Row(("a",), model="b"))
        ('opencv (5 %)', 'opencv+pillow (mix)', 'a (model b)')
        """
        return _name(self.preprocesses, self.fraction, self.model)

    def __lt__(self, other: Row) -> bool:
        """Order rows as their names are ordered."""
        return str(self) < str(other)

    @classmethod
    @cache
    def parse(cls, name: str) -> Self:
        """Read a row's name; any other text is the name of a single preprocess.

        >>> Row.parse("opencv+pillow (mix, 5 %)").preprocesses
        ('opencv', 'pillow')
        """
        # the constructor checks that the name leads back to the row
        return cls(*_parts(name))

    def is_only(self, preprocess: str) -> bool:
        """Return whether its models were trained with this preprocess alone, on all images."""
        return self.preprocesses == (preprocess,) and self.fraction == FULL


def first_of(rows: Iterable[Row], path: str) -> Row | None:
    """Find the first row whose models were trained with a path alone; ``None`` without one.

    Several given models may have been: shares, advice and verdicts are of the first.
    """
    return next((row for row in rows if row.is_only(path)), None)


def _name(preprocesses: tuple[str, ...], fraction: float, model: str) -> str:
    notes = ["mix"] if len(preprocesses) > 1 else []
    if model:
        notes.append(f"model {model}")
    if fraction != FULL:
        # exact: two shares never have one name
        notes.append(f"{Decimal(str(fraction)).scaleb(2).normalize():f} %")
    return "+".join(preprocesses) + (f" ({', '.join(notes)})" if notes else "")


@cache
def _parts(name: str) -> tuple[tuple[str, ...], float, str]:
    if found := _NAME.fullmatch(name):
        percent = found["percent"]
        fraction = float(Decimal(percent).scaleb(-2)) if percent else FULL
        parts = tuple(found["preprocesses"].split("+")), fraction, found["model"] or ""
        # a preprocess may itself be called ``a (mix)``: only a name that we would write is one
        if _name(*parts) == name:
            return parts
    return (name,), FULL, ""


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """The preprocess and runtime that the models of every row are served with."""

    preprocess: str
    """Name of a path, or of a runtime's own preprocessing."""
    backend: str
    """With the options that the experiment gives it."""
    precision: str

    @property
    def names(self) -> tuple[str, str, str]:
        """Preprocess, backend, precision."""
        return self.preprocess, self.backend, self.precision

    @property
    def runtime(self) -> str:
        """Backend and precision, ``torch bf16``; empty where pixels alone are compared."""
        return f"{self.backend} {self.precision}".strip()

    def __str__(self) -> str:
        return "/".join(self.names)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A row and a column: where the cells that differ in their seed alone stand.

    >>> str(Place(Row(("opencv",), 0.05), Column("pillow", "torch", "bf16")))
    'opencv (5 %)/pillow/torch/bf16'
    """

    row: Row
    column: Column

    @property
    def names(self) -> tuple[str, str, str, str]:
        """Row, preprocess, backend, precision."""
        return str(self.row), *self.column.names

    @property
    def fields(self) -> dict[str, str]:
        """The names as `Placed` stores them."""
        fields = ("trained_with", "evaluated_with", "backend", "precision")
        return dict(zip(fields, self.names, strict=True))

    @property
    def json_key(self) -> str:
        """The names as one key of a JSON object."""
        return "|".join(self.names)

    def __str__(self) -> str:
        return "/".join(self.names)
