"""The stages of an `alignkit.preprocess.Preprocess` between its decoder and `Normalise`.

Each is called with pixels and returns pixels. Its fields are its options and its identity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, ValidationInfo
from pydantic_core import PydanticCustomError

from alignkit.plugins import ADDED_LATER, option_added_later
from alignkit.resizers import AsIs, Resizer

if TYPE_CHECKING:
    from alignkit.arrays import Image, Pixels
    from alignkit.decoders import Decoder

StageName = Literal["decode", "orient", "resize", "crop", "quantise", "colour", "normalise"]
STAGES: tuple[StageName, ...] = (
    "decode", "orient", "resize", "crop", "quantise", "colour", "normalise",
)  # fmt: skip

_STORED = "stored"

SideRounding = Literal["floor", "nearest", "even", "ceil"]
HalfRounding = Literal["even", "down", "up"]
ColourSpace = Literal[
    "rgb", "bgr", "nv12-bt601-limited", "nv12-bt601-full", "nv12-bt709-limited", "nv12-bt709-full"
]


_TO_WHOLE: dict[SideRounding, Callable[[float], int]] = {
    "floor": int,
    "nearest": lambda side: int(side + 0.5),
    "even": round,
    "ceil": math.ceil,
}
ROUNDINGS: dict[str, SideRounding] = {
    "squash": "floor", "shorter": "floor", "letterbox": "even", "none": "floor",
}  # fmt: skip
"""Fit → its default rounding."""
UNNAMED_ROUNDING = "down"
"""The name of each fit's default in records, keys and baselines, as before there were four."""
HALF: HalfRounding = "down"
"""Default of `Resize.half`."""


def _pair(given: Any) -> Any:
    if isinstance(given, int):
        return given, given
    return tuple(given) if isinstance(given, list) else given


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60)]
"""Name that a user gives: of a path, a model, an experiment."""
InputSide = Annotated[int, Field(ge=1, le=8192)]
InputSize = Annotated[
    tuple[InputSide, InputSide],
    BeforeValidator(_pair, json_schema_input_type=InputSide | tuple[InputSide, InputSide]),
]
"""(height, width) in pixels; a file may give one side of a square."""
_Offset = Annotated[int, Field(ge=0, le=8192)]
_Place = tuple[_Offset, _Offset]
"""(top, left) in pixels: rows above and columns left of something."""


def _by_older_name(given: Any, info: ValidationInfo) -> Any:
    if given != UNNAMED_ROUNDING:
        return given
    if info.data.get("fit") == "letterbox":
        message = "in a letterbox that meant even; write 'even', the default, or 'floor'"
        raise PydanticCustomError("rounding", message)
    return "floor"


_Rounding = Annotated[
    SideRounding | None,
    BeforeValidator(_by_older_name, json_schema_input_type=Literal[SideRounding, "down"] | None),
]


def _halved(margin: int, rule: HalfRounding) -> int:
    """Return half a margin in whole pixels."""
    if rule == "even":
        return round(margin / 2)
    return margin // 2 if rule == "down" else (margin + 1) // 2


@dataclass(frozen=True, slots=True)
class Orient:
    """Turn of the image by its orientation as the decoder's library reads it, or no turn."""

    policy: Literal["none", "exif"] = "none"
    """Left to the decoder where its class says ``orients``."""

    def turn(self, decoder: Decoder, encoded: bytes) -> Turn:
        """Return the turn of one file, which another library may read otherwise."""
        from alignkit.decoders.exif import turn_of

        return Turn(turn_of(decoder, encoded) if self.policy == "exif" else 1)


@dataclass(frozen=True, slots=True)
class Turn:
    """The orient stage of one image."""

    orientation: int = 1
    """As in EXIF; 1 is no turn."""

    def __call__(self, image: Image) -> Image:
        """Turn (h, w, 3) → (h, w, 3) or (w, h, 3)."""
        from alignkit.decoders.exif import turn

        return turn(image, self.orientation) if self.orientation != 1 else image


