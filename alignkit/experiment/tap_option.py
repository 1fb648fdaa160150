"""``gate.taps``: assertions about the stages that serving code recorded with `alignkit.tap`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from alignkit.experiment.option import STRICT_MODEL, Number
from alignkit.preprocess import StageName

Side = Annotated[int, Field(ge=1)]
DtypeName = Literal[
    "uint8", "uint16", "uint32", "int8", "int16", "int32", "int64", "float16", "bfloat16",
    "float32", "float64",
]  # fmt: skip
ChannelOrder = Literal["rgb", "bgr"]


class TapRule(BaseModel):
    """One entry of ``gate.taps.rules``: assertions about one tap, each judged by itself."""

    model_config = STRICT_MODEL
    tap: Annotated[str, Field(min_length=1)]
    """Name by which the serving code recorded it."""
    size: Annotated[tuple[Side, Side], Field(strict=False)] | None = None
    """[height, width] in pixels of every image."""
    range: Annotated[tuple[Number, Number], Field(strict=False)] | None = None
    """[least, greatest] number that any image may hold."""
    dtype: DtypeName | None = None
    """Type of the recorded numbers."""
    channels: ChannelOrder | None = None
    """Order of the channels, decided by the distance from the reference path's pixels."""

    @property
    def asserted(self) -> Iterator[str]:
        """Yield the names of the assertions."""
        for name in ("size", "range", "dtype", "channels"):
            if getattr(self, name) is not None:
                yield name

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        message = ""
        if not [*self.asserted]:
            message = "a rule about a tap needs 'size', 'range', 'dtype' or 'channels'"
        elif self.range is not None and self.range[0] >= self.range[1]:
            message = f"'range: [{self.range[0]:g}, {self.range[1]:g}]' holds no interval"
        if message:
            raise PydanticCustomError("tap_rule", "{message}", {"message": message})
        return self


class TapsOption(BaseModel):
    """``gate.taps``: a folder of recorded stages, and what must hold of them."""

    model_config = STRICT_MODEL
    folder: Annotated[Path, Field(strict=False)]
    """The folder that ``ALIGNKIT_TAPS`` named when the stages were recorded."""
    rules: Annotated[tuple[TapRule, ...], Field(min_length=1)]
    """Assertions, in any number."""
    stages: dict[str, StageName] = {}
    """Stage of a tap whose name does not say it, for ``channels``."""
