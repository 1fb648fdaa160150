"""Types of a YAML file's fields, as strict as a person expects: ``true`` is no number."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, Strict, StringConstraints

STRICT = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60)]
Integer = Annotated[int, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Flag = Annotated[bool, Strict()]
Fraction = Annotated[Number, Field(ge=0, le=1)]
