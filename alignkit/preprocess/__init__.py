"""`Preprocess`: its tapped stages, presets, mixtures, stress; headers, EXIF, kinds of images; NV12.

The stages: decode ▸ orient ▸ resize ▸ crop ▸ quantise ▸ colour ▸ normalise. Each is a frozen
dataclass; its fields are its options, its identity in the record and part of every cache key. All
stages but the last return `Pixels`; `Normalise` returns the float tensor that a model receives. A
stage of two paths is compared in two ways: *isolated* feeds both implementations the reference's
input of that stage, *cumulative* compares the two paths' own taps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from alignkit.decoders import DECODERS, Decoded, Decoder
from alignkit.plugins import Plugin, name_of
from alignkit.preprocess.image_header import MAX_PIXELS, decode
from alignkit.resizers import RESIZERS, Resizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignkit.arrays import Batch, Image, Pixels

StageName = Literal["decode", "orient", "resize", "crop", "quantise", "colour", "normalise"]
STAGES: tuple[StageName, ...] = (
    "decode", "orient", "resize", "crop", "quantise", "colour", "normalise",
)  # fmt: skip

_AFTER_ORIENT: tuple[StageName, ...] = ("orient", "resize", "crop", "quantise", "colour")

ColourSpace = Literal[
    "rgb", "bgr", "nv12-bt601-limited", "nv12-bt601-full", "nv12-bt709-limited", "nv12-bt709-full"
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True)
class Orient:
    """Turn of the image by its EXIF orientation, or no turn."""

    policy: Literal["none", "exif"] = "none"
    """Left to the decoder where its class says ``orients``."""

    def __call__(self, image: Image, encoded: bytes) -> Image:
        """Turn (h, w, 3) → (h, w, 3) or (w, h, 3)."""
        from alignkit.preprocess.exif import exif_orientation, turn

        return turn(image, exif_orientation(encoded)) if self.policy == "exif" else image


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
    rounding: Literal["down", "nearest"] = "down"
    """Rounding of the longer side of ``shorter``: torchvision and MLPerf cut the fraction, DALI
    rounds. A ``letterbox`` always rounds: an exact half goes to the even pixel as Ultralytics'
    ``round`` does or, with ``nearest``, up as torchpipe's ``std::round`` does."""

    def __call__(self, image: Image) -> Pixels:
        """Resample (h, w, 3) → (height, width, 3), in the library's dtype."""
        height, width = self.target(image.shape[0], image.shape[1])
        resized = self.resizer.resize(image, height, width)
        return self._padded(resized) if self.fit == "letterbox" else resized

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

    def _padded(self, resized: Pixels) -> Pixels:
        import numpy as np

        height, width = self.size
        canvas = np.full((height, width, 3), self.pad, resized.dtype)
        # Ultralytics' LetterBox rounds the half pixel down on the top and left (its -0.1)
        top = round((height - resized.shape[0]) / 2 - 0.1)
        left = round((width - resized.shape[1]) / 2 - 0.1)
        canvas[top : top + resized.shape[0], left : left + resized.shape[1]] = resized
        return canvas


@dataclass(frozen=True, slots=True)
class Crop:
    """Centre crop; without a size, none."""

    size: tuple[int, int] | None = None
    """(height, width) in pixels."""
    half: Literal["even", "down", "up"] = "even"
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
        top = self._begin(pixels.shape[0] - height)
        left = self._begin(pixels.shape[1] - width)
        return pixels[top : top + height, left : left + width]

    def _begin(self, margin: int) -> int:
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


@dataclass(frozen=True, slots=True)
class Normalise:
    """Normalisation ``(pixels / 255 - mean) / std`` per channel, in float32."""

    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    def __call__(self, pixels: Pixels, out: Batch | None = None) -> Batch:
        """Map (n, h, w, 3) or (h, w, 3), 0..255 → (n, 3, h, w) or (3, h, w) contiguous float32.

        The result is written into ``out``, contiguous and of that shape, if it is given.
        """
        import numpy as np

        if out is None:
            *samples, height, width, _ = pixels.shape
            out = np.empty((*samples, 3, height, width), np.float32)
        return (self._look_up if pixels.dtype == "uint8" else self._compute)(pixels, out)

    def _look_up(self, pixels: Pixels, out: Batch) -> Batch:
        """Look up the numbers of `_compute`, seven times as fast: ``uint8`` has 256 levels."""
        import cv2
        import numpy as np

        shape = pixels.shape[-3:]
        images: Image = np.ascontiguousarray(pixels, np.uint8).reshape(-1, *shape)
        tables = _tables(self)
        for image, planes in zip(images, out.reshape(-1, 3, *shape[:2]), strict=True):
            for values, table, plane in zip(cv2.split(image), tables, planes, strict=True):
                cv2.LUT(values, table, plane)
        return out

    def _compute(self, pixels: Pixels, out: Batch) -> Batch:
        import numpy as np

        for channel, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):
            plane = out[..., channel, :, :]
            np.divide(pixels[..., channel], np.float32(255), out=plane, dtype=np.float32)
            # the order of ToTensor and Normalize, as another one rounds differently; in place, as
            # a temporary of the whole batch would cost more than the arithmetic
            plane -= np.float32(mean)
            plane /= np.float32(std)
        return out


@lru_cache(maxsize=16)
def _tables(normalise: Normalise) -> Batch:
    """Normalise every level of a byte once: (3, 256, 1), read-only."""
    import numpy as np

    levels = np.arange(256, dtype=np.float32)[:, None, None].repeat(3, axis=2)
    tables = normalise(levels)
    tables.flags.writeable = False
    return tables


