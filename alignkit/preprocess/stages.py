"""The stages of an `alignkit.preprocess.Preprocess` between its decoder and `Normalise`.

Each is called with pixels and returns pixels. Its fields are its options and its identity.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from alignkit.plugins import ADDED_LATER, option_added_later
from alignkit.resizers import Resizer

if TYPE_CHECKING:
    from alignkit.arrays import Image, Pixels
    from alignkit.decoders import Decoder

StageName = Literal["decode", "orient", "resize", "crop", "quantise", "colour", "normalise"]
STAGES: tuple[StageName, ...] = (
    "decode", "orient", "resize", "crop", "quantise", "colour", "normalise",
)  # fmt: skip

SideRounding = Literal["down", "nearest"]
HalfRounding = Literal["even", "down", "up"]
ColourSpace = Literal[
    "rgb", "bgr", "nv12-bt601-limited", "nv12-bt601-full", "nv12-bt709-limited", "nv12-bt709-full"
]


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
    size: tuple[int, int]
    """(height, width) in pixels; for ``shorter`` the shorter side becomes ``min(size)``."""
    fit: Literal["squash", "shorter", "letterbox"] = "squash"
    """``squash`` ignores the aspect ratio; ``shorter`` keeps it and covers the size; ``letterbox``
    keeps it, stays inside the size and pads to it, centred."""
    pad: int = 114
    """Grey level of the letterbox's border."""
    rounding: SideRounding = "down"
    """Rounding of the longer side of ``shorter``: torchvision and MLPerf cut the fraction, DALI
    rounds. A ``letterbox`` always rounds: an exact half goes to the even pixel as Ultralytics'
    ``round`` does or, with ``nearest``, up as torchpipe's ``std::round`` does."""
    auto: bool = option_added_later(default=False)
    """Whether a ``letterbox`` pads only to the next multiple of ``stride``, as Ultralytics' does
    for a model that takes any size: the model's input then varies with the image."""
    stride: int = option_added_later(default=32)
    """Step of the sizes that ``auto`` gives, in pixels."""

    def __call__(self, image: Image) -> Pixels:
        """Resample (h, w, 3) → (height, width, 3), in the library's dtype."""
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
        if self.fit == "shorter":
            short = min(self.size)
            half = 0.5 if self.rounding == "nearest" else 0.0
            if height <= width:
                return short, int(short * width / height + half)
            return int(short * height / width + half), short
        scale = min(self.size[0] / height, self.size[1] / width)
        to_whole = round if self.rounding == "down" else lambda side: int(side + 0.5)
        # the short side of a very long image must not vanish
        return max(1, to_whole(height * scale)), max(1, to_whole(width * scale))

    def canvas(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Return (height, width) after padding and (top, left) of the resampled image in it."""
        if self.fit != "letterbox":
            return height, width, 0, 0
        down, across = self.size[0] - height, self.size[1] - width
        if self.auto:
            down, across = down % self.stride, across % self.stride
        # Ultralytics' LetterBox rounds the half pixel down on the top and left (its -0.1)
        top, left = round(down / 2 - 0.1), round(across / 2 - 0.1)
        return height + down, width + across, top, left

    def _padded(self, resized: Pixels) -> Pixels:
        import numpy as np

        height, width, top, left = self.canvas(resized.shape[0], resized.shape[1])
        canvas = np.full((height, width, 3), self.pad, resized.dtype)
        canvas[top : top + resized.shape[0], left : left + resized.shape[1]] = resized
        return canvas


@dataclass(frozen=True, slots=True)
class Crop:
    """Centre crop; without a size, none."""

    size: tuple[int, int] | None = None
    """(height, width) in pixels."""
    half: HalfRounding = "even"
    """Rounding of half an odd margin: to the even pixel as torchvision's ``center_crop``, down as
    MLPerf, up as DALI. A shift by one pixel changes more than most decoders do."""

    def __call__(self, pixels: Pixels) -> Pixels:
        """Crop (h, w, 3) → (height, width, 3); raise `ValueError` if the image is smaller."""
        if self.size is None:
            return pixels
        height, width = self.size
        if pixels.shape[0] < height or pixels.shape[1] < width:
            raise ValueError(
                f"cannot crop {height}x{width} out of {pixels.shape[0]}x{pixels.shape[1]}"
            )
        top, left = self.begin(pixels.shape[0], pixels.shape[1])
        return pixels[top : top + height, left : left + width]

    def begin(self, height: int, width: int) -> tuple[int, int]:
        """Return (top, left) of the crop of an image of this size."""
        if self.size is None:
            return 0, 0
        return self._half(height - self.size[0]), self._half(width - self.size[1])

    def _half(self, margin: int) -> int:
        if self.half == "even":
            return round(margin / 2)
        return margin // 2 if self.half == "down" else (margin + 1) // 2


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
            each.name: stage_identity(getattr(stage, each.name))
            for each in fields(stage)
            if not (each.metadata.get(ADDED_LATER) and getattr(stage, each.name) == each.default)
        }
        return {"stage": type(stage).__name__, **options}
    return list(stage) if isinstance(stage, tuple) else stage
