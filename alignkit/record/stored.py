"""What every stored type shares: strict, frozen, finite."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

State = Literal["measured", "skipped", "failed"]
VerdictState = Literal["pass", "warn", "fail", "inconclusive", "error"]
Count = Annotated[int, Field(ge=0)]


class Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def of(cls, found: object) -> Self:
        """What was computed, as it is stored: of equal names, and so on inside it."""
        return cls.model_validate(found, from_attributes=True)


class Artifact(Stored):
    """A file beside the record."""

    path: str
    """Relative to the record's folder."""
    sha256: str


class Estimate(Stored):
    """A paired difference, candidate minus reference, as a fraction (0.01 is one point)."""

    value: float | None
    low: float | None
    """Lower end of the 95 % interval."""
    high: float | None
    reason: str = ""
    """Why there is no value or interval."""