@dataclass(frozen=True, slots=True)
class Taps:
    """One image after every stage."""

    decoded: Decoded
    pixels: dict[StageName, Pixels] = field(default_factory=dict)
    """Stage → array, for the stages up to ``colour``. ``decode`` is absent where a decoder that
    orients by itself turned the image: its pixels are then those of ``orient``."""

    @property
    def last(self) -> Pixels | None:
        """Return the input of `Normalise`; ``None`` if the image could not be decoded."""
        return self.pixels.get("colour")


@dataclass(frozen=True, slots=True)
class Preprocess:
    """One preprocessing stack, by name."""

    name: str
    decode: Decoder
    resize: Resize
    orient: Orient = Orient()
    crop: Crop = Crop()
    quantise: Quantise = Quantise()
    colour: Colour = Colour()
    normalise: Normalise = Normalise()
    surrogate_of: str = ""
    """Name of the GPU stack that this one imitates on a CPU; empty if it is no surrogate."""
    max_pixels: int = MAX_PIXELS
    """Greatest number of pixels; an image whose header declares more is ``failed``, not decoded."""
    replaced: tuple[StageName, ...] = ()
    """Stages of the imitated stack that are others here; empty if this is no surrogate."""

    @property
    def size(self) -> tuple[int, int]:
        """Return (height, width) of the model's input."""
        return self.crop.size or self.resize.size

    def taps(self, encoded: bytes, begun: Taps | None = None) -> Taps:
        """Run every stage except `normalise` on one image and keep each output.

        Stages that ``begun`` has, see `shared_taps`, do not run.
        """
        begun = begun or Taps(decode(self.decode, encoded, self.max_pixels))
        if begun.decoded.image is None:
            return begun
        pixels = dict(begun.pixels)
        if "orient" not in pixels:
            pixels |= self._oriented(begun.decoded.image, encoded)
        for earlier, stage in pairwise(_AFTER_ORIENT):
            if stage not in pixels:
                pixels[stage] = getattr(self, stage)(pixels[earlier])
        return Taps(begun.decoded, pixels)

    def _oriented(self, decoded: Image, encoded: bytes) -> dict[StageName, Pixels]:
        if not self.decode.orients:
            return {"decode": decoded, "orient": self.orient(decoded, encoded)}
        from alignkit.preprocess.exif import exif_orientation

        # of a turned image the pixels before the turn are not known
        upright = exif_orientation(encoded) == 1
        return {"decode": decoded, "orient": decoded} if upright else {"orient": decoded}

    def shared_taps(self, taps: Taps, other: Preprocess) -> Taps | None:
        """Return those of this path's ``taps`` that ``other`` would give too; ``None`` if none.

        These are the taps of equal first stages. Equal paths share none: comparing them tells
        whether a library gives the same pixels twice.
        """
        if taps.decoded.image is None or not _decode_alike(self, other):
            return None
        stages = [stage for stage in STAGES if getattr(self, stage) != getattr(other, stage)]
        if not stages:
            return None
        before = STAGES[: STAGES.index(stages[0])]
        return Taps(
            taps.decoded, {each: taps.pixels[each] for each in before if each in taps.pixels}
        )

    @property
    def title(self) -> str:
        """Name with which progress shows it: of a surrogate, that it is one."""
        called = not self.surrogate_of or self.name.endswith("-surrogate")
        return self.name if called else f"{self.name} (surrogate)"

    def identity(self) -> dict[str, Any]:
        """Return every stage's name and options, and the limit, as JSON for keys and records."""
        stages: dict[str, Any] = {stage: stage_identity(getattr(self, stage)) for stage in STAGES}
        return {**stages, "max_pixels": self.max_pixels}

    def versions(self) -> dict[str, str]:
        """Return the installed versions of the libraries that decide pixels; imports none."""
        decode, resize = self.plugins()
        return {"decode": decode.version(), "resize": resize.version()}

    def missing(self) -> str:
        """Explain why this path cannot run on this machine, with the fix; empty if it can."""
        decode, resize = self.plugins()
        return decode.missing() or resize.missing()

    def plugins(self) -> tuple[Plugin, Plugin]:
        """Return the decoder's and the resizer's; an empty one for a class in no table."""
        stages = (self.decode, DECODERS), (self.resize.resizer, RESIZERS)
        decode, resize = (table.get(name_of(each, table), Plugin("")) for each, table in stages)
        return decode, resize


def _decode_alike(path: Preprocess, other: Preprocess) -> bool:
    # a GPU decoder may not give the same pixels twice, which a comparison must find
    gpu = path.plugins()[0].gpu
    return path.decode == other.decode and path.max_pixels == other.max_pixels and not gpu


def same_as(paths: Sequence[Preprocess]) -> dict[str, str]:
    """Map each path to the first earlier one with the same stages and options, if there is one.

    Two options with one effect are two options.
    """
    stages = [replace(path, name="", surrogate_of="", replaced=()) for path in paths]
    earlier = [paths[stages.index(own)].name for own in stages]
    pairs = zip(paths, earlier, strict=True)
    return {path.name: first for path, first in pairs if first != path.name}


def stage_identity(stage: Any) -> Any:
    """Return a stage or plugin as plain JSON: its class name and every option."""
    if is_dataclass(stage) and not isinstance(stage, type):
        options = {each.name: stage_identity(getattr(stage, each.name)) for each in fields(stage)}
        return {"stage": type(stage).__name__, **options}
    return list(stage) if isinstance(stage, tuple) else stage
