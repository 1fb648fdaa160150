"""Stored figures, tables and lists of images of a pair of cells that pages draw for any task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from alignkit.record.stored import STRICT, Estimate, Real

Scale: TypeAlias = Literal["linear", "log"]
FigureSide: TypeAlias = Literal["reference", "candidate", ""]
"""The side of the comparison that a line describes; empty for neither."""
CellUnit: TypeAlias = Literal["share", "points", "value"]
"""A fraction shown in percent, a difference of fractions shown in points, a number as it is."""


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a figure."""

    __pydantic_config__ = STRICT

    name: str
    x: tuple[Real, ...]
    """Ascending."""
    y: tuple[Real, ...]
    """As many as ``x``."""
    side: FigureSide = ""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"{self.name}: {len(self.x)} x and {len(self.y)} y")


@dataclass(frozen=True, slots=True)
class Mark:
    """A position on the x axis with its words, such as a threshold."""

    __pydantic_config__ = STRICT

    x: Real
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Lines over a common x axis."""

    __pydantic_config__ = STRICT

    name: str
    """Unique among the figures of a pair, in lower case with hyphens."""
    title: str
    x_label: str
    y_label: str
    x_scale: Scale = "linear"
    """With ``log`` every x is above 0."""
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    note: str = ""
    """A sentence or two below the figure."""

    def __post_init__(self) -> None:
        places = [x for each in self.series for x in each.x] + [each.x for each in self.marks]
        if self.x_scale == "log" and min(places, default=1.0) <= 0:
            raise ValueError(f"{self.name}: {min(places)} on a logarithmic axis")


@dataclass(frozen=True, slots=True)
class FactRow:
    """A row of a `FactTable`."""

    __pydantic_config__ = STRICT

    label: str
    cells: tuple[Estimate, ...]
    """One of each column."""
    unit: CellUnit = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactTable:
    """Estimates in rows and columns."""

    __pydantic_config__ = STRICT

    name: str
    """Unique among the tables of a pair, in lower case with hyphens."""
    title: str
    columns: tuple[str, ...]
    """Heads of the cells; the column of labels has none."""
    rows: tuple[FactRow, ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"{self.name}, {row.label}: {len(row.cells)} cells in {len(self.columns)} "
                    "columns"
                )


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An image among those most similar to another one."""

    __pydantic_config__ = STRICT

    id: str
    similarity: Real
    """1 for the same direction, −1 for the opposite."""
    right: bool | None
    """Whether it shows the same as the other image; ``None`` if that is not known."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The images most similar to one image, before and after; the most similar first."""

    __pydantic_config__ = STRICT

    query: str
    """Id of the image."""
    before: tuple[Neighbour, ...]
    """By the reference."""
    after: tuple[Neighbour, ...]
    """By the candidate."""
