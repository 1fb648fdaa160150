"""`Preprocess`: its tapped stages, presets, mixtures, stress; headers, EXIF, kinds of images; NV12.

The stages: decode ▸ orient ▸ resize ▸ crop ▸ quantise ▸ colour ▸ normalise. Each is a frozen
dataclass; its fields are its options, its identity in the record and part of every cache key. All
stages but the last return `Pixels`; `Normalise` returns the float tensor that a model receives. A
stage of two paths is compared in two ways: *isolated* feeds both implementations the reference's
input of that stage, *cumulative* compares the two paths' own taps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from alignkit.decoders import DECODERS, Decoded, Decoder
from alignkit.machine import with_settings
from alignkit.plugins import Plugin, name_of
from alignkit.preprocess.image_header import MAX_PIXELS, decode
from alignkit.preprocess.normalise import Normalise
from alignkit.preprocess.stages import (
    STAGES,
    Colour,
    ColourSpace,
    Crop,
    HalfRounding,
    Orient,
    Quantise,
    Resize,
    SideRounding,
    StageName,
    Turn,
    stage_identity,
)
from alignkit.resizers import RESIZERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignkit.arrays import Image, Pixels
    from alignkit.preprocess.geometry import Geometry

__all__ = [
    "STAGES",
    "Colour",
    "ColourSpace",
    "Crop",
    "HalfRounding",
    "Orient",
    "Preprocess",
    "Quantise",
    "Resize",
    "SideRounding",
    "StageName",
    "Taps",
    "Turn",
    "same_as",
    "stage_identity",
]

_AFTER_ORIENT: tuple[StageName, ...] = ("orient", "resize", "crop", "quantise", "colour")


@dataclass(frozen=True, slots=True)
class Taps:
    """One image after every stage."""

    decoded: Decoded
    pixels: dict[StageName, Pixels] = field(default_factory=dict)
    """Stage → array, for the stages up to ``colour``. ``decode`` is absent where a decoder that
    orients by itself turned the image: its pixels are then those of ``orient``."""
    turn: Turn = field(default_factory=Turn)
    """Turn that the orient stage made, or such a decoder."""

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
    orient: Orient = field(default_factory=Orient)
    crop: Crop = field(default_factory=Crop)
    quantise: Quantise = field(default_factory=Quantise)
    colour: Colour = field(default_factory=Colour)
    normalise: Normalise = field(default_factory=Normalise)
    surrogate_of: str = ""
    """Name of the GPU stack that this one imitates on a CPU; empty if it is no surrogate."""
    max_pixels: int = MAX_PIXELS
    """Greatest number of pixels; an image whose header declares more is ``failed``, not decoded."""
    replaced: tuple[StageName, ...] = ()
    """Stages of the imitated stack that are others here; empty if this is no surrogate."""

    @property
    def size(self) -> tuple[int, int]:
        """Return (height, width) of the model's input; the greatest where it `varies`."""
        return self.crop.size or self.resize.size

    @property
    def varies(self) -> bool:
        """Return whether the size of the model's input depends on the image."""
        return self.resize.varies and self.crop.size is None

    def geometry(
        self, width: int, height: int, orientation: int = 1, stage: StageName = "colour"
    ) -> Geometry:
        """Return the mapping between an image and its pixels after a stage: the model's input.

        ``width`` and ``height`` are those of the image turned upright, ``orientation`` is its EXIF
        orientation, 1..8. After ``decode`` the pixels are those of the file, not turned.
        """
        from alignkit.preprocess.geometry import Geometry

        unsized = stage in ("decode", "orient")
        left_over = 1 if self._turns and stage != "decode" else orientation
        sides = (height, width) if left_over < 5 else (width, height)
        resized = sides if unsized else self.resize.target(*sides)
        tall, wide, *padding = (*sides, 0, 0) if unsized else self.resize.canvas(*resized)
        cut = Crop() if unsized or stage == "resize" else self.crop
        crop = cut.begin(tall, wide)
        tall, wide = cut.size or (tall, wide)
        return Geometry(
            width,
            height,
            input_width=wide,
            input_height=tall,
            scale_x=resized[1] / sides[1],
            scale_y=resized[0] / sides[0],
            shift_x=padding[1] - crop[1],
            shift_y=padding[0] - crop[0],
            orientation=left_over,
        )

    def taps(self, encoded: bytes, begun: Taps | None = None) -> Taps:
        """Run every stage except `normalise` on one image and keep each output.

        Stages that ``begun`` has, see `shared_taps`, do not run.
        """
        begun = begun or Taps(decode(self.decode, encoded, self.max_pixels))
        if begun.decoded.image is None:
            return begun
        pixels, turn = dict(begun.pixels), begun.turn
        if "orient" not in pixels:
            turn = self.turn(encoded)
            pixels |= self._oriented(begun.decoded.image, turn)
        for earlier, stage in pairwise(_AFTER_ORIENT):
            if stage not in pixels:
                pixels[stage] = getattr(self, stage)(pixels[earlier])
        return Taps(begun.decoded, pixels, turn)

    @property
    def _turns(self) -> bool:
        return self.decode.orients or self.orient.policy == "exif"

    def turn(self, encoded: bytes) -> Turn:
        """Return the turn of one file, whether the orient stage or the decoder makes it."""
        orient = Orient("exif") if self.decode.orients else self.orient
        return orient.turn(self.decode, encoded)

    def source(self, taps: Taps, encoded: bytes) -> tuple[int, int, int]:
        """Return what `geometry` needs of a decoded image: width, height and EXIF orientation.

        Where the path turns images, it is the orientation that its library reads.
        """
        from alignkit.decoders.exif import exif_orientation

        orientation = taps.turn.orientation if self._turns else exif_orientation(encoded)
        height, width = taps.pixels["orient"].shape[:2]
        if orientation >= 5 and not self._turns:
            height, width = width, height
        return width, height, orientation

    def _oriented(self, decoded: Image, turn: Turn) -> dict[StageName, Pixels]:
        if not self.decode.orients:
            return {"decode": decoded, "orient": turn(decoded)}
        # of a turned image the pixels before the turn are not known
        return {"decode": decoded, "orient": decoded} if turn == Turn() else {"orient": decoded}

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
        kept = {each: taps.pixels[each] for each in before if each in taps.pixels}
        return Taps(taps.decoded, kept, taps.turn)

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
        """Return the installed versions of the libraries that decide pixels; imports none.

        With them stand the environment variables that change what libraries compute.
        """
        decode, resize = self.plugins()
        both = {"decode": decode.version(), "resize": resize.version()}
        return {stage: with_settings(version) for stage, version in both.items()}

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
