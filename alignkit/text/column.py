"""`Fact`: what a column shows of a row, declared once for pages, terminals, Parquet and DataFrames.

A column says how its value comes from the row's object, in which unit it is written, and why it may
be missing. A column without a head is for programs alone, one without a name for readers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from alignkit.record.stored import Estimate
from alignkit.text.numbers import Quantity, estimated, quantity

if TYPE_CHECKING:
    import pyarrow as pa

RowT = TypeVar("RowT", contravariant=True)  # noqa: PLC0105 - a column of places is one of cells
Whole = TypeVar("Whole")
CellValue = Estimate | float | str | None
"""An estimate brings the reason why it is missing; ``None`` has the reason of its column."""


@dataclass(frozen=True, slots=True)
class Fact(Generic[RowT]):
    """A column of any table whose rows are made of one kind of object."""

    head: str
    """Over the column; empty in no table that is read."""
    value: Callable[[RowT], Any]
    """Gives a `CellValue`, or a `Shown` where the cell has more than a text."""
    unit: Quantity = "text"
    digits: int | None = None
    """Other decimals than those of the unit."""
    format: Callable[[Any, RowT], str] | None = None
    """Writes a row's value otherwise than by the unit: a metric's in the words of its task."""
    note: str | Callable[[RowT], str] = ""
    """Why there is no value, in a footnote."""
    remark: Callable[[RowT], str] | None = None
    """A footnote of a value that is there; empty where it needs none."""
    name: str = ""
    """In Parquet and in a DataFrame; an estimate has ``…_low`` and ``…_high`` too."""
    interval: bool = False
    """Whether its values are estimates, so that a table for programs has both ends."""
    group: str = ""
    """Over it and its neighbours of the same group."""
    alarm: bool = False
    """Whether a number that is not zero stands out."""
    part: Callable[[Any], Any] = lambda row: row
    """The part of a row that all above take; ``None`` where the row has none."""
    absent: str | Callable[[Any], str] = ""
    """Why a row has no such part."""

    @property
    def numeric(self) -> bool:
        """Whether it is right-aligned."""
        return self.unit not in ("text", "flag")

    def of(
        self,
        part: Callable[[Whole], RowT | None],
        absent: str | Callable[[Whole], str] = "",
        **own: Any,
    ) -> Fact[Whole]:
        """Return the column of rows of which it describes a part, with ``own`` fields changed."""

        def whole(row: Whole) -> Any:
            found = part(row)
            return None if found is None else self.part(found)

        def why(row: Whole) -> str:
            found = part(row)
            if found is not None:  # the part is there, and lacks a part of its own
                return self.reason(found)
            return absent(row) if callable(absent) else absent

        made: Fact[Any] = replace(self, part=whole, absent=why, **own)
        return made

    def found(self, row: RowT) -> Any:
        """Return the value of a row."""
        part = self.part(row)
        return None if part is None else self.value(part)

    def text(self, row: RowT, value: Any) -> str:
        """Write the value of a row, where there is one."""
        if isinstance(value, str):  # also in a column of numbers: ``3 of 200``
            return value
        if self.format:
            return self.format(value, self.part(row))
        if isinstance(value, Estimate):
            return estimated(value, self.digits or 2, share=self.unit == "share")
        return quantity(value, self.unit, self.digits)

    def reason(self, row: RowT) -> str:
        """Return why a row has no value."""
        part = self.part(row)
        why, of = (self.absent, row) if part is None else (self.note, part)
        return why(of) if callable(why) else why


def of_part(
    columns: Iterable[Fact[RowT]],
    part: Callable[[Whole], RowT | None],
    absent: str | Callable[[Whole], str] = "",
    **own: Any,
) -> tuple[Fact[Whole], ...]:
    """Return columns of a part as those of the whole; see `Fact.of`."""
    return tuple(each.of(part, absent, **own) for each in columns)


def named(unit: Quantity, *fields: str) -> tuple[Fact[Any], ...]:
    """Return columns for programs alone, each named after the field of the row that has it."""
    return tuple(Fact("", attrgetter(field), unit, name=field) for field in fields)


def named_values(columns: Iterable[Fact[RowT]], row: RowT) -> dict[str, Any]:
    """Return a row's values as they are, by name: nothing is rounded, and ``None`` is missing."""
    found: dict[str, Any] = {}
    for each in columns:
        if not each.name:
            continue
        value = each.found(row)
        if each.interval:
            ends = value or Estimate(None, None, None)
            found |= dict(zip(_ends(each.name), (ends.value, ends.low, ends.high), strict=True))
        else:
            found[each.name] = value
    return found


def _ends(name: str) -> tuple[str, str, str]:
    return name, f"{name}_low", f"{name}_high"


def arrow(columns: Sequence[Fact[RowT]], rows: Iterable[RowT]) -> pa.Table:
    """Return the named columns as a typed table, in which a missing value is null."""
    import pyarrow as pa

    whole = pa.int64()
    types = {"text": pa.string(), "flag": pa.bool_(), "count": whole, "ordinal": whole}
    schema = pa.schema(
        (name, types.get(each.unit, pa.float64()))
        for each in columns
        if each.name
        for name in (_ends(each.name) if each.interval else (each.name,))
    )
    return pa.Table.from_pylist([named_values(columns, row) for row in rows], schema)