@dataclass(frozen=True, slots=True)
class Resize:
    """Resampling to a target that follows from ``size`` and ``fit``."""

    resizer: Resizer
    size: InputSize
    """Size after the resize, in pixels: one side of a square, or [height, width]; for ``shorter``
    the shorter side becomes the smaller of them."""
    fit: Literal["squash", "shorter", "letterbox", "none"] = "squash"
    """``squash`` ignores the aspect ratio; ``shorter`` keeps it and covers the size; ``letterbox``
    keeps it, stays inside the size and pads to it, centred; ``none`` resamples nothing and pads
    the sides that are below the size, for a crop at the image's own resolution."""
    pad: Annotated[int, Field(ge=0, le=255)] = 114
    """Grey level 0..255 of the border of ``letterbox`` and ``none``."""
    rounding: _Rounding = field(default=None, metadata={_STORED: UNNAMED_ROUNDING})
    """Rounding of the sides that follow from the aspect ratio: an exact half goes up with
    ``nearest``, to the even pixel with ``even``. By default the longer side of ``shorter`` is
    ``floor`` as torchvision and MLPerf cut it (DALI: ``nearest``), and those of ``letterbox`` are
    ``even`` as Ultralytics' ``round`` (torchpipe's ``std::round``: ``nearest``, Python's ``int``:
    ``floor``)."""
    auto: bool = option_added_later(default=False)
    """Whether a ``letterbox`` pads only to the next multiple of ``stride``, as Ultralytics' does
    for a model that takes any size: the model's input then varies with the image."""
    stride: Annotated[int, Field(ge=1, le=1024)] = option_added_later(default=32)
    """Step of the sizes that ``auto`` gives, in pixels."""
    half: HalfRounding = option_added_later(default=HALF)  # noqa: RUF009 - a field
    """Rounding of half an odd margin of a border, on the top and left: down as Ultralytics'
    LetterBox, to the even pixel as ``PIL.ImageOps.pad``."""
    at: _Place | None = option_added_later(default=None)  # noqa: RUF009 - a field
    """[top, left] of the image within the border; by default it is centred."""

    def __post_init__(self) -> None:
        # a default by name is the same stage
        if self.fit in ("squash", "none") or self.rounding == ROUNDINGS[self.fit]:
            object.__setattr__(self, "rounding", None)
        if self.fit == "none":
            object.__setattr__(self, "resizer", AsIs())

    def faults(self, written: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield each key among those written that the others leave without effect, and why."""
        if self.auto and self.fit != "letterbox":
            yield "auto", f"belongs to 'fit: letterbox', not to {self.fit}"
        elif self.auto and (over := [side for side in self.size if side % self.stride]):
            below = over[0] - over[0] % self.stride
            near = " or ".join(str(side) for side in (below, below + self.stride) if side)
            why = "so 'auto' would give sizes that are none either; write"
            yield "size", f"{over[0]} is no multiple of the stride {self.stride}, {why} {near}"
        if self.fit not in ("letterbox", "none"):
            for key, given in (("half", self.half != HALF), ("at", self.at is not None)):
                if given:
                    why = f"belongs to 'fit: letterbox', not to {self.fit}; a crop has its own"
                    yield key, why
        if not self.auto and "stride" in written:
            yield "stride", "belongs to 'auto: true', which is not set"

    def __call__(self, image: Image) -> Pixels:
        """Resample (h, w, 3) → (height, width, 3), in the library's dtype."""
        if self.fit == "none":
            return self._padded(image)
        height, width = self.target(image.shape[0], image.shape[1])
        resized = self.resizer.resize(image, height, width)
        return self._padded(resized) if self.fit == "letterbox" else resized

    @property
    def varies(self) -> bool:
        """Return whether ``auto`` lets the size depend on the image; ``size`` is the greatest."""
        return self.fit == "letterbox" and self.auto

    def target(self, height: int, width: int) -> tuple[int, int]:
        """Return (height, width) of the resampled image, before any padding."""
        if self.fit == "squash":
            return self.size
        if self.fit == "none":
            return height, width
        whole = _TO_WHOLE[self.side_rounding]
        if self.fit == "shorter":
            short = min(self.size)
            if height <= width:
                return short, whole(short * width / height)
            return whole(short * height / width), short
        scale = min(self.size[0] / height, self.size[1] / width)
        sides = zip((height, width), self.size, strict=True)
        # the short side of a very long image must not vanish, nor a rounding error exceed the size
        tall, wide = (min(most, max(1, whole(side * scale))) for side, most in sides)
        return tall, wide

    @property
    def side_rounding(self) -> SideRounding:
        """Return ``rounding``, or the default of the fit."""
        return self.rounding or ROUNDINGS[self.fit]

    def canvas(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Return (height, width) after padding and (top, left) of the resampled image in it."""
        if self.fit not in ("letterbox", "none"):
            return height, width, 0, 0
        down, across = max(0, self.size[0] - height), max(0, self.size[1] - width)
        if self.auto:
            down, across = down % self.stride, across % self.stride
        top, left = self.at or (_halved(down, self.half), _halved(across, self.half))
        return height + down, width + across, top, left

    def _padded(self, resized: Pixels) -> Pixels:
        import numpy as np

        height, width, top, left = self.canvas(resized.shape[0], resized.shape[1])
        if (height, width) == resized.shape[:2]:
            return resized
        canvas = np.full((height, width, 3), self.pad, resized.dtype)
        canvas[top : top + resized.shape[0], left : left + resized.shape[1]] = resized
        return canvas


@dataclass(frozen=True, slots=True)
class Crop:
    """Crop, by default of the centre; without a size, none."""

    size: InputSize | None = None
    """Size of the crop, in pixels: one side of a square, or [height, width]."""
    half: HalfRounding = "even"
    """Rounding of half an odd margin: to the even pixel as torchvision's ``center_crop``, down as
    MLPerf, up as DALI. A shift by one pixel changes more than most decoders do."""
    at: _Place | None = option_added_later(default=None)  # noqa: RUF009 - a field
    """[top, left] of the crop, if it is not that of the centre."""

    def faults(self, _written: object = None) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with a mapping in a file, which crops."""
        if self.size is None:
            yield "size", "is required"

    def __call__(self, pixels: Pixels) -> Pixels:
        """Crop (h, w, 3) → (height, width, 3); raise `ValueError` if the image is smaller."""
        if self.size is None:
            return pixels
        height, width = self.size
        top, left = self.begin(pixels.shape[0], pixels.shape[1])
        if min(top, left) < 0 or pixels.shape[0] < top + height or pixels.shape[1] < left + width:
            at = f" at {top}, {left}" if self.at else ""
            raise ValueError(
                f"cannot crop {height}x{width}{at} out of {pixels.shape[0]}x{pixels.shape[1]}"
            )
        return pixels[top : top + height, left : left + width]

    def begin(self, height: int, width: int) -> tuple[int, int]:
        """Return (top, left) of the crop of an image of this size."""
        if self.size is None:
            return 0, 0
        if self.at is not None:
            return self.at
        return _halved(height - self.size[0], self.half), _halved(width - self.size[1], self.half)


@dataclass(frozen=True, slots=True)
class Quantise:
    """Conversion of unrounded floats to ``uint8``, or none."""

    rule: Literal["none", "round", "truncate"] = "none"
    """``truncate`` is ``tensor.to(torch.uint8)``, which darkens by half a level on average."""

    def __call__(self, pixels: Pixels) -> Pixels:
        """Convert float32 or uint8 → uint8, unless the rule is ``none``."""
        import numpy as np

        if self.rule == "none" or pixels.dtype == np.uint8:
            return pixels
        clipped = np.clip(pixels, 0.0, 255.0)  # a cubic filter overshoots, and uint8 would wrap
        return (np.rint(clipped) if self.rule == "round" else clipped).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Colour:
    """Channel order, or colour round trip, of the serving stack."""

    space: ColourSpace = "rgb"
    """``nv12-*`` is a round trip through 8-bit Y'CbCr with halved chroma; the result is RGB."""

    def __call__(self, pixels: Pixels) -> Pixels:
        """Convert (h, w, 3); shape and dtype stay the same."""
        if self.space.startswith("nv12"):
            from alignkit.preprocess.nv12 import nv12_round_trip

            _, matrix, extent = self.space.split("-")
            return nv12_round_trip(pixels, matrix, extent)
        return pixels[..., ::-1] if self.space == "bgr" else pixels


def stage_identity(stage: Any) -> Any:
    """Return a stage or plugin as plain JSON: its class name and every option.

    An `option_added_later` is left out at its default.
    """
    if is_dataclass(stage) and not isinstance(stage, type):
        options = {
            each.name: each.metadata.get(_STORED)
            if getattr(stage, each.name) is None
            else stage_identity(getattr(stage, each.name))
            for each in fields(stage)
            if not (each.metadata.get(ADDED_LATER) and getattr(stage, each.name) == each.default)
        }
        return {"stage": type(stage).__name__, **options}
    return list(stage) if isinstance(stage, tuple) else stage
