"""Configuration that every stored type shares: strict, frozen, finite.

A type that only the record makes is a `Stored`. One that is computed and then stored as it is, is a
frozen dataclass of numbers, words and tuples with `STRICT`: pydantic checks it where a `Stored`
takes it, and not before.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from alignkit.place import Column, Place, Row

State = Literal["measured", "simulated", "built", "skipped", "failed"]
"""``built``: an engine exists and cannot run on this machine, so that nothing was measured."""
VerdictState = Literal["pass", "warn", "fail", "inconclusive", "error"]
# the bounds are for stored files that somebody else may have written; a schema need not show them
Count = Annotated[int, Field(ge=0, le=2**53), WithJsonSchema({"type": "integer", "minimum": 0})]
"""As many as a float counts exactly."""
Real = Annotated[float, Field(ge=-1e100, le=1e100), WithJsonSchema({"type": "number"})]
"""A number whose square, and whose sums, are finite."""


def _one_command(text: str) -> str:
    words = shlex.split(text)
    if shlex.join(words) != text or len(words) < 3 or words[0] != "alignkit":
        raise ValueError("it is not one command of alignkit")
    return text


# a reader of the page copies it into a shell
Command = Annotated[str, AfterValidator(_one_command)]


# instances are validated too, since a dataclass itself accepts any value
STRICT: Final = ConfigDict(extra="forbid", allow_inf_nan=False, revalidate_instances="always")


class Stored(BaseModel):
    """The base of every document and of its parts."""

    # JSON has neither NaN nor infinity
    model_config = ConfigDict(
        # a part of a document is read with it, so that few parts need a validator of their own
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,
    )


# a folder, a page's link and a script all take such a name as it is, and none leads upwards
_NAME = r"\.*[\w+=-][\w.+=-]*"


class Artifact(Stored):
    """A file beside the record."""

    path: Annotated[str, Field(pattern=rf"^{_NAME}(/{_NAME})*$", max_length=999)]
    """Relative to the record's folder."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value, or a paired difference (candidate minus reference), with its interval.

    A fraction (0.01 is one point) where the field that holds it names no unit.
    """

    __pydantic_config__ = STRICT

    value: Real | None
    low: Real | None
    """Lower end of the 95 % interval."""
    high: Real | None
    reason: str = ""
    """Why there is no value or interval."""


class Placed(Stored):
    """A stored result with its place in the matrix."""

    trained_with: str
    """Name of the row."""
    evaluated_with: str
    """Name of the preprocess."""
    backend: str
    precision: str

    @property
    def row(self) -> Row:
        """The row that its models belong to."""
        # a record stores the names flat
        return Row.parse(self.trained_with)

    @property
    def column(self) -> Column:
        """The column that they are served in."""
        return Column(self.evaluated_with, self.backend, self.precision)

    @property
    def place(self) -> Place:
        """Row and column."""
        return Place(self.row, self.column)
